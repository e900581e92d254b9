import process from 'node:process';
import test from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import {readGeneration} from '../../../src/store/changes.ts';
import {recipientClaims, releaseOthers, releaseOwn} from '../../../src/store/held-claims.ts';
import {codeOf, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

const minute = 60_000;
const later = (ms: number) => new Date(Date.now() + ms).toISOString();

const queueOf = async ({store}: TestApi, id: string) =>
	await store
		.reader('queue as q')
		.join('recipients as r', 'r.id', 'q.recipient_id')
		.where({'r.message_id': id})
		.select('q.send_at', 'q.next_attempt_at');

storeTest(test, 'a scheduled send waits for all its recipients and is returned with its time', async (t, store) => {
	const api = await startApi(t, store);
	const at = later(60 * minute);
	const id = idOf(await api.send({sendAt: at, cc: ['copy@example.org']}));
	t.deepEqual(await queueOf(api, id), Array(2).fill({send_at: at, next_attempt_at: at}));
	const {body} = await api.get(`/v1/messages/${id}`);
	t.like(body, {status: 'accepted', send_at: `${at.slice(0, 19)}+00:00`});

	const again = idOf(await api.post(`/v1/messages/${id}/resend`, undefined));
	t.false('send_at' in ((await api.get(`/v1/messages/${again}`)).body as object));
	t.is((await queueOf(api, again))[0]?.send_at, null);
});

sqliteTest(test, 'a relative time counts from acceptance; a past time means now', async (t, store) => {
	const api = await startApi(t, store);
	const before = Date.now();
	const [soon] = await queueOf(api, idOf(await api.send({sendAt: '+90m'})));
	const waits = Date.parse(soon.send_at) - 90 * minute;
	t.true(before <= waits && waits <= Date.now());
	const past = idOf(await api.send({sendAt: '2020-01-01T00:00:00Z'}));
	t.is((await queueOf(api, past))[0]?.send_at, null);
	t.false('send_at' in ((await api.get(`/v1/messages/${past}`)).body as object));
});

sqliteTest(test, 'rejects invalid times and names the field, also in a batch', async (t, store) => {
	const api = await startApi(t, store);
	for (const sendAt of [
		'',
		'tomorrow',
		'+2',
		'-2h',
		'+31d',
		'2h',
		'2026-02-30T00:00:00Z',
		later(31 * 1440 * minute),
		5,
	]) {
		const answer = await api.send({sendAt});
		t.is(codeOf(answer), 'validation_failed', String(sendAt));
		t.like(answer.body, {error: {violations: [{field: 'sendAt'}]}});
	}
	const item = {from: api.workspace.sender, to: 'user@example.org', templateId: api.workspace.templateId};
	const {body} = await api.post('/v1/messages/batch', {
		messages: [
			{...item, sendAt: '+30d'},
			{...item, sendAt: 'never'},
		],
	});
	const {data} = body as {data: ReadonlyArray<{status: string; id?: string}>};
	t.deepEqual(
		data.map(({status}) => status),
		['accepted', 'error'],
	);
	t.not((await queueOf(api, data[0]?.id ?? ''))[0]?.send_at, null);
});

const detailsOf = async (api: TestApi, id: string) =>
	((await api.get(`/v1/messages/${id}/events`)).body as {data: Array<{type: string; detail: {reason?: string}}>}).data
		.filter(({type}) => type === 'errored')
		.map(({detail}) => detail.reason);

sqliteTest(test, 'cancels a message for all its recipients, once', async (t, store) => {
	const api = await startApi(t, store);
	for (const fields of [{sendAt: '+2h', cc: ['copy@example.org']}, {}]) {
		const id = idOf(await api.send(fields));
		const answer = await api.post(`/v1/messages/${id}/cancel`, undefined);
		t.is(answer.status, 200, answer.text);
		t.like(answer.body, {id, status: 'errored'});
		t.deepEqual(await queueOf(api, id), []);
		t.deepEqual(await detailsOf(api, id), Array('cc' in fields ? 2 : 1).fill('cancelled'));
		const again = await api.post(`/v1/messages/${id}/cancel`, {});
		t.is(again.status, 409);
		t.is(codeOf(again), 'not_cancellable');
		t.is(codeOf(await api.patch(`/v1/messages/${id}`, {sendAt: '+2h'})), 'not_cancellable');
	}
	t.deepEqual(await store.reader('suppressions').pluck('id'), []);
});

sqliteTest(test, 'reschedules a message, or sends it now if its time is removed', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.send({toName: 'Ann', sendAt: '+2h'}));
	const at = later(5 * 60 * minute);
	const moved = await api.patch(`/v1/messages/${id}`, {sendAt: at});
	t.is(moved.status, 200, moved.text);
	t.like(moved.body, {status: 'accepted', to_name: 'Ann', send_at: `${at.slice(0, 19)}+00:00`});
	t.deepEqual(await queueOf(api, id), [{send_at: at, next_attempt_at: at}]);
	const now = await api.patch(`/v1/messages/${id}`, {sendAt: '2020-01-01T00:00:00Z'});
	t.false('send_at' in (now.body as object));
	const [row] = await queueOf(api, id);
	t.is(row.send_at, null);
	t.true(Date.parse(row.next_attempt_at) <= Date.now());
	for (const sendAt of ['soon', '+31d', 5, null]) {
		const refused = await api.patch(`/v1/messages/${id}`, {sendAt});
		t.is(codeOf(refused), 'validation_failed', String(sendAt));
		t.like(refused.body, {error: {violations: [{field: 'sendAt'}]}});
	}
});

