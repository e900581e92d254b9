import {mkdir, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import {newCli, refused} from '../helpers/cli.ts';
import {temporaryFolder} from '../helpers/databases.ts';

type Sender = {readonly address: string};
type Template = {readonly name: string};

test('sample remove deletes what the first start created and keeps what the operator created', async t => {
	const cli = await newCli(t);
	await cli.run('init');
	t.regex(await cli.text('sender', 'list'), /hello@example\.com +\(sample\)/);
	refused(t, await cli.run('sample', 'remove'), 64, /add --yes/);
	t.deepEqual(await cli.json('sample', 'remove', '--yes'), {sender: true, domain: true, template: true});
	t.deepEqual(await cli.json<Sender[]>('sender', 'list'), []);
	t.deepEqual(await cli.json<Template[]>('template', 'list'), []);
	t.deepEqual(await cli.json('domain', 'list'), []);
	t.regex(await cli.text('sample', 'remove', '--yes'), /no sample found/);
});

test('sample remove keeps a template with a second version and a domain with another sender', async t => {
	const cli = await newCli(t);
	await cli.run('init');
	await cli.json('sender', 'add', 'own@example.com', '--verified');
	const folder = path.join(await temporaryFolder(t), 'sample');
	await mkdir(folder);
	await writeFile(path.join(folder, 'template.json'), '{"subject":"Mine"}');
	await writeFile(path.join(folder, 'body.html'), '<p>Mine</p>');
	await cli.json('template', 'push', folder);
	t.deepEqual(await cli.json('sample', 'remove', '--yes'), {sender: true, domain: false, template: false});
	t.is((await cli.json<Template[]>('template', 'list')).length, 1);
	t.deepEqual(
		(await cli.json<Sender[]>('sender', 'list')).map(({address}) => address),
		['own@example.com'],
	);
});
