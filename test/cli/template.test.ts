import {cp, mkdir, readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {type Cli, golden, newCli, refused} from '../helpers/cli.ts';

type Saved = {readonly id: string; readonly name: string; readonly version: number; readonly changed: boolean};

async function prepare(t: ExecutionContext): Promise<Cli> {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	await cp('config/sample-template', join(cli.folder, 'templates/welcome'), {recursive: true});
	await mkdir(join(cli.folder, 'templates/receipt'));
	await writeFile(join(cli.folder, 'templates/receipt/template.json'), '{"subject":"Receipt {{ n }}"}');
	await writeFile(join(cli.folder, 'templates/receipt/body.html'), '<p>Order {{ n }} of {{ recipient.email }}</p>');
	return cli;
}

test('template push saves what changed, all or none', async t => {
	const cli = await prepare(t);
	const push = (...args: string[]) => cli.json<Saved[]>('template', 'push', 'templates', ...args);
	t.deepEqual(
		(await push('--dry-run')).map(({id, name, version, changed}) => [id, name, version, changed]),
		[
			[null, 'receipt', 1, true],
			[null, 'welcome', 1, true],
		],
	);
	t.deepEqual(await cli.json('template', 'list'), [], 'a dry run changes nothing');

	const first = await push();
	t.deepEqual(
		first.map(({name, version, changed}) => [name, version, changed]),
		[
			['receipt', 1, true],
			['welcome', 1, true],
		],
	);
	t.deepEqual(
		await push(),
		first.map(saved => ({...saved, changed: false})),
	);
	await writeFile(join(cli.folder, 'templates/receipt/body.html'), '<p>Another {{ n }}</p>');
	t.deepEqual(
		(await push('--dry-run')).map(({version, changed}) => [version, changed]),
		[
			[2, true],
			[1, false],
		],
	);
	golden(t, 'template-push', await cli.text('template', 'push', 'templates'));

	await writeFile(join(cli.folder, 'templates/receipt/body.html'), '<p>\n{{ n | nope }}</p>');
	await writeFile(join(cli.folder, 'templates/welcome/body.mjml'), '<mjml><mj-body><mj-nope/></mj-body></mjml>');
	const broken = await cli.run('template', 'push', 'templates');
	refused(t, broken, 65, /receipt\/body\.html:2:\d+: .*\n.*welcome\/body\.mjml:1:\d+: .*\n.*nothing was saved, fix/);
	t.deepEqual(
		(await cli.json<Saved[]>('template', 'list')).map(({name, version}) => [name, version]),
		[
			['welcome', 1],
			['receipt', 2],
		],
	);
	refused(t, await cli.run('template', 'push', 'nix'), 65, /there is no folder nix/);
	refused(t, await cli.run('template', 'push', 'data'), 65, /data holds no template, give each one a folder/);
});

test('template create, show, preview, list, delete', async t => {
	const cli = await prepare(t);
	const made = await cli.json<Saved>('template', 'create', '--name', 'receipt');
	t.like(made, {name: 'receipt', version: null});
	refused(t, await cli.run('template', 'create', '--name', 'receipt'), 65, /there is a template receipt already/);
	refused(t, await cli.run('template', 'preview', 'receipt'), 65, /the template receipt has no version, save one/);
	const saved = await cli.json<Saved[]>('template', 'push', 'templates');
	t.like(saved[0], {id: made.id, version: 1});

	const shown = await cli.json<{variants: object[]; versions: object[]}>('template', 'show', 'receipt');
	t.like(shown, {id: made.id, name: 'receipt', version: 1});
	t.deepEqual(shown.variants, [
		{locale: null, subject: 'Receipt {{ n }}', html: '<p>Order {{ n }} of {{ recipient.email }}</p>', text: null},
	]);
	t.is(shown.versions.length, 1);
	golden(t, 'template-show', await cli.text('template', 'show', 'welcome'));
	golden(t, 'template-list', await cli.text('template', 'list'));

	const preview = await cli.runWith('{"n": 7}', 'template', 'preview', made.id, '--data', '-', '--json');
	t.deepEqual(JSON.parse(preview.stdout), {
		subject: 'Receipt 7',
		html: '<p>Order 7 of recipient@example.com</p>',
		text: 'Order 7 of recipient@example.com\n',
	});
	const sample = join(cli.folder, 'templates/welcome/sample.json');
	const german = ['--locale', 'de', '--timezone', 'Europe/Vienna', '--data', sample, '--out', 'out.html'];
	golden(t, 'template-preview', await cli.text('template', 'preview', 'welcome', ...german));
	t.regex(await readFile(join(cli.folder, 'out.html'), 'utf8'), /Guten Tag Zoë/);
	refused(t, await cli.run('template', 'preview', 'receipt', '--data', 'nix'), 65, /there is no file nix/);
	refused(t, await cli.runWith('[1]', 'template', 'preview', 'receipt', '--data', '-'), 65, /- is not a JSON object/);
	refused(t, await cli.runWith('{', 'template', 'preview', 'receipt', '--data', '-'), 65, /- is not JSON/);

	refused(t, await cli.run('template', 'delete', 'receipt'), 64, /no terminal to confirm it on, add --yes/);
	t.like(await cli.json('template', 'delete', 'receipt', '--yes'), {id: made.id, deleted: true});
	refused(
		t,
		await cli.run('template', 'show', 'receipt'),
		65,
		/there is no template receipt, see mailctl template list/,
	);
});
