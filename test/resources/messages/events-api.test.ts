import {once} from 'node:events';
import {connect} from 'node:net';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {systemClock} from '../../../src/kit/clock.ts';
import {apiKeyHash} from '../../../src/mail/api-key.ts';
import {type StreamPosition, streamIds} from '../../../src/resources/messages/events-api.ts';
import {insertEvents} from '../../../src/store/timeline.ts';
import {codeOf, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {newStore, sqliteTest} from '../../helpers/databases.ts';
import {openStream, type StreamMessage} from '../../helpers/event-stream.ts';
import {newEvent} from '../../helpers/events.ts';
import {endTry, startFirstTry} from '../../helpers/first-try.ts';
import {testVault} from '../../helpers/tools.ts';
import {waitFor} from '../../helpers/wait.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

/** Returns the next messages of a stream. */
async function next(stream: Awaited<ReturnType<typeof openStream>>, count: number): Promise<StreamMessage[]> {
	const messages: StreamMessage[] = [];
	while (messages.length < count) {
		messages.push((await stream.message()) as StreamMessage);
	}
	return messages;
}

const write = (api: TestApi, messageId: string, ...types: Array<Parameters<typeof newEvent>[1]>) =>
	api.store.writer.transaction(trx =>
		insertEvents(
			trx,
			types.map(type => newEvent(messageId, type)),
		),
	);

const idsOf = ({workspace}: TestApi) => streamIds(testVault, workspace.id);
/** Returns the query that starts a stream after a position. */
const behind = (api: TestApi, position: number) => `?after=${idsOf(api).write({position, eventId: null})}`;
/** Returns messages without their IDs, which are encrypted anew each time. */
const told = (messages: readonly StreamMessage[]) => messages.map(({event, data}) => ({event, data}));

const refused = async (t: ExecutionContext, api: TestApi, options: Parameters<typeof openStream>[3]) => {
	const {response} = await openStream(t, api.base, api.key, options);
	return response.status;
};

sqliteTest(test, 'a stream sends new events and resumes after the last event ID', async (t, store) => {
	const api = await startApi(t, store);
	await api.send();
	const stream = await openStream(t, api.base, api.key);
	t.is(stream.response.status, 200);
	t.is(stream.response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
	t.is(stream.response.headers.get('cache-control'), 'no-cache');
	t.regex((await stream.block()) ?? '', /^: heartbeat\nid: v1\.1\.[\w-]+$/);
	const id = idOf(await api.send());
	const [accepted] = await next(stream, 1);
	const {data: timeline} = (await api.get(`/v1/messages/${id}/events`)).body as {data: object[]};
	t.deepEqual(accepted?.data, {...timeline[0], message_id: id, mode: 'live'});
	t.is(accepted?.event, 'accepted');
	t.like(idsOf(api).read(accepted?.id ?? ''), {eventId: accepted?.data.id});
	stream.close();

	await write(api, id, 'sent', 'delivered');
	const lastEventId = accepted?.id ?? '';
	for (const options of [{headers: {'last-event-id': lastEventId}}, {query: `?after=${lastEventId}`}]) {
		const [sent, delivered] = await next(await openStream(t, api.base, api.key, options), 2);
		t.deepEqual([sent?.event, delivered?.event], ['sent', 'delivered']);
	}
	const before = await openStream(t, api.base, api.key, {
		query: `?after=${lastEventId}`,
		headers: {
			'last-event-id':
				(await next(await openStream(t, api.base, api.key, {query: `?after=${lastEventId}`}), 1))[0]?.id ?? '',
		},
	});
	t.is((await next(before, 1))[0]?.event, 'delivered', 'the header goes before the query');
});

sqliteTest(test, 'misses nothing across a restart, even on a stream that had no event yet', async (t, store) => {
	const first = await startApi(t, store);
	const id = idOf(await first.send());
	const stream = await openStream(t, first.base, first.key);
	const start = /^id: (.+)$/m.exec((await stream.block()) ?? '')?.[1] ?? '';
	stream.close();
	await write(first, id, 'queued', 'sent');
	const second = await startApi(t, store, {like: first});
	await write(second, id, 'delivered');
	const again = await openStream(t, second.base, second.key, {headers: {'last-event-id': start}});
	t.deepEqual(
		(await next(again, 3)).map(({event}) => event),
		['queued', 'sent', 'delivered'],
	);
});

sqliteTest(test, 'a stream can resume after any event, including events that share a row', async (t, store) => {
	const {api, id, boot, recipient} = await startFirstTry(t, store);
	await endTry(store, boot, recipient, {kind: 'delivered'}, new Date().toISOString());
	await write(api, id, 'opened');
	t.is((await store.reader('events')).length, 2);
	const from = (after: string, types = '') =>
		openStream(t, api.base, api.key, {query: `?after=${after}${types && `&types=${types}`}`});
	const all = await next(await openStream(t, api.base, api.key, {query: behind(api, 0)}), 5);
	t.deepEqual(
		all.map(({event}) => event),
		['accepted', 'queued', 'sent', 'delivered', 'opened'],
	);
	const {data: timeline} = (await api.get(`/v1/messages/${id}/events`)).body as {data: object[]};
	t.deepEqual(
		all.map(({data}) => data),
		timeline.map(event => ({...event, message_id: id, mode: 'live'})),
	);
	await write(api, id, 'clicked');
	const [clicked] = await next(await from(all.at(-1)?.id ?? ''), 1);
	for (const [n, {id: place}] of all.entries()) {
		const rest = [...all.slice(n + 1), clicked as StreamMessage];
		t.deepEqual(told(await next(await from(place), rest.length)), told(rest), `behind ${all[n]?.event}`);
	}
	const queued = all[1]?.id ?? '';
	t.deepEqual(
		told(await next(await from(queued, 'delivered,clicked'), 2)),
		told([all[3], clicked] as StreamMessage[]),
	);
	const {position} = idsOf(api).read(queued) as StreamPosition;
	for (const eventId of [newEvent(id).id, `${all[0]?.data.id}`]) {
		t.is(
			await from(idsOf(api).write({position, eventId})).then(({response}) => response.status),
			422,
			'not at this place',
		);
	}
});

sqliteTest(
	test,
	'a stream has only the events of its workspace, of test messages for a test key, and of `types`',
	async (t, store) => {
		const api = await startApi(t, store);
		const globex = await addWorkspace(store, 'globex');
		const foreignKey = await addKey(store, globex.id);
		const foreign = await openStream(t, api.base, foreignKey);
		const ofTests = await addKey(store, api.workspace.id, {mode: 'test'});
		const [all, tests, chosen] = await Promise.all([
			openStream(t, api.base, api.key),
			openStream(t, api.base, ofTests),
			openStream(t, api.base, api.key, {query: '?types=delivered,opened'}),
		]);
		const [live, tested] = [idOf(await api.send()), idOf(await api.send({}, ofTests))];
		await write(api, live, 'delivered');
		await write(api, tested, 'sent', 'opened');
		const modes = (messages: readonly StreamMessage[]) => messages.map(({event, data}) => `${event} ${data.mode}`);
		t.deepEqual(modes(await next(all, 5)), [
			'accepted live',
			'accepted test',
			'delivered live',
			'sent test',
			'opened test',
		]);
		t.deepEqual(modes(await next(tests, 3)), ['accepted test', 'sent test', 'opened test']);
		t.deepEqual(modes(await next(chosen, 2)), ['delivered live', 'opened test']);
		const [, {id: last} = {id: ''}] = await next(
			await openStream(t, api.base, api.key, {query: behind(api, 0)}),
			2,
		);
		t.is(await refused(t, api, {headers: {'last-event-id': last}}), 200);
		const {response} = await openStream(t, api.base, foreignKey, {headers: {'last-event-id': last}});
		t.is(response.status, 422, 'the event of another workspace');
		const own = idOf(await api.send({from: globex.sender, templateId: globex.templateId}, foreignKey));
		t.is((await next(foreign, 1))[0]?.data.message_id, own);
	},
);

test('refuses an invalid stream position, a key without the scope and unknown types', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	await api.send();
	const [accepted] = await next(await openStream(t, api.base, api.key, {query: behind(api, 0)}), 1);
	t.is(await refused(t, api, {headers: {'last-event-id': ''}}), 200, 'as a browser that has none');
	const {id = '', data} = accepted as StreamMessage;
	const changed = `${id.slice(0, -4)}AAAA`;
	const ofOther = streamIds(testVault, 'ws_other').write({position: 0, eventId: null});
	const later = idsOf(api).write({position: 2, eventId: null});
	for (const place of ['x', '0', '1', `${data.id}`, `${data.id}-1`, changed, ofOther, later, `${'a'.repeat(9)}`]) {
		const answer = await api.get(`/v1/events?after=${place}`);
		t.is(answer.status, 422, place);
		t.like(answer.body, {error: {code: 'validation_failed', violations: [{field: 'after'}]}});
		const header = await fetch(`${api.base}/v1/events`, {
			headers: {authorization: `Bearer ${api.key}`, 'last-event-id': place},
		});
		t.like(await header.json(), {error: {violations: [{field: 'Last-Event-ID'}]}});
	}
	for (const types of ['', 'delivered,', 'nothing', 'delivered,delivered2']) {
		t.like((await api.get(`/v1/events?types=${types}`)).body, {error: {violations: [{field: 'types'}]}}, types);
	}
	const bare = await addKey(store, api.workspace.id, {scopes: '["messages:read"]'});
	t.is(codeOf(await api.get('/v1/events', bare)), 'insufficient_scope');
	// Retention may have removed the message in the meantime.
	await store.database('messages').delete();
	t.is(await refused(t, api, {headers: {'last-event-id': accepted?.id ?? ''}}), 200);
});

test('a stream ends when its key is revoked, expires or loses the scope', async t => {
	const store = await newStore(t, 'sqlite');
	let now = Date.now();
	const api = await startApi(t, store, {clock: {...systemClock, now: () => now}});
	const change = (key: string, fields: object) =>
		store
			.database('api_keys')
			.where({hash: apiKeyHash(key)})
			.update(fields);
	const changes: Array<(key: string) => Promise<unknown>> = [
		key => change(key, {revoked_at: new Date(now).toISOString()}).then(api.clear),
		key => change(key, {scopes: '["messages:read"]'}).then(api.clear),
		async () => {
			now += 3_600_000;
		},
	];
	for (const revoke of changes) {
		const key = await addKey(store, api.workspace.id, {expires_at: new Date(now + 3_000_000).toISOString()});
		const stream = await openStream(t, api.base, key);
		await stream.block();
		await revoke(key);
		t.is(await stream.message(), null);
	}
});

test('sends heartbeats with the current position while there are no events', async t => {
	let monotonic = 0;
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store, {clock: {...systemClock, monotonic: () => monotonic}});
	const id = idOf(await api.send());
	const stream = await openStream(t, api.base, api.key, {query: '?types=opened'});
	const beaten = async () => idsOf(api).read(/^: heartbeat\nid: (.+)$/.exec((await stream.block()) ?? '')?.[1] ?? '');
	t.deepEqual(await beaten(), {position: 1, eventId: null});
	await write(api, id, 'delivered');
	monotonic += 15_000;
	let beat = await beaten();
	if (beat?.position === 1) {
		// This heartbeat may come from a read that started before the event was written. The next one includes it.
		monotonic += 15_000;
		beat = await beaten();
	}
	t.deepEqual(beat, {position: 2, eventId: null});
	await write(api, id, 'opened');
	t.is((await stream.message())?.event, 'opened');
});

