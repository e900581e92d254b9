import test from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import type {Attempt, AttemptResult} from '../../../src/mail/outcome.ts';
import {createRecordWrite} from '../../../src/outcome/record.ts';
import {decideNext} from '../../../src/outcome/settle.ts';
import type {unanswered} from '../../../src/store/postgres/postgres-client.ts';
import {createClaimWrite} from '../../../src/store/queue/claims.ts';
import type {Store} from '../../../src/store/store.ts';
import {startApi} from '../../helpers/api.ts';
import {engines, newStore, onWriting} from '../../helpers/databases.ts';
import {eventWriter, newId} from '../../helpers/messages.ts';
import {recipientRows} from '../../helpers/recipient-rows.ts';

type Sent = {readonly sql: string; readonly options?: typeof unanswered};

/** Counts the round trips of connections that write: PostgreSQL's statements sent after waiting for a result. */
function countTrips(store: Store): () => number {
	let [trips, isAnswered] = [0, true];
	onWriting(store, 'query', () => {
		trips += isAnswered ? 1 : 0;
		isAnswered = false;
	});
	for (const connection of store.writing) {
		connection.on('query-response', (_response: unknown, {sql, options}: Sent) => {
			isAnswered ||= options?.unanswered !== true && !sql.startsWith('begin');
		});
	}
	return () => {
		const counted = trips;
		[trips, isAnswered] = [0, true];
		return counted;
	};
}

/**
 * Counts what SQLite's driver runs: each awaited statement, and before it, as one, those that are not awaited. What a
 * feature adds here, every message pays for.
 */
function countRuns(store: Store): () => number {
	let [runs, hasWaiting] = [0, false];
	for (const connection of store.writing) {
		connection.on('query', ({options}: Sent) => {
			const isAwaited = options?.unanswered !== true;
			runs += isAwaited ? (hasWaiting ? 2 : 1) : 0;
			hasWaiting = !isAwaited;
		});
	}
	return () => {
		const counted = runs;
		[runs, hasWaiting] = [0, false];
		return counted;
	};
}

/** What a batch costs: of accepts, of claims, of outcomes. */
const trips = {postgres: [2, 2, 3], sqlite: [4, 4, 7]} as const;

for (const engine of engines) {
	test(`a batch takes few round trips (${engine})`, async t => {
		const store = await newStore(t, engine);
		// In one minute: a key's use is noted in each.
		const now = Date.now();
		const api = await startApi(t, store, {clock: {now: () => now, monotonic: () => 0}});
		const count = engine === 'postgres' ? countTrips(store) : countRuns(store);
		const [accept, claims, outcomes] = trips[engine];
		const {sender: from, templateId} = api.workspace;
		const send = async (to: string) => t.is((await api.post('/v1/messages', {from, to, templateId})).status, 202);
		// The first use of a key is noted, and so is a month.
		await send('first@a.test');
		await Promise.all(Array.from({length: 20}, (_, n) => send(`p${n}@a.test`)));
		await store.writer.idle();
		count();
		await send('last@a.test');
		t.is(count(), accept, 'an accept');
		const [row] = await recipientRows(store.reader);
		const boot = newId('req');
		const claim = createClaimWrite({dialect: store.dialect, boot, newId, clock: systemClock});
		const queue = {destination: 'a.test', workspaceId: row.workspace_id};
		const {recipients} = await store.writer.submit(claim, {
			...queue,
			...{limit: 50, newestFirst: false, lastsMs: 60_000, asksNext: false, warmUp: null},
		});
		t.is(recipients.length, 22);
		t.is(count(), claims, 'a claim');
		const at = new Date().toISOString();
		const attempt: Attempt = {
			...{
				at,
				host: 'mx.test',
				ip: '192.0.2.1',
				tls: null,
				phase: 'dot',
				code: 250,
				enhanced: null,
				reply: 'ok',
				ms: 1,
			},
			dialogue: null,
		};
		const record = createRecordWrite(boot, eventWriter);
		const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 3_600_000};
		await Promise.all(
			recipients.map(async recipient => {
				const result: AttemptResult = {
					...{recipientId: recipient.id, outcome: {kind: 'delivered'}, attempts: [attempt], sentAt: null, at},
				};
				const end = {result, acceptedAt: Date.now(), attempts: 0, sentBefore: false, retry};
				const verdict = decideNext(end, Date.now(), Math.random);
				await store.writer.submit(record, {recipient, rendered: null, result, verdict, crashes: 0});
			}),
		);
		t.is(count(), outcomes, 'outcomes, all in one transaction');
	});
}
