import test from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {idTime} from '../../src/mail/ids.ts';
import type {Send} from '../../src/send/draft.ts';
import {readResend} from '../../src/send/send.ts';
import {createAcceptWrite} from '../../src/send/write.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {codeOf, idOf, startApi, type TestApi} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {recipientRows} from '../helpers/recipient-rows.ts';
import {addKey, addWorkspace, newId} from '../helpers/workspace.ts';

const at = '2026-06-09T10:00:00.000Z';

async function suppress({store, workspace}: TestApi, address: string): Promise<void> {
	await store.database('suppressions').insert({
		id: newId('sup'),
		workspace_id: workspace.id,
		address,
		address_key: address,
		reason: 'manual',
		source: 'api',
		created_at: at,
	});
}

async function addTopic({store, workspace}: TestApi, code: string): Promise<string> {
	const id = newId('usg');
	await store.database('topics').insert({id, workspace_id: workspace.id, code, name: code, created_at: at});
	return id;
}

async function optOut({store, workspace}: TestApi, address: string, code: string): Promise<void> {
	await store
		.database('topic_optouts')
		.insert({workspace_id: workspace.id, code, address_key: address, address, source: 'one-click', created_at: at});
}

sqliteTest(test, 'treats the objects of another workspace as unknown', async (t, store) => {
	const api = await startApi(t, store);
	const other = await addWorkspace(store, 'other');
	await store
		.database('topics')
		.insert({id: newId('usg'), workspace_id: other.id, code: 'news', name: 'n', created_at: at});
	await store.database('senders').where({workspace_id: other.id}).update({address_key: 'they@example.com'});
	t.is(codeOf(await api.send({templateId: other.templateId})), 'template_not_found');
	t.is(codeOf(await api.send({from: 'they@example.com'})), 'sender_not_available');
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'unknown_unsubscribe_group');
	const key = await addKey(store, other.id);
	await suppress(api, 'user@example.org');
	t.is(codeOf(await api.send()), 'recipient_suppressed');
	t.is((await api.send({from: 'they@example.com', templateId: other.templateId}, key)).status, 202);
});

sqliteTest(test, 'responds to malformed names with the right codes, without a query to the store', async (t, store) => {
	const api = await startApi(t, store);
	for (const text of ['x', '\0', '\ud800', "' or 1=1", 'usg_1', 'ä'.repeat(1000)]) {
		t.is(codeOf(await api.send({templateId: text})), 'template_not_found');
		t.is(codeOf(await api.send({unsubscribeGroup: text})), 'unknown_unsubscribe_group');
	}
	t.deepEqual(api.reported, []);
});

sqliteTest(test, 'accepts a sender verified by itself or by its domain, unless it is disabled', async (t, store) => {
	conforms(t, 'send.from');
	const api = await startApi(t, store);
	const status = async (sender: object, domain: object) => {
		await store.database('senders').update({verified_at: null, disabled_at: null, ...sender});
		await store.database('domains').update({verified_at: null, ...domain});
		api.clear();
		return (await api.send({from: 'HELLO@Example.com'})).status;
	};
	t.is(await status({verified_at: at}, {}), 202);
	t.is(await status({}, {verified_at: at}), 202);
	t.is(await status({}, {}), 422);
	t.is(await status({verified_at: at, disabled_at: at}, {verified_at: at}), 422);
});

sqliteTest(test, 'rejects deleted templates and uses new versions once the caches are cleared', async (t, store) => {
	const api = await startApi(t, store);
	t.is((await api.send()).status, 202);
	const version = newId('tpv');
	await store.database('template_versions').insert({
		id: version,
		template_id: api.workspace.templateId,
		version: 2,
		fingerprint: 'g',
		created_at: at,
	});
	await store.database('templates').update({latest_version: 2});
	api.clear();
	const id = idOf(await api.send());
	t.is((await store.reader('messages').where({id}).first()).version_id, version);
	await store.database('templates').update({deleted_at: at});
	api.clear();
	t.is(codeOf(await api.send()), 'template_not_found');
});

