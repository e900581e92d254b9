import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {simpleParser} from 'mailparser';
import {golden, newCli, refused} from '../../helpers/cli.ts';
import {newId} from '../../helpers/messages.ts';
import {waitFor} from '../../helpers/wait.ts';

type Shown = {readonly message: Record<string, unknown> & {readonly id: string}};

test('message resend sends again in the same mode, except to erased recipients, with every check', async t => {
	const cli = await newCli(t);
	await cli.json('init');
	await writeFile(join(cli.folder, 'note.txt'), 'attached');
	const daemon = await cli.serve();
	const {id: topic} = {id: newId('usg')};
	const store = await cli.store();
	const {id: workspaceId} = await store.reader('workspaces').first();
	const at = new Date().toISOString();
	await store
		.database('topics')
		.insert({id: topic, workspace_id: workspaceId, code: 'news', name: 'News', created_at: at});
	const key = (await cli.json<{key: string}>('key', 'create', '--name', 'app')).key;
	const {id: templateId} = await store.reader('templates').first();
	const response = await fetch(`${daemon.url}/v1/messages`, {
		method: 'POST',
		headers: {authorization: `Bearer ${key}`, 'content-type': 'application/json'},
		body: JSON.stringify({
			from: 'hello@example.com',
			to: 'User@example.org',
			cc: ['Copy@example.net'],
			replyTo: 'help@example.com',
			...{toName: 'Zoë', replyToName: 'Help', headers: {'X-Order': '7'}},
			templateId,
			data: {name: 'Zoë'},
			metadata: {order: '7'},
			tags: ['a', 'b'],
			unsubscribeGroup: 'news',
			locale: 'de-AT',
			timezone: 'Asia/Kolkata',
			tracking: {opens: false},
			attachments: [{filename: 'note.txt', contentType: 'text/plain', content: 'YXR0YWNoZWQ='}],
		}),
	});
	t.is(response.status, 202);
	const {id} = (await response.json()) as {id: string};
	// What is learnt of the contact later is not unlearnt.
	await store.database('contacts').update({locale: 'fr', timezone: 'UTC'});

	const again = await cli.json<{id: string; resent_from: string}>('message', 'resend', id);
	t.deepEqual(again, {id: again.id, resent_from: id});
	t.not(again.id, id);
	const row = async (which: string) => {
		const {
			id: _,
			created_at: __,
			resent_from: ___,
			position: ____,
			...rest
		} = await store.reader('messages').where({id: which}).first();
		return rest;
	};
	t.deepEqual(await row(again.id), await row(id));
	t.like(await store.reader('contacts').first(), {locale: 'fr', timezone: 'UTC'});
	const shown = await waitFor('delivery', async () => {
		const answer = await cli.json<Shown>('message', 'show', again.id);
		return answer.message.status === 'delivered' && answer;
	});
	t.is(shown.message.resent_from, id);
	t.is((await cli.json<Shown>('message', 'show', id)).message.resent_from, null);
	const mail = await simpleParser(await cli.text('message', 'raw', again.id));
	t.is(mail.attachments[0]?.content.toString(), 'attached');
	t.regex(mail.subject ?? '', /^Ihre erste Mail, Zoë$/);
	const text = await cli.text('message', 'show', again.id);
	t.true(text.includes(`\nresent from  ${id}\n`), text);
	golden(t, 'message-resend', await cli.text('message', 'resend', again.id));
	t.is((await store.reader('api_keys').where({name: 'mailctl send'})).length, 0, 'its key is gone');

	// Of a test key, with a copy to somebody who was erased.
	const send = ['send', '--from', 'hello@example.com', '--to', 'user@example.org', '--template', 'sample'];
	const tested = await cli.json<{id: string}>(
		...[...send, '--mode', 'test', '--cc', 'a@example.org', '--cc', 'b@example.org'],
	);
	await store.database('messages').where({id: tested.id}).update({cc: '["erased@erased.invalid","b@example.org"]'});
	const retested = await cli.json<{id: string}>('message', 'resend', tested.id);
	t.like(await store.reader('messages').where({id: retested.id}).first(), {
		mode: 'test',
		cc: '["b@example.org"]',
		resent_from: tested.id,
	});

	await store.database('suppressions').insert({
		id: newId('sup'),
		workspace_id: workspaceId,
		address: 'user@example.org',
		address_key: 'user@example.org',
		reason: 'manual',
		source: 'api',
		created_at: at,
	});
	refused(t, await cli.run('message', 'resend', id), 65, /refused with recipient_suppressed/);
	refused(
		t,
		await cli.run('message', 'resend', newId('msg')),
		65,
		/message msg_\w+ not found, see mailctl message list/,
	);
	await store.database('messages').where({id}).update({erased_at: at});
	refused(t, await cli.run('message', 'resend', id), 65, /msg_\w+ was erased, it cannot be sent again/);
	await daemon.stop();
	refused(t, await cli.run('message', 'resend', again.id), 69, /no daemon is running on this data folder/);
});