test('allows ten streams per key, frees one when it closes, and counts no HEAD request', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const streams = await Promise.all(Array.from({length: 10}, () => openStream(t, api.base, api.key)));
	t.true(streams.every(({response}) => response.status === 200));
	const eleventh = await api.get('/v1/events');
	t.is(codeOf(eleventh), 'rate_limited');
	t.is(eleventh.headers.get('retry-after'), '15');
	const headers = {authorization: `Bearer ${api.key}`};
	const head = await fetch(`${api.base}/v1/events`, {method: 'HEAD', headers});
	t.is(head.status, 200);
	t.is(head.headers.get('content-type'), 'text/event-stream; charset=utf-8');
	const other = await openStream(t, api.base, await addKey(store, api.workspace.id));
	t.is(other.response.status, 200);
	streams[0]?.close();
	await waitFor('a seat is free', async () => (await refused(t, api, {})) === 200);
});

test('stops reading events for a client that does not read, and can still shut down', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	const id = idOf(await api.send());
	const big = {...newEvent(id), detail: JSON.stringify({reply: 'x'.repeat(10_000)})};
	const count = 3000;
	await store.writer.transaction(trx =>
		insertEvents(
			trx,
			Array.from({length: count}, () => ({...big, id: newEvent(id).id})),
		),
	);
	let reads = 0;
	store.reader.on('query', ({sql}) => {
		reads += sql.includes('join messages') ? 1 : 0;
	});
	const socket = connect(Number(new URL(api.base).port), '127.0.0.1');
	t.teardown(() => socket.destroy());
	socket.on('error', () => undefined);
	socket.pause();
	await once(socket, 'connect');
	socket.write(`GET /v1/events${behind(api, 0)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.key}\r\n\r\n`);
	// What another stream reads meanwhile shows that time has passed.
	const reading = await openStream(t, api.base, api.key, {query: behind(api, 1)});
	await next(reading, count);
	const readByOther = Math.ceil(count / 200);
	t.true(reads < readByOther + 10, `${reads} reads`);
	await api.stop();
	const closed = once(socket, 'close');
	socket.resume();
	await closed;
	t.true(socket.bytesRead < (count * 10_000) / 2);
	t.is(await reading.message(), null);
});

test('reads a stream position only from an event ID of the same workspace', t => {
	const ids = streamIds(testVault, 'ws_1');
	fc.assert(
		fc.property(fc.nat(), fc.option(fc.constant(newEvent('').id)), (position, eventId) => {
			const id = ids.write({position, eventId});
			t.regex(id, /^[\w.-]+$/);
			t.deepEqual(ids.read(id), {position, eventId});
			t.is(streamIds(testVault, 'ws_2').read(id), null);
			t.is(id.length, ids.write({position: 0, eventId}).length);
		}),
	);
	fc.assert(
		fc.property(fc.oneof(fc.string(), fc.stringMatching(/^v1\.1\.[\w-]*$/)), text => t.is(ids.read(text), null)),
	);
});
