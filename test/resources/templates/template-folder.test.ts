import {cp, mkdir, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import {readTemplates} from '../../../src/resources/templates/template-folder.ts';
import {temporaryFolder} from '../../helpers/databases.ts';

async function write(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
	for (const [name, content] of Object.entries(files)) {
		await mkdir(path.dirname(path.join(folder, name)), {recursive: true});
		await writeFile(path.join(folder, name), content);
	}
}

test('reads each template folder by name and ignores other folders and files', async t => {
	const folder = await temporaryFolder(t);
	await cp('config/sample-template', path.join(folder, 'welcome'), {recursive: true});
	await write(folder, {
		'receipt/template.json': '{"subject":"Receipt {{ n }}"}',
		'receipt/body.html': '<p>{{ n }}</p>',
		'receipt/body.txt': 'Receipt {{ n }}',
		'README.md': 'not a template',
		'assets/logo.svg': '<svg/>',
	});
	const read = await readTemplates(folder);
	if (!read.ok) {
		t.fail(read.problems.join('\n'));
		return;
	}
	t.deepEqual(
		read.change.templates.map(({name, variants}) => [name, variants.map(({locale, kind}) => [locale, kind])]),
		[
			['receipt', [[null, 'html']]],
			[
				'welcome',
				[
					[null, 'mjml'],
					['de', 'mjml'],
				],
			],
		],
	);
	t.like(read.change.templates[0]?.variants[0], {source: '<p>{{ n }}</p>', text_source: 'Receipt {{ n }}'});
	t.like(read.change.templates[1]?.variants[0], {text_source: null});
	t.regex(read.change.templates[1]?.variants[0]?.html ?? '', /<!doctype html>/i);

	const one = await readTemplates(path.join(folder, 'receipt'));
	t.deepEqual(one.ok && one.change.templates.map(({name}) => name), ['receipt']);
});

test('reports all errors at once with file, line and column', async t => {
	const folder = await temporaryFolder(t);
	await write(folder, {
		'a/template.json': '{"subject":"Hi {{ name"}',
		'a/body.mjml': '<mjml>\n<mj-body>\n  <mj-foo/>\n</mj-body></mjml>',
		'a/body.de.html': '<p>\n {% if %}</p>',
		'a/body.de.txt': '{{ x | nope }}',
		'b/template.json': 'nonsense',
		'b/body.html': '<p>ok</p>',
		' c/template.json': '{"subject":"ok"}',
		' c/body.html': '<p>ok</p>',
	});
	const read = await readTemplates(folder);
	const problems = read.ok ? [] : read.problems;
	for (const expected of [
		/^ c: the folder name, which is the template name, must /,
		/^a\/template\.json: subject, column \d+: /,
		/^a\/body\.mjml:3:3: /,
		/^a\/template\.json: subject of de, column \d+: /,
		/^a\/body\.de\.html:2:\d+: /,
		/^a\/body\.de\.txt:1:\d+: /,
		/^b\/template\.json: is not JSON/,
	]) {
		t.true(
			problems.some(problem => expected.test(problem)),
			`${expected}: ${problems.join('\n')}`,
		);
	}
	t.is(problems.length, 7, problems.join('\n'));
});

test('returns nothing for a folder without templates and throws for a missing one', async t => {
	const folder = await temporaryFolder(t);
	const nothing = {before: [], layouts: [], templates: [], users: []};
	t.deepEqual(await readTemplates(folder), {ok: true, change: nothing});
	await t.throwsAsync(readTemplates(path.join(folder, 'nix')), {code: 'ENOENT'});
});
