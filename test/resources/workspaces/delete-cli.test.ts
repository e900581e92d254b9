import {existsSync, readdirSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {newCli, refused} from '../../helpers/cli.ts';
import {changeRecipients, recipientRows} from '../../helpers/recipient-rows.ts';
import {waitFor} from '../../helpers/wait.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

test('workspace delete asks, is refused while messages wait, and revokes keys within a second', async t => {
	const cli = await newCli(t);
	await cli.json('migrate');
	const store = await cli.store();
	const [acme, other] = [await addWorkspace(store, 'acme'), await addWorkspace(store, 'other')];
	const [key, otherKey] = [await addKey(store, acme.id), await addKey(store, other.id)];
	await store.database('template_variants').insert(
		[acme, other].map(({versionId}) => ({
			...{version_id: versionId, position: 0, subject: 'S', kind: 'html', source: '<p>x</p>', html: '<p>x</p>'},
		})),
	);
	const {url} = await cli.serve();
	const call = async (method: string, route: string, bearer: string, body?: object) => {
		const headers = {authorization: `Bearer ${bearer}`, ...(body && {'content-type': 'application/json'})};
		return await fetch(url + route, {method, headers, ...(body && {body: JSON.stringify(body)})});
	};
	const send = async (bearer: string, {sender, templateId}: typeof acme) =>
		await call('POST', '/v1/messages', bearer, {from: sender, to: 'a@x.example', templateId});
	t.is((await send(key, acme)).status, 202);
	t.is((await send(otherKey, other)).status, 202);
	const captured = () => {
		const folder = path.join(cli.folder, 'data/captured');
		return existsSync(folder) ? readdirSync(folder).filter(name => name.endsWith('.eml')) : [];
	};
	await waitFor('both mails', () => captured().length === 2);
	await waitFor(
		'both ends',
		async () => (await recipientRows(store.reader).whereNotNull('next_attempt_at')).length === 0,
	);

	refused(t, await cli.run('workspace', 'delete', 'acme'), 64, /add --yes to confirm/);
	refused(
		t,
		await cli.run('workspace', 'delete', 'nix', '--yes'),
		65,
		/workspace nix not found, see mailctl workspace/,
	);
	refused(t, await cli.run('workspace', 'delete'), 64, /missing required argument/);

	await changeRecipients(store.database, all => all.where({workspace_id: acme.id}), {
		next_attempt_at: '2099-01-01',
		held_at: 'x',
	});
	const waiting = await cli.run('workspace', 'delete', 'acme', '--yes');
	refused(
		t,
		waiting,
		69,
		/acme has messages in the queue \(recipients: 1\), wait until they are sent, or drop them with mailctl queue/,
	);
	t.is((await call('GET', '/v1/usage', key)).status, 200);
	await changeRecipients(store.database, all => all, {next_attempt_at: null, held_at: null});

	const deleting = cli.json('workspace', 'delete', 'acme', '--yes');
	await waitFor('the end of its keys', async () => (await call('GET', '/v1/usage', key)).status === 401);
	t.deepEqual(await deleting, {id: acme.id, name: 'acme', deleted: true, messages: 1});
	t.is((await send(key, acme)).status, 401);
	t.is((await send(otherKey, other)).status, 202);
	await waitFor('its mail', () => captured().length === 2);
	t.like(await cli.json('audit', 'list', '--limit', '1'), [{action: 'workspace.deleted', target: acme.id}]);
	t.deepEqual(
		(await cli.json<Array<{name: string}>>('workspace', 'list')).map(({name}) => name),
		['other'],
	);
});

test('the last workspace can be deleted', async t => {
	const cli = await newCli(t);
	const {id} = await cli.json<{id: string}>('workspace', 'create', '--name', 'acme');
	t.regex(
		await cli.text('workspace', 'delete', id, '--yes'),
		/^deleted acme with 0 messages\nIt was the last workspace: /,
	);
	t.deepEqual(await cli.json('workspace', 'list'), []);
});
