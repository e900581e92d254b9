import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import type {AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import type {Report} from '../../src/mail/report.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {decideNext} from '../../src/outcome/settle.ts';
import {type Claimed, readRecipient} from '../../src/store/queue/claims.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {storeTest} from '../helpers/databases.ts';
import {eventWriter, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {complaint, hard, mailed, reading, record, returnPath, soft, stateOf, suppressed} from '../helpers/reports.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';

const boot = newId('req');
const recordWrite = createRecordWrite(boot, eventWriter);
const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 1e12};
const at = storeTime(Date.now());
const delivered: Outcome = {kind: 'delivered'};
const refused: Outcome = {
	kind: 'bounced',
	type: 'permanent',
	category: 'unknown_user',
	reason: '550 5.1.1 User unknown',
	suppresses: true,
};

/** Retries a recipient after a lost reply; reports of the first attempt arrive before the second one ends. */
async function race(store: Store, reports: readonly Report[], outcome: Outcome, attempts = 1) {
	const mail = await mailed(store);
	await insertEndpoint(store, mail.workspaceId, {events: ['deferred']});
	const {to, workspaceId, messageId} = mail;
	const {database} = store;
	await changeRecipients(database, all => all.where({id: to.id}), {state: 'sent', attempts, claimed_by: boot});
	await database('attempts').insert({
		...{recipient_id: to.id, n: 1, position: 0, at, host: 'mx.a.test', phase: 'dot', reply: '', ms: 1},
	});
	const recipient = (await readRecipient(store.reader, workspaceId, to.id)) as Claimed;
	for (const report of reports) {
		await record(store, reading([report]), {to: [returnPath(to)]});
	}

	const result: AttemptResult = {recipientId: to.id, outcome, attempts: [], sentAt: at, at};
	const end = {result, acceptedAt: Date.now(), attempts: 1, sentBefore: true, retry};
	const verdict = decideNext(end, Date.now(), Math.random);
	const isMine = await store.writer.submit(recordWrite, {recipient, rendered: null, result, verdict, crashes: 0});
	const events = await readEvents(store.reader, messageId, {after: null, limit: 9});
	const days: Array<{status: string; n: number}> = await store.reader('usage_days').orderBy('status');
	const [hour] = await store.reader('reputation_hours');
	return {
		isMine,
		state: await stateOf(store, to),
		events: events.map(({type, detail}) => `${type} ${detail.category ?? ''}`.trim()),
		days: days.map(({status, n}) => `${status} ${n}`),
		hard: hour?.hard,
		suppressed: (await suppressed(store, workspaceId)).length,
	};
}

storeTest(
	test,
	'records and counts a bounce once if it is reported during the attempt that is rejected, too',
	async (t, store) => {
		t.deepEqual(await race(store, [hard], refused), {
			...{
				isMine: true,
				state: 'bounced',
				events: ['bounced unknown_user'],
				days: ['bounced 1'],
				hard: 1,
				suppressed: 1,
			},
		});
	},
);

storeTest(
	test,
	'records a hard rejection after a reported soft bounce as a second event, but counts usage once',
	async (t, store) => {
		t.deepEqual(await race(store, [soft], refused), {
			...{isMine: true, state: 'bounced', days: ['bounced 1'], hard: 1, suppressed: 1},
			events: ['bounced mailbox_full', 'bounced unknown_user'],
		});
	},
);

storeTest(test, 'records a rejection once even if a complaint came before the report', async (t, store) => {
	t.deepEqual(await race(store, [complaint, hard], refused), {
		...{isMine: true, state: 'complained', days: ['complained 1'], hard: 1, suppressed: 1},
		events: ['complained', 'bounced unknown_user'],
	});
});

storeTest(test, 'records a delivery at the end of an attempt and keeps the reported bounce', async (t, store) => {
	t.deepEqual(await race(store, [hard], delivered), {
		...{isMine: true, state: 'bounced', days: ['bounced 1', 'delivered 1'], hard: 1, suppressed: 1},
		events: ['bounced unknown_user', 'delivered'],
	});
});

storeTest(test, 'does not send deferred for an attempt whose recipient a report already ended', async (t, store) => {
	const later: Outcome = {kind: 'deferred', category: 'greylist', reason: '451 later'};
	for (const [reports, posted] of [
		[[], ['deferred']],
		[[hard], []],
	] as const) {
		await race(store, reports, later, 0);
		t.deepEqual(await store.reader('webhook_deliveries').pluck('event_type'), posted);
		await store.database('webhook_deliveries').delete();
	}
});
