import {rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import {newCli, refused} from '../../helpers/cli.ts';
import {startCliShell} from '../../helpers/cli-shell.ts';
import {insertMessages} from '../../helpers/messages.ts';

type Named = {readonly id: string; readonly name: string};

/** Workspaces `acme` and `other`; in `other` one of each thing that has an id. */
async function prepare(t: ExecutionContext) {
	const cli = await newCli(t);
	const [acme, other] = [
		await cli.json<Named>('workspace', 'create', '--name', 'acme'),
		await cli.json<Named>('workspace', 'create', '--name', 'other'),
	];
	return {
		cli,
		acme,
		other,
		in: async (...args: readonly string[]) => await cli.json<Named>(...args, '--workspace', 'other'),
	};
}

/** The shortest prefix of an id that another id does not share. */
function shared(id: string, other: string): string {
	const at = [...id].findIndex((character, index) => character !== other[index]);
	return id.slice(0, at + 1);
}

test('finds the workspace from an id or its unique prefix', async t => {
	const {cli, acme, other, in: make} = await prepare(t);
	const store = await cli.store();
	await insertMessages(store, other.id, ['one@x.example', 'two@x.example']);
	const [message, second] = await store.reader('messages').orderBy('id').pluck('id');
	const recipients = await store.reader('recipients').orderBy('id').pluck('id');
	const why = async (start: string) =>
		(await cli.json<Array<{id: string; message_id: string}>>('queue', 'why', start))[0];
	t.is((await why(shared(message, second)))?.message_id, message);
	t.is((await why(shared(recipients[1], recipients[0])))?.id, recipients[1]);
	refused(
		t,
		await cli.run('message', 'show', 'msg_'),
		65,
		/msg_ is ambiguous \(msg_\w{26}, msg_\w{26}\), use a longer prefix/,
	);
	refused(t, await cli.run('message', 'show', message, '--workspace', 'acme'), 65, /message msg_\w+ not found/);
	refused(t, await cli.run('message', 'show', 'msg_x%'), 65, /message msg_x% not found, see mailctl message list/);

	const key = await make('key', 'create', '--name', 'app');
	t.is((await cli.json<Named>('key', 'revoke', key.id.slice(0, 20))).id, key.id);
	const template = await make('template', 'create', '--name', 'receipt');
	t.is((await cli.json<Named>('template', 'show', template.id.slice(0, 20))).id, template.id);
	const topic = await make('topic', 'create', '--code', 'news', '--name', 'News');
	t.is((await cli.json<Named>('topic', 'remove', 'usg_', '--yes')).id, topic.id);
	const hook = await make('webhook', 'add', 'https://shop.example/hooks', '--event', 'delivered');
	t.is((await cli.json<Named>('webhook', 'disable', 'whe_')).id, hook.id);
	t.deepEqual(await cli.json('webhook', 'remove', 'whe_', '--yes'), {id: hook.id, removed: true});
	const entry = await make('suppression', 'add', 'gone@x.example');
	t.is((await cli.json<Named>('suppression', 'remove', entry.id.slice(0, 10), '--yes')).id, entry.id);
	t.is((await cli.json<Named>('workspace', 'show', other.id)).name, 'other');

	await make('template', 'create', '--name', 'mine', '--id', 'tpl_both');
	await cli.json('template', 'create', '--name', 'theirs', '--id', 'tpl_both', '--workspace', 'acme');
	refused(
		t,
		await cli.run('template', 'show', 'tpl_both'),
		65,
		/several workspaces have tpl_both, select one with --workspace/,
	);
	await cli.text('workspace', 'use', acme.id);
	t.is((await cli.json<Named>('template', 'show', 'tpl_both')).name, 'theirs');
});

test('a workspace named like the id of another, or its prefix, is never mistaken for it', async t => {
	const {cli, acme, other} = await prepare(t);
	for (const name of [acme.id, acme.id.slice(0, 12)]) {
		await cli.json('workspace', 'update', other.id, '--name', name);
		await cli.json('workspace', 'use', acme.id);
		t.is((await cli.json<Named>('workspace', 'show')).id, acme.id);
		const meant = await cli.run('workspace', 'show', name, '--json');
		t.true(meant.code === 65 || JSON.parse(meant.stdout).id === acme.id, meant.stdout);
	}
});

test('--workspace takes precedence over MAILCTL_WORKSPACE, and that over workspace use', async t => {
	const {cli, acme, other} = await prepare(t);
	refused(
		t,
		await cli.run('key', 'list'),
		64,
		/several workspaces exist \(other, acme\), select one with --workspace .* workspace use NAME/,
	);
	t.deepEqual(await cli.json('workspace', 'use', 'acme'), {id: acme.id, name: 'acme'});
	t.is((await cli.json<Named>('workspace', 'show')).name, 'acme');
	t.regex(await cli.text('workspace', 'show'), /^in use +as the default of commands$/m);
	t.regex(await cli.text('workspace', 'list'), /^ws_\w+ +acme +yes /m);
	t.is((await cli.json<Named>('workspace', 'show', '--workspace', 'other')).name, 'other');

	const env = {PATH: process.env.PATH, MAILCTL_WORKSPACE: 'other'};
	const set = startCliShell({cwd: cli.folder, env});
	t.is((await set.json<Named>('workspace', 'show')).id, other.id);
	t.is((await set.json<Named>('workspace', 'show', '--workspace', 'acme')).id, acme.id);
	t.regex((await set.run('workspace', 'use', 'acme')).stderr, /MAILCTL_WORKSPACE is other and takes precedence/);
	const wrong = startCliShell({cwd: cli.folder, env: {...env, MAILCTL_WORKSPACE: 'gone'}});
	const {code, stderr} = await wrong.run('key', 'list');
	t.is(code, 65);
	t.regex(
		stderr,
		/MAILCTL_WORKSPACE names the workspace gone, which does not exist \(existing: other, acme\), fix it/,
	);
});

test('names a selected workspace that no longer exists, and lets another be selected', async t => {
	const {cli, acme} = await prepare(t);
	await cli.json('workspace', 'use', 'acme');
	await cli.json('workspace', 'delete', 'acme', '--yes');
	refused(
		t,
		await cli.run('key', 'list'),
		65,
		new RegExp(
			`cli\\.json names the workspace ${acme.id}, which does not exist \\(existing: other\\), choose another`,
		),
	);
	t.is((await cli.json<Named[]>('workspace', 'list')).length, 1);
	await cli.json('workspace', 'use', 'other');
	t.deepEqual(await cli.json('key', 'list'), []);

	const file = path.join(cli.folder, 'data/cli.json');
	writeFileSync(file, '{"workspace":', {mode: 0o600});
	t.deepEqual(await cli.json('key', 'list'), [], 'what nobody can read chooses nothing');
	rmSync(file);
	t.deepEqual(await cli.json('key', 'list'), []);
});