storeTest(test, 'lists scheduled messages in pages', async (t, store) => {
	const api = await startApi(t, store);
	const testKey = await addKey(store, api.workspace.id, {mode: 'test'});
	const list = async (query: string, key = api.key) =>
		(await api.get(`/v1/messages?${query}`, key)).body as {data: Array<{id: string}>; next_cursor: string | null};
	const idsOf = async (query: string, key?: string) => (await list(query, key)).data.map(({id}) => id);
	const [first, cancelled, moved, now] = [
		idOf(await api.send({sendAt: '+2h', cc: ['copy@example.org']})),
		idOf(await api.send({sendAt: '+3h'})),
		idOf(await api.send()),
		idOf(await api.send({sendAt: '+1h'})),
	];
	await api.post(`/v1/messages/${cancelled}/cancel`, {});
	await api.patch(`/v1/messages/${moved}`, {sendAt: '+1d'});
	await api.patch(`/v1/messages/${now}`, {sendAt: '+0s'});
	t.deepEqual(await idsOf('scheduled=true'), [moved, first]);
	t.deepEqual(await idsOf('scheduled=true&recipient=other@example.org'), []);
	t.deepEqual(await idsOf('scheduled=true', testKey), []);
	const {data, next_cursor: cursor} = await list('scheduled=true&limit=1');
	t.is(data[0]?.id, moved);
	t.deepEqual(await idsOf(`scheduled=true&limit=1&cursor=${cursor}`), [first]);
	t.is(codeOf(await api.get(`/v1/messages?limit=1&cursor=${cursor}`)), 'validation_failed', 'it is of another list');
	t.is(codeOf(await api.get('/v1/messages?scheduled=false')), 'validation_failed');
});

sqliteTest(test, 'does not change a claimed message or find a foreign one', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.send({cc: ['copy@example.org'], sendAt: '+2h'}));
	const testKey = await addKey(store, api.workspace.id, {mode: 'test'});
	const foreign = await addKey(store, (await addWorkspace(store, 'other')).id);
	for (const [path, key] of [
		[id, testKey],
		[id, foreign],
		['msg_x', api.key],
		[newId('msg'), api.key],
	] as const) {
		t.is(codeOf(await api.post(`/v1/messages/${path}/cancel`, {}, key)), 'message_not_found');
		t.is(codeOf(await api.patch(`/v1/messages/${path}`, {sendAt: '+2h'}, key)), 'message_not_found');
	}
	const [copy] = await store.reader('recipients').where({message_id: id, role: 'cc'}).pluck('id');
	await store.database('claims').insert({recipient_id: copy, claimed_by: 'node', attempts: 0, until: later(minute)});
	t.is(codeOf(await api.post(`/v1/messages/${id}/cancel`, {})), 'not_cancellable');
	t.is(codeOf(await api.patch(`/v1/messages/${id}`, {sendAt: '+3h'})), 'not_cancellable');
	t.is((await queueOf(api, id)).length, 2);
});

sqliteTest(
	test,
	'changes a message that a daemon returned unsent, but not one that may have been sent',
	async (t, store) => {
		const api = await startApi(t, store);
		const given = idOf(await api.send({cc: ['copy@example.org']}));
		const lost = idOf(await api.send({}));
		const claimed = {attempts: 0, until: later(minute)};
		for (const [message, node] of [
			[given, 'stopped'],
			[lost, 'killed'],
		] as const) {
			const ids: string[] = await store.reader('recipients').where({message_id: message}).pluck('id');
			for (const id of ids) {
				await store
					.database('claims')
					.insert({...claimed, recipient_id: id, claimed_by: node, queued: newId('evt')});
			}
			t.is(codeOf(await api.post(`/v1/messages/${message}/cancel`, {})), 'not_cancellable');
		}
		await store.writer.transaction(async trx => {
			await releaseOwn(trx, recipientClaims, 'stopped', later(0));
			await releaseOthers(trx, recipientClaims, 'other', later(0));
		});
		t.like((await api.patch(`/v1/messages/${given}`, {sendAt: '+2h'})).body, {status: 'queued'});
		t.like((await api.post(`/v1/messages/${given}/cancel`, {})).body, {status: 'errored'});
		t.deepEqual(await queueOf(api, given), []);
		t.is(codeOf(await api.post(`/v1/messages/${lost}/cancel`, {})), 'not_cancellable');
		t.is((await queueOf(api, lost)).length, 1);
	},
);

