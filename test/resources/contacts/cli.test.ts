import {access, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {capturedName} from '../../../src/deliver/local-delivery.ts';
import type {Store} from '../../../src/store/store.ts';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {insertMessages, newId} from '../../helpers/messages.ts';

type View = {readonly id: string; readonly email: string};

const at = '2026-06-09T10:15:30.123Z';

/** Three contacts: one with preferences, one who wants no news, one who is suppressed. */
async function prepare(t: ExecutionContext): Promise<{cli: Cli; store: Store; workspaceId: string; ids: string[]}> {
	const cli = await newCli(t);
	await cli.json('init');
	const store = await cli.store();
	const {id: workspaceId} = await store.reader('workspaces').first();
	const ids: string[] = [];
	for (const [address, locale, timezone] of [
		['Jane@Example.org', 'de-AT', 'Europe/Vienna'],
		['picky@example.org', null, null],
		['gone@a-rather-long-name.of-a-company.example', 'en', null],
	] as const) {
		const id = newId('con');
		ids.push(id);
		const key = address.toLowerCase();
		await store.database('contacts').insert({
			...{
				id,
				workspace_id: workspaceId,
				address,
				address_key: key,
				locale,
				timezone,
				created_at: at,
				updated_at: at,
			},
		});
	}
	const [, picky, gone] = await store.reader('contacts').orderBy('id');
	const of = ({address, address_key}: {address: string; address_key: string}) => ({
		...{workspace_id: workspaceId, address, address_key, created_at: at, source: 'api'},
	});
	await store.database('topic_optouts').insert([
		{...of(picky), code: 'news'},
		{...of(picky), code: 'offers'},
	]);
	await store.database('suppressions').insert({...of(gone), id: newId('sup'), reason: 'manual'});
	return {cli, store, workspaceId, ids};
}

test('contact: list, show, update', async t => {
	const {cli, ids} = await prepare(t);
	const list = await cli.json<View[]>('contact', 'list');
	t.deepEqual(
		list.map(({id}) => id),
		ids.toReversed(),
	);
	t.deepEqual(list[1], {
		...{id: ids[1] as string, email: 'picky@example.org', locale: null, timezone: null, topics: ['news', 'offers']},
		...{suppressed: false, created_at: '2026-06-09T10:15:30+00:00', updated_at: '2026-06-09T10:15:30+00:00'},
	});
	t.is((await cli.json<View[]>('contact', 'list', '--limit', '1')).length, 1);
	golden(t, 'contact-list', await cli.text('contact', 'list'));
	golden(t, 'contact-show', await cli.text('contact', 'show', 'picky@example.org'));
	t.like(await cli.json('contact', 'show', 'JANE@example.org'), {id: ids[0], email: 'Jane@Example.org'});
	t.like(await cli.json('contact', 'show', ids[0] as string), {email: 'Jane@Example.org', locale: 'de-AT'});

	t.like(await cli.json('contact', 'update', 'jane@example.org', '--locale', 'pt-br'), {
		...{id: ids[0], locale: 'pt-BR', timezone: 'Europe/Vienna'},
	});
	t.like(await cli.json('contact', 'update', ids[0] as string, '--locale', 'none', '--timezone', 'UTC'), {
		...{locale: null, timezone: 'UTC'},
	});
	refused(t, await cli.run('contact', 'update', 'jane@example.org'), 64, /nothing to change, use at least one/);
	refused(
		t,
		await cli.run('contact', 'update', 'jane@example.org', '--timezone', 'Mars'),
		64,
		/"Mars" is not allowed/,
	);
	refused(
		t,
		await cli.run('contact', 'update', 'x@example.org', '--locale', 'de'),
		65,
		/contact x@example\.org not found/,
	);
	refused(
		t,
		await cli.run('contact', 'show', newId('con')),
		65,
		/contact con_\w+ not found, see mailctl contact list/,
	);
	refused(
		t,
		await cli.run('contact', 'show', 'nobody'),
		65,
		/nobody is not a valid address, it must be a bare address/,
	);
});

test('contact erase by address or id removes captured messages; by address it needs no contact', async t => {
	const {cli, store, workspaceId, ids} = await prepare(t);
	const [first, second] = (await insertMessages(store, workspaceId, ['jane@example.org', 'other@example.org'])) as [
		string,
		string,
	];
	const recipient = await store.reader('recipients').where({message_id: second}).first();
	const cc = {...recipient, id: newId('rcp'), role: 'cc', address: 'cc@example.org', address_key: 'cc@example.org'};
	await store.database('recipients').insert(cc);
	await store.database('messages').where({id: second}).update({cc: '["cc@example.org"]'});
	const folder = join(cli.folder, 'data/captured');
	await mkdir(folder);
	const files: string[] = [];
	for (const {id} of await store.reader('recipients').where({message_id: first})) {
		files.push(join(folder, capturedName(id)), join(folder, `.${id}.tmp`));
	}
	const kept = join(folder, capturedName(newId('rcp')));
	for (const file of [...files, kept]) {
		await writeFile(file, 'To: jane@example.org');
	}

	refused(
		t,
		await cli.run('contact', 'erase', 'jane@example.org'),
		64,
		/this destroys data, and there is no terminal to confirm it/,
	);
	t.is((await cli.json<View[]>('contact', 'list')).length, 3);
	t.deepEqual(await cli.json('contact', 'erase', 'JANE@example.org', '--yes'), {
		...{email: 'JANE@example.org', erased: true, messages: 1, cc_messages: 0},
	});
	for (const file of files) {
		await t.throwsAsync(access(file), {code: 'ENOENT'});
	}
	await access(kept);
	t.like(await store.reader('messages').where({id: first}).first(), {to_address: 'erased@erased.invalid'});

	golden(t, 'contact-erase', await cli.text('contact', 'erase', ids[1] as string, '--yes'));
	t.deepEqual(await cli.json('contact', 'erase', 'cc@example.org', '--yes'), {
		...{email: 'cc@example.org', erased: true, messages: 0, cc_messages: 1},
	});
	for (const text of ['jane@example.org', 'cc@example.org', 'nobody@example.org', newId('con')]) {
		refused(t, await cli.run('contact', 'erase', text, '--yes'), 65, /contact .* not found/);
	}
	t.is((await store.reader('topic_optouts')).length, 2, 'opt-outs stay');
	t.deepEqual(
		(await cli.json<View[]>('contact', 'list')).map(({id}) => id),
		[ids[2] as string],
	);
});
