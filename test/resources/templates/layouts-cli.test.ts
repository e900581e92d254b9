import {mkdir, readFile, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {type Cli, newCli, refused} from '../../helpers/cli.ts';

type Row = {readonly name: string; readonly version: number | null; readonly changed: boolean; readonly diff?: string};
type Lab = {
	readonly cli: Cli;
	readonly write: (files: Readonly<Record<string, string>>) => Promise<void>;
	readonly push: (...args: string[]) => Promise<ReadonlyArray<readonly [string, number | null, boolean]>>;
};

const main = '<html><body>\n{{ content }}\n{% render "footer" %}</body></html>';

/** A folder with two templates in a layout and one without. */
async function prepare(t: ExecutionContext): Promise<Lab> {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	const write: Lab['write'] = async files => {
		for (const [name, text] of Object.entries(files)) {
			await mkdir(path.dirname(path.join(cli.folder, name)), {recursive: true});
			await writeFile(path.join(cli.folder, name), text);
		}
	};
	await write({
		'mails/_layouts/main/body.html': main,
		'mails/_partials/footer.liquid': 'Acme',
		'mails/receipt/template.json': '{"layout":"main","subject":"Receipt"}',
		'mails/receipt/body.html': '<p>{{ n }}</p>',
		'mails/news/template.json': '{"layout":"main","subject":"News"}',
		'mails/news/body.html': '<p>News</p>',
		'mails/plain/template.json': '{"subject":"Plain"}',
		'mails/plain/body.html': '<p>Plain</p>',
	});
	const push: Lab['push'] = async (...args) =>
		(await cli.json<Row[]>('template', 'push', ...args)).map(({name, version, changed}) => [
			name,
			version,
			changed,
		]);
	return {cli, write, push};
}

test('push saves templates, layouts and partials only if changed, and pull writes the same files', async t => {
	const {cli, push} = await prepare(t);
	const all = [
		['_layouts/main', null, true],
		['_partials/footer.liquid', null, true],
		['news', 1, true],
		['plain', 1, true],
		['receipt', 1, true],
	] as const;
	t.deepEqual(await push('mails', '--dry-run'), all);
	t.deepEqual(await cli.json('template', 'list'), [], 'a dry run saves nothing');
	t.deepEqual(await push('mails'), all);
	const same = [
		['news', 1, false],
		['plain', 1, false],
		['receipt', 1, false],
	] as const;
	t.deepEqual(await push('mails'), same);
	await cli.json('template', 'pull', 'pulled');
	for (const file of ['_layouts/main/body.html', '_partials/footer.liquid', 'receipt/body.html']) {
		const [own, pulled] = await Promise.all(
			['mails', 'pulled'].map(folder => readFile(path.join(cli.folder, folder, file), 'utf8')),
		);
		t.is(pulled, own, file);
	}
	t.deepEqual(await push('pulled'), same);
	t.deepEqual(await push('pulled/receipt'), [['receipt', 1, false]], 'one alone uses the layouts of the store');
	const pulledAgain = await cli.json<Array<{files: Array<{change: string}>}>>('template', 'pull', 'pulled');
	t.true(pulledAgain.every(({files}) => files.every(({change}) => change === 'none')));
	t.like(await cli.json('template', 'show', 'receipt'), {layout: 'main', variants: [{html: '<p>{{ n }}</p>'}]});
	const {html} = await cli.json<{html: string}>('template', 'preview', 'news');
	t.is(html, '<html><body>\n<p>News</p>\nAcme</body></html>');
});

test('changing a partial shows a diff and saves new versions of all templates that use it', async t => {
	const {cli, write, push} = await prepare(t);
	await push('mails');
	await write({'other/_partials/footer.liquid': 'Acme GmbH'});
	const rows = await cli.json<Row[]>('template', 'push', 'other', '--dry-run');
	t.is(
		rows.find(({name}) => name === 'receipt')?.diff,
		[
			'--- receipt/body.html (version 1)',
			'+++ receipt/body.html (version 2)',
			'@@ -1,3 +1,3 @@',
			' <html><body>',
			' <p>{{ n }}</p>',
			'-Acme</body></html>',
			'+Acme GmbH</body></html>',
			'',
		].join('\n'),
	);
	t.regex(await cli.text('template', 'push', 'other', '--dry-run'), /would be saved[\s\S]*\n\+Acme GmbH/);
	const changed = [
		['_partials/footer.liquid', null, true],
		['news', 2, true],
		['receipt', 2, true],
	] as const;
	t.deepEqual(await push('other'), changed);
	t.deepEqual(await push('other'), []);
	const {html} = await cli.json<{html: string}>('template', 'preview', 'receipt');
	t.is(html, '<html><body>\n<p></p>\nAcme GmbH</body></html>');
	await cli.json('template', 'rollback', 'receipt', '1');
	t.like(await cli.json('template', 'preview', 'receipt'), {html: '<html><body>\n<p></p>\nAcme</body></html>'});
});

test('one template that does not compile rejects the whole push, with file, line and column', async t => {
	const {cli, write, push} = await prepare(t);
	await push('mails');
	await write({
		'mails/_layouts/main/body.html': `${main}\n {{ x | nope }}`,
		'mails/plain/body.html': '<p>Other</p>',
	});
	const broken = await cli.run('template', 'push', 'mails');
	refused(t, broken, 65, /news: _layouts\/main\/body\.html:4:2: .*nope\n.*receipt: _layouts.*\n.*nothing was saved/);
	t.true((await cli.json<Array<{version: number}>>('template', 'list')).every(({version}) => version === 1));
	await write({'mails/_layouts/main/body.html': main, 'mails/_partials/footer.liquid': "\n{% render 'footer' %}"});
	refused(t, await cli.run('template', 'push', 'mails'), 65, /_partials\/footer\.liquid:2:1: .*footer → footer/);
	await write({
		'mails/_partials/footer.liquid': 'Acme',
		'mails/news/template.json': '{"layout":"nix","subject":"N"}',
	});
	refused(t, await cli.run('template', 'push', 'mails'), 65, /news\/template\.json: layout nix not found/);
	await write({'mails/news/template.json': '{"layout":"main","subject":"N","topic":"nix"}'});
	for (const dry of [[], ['--dry-run']]) {
		refused(
			t,
			await cli.run('template', 'push', 'mails', ...dry),
			65,
			/news\/template\.json: topic nix not found\n/,
		);
	}
	await write({'mails/_layouts/two words/body.html': main, 'mails/_layouts/none/body.txt': '{{ content }}'});
	refused(
		t,
		await cli.run('template', 'push', 'mails'),
		65,
		/none\/body\.mjml: is missing\n.*two words\/: the name must have 1 to 64/,
	);
});