const generationOf = async ({store}: TestApi) => await readGeneration(store.reader);

sqliteTest(test, 'daemons reread the queue only if a message becomes due sooner', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.send({sendAt: '+2h'}));
	const before = await generationOf(api);
	await api.patch(`/v1/messages/${id}`, {sendAt: '+3h'});
	t.is(await generationOf(api), before);
	await api.patch(`/v1/messages/${id}`, {sendAt: '+1h'});
	t.true((await generationOf(api)) > before);
});

/** On these days, clocks in Central Europe go forward and back at 01:00 UTC. */
const changes = {
	'2026-03-29': {
		'+2h': '02:30:00',
		'2026-03-29T01:59:59+01:00': '00:59:59',
		'2026-03-29T03:00:01+02:00': '01:00:01',
		// No local clock shows this time, but it exists.
		'2026-03-29T02:30:00+01:00': '01:30:00',
	},
	'2026-10-25': {
		'+2h': '02:30:00',
		// Local clocks show this time twice.
		'2026-10-25T02:45:00+02:00': '00:45:00',
		'2026-10-25T02:45:00+01:00': '01:45:00',
		'2026-10-25T03:00:00+01:00': '02:00:00',
	},
};

for (const [day, times] of Object.entries(changes)) {
	sqliteTest(test, `uses UTC offsets and elapsed time when clocks change on ${day}`, async (t, store) => {
		process.env.TZ = 'Europe/Berlin';
		t.not(new Date(`${day}T00:30:00Z`).getTimezoneOffset(), new Date(`${day}T02:30:00Z`).getTimezoneOffset());
		const clock = {...systemClock, now: () => Date.parse(`${day}T00:30:00Z`)};
		const api = await startApi(t, store, {clock});
		for (const [sendAt, at] of Object.entries(times)) {
			const id = idOf(await api.send({sendAt}));
			t.deepEqual(
				await queueOf(api, id),
				[{send_at: `${day}T${at}.000Z`, next_attempt_at: `${day}T${at}.000Z`}],
				sendAt,
			);
			t.like((await api.get(`/v1/messages/${id}`)).body, {send_at: `${day}T${at}+00:00`});
		}
	});
}

sqliteTest(test, 'a send with an expiry is queued and returned with both times', async (t, store) => {
	const api = await startApi(t, store);
	const [at, end] = [later(60 * minute), later(61 * minute + 1000)];
	const id = idOf(await api.send({sendAt: at, expiresAt: end, cc: ['copy@example.org']}));
	const rows = await store.reader('queue').select('send_at', 'expires_at');
	t.deepEqual(rows, Array(2).fill({send_at: at, expires_at: end}));
	const [send_at, expires_at] = [at, end].map(time => `${time.slice(0, 19)}+00:00`);
	t.like((await api.get(`/v1/messages/${id}`)).body, {status: 'accepted', send_at, expires_at});

	const late = await api.patch(`/v1/messages/${id}`, {sendAt: later(60 * minute + 2000)});
	t.is(codeOf(late), 'unprocessable_entity');
	t.regex(late.text, /"the time must be at least a minute before the message expires at /);
	const moved = await api.patch(`/v1/messages/${id}`, {sendAt: '+30m'});
	t.is(moved.status, 200, moved.text);
	t.like(moved.body, {expires_at});
	t.deepEqual(await store.reader('queue').pluck('expires_at'), [end, end]);
});

sqliteTest(test, 'rejects an invalid or early expiry and names the field, also in a batch', async (t, store) => {
	const api = await startApi(t, store);
	for (const [expiresAt, sendAt] of [
		['+59s'],
		['2020-01-01T00:00:00Z'],
		['soon'],
		[''],
		[5],
		['+2h', '+2h'],
		[later(61 * minute), later(60 * minute + 1000)],
	]) {
		const answer = await api.send({expiresAt, ...(sendAt && {sendAt})});
		t.is(codeOf(answer), 'validation_failed', String(expiresAt));
		t.like(answer.body, {error: {violations: [{field: 'expiresAt'}]}});
	}
	const both = await api.send({expiresAt: 'soon', sendAt: 'never'});
	t.like(both.body, {error: {violations: [{field: 'sendAt'}, {field: 'expiresAt'}]}});
	const item = {from: api.workspace.sender, to: 'user@example.org', templateId: api.workspace.templateId};
	const {body} = await api.post('/v1/messages/batch', {
		messages: [
			{...item, expiresAt: '+60s'},
			{...item, sendAt: '+2h', expiresAt: '+121m'},
			{...item, expiresAt: '+1s'},
		],
	});
	const {data} = body as {data: ReadonlyArray<{status: string}>};
	t.deepEqual(
		data.map(({status}) => status),
		['accepted', 'accepted', 'error'],
	);
	t.is((await store.reader('queue').whereNotNull('expires_at')).length, 2);
});
