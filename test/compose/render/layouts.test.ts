import test from 'ava';
import fc from 'fast-check';
import {compileInLayout, type Layout, layoutProblems, reachedFrom} from '../../../src/compose/render/layouts.ts';
import {maxPartialDepth, maxPartials} from '../../../src/compose/render/limits.ts';
import {layoutUses, partialsIn} from '../../../src/mail/layout-uses.ts';

const layout = (name: string, files: Readonly<Record<string, string>>): Layout => ({kind: 'layout', name, files});
const partial = (name: string, text: string): Layout => ({kind: 'partial', name, files: {[`${name}.liquid`]: text}});
const html = (body: string, name: string | null = null, more: object = {}) => ({
	...{locale: null, subject: 's', html: body, layout: name},
	...more,
});

/** The compiled body, or its first error. */
async function made(body: string, layouts: readonly Layout[], name: string | null = null, more: object = {}) {
	const result = await compileInLayout(html(body, name, more), layouts);
	return result.ok ? result.resolved : result.violations[0];
}

test('inserts body and text into the layout, and partials into both, even nested ones', async t => {
	const layouts = [
		layout('main', {'body.html': "<b>{% render 'head' %}|{{ content }}|</b>", 'body.txt': '{{content}}\n--'}),
		partial('head', 'Hi {% render "who" %}'),
		partial('who', '{{ name }}'),
	];
	t.deepEqual(await made("<p>{% render 'who' %}</p>", layouts, 'main', {text: "T {% render 'who' %}"}), {
		html: '<b>Hi {{ name }}|<p>{{ name }}</p>|</b>',
		text: 'T {{ name }}\n--',
	});
	t.deepEqual(await made("a \n{%- render 'who' -%}\n b", layouts), {html: 'a{{ name }}b'});
	t.deepEqual(await made("{% raw %}{% render 'x' %}{% endraw %}{% render 'who' %}", layouts), {
		html: "{% raw %}{% render 'x' %}{% endraw %}{{ name }}",
	});
	t.is(await made('<p>{{ content }}</p>', layouts), undefined, 'a plain template stays as it is');
});

test('inserts an MJML body in place of sections', async t => {
	const main = layout('main', {'body.mjml': '<mjml><mj-body>\n{{ content }}\n</mj-body></mjml>'});
	const body = '<mj-section><mj-column><mj-text>{{ n }}</mj-text></mj-column></mj-section>';
	const result = await compileInLayout({locale: null, subject: 's', mjml: body, layout: 'main'}, [main]);
	t.true(result.ok && result.html.includes('{{ n }}'));
	t.is(result.ok && result.resolved?.mjml, `<mjml><mj-body>\n${body}\n</mj-body></mjml>`);
	const whole = {locale: null, subject: 's', mjml: `\n <mjml><mj-body>${body}</mj-body></mjml>`, layout: 'main'};
	const refused = await compileInLayout(whole, [main]);
	t.like(refused.ok || refused.violations[0], {field: 'mjml', line: 2, column: 2});
});

const main = layout('main', {'body.html': '<b>\n  {% if x %}\n{{ content }}{% endif %}</b>'});
for (const [what, body, layouts, name, fault] of [
	['the template', '<p>\n {{ a | nope }}', [main], 'main', {line: 2, column: 2}],
	[
		'the layout',
		'x',
		[layout('main', {'body.html': '\n {{ a | nope }}{{ content }}'})],
		'main',
		{file: '_layouts/main/body.html', line: 2, column: 2},
	],
	[
		'a partial of a partial',
		"\n\n{% render 'a' %}",
		[main, partial('a', "1\n{% render 'b' %}"), partial('b', '\n\n {% nope %}')],
		'main',
		{file: '_partials/b.liquid', line: 3, column: 2},
	],
	['a missing partial', "1\n {% render 'gone' %}", [], null, {line: 2, column: 2}],
	['a partial with parameters', "{% render 'a', b: c %}", [partial('a', '')], null, {line: 1, column: 1}],
	['a name that is a variable', '{% render a %}', [partial('a', '')], null, {line: 1, column: 1}],
	['a missing layout', 'x', [], 'main', {field: 'layout', message: 'layout main not found'}],
	['a layout of the wrong kind', 'x', [layout('main', {'body.mjml': '{{ content }}'})], 'main', {field: 'layout'}],
	[
		'a layout without a content tag',
		'x',
		[layout('main', {'body.html': 'x'})],
		'main',
		{file: '_layouts/main/body.html', line: 1, column: 1},
	],
	[
		'a layout with two content tags',
		'x',
		[layout('main', {'body.html': '{{ content }}\n{{content}}'})],
		'main',
		{file: '_layouts/main/body.html', line: 2, column: 1},
	],
	[
		'a partial that is not closed',
		"{% render 'a' %}",
		[partial('a', '1\n{{ x')],
		null,
		{file: '_partials/a.liquid', line: 2, column: 1},
	],
] as const) {
	test(`reports an error at its source: ${what}`, async t => {
		t.like(await made(body, layouts, name), fault);
	});
}