sqliteTest(test, 'suppresses every spelling of a suppressed address', async (t, store) => {
	const api = await startApi(t, store);
	await suppress(api, 'josé@xn--mnchen-3ya.de');
	for (const to of ['josé@münchen.de', 'JOSÉ@MÜNCHEN.DE', 'jose\u0301@mu\u0308nchen.de', 'José@xn--mnchen-3ya.de']) {
		t.is(codeOf(await api.send({to})), 'recipient_suppressed', to);
	}
	t.is((await api.send({to: 'jose@münchen.de'})).status, 202);
});

sqliteTest(
	test,
	'drops duplicates and the to address from cc, and records why suppressed ones are not sent',
	async (t, store) => {
		const api = await startApi(t, store);
		await addTopic(api, 'news');
		await suppress(api, 'gone@example.net');
		await optOut(api, 'tired@example.net', 'news');
		await optOut(api, 'picky@example.net', 'other');
		const cc = [
			'a@example.net',
			'USER@example.org',
			'A@example.net',
			'gone@example.net',
			'Tired@example.net',
			'picky@example.net',
		];
		const id = idOf(await api.send({cc, unsubscribeGroup: 'news'}));
		const recipients = await recipientRows(store.reader).where({message_id: id}).orderBy('id');
		t.deepEqual(
			recipients.map(recipient => [
				recipient.role,
				recipient.address,
				recipient.state,
				recipient.next_attempt_at !== null,
			]),
			[
				['to', 'user@example.org', 'accepted', true],
				['cc', 'a@example.net', 'accepted', true],
				['cc', 'gone@example.net', 'suppressed', false],
				['cc', 'Tired@example.net', 'suppressed', false],
				['cc', 'picky@example.net', 'accepted', true],
			],
		);
		const events = await readEvents(store.reader, id, {after: null, limit: 9});
		t.deepEqual(
			events.map(({type, detail}) => [type, detail]),
			[
				['accepted', {}],
				['suppressed', {recipient: 'gone@example.net', role: 'cc', reason: 'suppressed'}],
				['suppressed', {recipient: 'Tired@example.net', role: 'cc', reason: 'opted_out'}],
			],
		);
		const about: string[] = await store
			.reader('events')
			.where({message_id: id})
			.orderBy('id')
			.pluck('recipient_id');
		t.deepEqual(about, [recipients[2].id, recipients[3].id]);
		const {body} = await api.get(`/v1/messages/${id}`);
		t.deepEqual((body as {cc: string[]}).cc, [
			'a@example.net',
			'gone@example.net',
			'Tired@example.net',
			'picky@example.net',
		]);
		t.deepEqual(api.announced.sort(), ['example.net', 'example.org']);
	},
);

sqliteTest(test, 'a live send stores the locale and time zone of its recipient for the next one', async (t, store) => {
	const api = await startApi(t, store);
	const testKey = await addKey(store, api.workspace.id, {mode: 'test'});
	const used = async (fields: object, key?: string) => {
		const id = idOf(await api.send({to: 'New@example.org', ...fields}, key));
		const {locale, timezone} = await store.reader('messages').where({id}).first();
		return [locale, timezone];
	};
	t.deepEqual(await used({locale: 'fr', timezone: 'Europe/Paris'}, testKey), ['fr', 'Europe/Paris']);
	t.deepEqual(await store.reader('contacts'), []);
	t.deepEqual(await used({locale: '', timezone: ''}), [null, null]);
	const [{id, created_at, updated_at, ...contact}] = await store.reader('contacts');
	t.true(id.startsWith('con_') && created_at === updated_at);
	t.deepEqual(contact, {
		workspace_id: api.workspace.id,
		address: 'New@example.org',
		address_key: 'new@example.org',
		locale: null,
		timezone: null,
	});
	t.deepEqual(await used({to: 'NEW@example.org', locale: 'de-at'}), ['de-AT', null]);
	t.deepEqual(await used({timezone: 'Europe/Vienna'}), ['de-AT', 'Europe/Vienna']);
	t.deepEqual(await used({locale: null}), ['de-AT', 'Europe/Vienna']);
	t.deepEqual(await used({locale: 'fr'}, testKey), ['fr', 'Europe/Vienna']);
	t.deepEqual(await used({}, testKey), ['de-AT', 'Europe/Vienna']);
	t.like(await store.reader('contacts').first(), {id, locale: 'de-AT', timezone: 'Europe/Vienna'});
	t.is((await store.reader('contacts')).length, 1);
});

