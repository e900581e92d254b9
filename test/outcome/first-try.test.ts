import test from 'ava';
import type {Knex} from 'knex';
import {storeTime} from '../../src/kit/time.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {endByOperator} from '../../src/outcome/settle.ts';
import {readStream} from '../../src/store/event-stream.ts';
import {
	recipientClaims,
	releaseOthers,
	releaseOwn,
	releaseSilentClaims,
	releaseUnknownClaims,
} from '../../src/store/held-claims.ts';
import {beat, removeNode} from '../../src/store/nodes.ts';
import type {Claimed} from '../../src/store/queue/claims.ts';
import {holdAll, holdRecipients} from '../../src/store/queue/open-recipients.ts';
import {listQueue, readRecipientFacts} from '../../src/store/queue/queue-summary.ts';
import {moveRecipients} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {readLastPosition} from '../../src/store/timeline.ts';
import {idOf} from '../helpers/api.ts';
import {conforms} from '../helpers/conforms.ts';
import {engines, newStore, sqliteTest, storeTest} from '../helpers/databases.ts';
import {claimDue, endTry, judgedOf, seen, startFirstTry, typesOf} from '../helpers/first-try.ts';
import {eventWriter, newId} from '../helpers/messages.ts';
import {recipientRows} from '../helpers/recipient-rows.ts';
import {hard, reading, record, returnPath} from '../helpers/reports.ts';
import {waitFor} from '../helpers/wait.ts';

const now = () => storeTime(Date.now());
const rowsOf = async (store: Store) => Number((await store.reader('events').count('* as n').first())?.n);

storeTest(test, 'shows a recipient in its first attempt as queued everywhere, without storing it', async (t, store) => {
	conforms(t, 'status.queued');
	const {api, id, recipient} = await startFirstTry(t, store, {cc: ['bob@b.test']});
	const during = await seen(api, id);
	t.like(during, {status: 'queued', listed: ['queued']});
	t.deepEqual(typesOf(during), ['accepted', 'queued']);
	t.deepEqual(
		during.recipients.map(({role, state}) => `${role} ${state}`),
		['to queued', 'cc accepted'],
	);
	t.is(during.updated_at, during.events[1]?.occurred_at ?? '');
	t.is(during.recipients[0]?.state_at, during.updated_at);
	const [facts] = await readRecipientFacts(store.reader, [recipient.id]);
	const [waiting] = await listQueue(store.reader, {destinations: ['a.test'], limit: 9});
	t.deepEqual([facts?.state, waiting?.state], ['queued', 'queued']);
	const first = await api.get(`/v1/messages/${id}/events?limit=1`);
	const {data, next_cursor: next} = first.body as {data: object[]; next_cursor: string};
	t.like(data, [{type: 'accepted'}]);
	t.like((await api.get(`/v1/messages/${id}/events?limit=1&cursor=${next}`)).body, {data: [{type: 'queued'}]});
	t.is(await rowsOf(store), 0);
	t.is((await recipientRows(store.reader).where({id: recipient.id}).first()).state, 'accepted');
});

type End = (store: Store, recipient: Claimed, boot: string) => Promise<unknown>;

const releases: Record<string, End> = {
	'its daemon stops': (store, _, boot) =>
		store.writer.transaction(trx => releaseOwn(trx, recipientClaims, boot, now())),
	'another daemon begins': store =>
		store.writer.transaction(trx => releaseOthers(trx, recipientClaims, 'req_x', now())),
	'its node falls silent': (store, _, boot) =>
		store.writer.transaction(async trx => {
			await beat(
				trx,
				{id: boot, host: 'h', pid: 1, version: '1', roles: ['deliver']},
				'2026-01-01T00:00:00.000Z',
			);
			await releaseSilentClaims(trx, '2026-01-02T00:00:00.000Z', now());
		}),
	'nobody knows of it': (store, _, boot) =>
		store.writer.transaction(trx => releaseUnknownClaims(trx, boot, [newId('rcp')], now())),
	'the store is restored and held': store => store.writer.transaction(trx => holdAll(trx, now())),
	'an operator holds what a dead daemon has': (store, {id}) =>
		store.writer.transaction(trx => holdRecipients(trx, {ids: [id], now: now(), silentSince: now()})),
	'it is deferred before a host took it': (store, recipient, boot) =>
		endTry(store, boot, recipient, {kind: 'deferred', category: 'network', reason: 'connect ETIMEDOUT'}),
	'it is given back by its try': (store, recipient, boot) => endTry(store, boot, recipient, {kind: 'released'}),
};