test('rejects recursive or too deep partials and shows the path', async t => {
	const circle = [partial('a', "{% render 'b' %}"), partial('b', "\n{% render 'a' %}")];
	t.like(await made("{% render 'a' %}", circle), {
		...{file: '_partials/b.liquid', line: 2},
		message: 'a partial includes itself: a → b → a',
	});
	t.like(layoutProblems(circle[0] as Layout, circle), [{message: 'a partial includes itself: a → b → a'}]);
	const deep = Array.from({length: maxPartialDepth + 1}, (_, n) => partial(`p${n}`, `{% render 'p${n + 1}' %}`));
	t.regex(String(Object(await made("{% render 'p0' %}", deep)).message), /^partials nest more than 10 deep: p0 → /);
	// Each doubles the one before: 2 to the 8th.
	const wide = Array.from({length: 9}, (_, n) =>
		partial(`p${n}`, n === 8 ? '' : `{% render 'p${n + 1}' %}`.repeat(2)),
	);
	t.regex(String(Object(await made("{% render 'p0' %}", wide)).message), new RegExp(`or ${maxPartials} partials$`));
	const large = [partial('a', 'x'.repeat(200_000))];
	t.regex(String(Object(await made("{% render 'a' %}".repeat(3), large)).message), /^with its layout and partials/);
});

test('any nesting of partials resolves or reports an error within an existing file', async t => {
	const name = fc.constantFrom('a', 'b', 'c', 'd');
	const piece = fc.oneof(
		fc.constantFrom(
			'x',
			'\n',
			'{{ v }}',
			'{{ content }}',
			'{% if v %}',
			'{% endif %}',
			'{{',
			'{% raw %}',
			'{% endraw %}',
		),
		name.map(one => `{% render '${one}' %}`),
		name.map(one => `{%- render "${one}" -%}`),
	);
	const text = fc.array(piece, {maxLength: 6}).map(all => all.join(''));
	const property = fc.asyncProperty(
		fc.uniqueArray(fc.tuple(name, text), {selector: ([one]) => one}),
		text,
		text,
		fc.boolean(),
		async (partials, around, body, isWithin) => {
			const layouts = [layout('main', {'body.html': around}), ...partials.map(one => partial(...one))];
			const result = await compileInLayout(html(body, isWithin ? 'main' : null), layouts);
			if (result.ok) {
				const source = result.resolved?.html ?? body;
				t.true(!/\{%-? *render/.test(source) || source.includes('raw'));
				return;
			}
			t.true(result.violations.length > 0);
			for (const {file, line, column, message} of result.violations) {
				const texts = new Map(layouts.flatMap(one => Object.entries(one.files)));
				const written = file === undefined ? body : texts.get(file.split('/').at(-1) ?? '');
				const lines = (written ?? '').split('\n');
				t.true(message !== '' && line >= 1 && line <= lines.length, `${file}:${line}`);
				t.true(
					column >= 1 && column <= (lines[line - 1]?.length ?? 0) + 1,
					`${file}:${line}:${column} ${message}`,
				);
			}
		},
	);
	await fc.assert(property, {numRuns: 500});
});

test('the dependencies of a template include those of its layout and partials', t => {
	const uses = new Map([
		['layout/main', partialsIn(["{% render 'foot' %}{{ content }}"])],
		['partial/foot', partialsIn(["{%- render 'sign' -%}{% render 'foot' %}"])],
	]);
	t.deepEqual([...reachedFrom(layoutUses('main', ["{% render 'own' %}"]), uses)].toSorted(), [
		...['layout/main', 'partial/foot', 'partial/own', 'partial/sign'],
	]);
});
