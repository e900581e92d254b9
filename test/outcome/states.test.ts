import test from 'ava';
import {canMove, type RecipientState, recipientStates} from '../../src/mail/message.ts';
import type {AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import {recordComplaints} from '../../src/outcome/complaint.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {decideNext} from '../../src/outcome/settle.ts';
import {type Claimed, readRecipient} from '../../src/store/queue/claims.ts';
import {moveRecipients} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {conforms} from '../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';

const now = Date.UTC(2026, 5, 9, 10, 0, 0);
const at = new Date(now).toISOString();
const boot = newId('req');
const recordWrite = createRecordWrite(boot, eventWriter);
const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 3_600_000};

const isOpen = (state: RecipientState) => ['accepted', 'queued', 'sent'].includes(state);

/** A recipient in this state, claimed by us; in a final state it has left the queue. */
async function recipientIn(store: Store, state: RecipientState): Promise<Claimed> {
	const {workspaceId} = await insertWorkspace(store, newId('ws'));
	await insertMessages(store, workspaceId, ['ada@a.test'], {due: now});
	const {id} = await recipientRows(store.reader).where({workspace_id: workspaceId}).first();
	const ended = isOpen(state) ? {} : {next_attempt_at: null};
	await changeRecipients(store.database, all => all.where({id}), {
		...{state, state_at: '2026-01-01', claimed_by: boot},
		...ended,
	});
	return (await readRecipient(store.reader, workspaceId, id)) as Claimed;
}

const rowOf = (store: Store, {id}: Claimed) => recipientRows(store.reader).where({id}).first();

async function timelineOf(store: Store, {message_id: messageId}: Claimed): Promise<string[]> {
	return (await readEvents(store.reader, messageId, {after: null, limit: 100})).map(({type}) => type);
}

/** Records the end of an attempt as the scheduler does. */
async function record(
	store: Store,
	recipient: Claimed,
	outcome: Outcome,
	sentAt: string | null = null,
): Promise<boolean> {
	const result: AttemptResult = {recipientId: recipient.id, outcome, attempts: [], sentAt, at};
	const end = {result, acceptedAt: now, attempts: 0, sentBefore: recipient.sent_at !== null, retry};
	const verdict = decideNext(end, now, Math.random);
	return await store.writer.submit(recordWrite, {recipient, rendered: null, result, verdict, crashes: 0});
}

storeTest(test, 'moves a state on a report exactly where the table allows it', async (t, store) => {
	for (const from of recipientStates) {
		for (const to of recipientStates) {
			const recipient = await recipientIn(store, from);
			const moved = await store.writer.transaction(trx => moveRecipients(trx, [recipient.id], to, at));
			t.is(moved.has(recipient.id), canMove(from, to), `${from} to ${to}`);
			const row = await rowOf(store, recipient);
			t.is(row.state, canMove(from, to) ? to : from);
			t.is(row.state_at, canMove(from, to) ? at : '2026-01-01');
			t.is(row.next_attempt_at, canMove(from, to) || !isOpen(from) ? null : at);
		}
	}
});

const outcomes = {
	delivered: {kind: 'delivered'},
	sent: {kind: 'relayed'},
	bounced: {kind: 'bounced', type: 'transient', category: 'expired', reason: 'too late', suppresses: false},
	errored: {kind: 'errored', reason: 'template_error'},
	suppressed: {kind: 'suppressed', reason: 'suppressed'},
	queued: {kind: 'deferred', category: 'greylist', reason: '450 later'},
} as const satisfies Partial<Record<RecipientState, Outcome>>;

for (const [to, outcome] of Object.entries(outcomes) as Array<[RecipientState, Outcome]>) {
	sqliteTest(test, `moves a state exactly where allowed when an attempt ends ${to}`, async (t, store) => {
		conforms(t, ...(to === 'sent' ? ['status.sent'] : []));
		for (const from of recipientStates) {
			const recipient = await recipientIn(store, from);
			t.true(await record(store, recipient, outcome));
			const row = await rowOf(store, recipient);
			const moves = from === to || canMove(from, to);
			t.is(row.state, moves ? to : from, `${from} to ${to}`);
			t.is(row.claimed_by, null);
			t.is(row.next_attempt_at !== null, to === 'queued' && isOpen(from), `${from} to ${to}: in the queue`);
			// The event is recorded whether or not the state changes.
			t.deepEqual(await timelineOf(store, recipient), to === 'sent' || to === 'queued' ? [] : [to]);
		}
	});
}