for (const [how, release] of Object.entries(releases)) {
	storeTest(test, `keeps what was shown of a first attempt when ${how}`, async (t, store) => {
		const {api, id, recipient, boot} = await startFirstTry(t, store, {cc: ['bob@a.test']});
		await api.send({to: 'later@b.test'});
		const during = await seen(api, id);
		t.deepEqual(
			during.recipients.map(({role, state}) => `${role} ${state}`),
			['to queued', 'cc queued'],
		);
		// The times in the API are whole seconds.
		await waitFor('the next second', () => Date.now() > Date.parse(String(during.recipients[0]?.state_at)) + 1000);
		await release(store, recipient, boot);
		const after = await seen(api, id);
		const isOutcome = after.recipients[0]?.state_at !== during.recipients[0]?.state_at;
		t.is(isOutcome, how.includes('its try') || how.includes('deferred'), 'an outcome has a time of its own');
		const without = (one: typeof after) => ({
			...one,
			updated_at: '',
			recipients: one.recipients.map(({state}) => state),
		});
		t.deepEqual(isOutcome ? without(after) : after, isOutcome ? without(during) : during);
		t.is(await rowsOf(store), 1);
		// The next claim adds no event.
		await store.database('queue').update({next_attempt_at: now(), held_at: null});
		await store.database('claims').delete();
		const [again] = (await claimDue(api, boot)).filter(({role}) => role === 'to');
		t.is(again?.queued, null);
		t.deepEqual((await seen(api, id)).events, after.events);
		t.true(await endTry(store, boot, again as Claimed, {kind: 'delivered'}, now()));
		const ended = await seen(api, id);
		t.deepEqual(ended.events.slice(0, 2), [...during.events]);
		t.deepEqual(typesOf(ended), ['accepted', 'queued', 'sent', 'delivered']);
		t.is(await rowsOf(store), 2);
	});
}

const bounced = {kind: 'bounced', type: 'permanent', category: 'policy', reason: 'no', suppresses: false} as const;
const ends = {
	delivered: [{kind: 'delivered'}, true, ['sent', 'delivered']],
	sent: [{kind: 'relayed'}, true, ['sent']],
	bounced: [bounced, true, ['sent', 'bounced']],
	errored: [{kind: 'errored', reason: 'template_error'}, false, ['errored']],
	suppressed: [{kind: 'suppressed', reason: 'suppressed'}, false, ['suppressed']],
} as const;

for (const [state, [outcome, wasSent, types]] of Object.entries(ends)) {
	sqliteTest(
		test,
		`stores one row with everything shown before for a first attempt that ends ${state}`,
		async (t, store) => {
			const {api, id, recipient, boot} = await startFirstTry(t, store);
			const during = await seen(api, id);
			t.true(await endTry(store, boot, recipient, outcome, wasSent ? now() : null));
			const after = await seen(api, id);
			t.is(after.status, state);
			t.deepEqual(after.events.slice(0, 2), [...during.events]);
			t.deepEqual(typesOf(after).slice(2), [...types]);
			t.is(await rowsOf(store), 1);
			for (const event of after.events.slice(2)) {
				t.like(event, {detail: {recipient: 'ada@a.test', role: 'to'}});
			}
		},
	);
}

storeTest(
	test,
	'adds no queued event for a cc recipient, whatever the outcome of its first attempt',
	async (t, store) => {
		const {api, id, boot} = await startFirstTry(t, store, {cc: ['bob@b.test', 'eve@b.test']});
		const [bob, eve] = await claimDue(api, boot, 'b.test');
		t.true(await endTry(store, boot, bob as Claimed, {kind: 'delivered'}, now()));
		t.true(await endTry(store, boot, eve as Claimed, {kind: 'released'}));
		const {recipients, ...all} = await seen(api, id);
		t.deepEqual(
			recipients.map(({state}) => state),
			['queued', 'delivered', 'queued'],
		);
		t.deepEqual(typesOf({recipients, ...all}), ['accepted', 'queued', 'sent', 'delivered']);
	},
);

storeTest(test, 'records `queued` once for an attempt that was released and claimed again', async (t, store) => {
	const {api, id, recipient, boot} = await startFirstTry(t, store);
	const during = await seen(api, id);
	await store.writer.transaction(trx => releaseOwn(trx, recipientClaims, boot, now()));
	t.is((await claimDue(api, boot)).length, 1);
	// It is not known which of its claims this attempt had.
	t.true(await endTry(store, boot, recipient, {kind: 'delivered'}, now()));
	const after = await seen(api, id);
	const upTo = await readLastPosition(store.reader);
	const {events: streamed} = await readStream(store.reader, api.workspace.id, {after: 0, upTo});
	t.deepEqual(
		streamed.map(event => event.id),
		after.events.map(event => event.id),
	);
	t.deepEqual(after.events.slice(0, 2), [...during.events]);
	t.deepEqual(typesOf(after), ['accepted', 'queued', 'sent', 'delivered']);
});

