import test from 'ava';
import fc from 'fast-check';
import {compileVariant, type VariantSource} from '../../../src/compose/render/compile.ts';
import {compileInWorker} from '../../../src/compose/render/in-worker.ts';
import {anyChar} from '../../helpers/any-char.ts';

const good: VariantSource = {
	locale: null,
	subject: 'Hello {{ name }}',
	mjml: '<mjml><mj-body><mj-section><mj-column><mj-text>Hello {{ name }}</mj-text></mj-column></mj-section></mj-body></mjml>',
};

test('compiles MJML and creates the text part', async t => {
	const result = await compileVariant(good);
	t.like(result, {ok: true, subject: 'Hello {{ name }}', text: 'Hello {{ name }}\n'});
	t.regex(result.ok ? result.html : '', /^\s*<!doctype html>[\s\S]*Hello \{\{ name \}\}/i);
});

test('keeps HTML and text unchanged', async t => {
	t.deepEqual(await compileVariant({locale: 'de', subject: 's', html: '<p>a</p>', text: 'b {{ c }}'}), {
		ok: true,
		subject: 's',
		html: '<p>a</p>',
		text: 'b {{ c }}',
		reads: [['c']],
	});
});

test('leaves the text to the render if the template outputs HTML', async t => {
	t.like(await compileVariant({locale: null, subject: '', html: '{{ a | raw }}'}), {ok: true, text: null});
});

test('reports errors of all fields with their positions', async t => {
	t.deepEqual(
		await compileVariant({
			locale: null,
			subject: 'a {{ b | c }}',
			html: 'x\n\n  {% if a %}',
			text: '{% include "x" %}',
		}),
		{
			ok: false,
			violations: [
				{field: 'subject', message: 'undefined filter: c', line: 1, column: 3},
				{field: 'text', message: 'tag "include" not found', line: 1, column: 1},
				{field: 'html', message: 'tag {% if a %} not closed', line: 3, column: 3},
			],
		},
	);
});

for (const tag of ['include', 'render', 'layout', 'block', 'unknown']) {
	test(`rejects the tag ${tag}`, async t => {
		const result = await compileVariant({locale: null, subject: `{% ${tag} "/etc/passwd" %}`, html: ''});
		t.like(result, {ok: false, violations: [{field: 'subject', message: `tag "${tag}" not found`}]});
	});
}

for (const [what, source] of [
	['neither body', {locale: null, subject: ''}],
	['both bodies', {...good, html: ''}],
	['a long subject', {...good, subject: 'a'.repeat(262_145)}],
	['a long HTML body', {locale: null, subject: '', html: 'a'.repeat(262_145)}],
	['a text of too many octets', {...good, text: 'ü'.repeat(131_073)}],
	[
		'MJML that compiles to too much HTML',
		{
			...good,
			mjml: good.mjml
				?.replace(/<mj-text>.*<\/mj-text>/, '<mj-text>x</mj-text>'.repeat(490))
				.replaceAll('<mj-text>', `<mj-text color="#123456" font-family="${'x'.repeat(400)}">`),
		},
	],
	['five thousand and one outputs', {locale: null, subject: '{{ a }}'.repeat(5001), html: ''}],
] as const satisfies ReadonlyArray<readonly [string, VariantSource]>) {
	test(`rejects a source with ${what}`, async t => {
		const result = await compileVariant(source);
		t.false(result.ok);
	});
}

test('returns a result for two thousand nested blocks', async t => {
	const subject = '{% if a %}'.repeat(2000) + '{% endif %}'.repeat(2000);
	t.is(typeof (await compileVariant({locale: null, subject, html: subject})).ok, 'boolean');
});

const pieces = fc.array(
	fc.oneof(
		fc.constantFrom(
			'<mjml>',
			'</mjml>',
			'<mj-body>',
			'</mj-body>',
			'<mj-section>',
			'<mj-column>',
			'</mj-column>',
			'<mj-text>',
			'</mj-text>',
			'<mj-text',
			'/>',
			'>',
		),
		fc.constantFrom(
			'<mj-raw>',
			'<mj-table>',
			'<!--',
			'-->',
			'<![CDATA[',
			'"',
			"'",
			'{{ a }}',
			'{% if a %}',
			'{% endif %}',
			'{% raw %}',
			'<p',
			'<a(',
			'</',
			' href="{{ a }}"',
		),
		fc.string({unit: anyChar, maxLength: 5}),
	),
	{maxLength: 30},
);

test('returns a result for any source', async t => {
	await fc.assert(
		fc.asyncProperty(pieces, fc.boolean(), async (parts, mjml) => {
			const source = parts.join('');
			const result = await compileVariant({locale: null, subject: source, [mjml ? 'mjml' : 'html']: source});
			t.is(typeof result.ok, 'boolean');
			if (!result.ok) {
				t.true(result.violations.length > 0);
				t.true(result.violations.every(({line, column}) => line >= 1 && column >= 1));
			}
		}),
		{numRuns: 300},
	);
	t.deepEqual(Object.keys(Object.prototype), []);
});

test('a worker returns the same results in order', async t => {
	const bad = {locale: 'de', subject: '{{', html: ''};
	t.deepEqual(await compileInWorker([good, bad]), [await compileVariant(good), await compileVariant(bad)]);
});

// Hundreds of elements, many times: no machine compiles them before the timer of a millisecond is due.
const slow: VariantSource = {
	locale: null,
	subject: 's',
	mjml: `<mjml><mj-body><mj-section><mj-column>${'<mj-text>a</mj-text>'.repeat(450)}</mj-column></mj-section></mj-body></mjml>`,
};

test('stops a worker that takes too long', async t => {
	const results = await compileInWorker(new Array(600).fill(slow), 1);
	t.is(results.length, 600);
	for (const result of results) {
		t.deepEqual(result, {
			ok: false,
			violations: [{field: 'mjml', message: 'takes too long to compile', line: 1, column: 1}],
		});
	}
});

for (const [field, source, line, column, named] of [
	['subject', 'Hi {{ \u200bname }}', 1, 7, /U\+200B.*\{\{ name \}\}/],
	['html', '<p>\n{{ name\ufeff }}</p>', 2, 8, /U\+FEFF/],
	['html', '<p>{% if na\u2060me %}x{% endif %}</p>', 1, 12, /U\+2060/],
	['text', '{{ "\u200b" }} {{ name\u200e }}', 1, 18, /U\+200E/],
	['mjml', '<mjml><mj-body><mj-raw>{{ order.\u200btotal }}</mj-raw></mj-body></mjml>', 1, 33, /U\+200B/],
] as const) {
	test(`rejects an invisible character in Liquid: ${JSON.stringify(source)}`, async t => {
		const result = await compileVariant({
			locale: null,
			subject: 'S',
			...(field === 'mjml' ? {} : {html: '<p>x</p>'}),
			[field]: source,
		});
		t.false(result.ok);
		if (!result.ok) {
			t.like(result.violations, {length: 1, 0: {field, line, column}});
			t.regex(result.violations[0]?.message ?? '', named);
		}
	});
}

test('accepts invisible characters in text, and joiners within names', async t => {
	const result = await compileVariant({
		...{locale: null, subject: 'a\u200bb {{ "\u200b" | append: \'\ufeff\' }}'},
		html: '<p>{{ می\u200cخواهم }} {% raw %}{{ \u200b }}{% endraw %}</p>',
	});
	t.true(result.ok, JSON.stringify(result));
});