storeTest(test, 'always records and suppresses on a complaint, and moves the state where allowed', async (t, store) => {
	for (const from of recipientStates) {
		const recipient = await recipientIn(store, from);
		const complaint = {
			recipient: {...recipient, address: 'Ada@a.test'},
			occurredAt: at,
			recordedAt: at,
			suppresses: true,
			detail: {feedback_type: 'abuse'},
		};
		await store.writer.transaction(trx => recordComplaints(trx, eventWriter, [complaint]));
		await store.writer.transaction(trx => recordComplaints(trx, eventWriter, [complaint]));
		t.is((await rowOf(store, recipient)).state, canMove(from, 'complained') ? 'complained' : from);
		const events = await readEvents(store.reader, recipient.message_id, {after: null, limit: 9});
		t.is(events.length, 2);
		t.like(events[0], {
			type: 'complained',
			occurredAt: at,
			detail: {recipient: 'Ada@a.test', role: 'to', feedback_type: 'abuse'},
		});
		const counted = await store.reader('usage_days').where({workspace_id: recipient.workspace_id}).first();
		t.is(counted?.n ?? 0, canMove(from, 'complained') ? 1 : 0, 'once at most');
		const entries = await store.reader('suppressions').where({workspace_id: recipient.workspace_id});
		t.is(entries.length, 1);
		t.like(entries[0], {address: 'Ada@a.test', reason: 'complaint', source: recipient.message_id});
	}
});

storeTest(test, 'keeps a complaint received during an attempt, and still records the attempt', async (t, store) => {
	const recipient = await recipientIn(store, 'queued');
	await store.writer.transaction(trx => moveRecipients(trx, [recipient.id], 'complained', at));
	t.true(await record(store, recipient, {kind: 'delivered'}, at));
	t.like(await rowOf(store, recipient), {state: 'complained', next_attempt_at: null, sent_at: at, attempts: 1});
	t.deepEqual(await timelineOf(store, recipient), ['sent', 'delivered']);
});

storeTest(test, 'does not record an attempt that another node has taken over', async (t, store) => {
	const recipient = await recipientIn(store, 'queued');
	await changeRecipients(store.database, all => all.where({id: recipient.id}), {claimed_by: 'req_other'});
	t.false(await record(store, recipient, {kind: 'delivered'}, at));
	t.like(await rowOf(store, recipient), {state: 'queued', claimed_by: 'req_other', next_attempt_at: at, attempts: 0});
	t.deepEqual(await timelineOf(store, recipient), []);
});

storeTest(test, 'records sent once per recipient, with its own time and before later events', async (t, store) => {
	const recipient = await recipientIn(store, 'queued');
	const sentAt = new Date(now - 5000).toISOString();
	t.true(await record(store, recipient, outcomes.queued, sentAt));
	t.is((await rowOf(store, recipient)).state, 'sent', 'a host took its MAIL FROM');
	await changeRecipients(store.database, all => all.where({id: recipient.id}), {claimed_by: boot});
	const again = (await readRecipient(store.reader, recipient.workspace_id, recipient.id)) as Claimed;
	t.true(await record(store, again, {kind: 'delivered'}, at));
	const events = await readEvents(store.reader, recipient.message_id, {after: null, limit: 9});
	t.deepEqual(
		events.map(({type, occurredAt, detail}) => [type, occurredAt, detail.recipient, detail.role]),
		[
			['sent', sentAt, 'ada@a.test', 'to'],
			['delivered', at, 'ada@a.test', 'to'],
		],
	);
});

storeTest(test, 'leaves a recipient queued without an event if all connections failed', async (t, store) => {
	const recipient = await recipientIn(store, 'queued');
	t.true(await record(store, recipient, outcomes.queued));
	t.is((await rowOf(store, recipient)).state, 'queued');
	t.deepEqual(await timelineOf(store, recipient), []);
});