storeTest(test, 'adds a bounce reported during the first attempt after `queued`', async (t, store) => {
	const {api, id, recipient, boot} = await startFirstTry(t, store);
	const during = await seen(api, id);
	const row = await recipientRows(store.reader).where({id: recipient.id}).first();
	await record(store, reading([hard]), {to: [returnPath(row)]});
	const reported = await seen(api, id);
	t.like(reported, {status: 'bounced', listed: ['bounced']});
	t.deepEqual(reported.events.slice(0, 2), [...during.events]);
	t.deepEqual(typesOf(reported), ['accepted', 'queued', 'bounced']);
	t.true(await endTry(store, boot, recipient, {kind: 'delivered'}, now()));
	const after = await seen(api, id);
	t.is(after.status, 'bounced');
	t.deepEqual(after.events.slice(0, 3), [...reported.events]);
	t.deepEqual(typesOf(after), ['accepted', 'queued', 'bounced', 'sent', 'delivered']);
});

storeTest(
	test,
	'adds `queued` before the event when an operator ends the first attempt of a dead daemon',
	async (t, store) => {
		const {api, id, recipient, boot} = await startFirstTry(t, store);
		const during = await seen(api, id);
		const step = {ids: [recipient.id], now: now(), silentSince: '2026-01-01T00:00:00.000Z'};
		const node = {id: boot, host: 'h', pid: 1, version: '1', roles: ['deliver']} as const;
		await store.writer.transaction(trx => beat(trx, node, now()));
		t.is(
			(await store.writer.transaction(trx => endByOperator(trx, step, {kind: 'drop'}, eventWriter))).length,
			0,
			'it is tried',
		);
		t.deepEqual(await seen(api, id), during);
		await store.writer.transaction(trx => removeNode(trx, boot));
		t.is((await store.writer.transaction(trx => endByOperator(trx, step, {kind: 'drop'}, eventWriter))).length, 1);
		const after = await seen(api, id);
		t.is(after.status, 'errored');
		t.deepEqual(after.events.slice(0, 2), [...during.events]);
		t.deepEqual(typesOf(after), ['accepted', 'queued', 'errored']);
		t.false(await endTry(store, boot, recipient, {kind: 'delivered'}, now()));
	},
);

if (engines.includes('postgres')) {
	test('stores `queued` once when a report and the end of the first attempt coincide, in either order', async t => {
		const store = await newStore(t, 'postgres');
		const {api, id, recipient, boot} = await startFirstTry(t, store);
		const [during, row] = [
			await seen(api, id),
			await recipientRows(store.reader).where({id: recipient.id}).first(),
		];
		const isWaiting = async () => {
			const mine = store.reader('pg_stat_activity').whereRaw('datname = current_database()');
			return (await mine.where({wait_event_type: 'Lock'})).length > 0;
		};
		const report = await store.reader.transaction();
		t.teardown(() => (report.isCompleted() ? undefined : report.rollback()));
		await moveRecipients(report, [recipient.id], 'bounced', now());
		const ending = endTry(store, boot, recipient, {kind: 'delivered'}, now());
		await waitFor('the outcome to wait', isWaiting);
		t.deepEqual(await seen(api, id), during, 'nothing of it is committed');
		await report.commit();
		t.true(await ending);
		const after = await seen(api, id);
		t.is(after.status, 'bounced');
		t.deepEqual(after.events.slice(0, 2), [...during.events]);
		t.deepEqual(typesOf(after), ['accepted', 'queued', 'sent', 'delivered']);
		await record(store, reading([hard]), {to: [returnPath(row)]});
		t.deepEqual(typesOf(await seen(api, id)).slice(0, 4), typesOf(after), 'and later ones add to it');

		const next = idOf(await api.send({to: 'ada@b.test'}));
		const [other] = await claimDue(api, boot, 'b.test');
		const before = await seen(api, next);
		const outcome = await store.reader.transaction();
		t.teardown(() => (outcome.isCompleted() ? undefined : outcome.rollback()));
		await createRecordWrite(boot, eventWriter).apply(outcome, [
			judgedOf(other as Claimed, {kind: 'relayed'}, now()),
		]);
		const move = (trx: Knex.Transaction) => moveRecipients(trx, [other?.id ?? ''], 'bounced', now());
		const moving = store.writer.transaction(move);
		await waitFor('the report to wait', isWaiting);
		await outcome.commit();
		t.is((await moving).size, 1);
		const ended = await seen(api, next);
		t.is(ended.status, 'bounced');
		t.deepEqual(ended.events.slice(0, 2), [...before.events]);
		t.deepEqual(typesOf(ended), ['accepted', 'queued', 'sent']);
	});
}
