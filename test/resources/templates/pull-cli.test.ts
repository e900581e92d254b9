import {cp, mkdir, readdir, readFile, rename, rm, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';

type Saved = {readonly id: string; readonly name: string; readonly version: number; readonly changed: boolean};
type Pulled = {
	readonly name: string;
	readonly version: number | null;
	readonly folder: string | null;
	readonly files: ReadonlyArray<{readonly file: string; readonly change: string}>;
};

async function contents(folder: string): Promise<Record<string, string>> {
	const files: Record<string, string> = {};
	for (const name of (await readdir(folder)).sort()) {
		files[name] = await readFile(join(folder, name), 'utf8');
	}
	return files;
}

const receipt = {
	'template.json': '{"subject":"Receipt {{ n }}","subjects":{"de-AT":"Beleg"}}',
	'body.html': '<p>Order {{ n }}</p>\r\n',
	'body.txt': '',
	'body.de-at.html': '<p>Größe 🎉</p>',
	'body.fr.html': '<p>{{ n }}</p>',
	'body.fr.txt': 'n: {{ n }}',
	'sample.json': '{ "n" : 7 }\n',
};

/** A template, pushed, and with it the sample where a test is about MJML. */
async function prepare(t: ExecutionContext, withSample = false): Promise<Cli> {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	await mkdir(join(cli.folder, 'templates/receipt'), {recursive: true});
	if (withSample) {
		await cp('config/sample-template', join(cli.folder, 'templates/welcome'), {recursive: true});
	}
	for (const [name, content] of Object.entries(receipt)) {
		await writeFile(join(cli.folder, 'templates/receipt', name), content);
	}
	await cli.json('template', 'push', 'templates');
	return cli;
}

test('pushes settings of template.json without a new version, and pulls them', async t => {
	const cli = await prepare(t);
	await cli.json('topic', 'create', '--code', 'codes', '--name', 'Codes');
	const settings = {subject: 'a', topic: 'codes', priority: 'high', sensitive: ['code']};
	const write = (content: object) =>
		writeFile(join(cli.folder, 'templates/receipt/template.json'), JSON.stringify(content));
	const own = JSON.parse(await readFile(join(cli.folder, 'templates/receipt/template.json'), 'utf8'));
	await write({...own, ...settings, subject: own.subject});
	const saved = async (...args: string[]) =>
		(await cli.json<Saved[]>('template', 'push', 'templates/receipt', ...args)).map(({version, changed}) => [
			version,
			changed,
		]);
	t.deepEqual(await saved('--dry-run'), [[1, true]]);
	t.deepEqual(await saved(), [[1, true]]);
	t.deepEqual(await saved(), [[1, false]]);
	t.like(await cli.json('template', 'show', 'receipt'), {topic: 'codes', priority: 'high', sensitive: ['code']});
	await cli.json('template', 'pull', 'pulled');
	t.like(JSON.parse(await readFile(join(cli.folder, 'pulled/receipt/template.json'), 'utf8')), {
		topic: 'codes',
		priority: 'high',
		sensitive: ['code'],
	});

	await cli.json(
		'template',
		'update',
		'receipt',
		'--priority',
		'none',
		'--topic',
		'none',
		'--sensitive',
		'code,link',
	);
	t.deepEqual((await cli.json<{sensitive: string[]}>('template', 'show', 'receipt')).sensitive, ['code', 'link']);
	await write({...own, topic: 'news'});
	refused(
		t,
		await cli.run('template', 'push', 'templates/receipt'),
		65,
		/receipt\/template\.json: topic news not found\n/,
	);
	await write({...own, topic: 7, priority: 'urgent', sensitive: 'code'});
	const {stderr} = await cli.run('template', 'push', 'templates/receipt');
	t.deepEqual(stderr.match(/template\.json: (topic|priority|sensitive) must be/g)?.length, 3, stderr);
	await write(own);
	t.deepEqual(await saved(), [[1, true]]);
	t.false('sensitive' in (await cli.json<object>('template', 'show', 'receipt')));
});

test('push, pull and push again give the same folders and no new version', async t => {
	const cli = await prepare(t, true);
	await cli.json('template', 'create', '--name', 'empty');
	golden(t, 'template-pull', await cli.text('template', 'pull', 'pulled'));
	t.deepEqual((await readdir(join(cli.folder, 'pulled'))).sort(), ['receipt', 'welcome']);
	t.deepEqual(
		await contents(join(cli.folder, 'pulled/welcome')),
		await contents(join(cli.folder, 'templates/welcome')),
	);
	const {'template.json': settings, ...others} = await contents(join(cli.folder, 'pulled/receipt'));
	const {'template.json': _, 'body.de-at.html': austrian, ...sources} = receipt;
	t.deepEqual(others, {...sources, 'body.de-AT.html': austrian});
	t.deepEqual(JSON.parse(settings ?? ''), {
		subject: 'Receipt {{ n }}',
		subjects: {'de-AT': 'Beleg'},
	});
	for (const folder of ['pulled', 'templates']) {
		const pushed = await cli.json<Saved[]>('template', 'push', folder);
		t.deepEqual(
			pushed.map(({name, version, changed}) => [name, version, changed]),
			[
				['receipt', 1, false],
				['welcome', 1, false],
			],
			folder,
		);
	}

	const before = await contents(join(cli.folder, 'templates/receipt'));
	const again = await cli.json<Pulled[]>('template', 'pull', 'templates');
	t.deepEqual(
		again.map(({name, version, files}) => [name, version, new Set(files.map(({change}) => change))]),
		[
			['empty', null, new Set()],
			['receipt', 1, new Set(['none'])],
			['welcome', 1, new Set(['none'])],
		],
	);
	t.deepEqual(
		await contents(join(cli.folder, 'templates/receipt')),
		before,
		'a folder that says the same is left as it is',
	);
});

test('pull asks before it changes existing files, and leaves unrelated files alone', async t => {
	const cli = await prepare(t);
	const folder = join(cli.folder, 'templates/receipt');
	await writeFile(join(folder, 'body.html'), 'mine');
	await writeFile(join(folder, 'body.es.html'), 'mine');
	await writeFile(join(folder, 'notes.md'), 'mine');
	await rm(join(folder, 'body.fr.txt'));
	const before = await contents(folder);
	refused(
		t,
		await cli.run('template', 'pull', 'templates'),
		64,
		/body\.es\.html would be removed\n.*receipt\/body\.html would be replaced\n.*no terminal to confirm it, add --yes/,
	);
	const dry = await cli.json<Pulled[]>('template', 'pull', 'templates', '--dry-run');
	const changes = [
		['body.de-at.html', 'none'],
		['body.es.html', 'removed'],
		['body.fr.html', 'none'],
		['body.fr.txt', 'written'],
		['body.html', 'replaced'],
		['body.txt', 'none'],
		['sample.json', 'none'],
		['template.json', 'none'],
	];
	t.deepEqual(
		dry[0]?.files.map(({file, change}) => [file, change]),
		changes,
	);
	golden(t, 'template-pull-dry', await cli.text('template', 'pull', 'templates', '--dry-run'));
	t.deepEqual(await contents(folder), before, 'nothing was changed so far');
	const pulled = await cli.json<Pulled[]>('template', 'pull', 'templates', '--yes');
	t.deepEqual(pulled, dry);
	t.deepEqual(await contents(folder), {...receipt, 'notes.md': 'mine'});

	// A template's own folder takes that template.
	await rm(join(folder, 'body.txt'));
	const own = await cli.json<Pulled[]>('template', 'pull', 'templates/receipt');
	t.like(own[0], {name: 'receipt', folder: 'templates/receipt'});
	t.is(own.length, 1);
	t.deepEqual(await contents(folder), {...receipt, 'notes.md': 'mine'});
	await rename(folder, join(cli.folder, 'templates/unknown'));
	refused(
		t,
		await cli.run('template', 'pull', 'templates/unknown'),
		65,
		/template unknown not found: the folder name must be the name of a template/,
	);

	// A template that is no folder name is not pulled, and nothing else is then.
	await cli.json('template', 'create', '--name', '../../outside');
	refused(t, await cli.run('template', 'pull', 'pulled'), 65, /"\.\.\/\.\.\/outside" cannot be the name of a folder/);
	t.false((await readdir(cli.folder)).includes('pulled'));
});

test('a changed sample makes a new version, which preview uses; rollback saves an old version again', async t => {
	const cli = await prepare(t);
	const folder = join(cli.folder, 'templates/receipt');
	const push = async () => (await cli.json<Saved[]>('template', 'push', 'templates/receipt'))[0];
	const preview = async (...args: string[]) =>
		(await cli.json<{subject: string}>('template', 'preview', 'receipt', ...args)).subject;
	t.is(await preview(), 'Receipt 7');
	await writeFile(join(folder, 'sample.json'), '{"n": 8}');
	t.like(await push(), {version: 2, changed: true});
	t.like(await push(), {version: 2, changed: false});
	t.is(await preview(), 'Receipt 8');
	await writeFile(join(cli.folder, 'other.json'), '{"n": 9}');
	t.is(await preview('--data', join(cli.folder, 'other.json')), 'Receipt 9');
	await rm(join(folder, 'sample.json'));
	t.like(await push(), {version: 3, changed: true});
	t.is(await preview(), 'Receipt');
	t.like(await cli.json('template', 'show', 'receipt'), {version: 3, sample: null});

	t.like(await cli.json('template', 'rollback', 'receipt', '1'), {name: 'receipt', version: 4, restored: 1});
	t.is(await preview(), 'Receipt 7');
	t.like(await cli.json('template', 'show', 'receipt'), {version: 4, sample: {n: 7}});
	await cli.json('template', 'pull', 'templates', '--yes');
	t.deepEqual(await contents(folder), receipt);
	t.like(await push(), {version: 4, changed: false});
	golden(t, 'template-rollback', await cli.text('template', 'rollback', 'receipt', '2'));
	refused(t, await cli.run('template', 'rollback', 'receipt', '5'), 65, /version 5 of receipt is already the newest/);
	refused(
		t,
		await cli.run('template', 'rollback', 'receipt', '6'),
		65,
		/receipt has no version 6, see mailctl template show/,
	);
	refused(t, await cli.run('template', 'rollback', 'receipt', 'x'), 64, /VERSION "x" is not allowed/);
	refused(t, await cli.run('template', 'rollback', 'nix', '1'), 65, /template nix not found/);
});
