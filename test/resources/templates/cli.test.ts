import {cp, mkdir, readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';

type Saved = {readonly id: string; readonly name: string; readonly version: number; readonly changed: boolean};

async function prepare(t: ExecutionContext, withSample = true): Promise<Cli> {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	await mkdir(join(cli.folder, 'templates/receipt'), {recursive: true});
	if (withSample) {
		await cp('config/sample-template', join(cli.folder, 'templates/welcome'), {recursive: true});
	}
	await writeFile(join(cli.folder, 'templates/receipt/template.json'), '{"subject":"Receipt {{ n }}"}');
	await writeFile(join(cli.folder, 'templates/receipt/body.html'), '<p>Order {{ n }} of {{ recipient.email }}</p>');
	return cli;
}

test('template push saves all changed templates or none', async t => {
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
	refused(t, await cli.run('template', 'push', 'nix'), 65, /folder nix not found/);
	refused(t, await cli.run('template', 'push', 'data'), 65, /data contains no template, create a folder/);
});

test('push and pull keep the id in template.json, even in another workspace', async t => {
	const cli = await prepare(t, false);
	await cli.json('workspace', 'create', '--name', 'staging');
	await cp(join(cli.folder, 'templates/receipt'), join(cli.folder, 'templates/second'), {recursive: true});
	const settings = join(cli.folder, 'templates/receipt/template.json');
	await writeFile(settings, '{"id":"tpl_receipt","subject":"Receipt {{ n }}"}');
	for (const workspace of ['acme', 'staging']) {
		const push = await cli.json<Saved[]>('template', 'push', 'templates', '--workspace', workspace);
		t.like(push[0], {id: 'tpl_receipt', name: 'receipt', version: 1});
	}
	await cli.text('template', 'pull', 'pulled', '--workspace', 'staging');
	t.deepEqual(JSON.parse(await readFile(join(cli.folder, 'pulled/receipt/template.json'), 'utf8')), {
		...{id: 'tpl_receipt', subject: 'Receipt {{ n }}'},
	});
	t.deepEqual(JSON.parse(await readFile(join(cli.folder, 'pulled/second/template.json'), 'utf8')), {
		subject: 'Receipt {{ n }}',
	});

	const acme = ['--workspace', 'acme'];
	t.like(await cli.json('template', 'create', '--name', 'bill', '--id', 'tpl_bill', ...acme), {id: 'tpl_bill'});
	const taken = await cli.run('template', 'create', '--name', 'note', '--id', 'tpl_bill', ...acme);
	refused(t, taken, 65, /the template tpl_bill already exists, see mailctl template list/);
	const other = await cli.run('template', 'create', '--name', 'note', '--id', 'bill', ...acme);
	refused(t, other, 64, /--id "bill" is not allowed, use tpl_ and 1 to 64 letters/);
	t.like(await cli.json('template', 'show', 'tpl_bill', ...acme), {name: 'bill'});

	await writeFile(settings, '{"id":"tpl_bill","subject":"Receipt {{ n }}"}');
	for (const dry of [[], ['--dry-run']]) {
		const push = await cli.run('template', 'push', 'templates', ...acme, ...dry);
		refused(
			t,
			push,
			65,
			/receipt\/template\.json: the id tpl_bill belongs to the template bill\n.*nothing was saved/,
		);
	}
	await cp(join(cli.folder, 'templates/receipt'), join(cli.folder, 'templates/again'), {recursive: true});
	const twice = await cli.run('template', 'push', 'templates', ...acme);
	refused(t, twice, 65, /receipt\/template\.json: its id is also that of again\n.*nothing was saved/);
});

test('template create, show, preview, list, delete', async t => {
	const cli = await prepare(t);
	const made = await cli.json<Saved>('template', 'create', '--name', 'receipt');
	t.like(made, {name: 'receipt', version: null});
	refused(t, await cli.run('template', 'create', '--name', 'receipt'), 65, /the template receipt already exists/);
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
	const exact = await cli.runWith(
		'{"n": 1234567890123456789.50}',
		'template',
		'preview',
		made.id,
		'--data',
		'-',
		'--json',
	);
	t.like(JSON.parse(exact.stdout), {subject: 'Receipt 1234567890123456789.50'});
	const sample = join(cli.folder, 'templates/welcome/sample.json');
	const german = ['--locale', 'de', '--timezone', 'Europe/Vienna', '--data', sample, '--out', 'out.html'];
	golden(t, 'template-preview', await cli.text('template', 'preview', 'welcome', ...german));
	t.regex(await readFile(join(cli.folder, 'out.html'), 'utf8'), /Guten Tag Zoë/);
	refused(t, await cli.run('template', 'preview', 'receipt', '--data', 'nix'), 65, /nix does not exist/);
	refused(t, await cli.runWith('[1]', 'template', 'preview', 'receipt', '--data', '-'), 65, /- is not a JSON object/);
	refused(t, await cli.runWith('{', 'template', 'preview', 'receipt', '--data', '-'), 65, /- is not JSON/);

	refused(t, await cli.run('template', 'delete', 'receipt'), 64, /no terminal to confirm it, add --yes/);
	t.like(await cli.json('template', 'delete', 'receipt', '--yes'), {id: made.id, deleted: true});
	refused(
		t,
		await cli.run('template', 'show', 'receipt'),
		65,
		/template receipt not found, see mailctl template list/,
	);
});
