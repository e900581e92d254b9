import {mkdir, mkdtemp, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {compileVariant} from '../../../src/compose/render/compile.ts';
import {readTemplateFolder} from '../../../src/compose/render/folder.ts';
import {createRenderer} from '../../../src/compose/render/render.ts';
import {input} from './inputs.ts';

async function folder(t: ExecutionContext, files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
	const parent = await mkdtemp(path.join(tmpdir(), 'mailctl-folder-'));
	t.teardown(() => rm(parent, {recursive: true}));
	const made = path.join(parent, 'receipt');
	await mkdir(made);
	for (const [name, content] of Object.entries(files)) {
		await writeFile(path.join(made, name), content);
	}
	return made;
}

test('reads bodies, texts, subjects and the sample', async t => {
	const made = await folder(t, {
		'template.json': '{"subject": "Receipt", "subjects": {"DE": "Beleg"}}',
		'body.mjml': '<mjml>',
		'body.de.html': '<p>',
		'body.fr.mjml': '<mjml>fr',
		'body.txt': 'text',
		'body.de.txt': 'Text',
		'sample.json': '{"a": 1}',
		'README.md': 'not ours',
	});
	t.deepEqual(await readTemplateFolder(`${made}/`), {
		ok: true,
		name: 'receipt',
		id: null,
		settings: {topic: null, priority: null, sensitive: []},
		layout: null,
		variants: [
			{locale: null, subject: 'Receipt', mjml: '<mjml>', text: 'text'},
			{locale: 'de', subject: 'Beleg', html: '<p>', text: 'Text'},
			{locale: 'fr', subject: 'Receipt', mjml: '<mjml>fr'},
		],
		sample: '{"a": 1}',
	});
});

test('accepts a single localized body', async t => {
	const made = await folder(t, {'template.json': '{"subjects": {"de": "Beleg"}}', 'body.de.html': '<p>'});
	t.like(await readTemplateFolder(made), {ok: true, variants: [{locale: 'de', subject: 'Beleg'}], sample: null});
});

const subject = '{"subject": "s"}';

for (const [what, files, problems] of [
	['an empty folder', {}, ['template.json: is missing', 'body.mjml: is missing (or body.html)']],
	['no template.json', {'body.mjml': ''}, ['template.json: is missing']],
	['no body', {'template.json': subject}, ['body.mjml: is missing (or body.html)']],
	[
		'both bodies',
		{'template.json': subject, 'body.mjml': '', 'body.html': ''},
		['body.html: use either .mjml or .html, not both'],
	],
	[
		'only a text',
		{'template.json': subject, 'body.mjml': '', 'body.de.txt': ''},
		['body.de.txt: has no matching .mjml or .html file'],
	],
	[
		'an invalid locale',
		{'template.json': subject, 'body.mjml': '', 'body.en_US.mjml': ''},
		['body.en_US.mjml: en_US is not a language tag'],
	],
	[
		'a locale twice',
		{'template.json': subject, 'body.de.mjml': '', 'body.DE.mjml': ''},
		['body.de.mjml: is a duplicate: de is another spelling of the same language tag'],
	],
	['no subject', {'template.json': '{}', 'body.mjml': ''}, ['template.json: has no subject for body']],
	[
		'a subject without a body',
		{'template.json': '{"subject": "s", "subjects": {"de": "t"}}', 'body.mjml': ''},
		['template.json: subjects.de: body.de.mjml or body.de.html is missing'],
	],
	[
		'invalid subjects',
		{'template.json': '{"subject": 1, "subjects": []}', 'body.mjml': ''},
		[
			'template.json: subject must be text',
			'template.json: subjects must be an object of texts by locale',
			'template.json: has no subject for body',
		],
	],
	[
		'an invalid subject',
		{'template.json': '{"subject": "s", "subjects": {"de": 1, "x_y": "a"}}', 'body.mjml': '', 'body.de.mjml': ''},
		['template.json: subjects.de: must be text', 'template.json: subjects.x_y: not a language tag'],
	],
	[
		'an unknown setting',
		{'template.json': '{"subject": "s", "sbject": "t"}', 'body.mjml': ''},
		['template.json: has an unknown field "sbject"'],
	],
	[
		'a malformed id',
		{'template.json': '{"subject": "s", "id": "receipt"}', 'body.mjml': ''},
		['template.json: id must be tpl_ and 1 to 64 letters, digits, hyphens and underscores'],
	],
	['an array', {'template.json': '[]', 'body.mjml': ''}, ['template.json: must be a JSON object']],
	[
		'a sample that is not an object',
		{'template.json': subject, 'body.mjml': '', 'sample.json': 'null'},
		['sample.json: must be a JSON object'],
	],
	[
		'a long file',
		{'template.json': subject, 'body.mjml': 'a'.repeat(262_145)},
		['body.mjml: is longer than 262144 octets'],
	],
	[
		'invalid UTF-8',
		{'template.json': subject, 'body.mjml': new Uint8Array([0xff, 0xfe])},
		['body.mjml: is not UTF-8 text'],
	],
] as const) {
	test(`reports a problem: ${what}`, async t => {
		const result = await readTemplateFolder(await folder(t, files));
		if (result.ok) {
			return t.fail(JSON.stringify(result));
		}
		t.deepEqual(
			result.problems.map(({file, message}) => `${file}: ${message}`),
			problems,
		);
	});
}

test('names the file whose JSON does not parse', async t => {
	const result = await readTemplateFolder(await folder(t, {'template.json': '{"subject": ', 'body.mjml': ''}));
	t.like(result, {ok: false, problems: [{file: 'template.json'}]});
	t.regex(result.ok ? '' : (result.problems[0]?.message ?? ''), /^is not JSON: /);
});

test('reports a missing folder', async t => {
	const result = await readTemplateFolder('test/fixtures/render/none');
	t.regex(result.ok ? '' : (result.problems[0]?.message ?? ''), /ENOENT/);
	t.is(result.ok ? 0 : result.problems.length, 1);
});

test('reports a body that is a folder', async t => {
	const made = await folder(t, {'template.json': subject});
	await mkdir(path.join(made, 'body.mjml'));
	const result = await readTemplateFolder(made);
	t.regex(result.ok ? '' : (result.problems[0]?.message ?? ''), /^is a folder$/);
});

test('the shipped sample template compiles and renders with its sample and without data', async t => {
	const read = await readTemplateFolder('config/sample-template');
	if (!read.ok) {
		return t.fail(JSON.stringify(read.problems));
	}
	t.deepEqual(
		read.variants.map(({locale}) => locale),
		[null, 'de'],
	);
	for (const source of read.variants) {
		const compiled = await compileVariant(source);
		if (!compiled.ok) {
			return t.fail(JSON.stringify(compiled.violations));
		}
		t.not(compiled.text, null);
		for (const data of [JSON.parse(read.sample ?? ''), {}, {name: 'Zoë'}]) {
			const result = createRenderer().render({id: 'sample', ...compiled}, input(data));
			if (!result.ok) {
				return t.fail(result.message);
			}
			t.regex(result.subject, /^(Your first mail|Ihre erste Mail)/);
			t.regex(result.html, /prefers-color-scheme: dark/);
			t.true(result.html.includes('href="https://mail.example/u"'));
			t.true(result.text.includes('<https://mail.example/u>'));
			t.notRegex(result.html + result.text, /\{[{%]/);
		}
	}
});
