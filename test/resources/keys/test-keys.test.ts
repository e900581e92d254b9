import test, {type ExecutionContext} from 'ava';
import type {Mode} from '../../../src/mail/message.ts';
import {type Answer, codeOf, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {sqliteTest} from '../../helpers/databases.ts';
import {insertDue} from '../../helpers/webhooks.ts';
import {addKey, newId} from '../../helpers/workspace.ts';

// What a key of mode `test` may see and change, with every scope: testing must not affect live messages.

type Item = {readonly id: string; readonly mode: Mode};
const idsOf = (answer: Answer) => (answer.body as {data: Item[]}).data.map(({id}) => id);

function refuses(t: ExecutionContext, answer: Answer): void {
	t.is(answer.status, 403, answer.text);
	t.is(codeOf(answer), 'insufficient_scope');
}

sqliteTest(test, 'a test key sees only messages of test keys, a live key sees all of them', async (t, store) => {
	conforms(t, 'auth.prefixes');
	const api = await startApi(t, store);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	t.regex(api.key, /^key_live_[0-9A-Za-z]{38}$/);
	t.regex(key, /^key_test_[0-9A-Za-z]{38}$/);
	const live = idOf(await api.send());
	const mine = idOf(await api.send({}, key));

	t.deepEqual(idsOf(await api.get('/v1/messages', key)), [mine]);
	t.deepEqual(idsOf(await api.get('/v1/messages?mode=test', key)), [mine]);
	t.deepEqual(idsOf(await api.get('/v1/messages?mode=live', key)), []);
	t.deepEqual(idsOf(await api.get('/v1/messages?recipient=user@example.org&status=accepted', key)), [mine]);
	t.deepEqual(idsOf(await api.get('/v1/messages')), [mine, live]);
	t.deepEqual(idsOf(await api.get('/v1/messages?mode=test')), [mine]);
	t.deepEqual(idsOf(await api.get('/v1/messages?mode=live')), [live]);
	t.is((await api.get('/v1/messages?mode=both')).status, 422);

	for (const part of ['', '/events', '/recipients', '/attempts']) {
		const path = `/v1/messages/${live}${part}`;
		const hidden = await api.get(path, key);
		t.is(hidden.status, 404);
		t.is(codeOf(hidden), 'message_not_found');
		t.is((await api.get(path.replace(live, mine), key)).status, 200);
		t.is((await api.get(path)).status, 200);
	}

	const {next_cursor: cursor} = (await api.get('/v1/messages?limit=1')).body as {next_cursor: string};
	t.is((await api.get(`/v1/messages?limit=1&cursor=${cursor}`, key)).status, 422, 'a cursor of a live key');
});

sqliteTest(
	test,
	'a suppression by a test key blocks only test messages and yields to a live entry',
	async (t, store) => {
		const api = await startApi(t, store);
		const key = await addKey(store, api.workspace.id, {mode: 'test'});
		const recipient = 'user@example.org';
		const made = await api.post('/v1/suppressions', {recipient}, key);
		t.is(made.status, 201);
		t.like(made.body as object, {recipient, reason: 'manual', mode: 'test'});
		t.is(codeOf(await api.send({to: recipient}, key)), 'recipient_suppressed');
		t.is((await api.send({to: recipient})).status, 202, 'live mail flows');
		const [contact] = ((await api.get('/v1/contacts')).body as {data: Array<{suppressed: boolean}>}).data;
		t.like(contact, {suppressed: false});

		const live = await api.post('/v1/suppressions', {recipient});
		t.is(live.status, 201);
		t.like(live.body as object, {recipient, mode: 'live'});
		t.deepEqual(idsOf(await api.get('/v1/suppressions')), [idOf(live)]);
		t.is(codeOf(await api.send({to: recipient})), 'recipient_suppressed');
		const again = await api.post('/v1/suppressions', {recipient}, key);
		t.is(again.status, 200);
		t.deepEqual(again.body, live.body, 'it never takes the place of a live one');
	},
);

sqliteTest(test, 'a test key removes only suppressions of test keys and simulated ones', async (t, store) => {
	const api = await startApi(t, store);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	const insert = async (address: string, reason: string) => {
		const entry = {id: newId('sup'), workspace_id: api.workspace.id, address, address_key: address, reason};
		await store
			.database('suppressions')
			.insert({...entry, source: 'msg_x', created_at: '2026-06-09T10:15:30.123Z'});
		return entry.id;
	};
	for (const reason of ['hard_bounce', 'complaint', 'unsubscribe', 'manual']) {
		const id = await insert(`${reason}@example.org`, reason);
		refuses(t, await api.remove(`/v1/suppressions/${id}`, key));
		t.is((await store.reader('suppressions').where({id})).length, 1);
		t.is((await api.remove(`/v1/suppressions/${id}`)).status, 204, 'a live key does');
		t.is((await api.remove(`/v1/suppressions/${id}`, key)).status, 404);
	}
	const simulated = await insert('bounced@simulator.test', 'hard_bounce');
	t.is((await api.remove(`/v1/suppressions/${simulated}`, key)).status, 204);
	const own = idOf(await api.post('/v1/suppressions', {recipient: 'user@example.org'}, key));
	t.is((await api.remove(`/v1/suppressions/${own}`, key)).status, 204);
});

sqliteTest(test, 'a test key cannot change or erase a contact', async (t, store) => {
	const api = await startApi(t, store);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	const message = idOf(await api.send({to: 'ada@example.org', locale: 'de'}));
	const [id = ''] = idsOf(await api.get('/v1/contacts'));
	refuses(t, await api.patch(`/v1/contacts/${id}`, {locale: 'fr'}, key));
	refuses(t, await api.remove(`/v1/contacts/${id}`, key));
	t.like((await api.get(`/v1/contacts/${id}`, key)).body as object, {email: 'ada@example.org', locale: 'de'});
	t.like((await api.get(`/v1/messages/${message}`)).body as object, {to: 'ada@example.org'});
	t.is((await api.remove(`/v1/contacts/${newId('con')}`, key)).status, 404);
	t.is((await api.remove(`/v1/contacts/${id}`)).status, 204);
});

sqliteTest(test, 'a test key sees, deletes and replays only webhooks of test keys', async (t, store) => {
	const api = await startApi(t, store);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	const register = async (api: TestApi, bearer?: string) => {
		const body = {url: 'https://shop.example/hooks', events: ['delivered']};
		const made = (await api.post('/v1/webhooks', body, bearer)).body as Item;
		const [delivery = ''] = await insertDue(store, api.workspace.id, made.id, 1);
		return {...made, delivery};
	};
	const live = await register(api);
	const mine = await register(api, key);
	t.deepEqual([live.mode, mine.mode], ['live', 'test']);
	t.deepEqual(idsOf(await api.get('/v1/webhooks', key)), [mine.id]);
	t.deepEqual(idsOf(await api.get('/v1/webhooks')), [mine.id, live.id]);

	for (const answer of [
		await api.get(`/v1/webhooks/${live.id}/deliveries`, key),
		await api.post(`/v1/webhooks/deliveries/${live.delivery}/replay`, {}, key),
		await api.remove(`/v1/webhooks/${live.id}`, key),
		await api.patch(`/v1/webhooks/${live.id}`, {active: false}, key),
		await api.post(`/v1/webhooks/${live.id}/test`, {}, key),
	]) {
		t.is(answer.status, 404);
		t.is(codeOf(answer), 'not_found');
	}
	t.deepEqual(idsOf(await api.get(`/v1/webhooks/${mine.id}/deliveries`, key)), [mine.delivery]);
	t.is((await api.post(`/v1/webhooks/deliveries/${mine.delivery}/replay`, {}, key)).status, 202);
	t.is((await api.remove(`/v1/webhooks/${mine.id}`, key)).status, 204);
	t.is((await api.remove(`/v1/webhooks/${live.id}`)).status, 204);
});