storeTest(test, 'sends that share a transaction are checked and stored independently', async (t, store) => {
	const api = await startApi(t, store);
	await suppress(api, 'gone@example.org');
	const sends = Array.from({length: 60}, (_, index) => {
		const kind = index % 3;
		const to = kind === 0 ? 'gone@example.org' : kind === 1 ? 'same@example.org' : `u${index}@example.org`;
		return {to, locale: index % 2 ? 'de' : 'en', data: {index}, metadata: {kind: String(kind)}};
	});
	const answers = await Promise.all(sends.map(send => api.send(send)));
	for (const [index, answer] of answers.entries()) {
		t.is(answer.status, index % 3 === 0 ? 422 : 202);
		if (answer.status === 202) {
			const message = (await api.get(`/v1/messages/${idOf(answer)}`)).body as {to: string; data: unknown};
			t.like({to: message.to, data: message.data}, {to: sends[index]?.to ?? '', data: {index}});
		}
	}
	t.is((await store.reader('messages')).length, 40);
	t.is((await store.reader('contacts')).length, 21);
});

sqliteTest(test, 'a message was created at the time in its ID, and none of its rows is older', async (t, store) => {
	const api = await startApi(t, store);
	for (let n = 0; n < 20; n++) {
		await api.send();
	}
	const messages: Array<{id: string; created_at: string}> = await store.reader('messages').select('id', 'created_at');
	t.is(messages.length, 20);
	for (const {id, created_at} of messages) {
		t.is(created_at, storeTime(idTime(id)));
		const [accepted] = await readEvents(store.reader, id, {after: null, limit: 9});
		t.like(accepted, {type: 'accepted', occurredAt: created_at, recordedAt: created_at});
		t.is(accepted?.id.slice(4), id.slice(4));
		const {state_at} = await store.reader('recipients').where({message_id: id}).first();
		t.true(state_at >= created_at);
	}
});

storeTest(test, 'a resend by a user and its audit entry are stored together or not at all', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.send());
	const send = (await readResend(store.reader, api.workspace.id, id)) as Send;
	const {version_id: versionId} = await store.reader('messages').where({id}).first();
	const by = {actor: 'user:ann@shop.example', from: '192.0.2.1'};
	const draft = {
		send: {...send, by},
		sealed: null,
		idempotency: null,
		versionId,
		topicId: null,
		priority: 'normal' as const,
		quota: null,
	};
	const row = newId('aud');
	const write = createAcceptWrite({
		clock: systemClock,
		newId: kind => (kind === 'aud' ? row : newId(kind)),
		keyRetention: () => 1000,
	});
	const [result] = await store.writer.submit(write, [draft]);
	const acts = await store.reader('audit').select('action', 'actor', 'target', 'detail');
	t.true(result?.ok);
	t.deepEqual(acts, [
		{
			action: 'message.resent',
			actor: by.actor,
			target: result?.ok ? result.id : '',
			detail: JSON.stringify({resent_from: id}),
		},
	]);
	await t.throwsAsync(async () => await store.writer.submit(write, [draft]), undefined, 'the row is there already');
	t.is((await store.reader('messages')).length, 2);
});
