import test, {type ExecutionContext} from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {type WaitCode, waitParameters} from '../../../src/mail/wait-reason.ts';
import {type WaitsFor, type WhyContext, whyWaiting} from '../../../src/resources/messages/why.ts';
import {readRecipientFacts} from '../../../src/store/queue/queue-summary.ts';
import type {Store} from '../../../src/store/store.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../../helpers/recipient-rows.ts';
import {reasonOf} from '../../helpers/wait-reasons.ts';

const now = Date.UTC(2026, 5, 9, 12, 0, 0);
const at = storeTime(now);
const minutes = (count: number) => storeTime(now + count * 60_000);

const context: WhyContext = {
	now,
	isRunning: true,
	isDelivering: true,
	isAlive: claimedBy => claimedBy === 'req_alive',
	attemptDeadlineMs: 1_200_000,
	claimedAt: () => minutes(-1),
	givesUpAt: () => minutes(5000),
	heldBy: () => ({user: 'ann', reason: 'legal'}),
};

/** Creates a due recipient, changed as the case requires. */
async function prepare(store: Store, recipient: object = {attempts: 0}) {
	const {workspaceId} = await insertWorkspace(store);
	const [messageId = ''] = await insertMessages(store, workspaceId, ['ada@x.test'], {due: now - 60_000});
	await changeRecipients(store.database, all => all, recipient);
	const {id} = await recipientRows(store.reader).first();
	return {workspaceId, messageId, id};
}

async function asked(t: ExecutionContext, store: Store, id: string, more: Partial<WhyContext> = {}) {
	const [facts, ...others] = await readRecipientFacts(store.reader, [id]);
	t.is(others.length, 0);
	if (!facts) {
		throw new Error('the copy is gone');
	}
	return whyWaiting(facts, {...context, ...more});
}

const queue = (workspaceId: string, waitsFor: WaitCode, more: object = {}) => ({
	destination: 'x.test',
	workspace_id: workspaceId,
	node: 'req_alive',
	site: 'mx.x.test',
	waits_for: waitsFor,
	detail: waitParameters(reasonOf[waitsFor]),
	until: null,
	updated_at: at,
	...more,
});

storeTest(test, 'a due recipient waits only to be claimed', async (t, store) => {
	const {id, messageId, workspaceId} = await prepare(store);
	t.deepEqual(await asked(t, store, id), {
		id,
		message_id: messageId,
		workspace_id: workspaceId,
		address: 'ada@x.test',
		destination: 'x.test',
		state: 'accepted',
		attempts: 0,
		next_attempt_at: minutes(-1),
		gives_up_at: minutes(5000),
		waits_for: 'claim',
		detail: 'Due now: its next attempt is about to start.',
		since: null,
		until: null,
		mend: null,
		also: [],
	});
});

sqliteTest(test, 'reports an attempt in progress with its number, start and latest end', async (t, store) => {
	const {id} = await prepare(store, {
		claimed_by: 'req_alive',
		claimed_until: minutes(20),
		attempts: 2,
		held_at: null,
	});
	t.like(await asked(t, store, id), {
		waits_for: 'in_flight',
		detail: 'Attempt 3 is in progress (started 2026-06-09 11:59:00 UTC); it ends by 2026-06-09 12:19:00 UTC at the latest.',
		since: minutes(-1),
		until: minutes(19),
		also: [],
	});
	t.like(await asked(t, store, id, {isAlive: () => false, isRunning: false, isDelivering: false}), {
		waits_for: 'daemon',
		detail: 'No daemon is running.',
	});
});

sqliteTest(test, 'reports hold, pause and suspension with reason and remedy, the hold first', async (t, store) => {
	const {id} = await prepare(store, {held_at: minutes(-10)});
	await store.database('workspaces').update({paused_at: minutes(-9), pause_reason: 'bounces'});
	await store.database('suspensions').insert({destination: 'x.test', reason: 'moving', created_at: minutes(-8)});
	const why = await asked(t, store, id);
	t.deepEqual(
		[why, ...why.also].map(reason => [reason.waits_for, reason.detail, reason.mend]),
		[
			['hold', 'Held since 2026-06-09 11:50:00 UTC by ann: legal.', `mailctl queue release ${id} releases it`],
			[
				'paused',
				'The workspace test has been paused since 2026-06-09 11:51:00 UTC: bounces.',
				'mailctl workspace resume test resumes it',
			],
			[
				'operator',
				'An operator suspended all mail to x.test at 2026-06-09 11:52:00 UTC: moving.',
				'mailctl queue resume x.test resumes it',
			],
		],
	);
});

sqliteTest(test, 'reports the time of the next attempt and the result of the last one', async (t, store) => {
	const last = {
		attempts: 3,
		next_attempt_at: minutes(7),
		last_category: 'mailbox_full',
		last_reply: '452 4.2.2 full',
	};
	const {id} = await prepare(store, last);
	const attempt = {recipient_id: id, phase: 'rcpt', reply: '452 4.2.2 full', ms: 5};
	await store.database('attempts').insert([
		{...attempt, n: 2, position: 0, at: minutes(-30), host: 'mx9.x.test'},
		{...attempt, n: 3, position: 0, at: minutes(-4), host: null},
		{...attempt, n: 3, position: 1, at: minutes(-3), host: 'mx1.x.test'},
	]);
	t.like(await asked(t, store, id), {
		waits_for: 'retry',
		detail: 'Waiting until 2026-06-09 12:07:00 UTC for attempt 4: attempt 3 was deferred (mailbox_full) by mx1.x.test at 2026-06-09 11:57:00 UTC: "452 4.2.2 full".',
		until: minutes(7),
		mend: `mailctl queue flush ${id} attempts it now`,
	});
	await changeRecipients(store.database, all => all, {held_at: minutes(-1)});
	const {also} = await asked(t, store, id);
	t.like(also, {length: 1, 0: {waits_for: 'retry', mend: null}}, 'a flush would not have it tried');
	await changeRecipients(store.database, all => all, {held_at: null, last_category: 'greylist'});
	const greylisted = await asked(t, store, id);
	t.like(greylisted, {waits_for: 'greylisting', until: minutes(7), mend: null});
	t.regex(greylisted.detail, /attempt 3 was greylisted by mx1\.x\.test .* Retrying sooner does not help\.$/);
	await store.database('recipients').update({attempts: 0});
	t.like(await asked(t, store, id), {detail: 'Waiting until 2026-06-09 12:07:00 UTC for its first attempt.'});
	await store.database('queue').update({send_at: minutes(7), expires_at: minutes(9)});
	const scheduled = await asked(t, store, id);
	t.like(scheduled, {
		detail: 'Scheduled for 2026-06-09 12:07:00 UTC.',
		mend: `mailctl message reschedule ${scheduled.message_id} +0s sends it now`,
	});
	const [facts] = await readRecipientFacts(store.reader, [id]);
	t.like(facts, {accepted_at: minutes(7), expires_at: minutes(9)});
});

sqliteTest(test, 'reports why the daemon is not sending due messages', async (t, store) => {
	const {id, workspaceId} = await prepare(store);
	const time = '2026-06-09 12:01:00 UTC';
	const words: Record<Exclude<WaitCode, 'operator'>, string> = {
		pace: 'capacity at mx.x.test: its servers are limited to 5 connections for now, with 20 messages in progress.',
		rate: `the rate limit of mx.x.test until ${time}: its servers are limited to 30 messages per minute for now: 421 4.7.0 low reputation.`,
		warm_up: `the next day until ${time}: 192.0.2.1 is new and has sent big its 50 messages for today.`,
		turn: 'its turn: all sessions are busy with other messages.',
		route: 'the route mx.x.test: the relay refuses our mail: 535 5.7.8 no.; one message is testing whether that is over.',
		dns: 'DNS: the mail servers of x.test are being looked up.',
		suspension: `mx.x.test until ${time}: sending to the mail servers of x.test is backing off: 421 4.7.0 go away.`,
	};
	for (const [waitsFor, text] of Object.entries(words)) {
		const until = ['rate', 'warm_up', 'suspension'].includes(waitsFor) ? minutes(1) : null;
		await store.database('lane_waits').delete();
		await store.database('lane_waits').insert(queue(workspaceId, waitsFor as WaitCode, {until}));
		const why = await asked(t, store, id);
		t.is(why.waits_for, waitsFor as WaitsFor);
		t.is(why.detail, `Waiting for ${text}`);
		t.is(why.until, until);
		t.deepEqual(why.also, []);
	}
	// The reason of a queue applies only to due recipients of its workspace, and only until it ends.
	await store.database('lane_waits').update({waits_for: 'pace'});
	await changeRecipients(store.database, all => all, {next_attempt_at: minutes(3), attempts: 1});
	const later = await asked(t, store, id);
	t.deepEqual([later.waits_for, later.also], ['retry', []]);
	await changeRecipients(store.database, all => all, {next_attempt_at: at});
	await store.database('lane_waits').update({waits_for: 'rate', until: minutes(-1)});
	t.is((await asked(t, store, id)).waits_for, 'claim');
	await store.database('lane_waits').update({waits_for: 'pace', until: null, workspace_id: newId('ws')});
	t.is((await asked(t, store, id)).waits_for, 'claim');
});

storeTest(test, 'shows the plain sentence stored by a node of an older version', async (t, store) => {
	const {id, workspaceId} = await prepare(store);
	await store.database('lane_waits').insert(queue(workspaceId, 'dns', {detail: 'its hosts are looked for'}));
	t.like(await asked(t, store, id), {waits_for: 'dns', detail: 'Waiting for DNS: its hosts are looked for.'});
});

sqliteTest(test, 'reports a suspended provider, and the later of two times first', async (t, store) => {
	const {id, workspaceId} = await prepare(store, {next_attempt_at: minutes(5), attempts: 1});
	await store.database('lane_waits').insert(queue(workspaceId, 'suspension', {until: minutes(9)}));
	const site = {site: 'mx.x.test', suspended_until: minutes(9), reason: '421 4.7.0 go away', step: 1, window: 1};
	await store.database('sites').insert({...site, updated_at: at});
	const why = await asked(t, store, id);
	t.like(why, {
		waits_for: 'suspension',
		detail: 'Sending to mx.x.test is backing off until 2026-06-09 12:09:00 UTC after failures: 421 4.7.0 go away.',
		until: minutes(9),
		mend: 'mailctl queue resume x.test attempts one message now',
	});
	t.deepEqual(
		why.also.map(({waits_for: other}) => other),
		['retry'],
	);
	await changeRecipients(store.database, all => all, {next_attempt_at: minutes(20)});
	t.is((await asked(t, store, id)).waits_for, 'retry');
	await changeRecipients(store.database, all => all, {next_attempt_at: at});
	const due = await asked(t, store, id);
	t.deepEqual([due.waits_for, due.also], ['suspension', []]);

	await store.database('sites').update({site: 'smarthost mx:587', waits_for: 'route', reason: '535 5.7.8 no'});
	await store.database('lane_waits').update({site: 'smarthost mx:587', waits_for: 'route'});
	t.like(await asked(t, store, id), {
		waits_for: 'route',
		detail: 'The smarthost mx:587 is refusing our mail: 535 5.7.8 no. Next attempt at 2026-06-09 12:09:00 UTC.',
		until: minutes(9),
		also: [],
	});
});

sqliteTest(test, 'reports that no daemon is running or delivering', async (t, store) => {
	const {id, workspaceId} = await prepare(store);
	await store.database('lane_waits').insert(queue(workspaceId, 'pace'));
	const none = await asked(t, store, id, {isRunning: false, isDelivering: false});
	t.like(none, {waits_for: 'daemon', detail: 'No daemon is running.', mend: 'mailctl serve starts one', also: []});
	t.like(await asked(t, store, id, {isDelivering: false}), {
		waits_for: 'daemon',
		detail: 'The running daemon does not deliver mail (MAILCTL_ROLES).',
	});
});

sqliteTest(test, 'reports why a recipient is no longer queued', async (t, store) => {
	const {id, messageId} = await prepare(store, {
		state: 'delivered',
		state_at: at,
		next_attempt_at: null,
		last_reply: '250 ok',
	});
	t.like(await asked(t, store, id), {
		waits_for: null,
		detail: 'No longer queued: delivered at 2026-06-09 12:00:00 UTC: 250 ok.',
		since: at,
		gives_up_at: null,
		mend: null,
	});
	await store.database('recipients').update({state: 'errored'});
	const event = {message_id: messageId, recipient_id: id, occurred_at: at, recorded_at: at};
	const detail = JSON.stringify({reason: 'dropped'});
	await store.database('events').insert({...event, id: newId('evt'), type: 'errored', detail});
	t.like(await asked(t, store, id), {
		detail: 'No longer queued: errored at 2026-06-09 12:00:00 UTC: dropped.',
		mend: `mailctl message resend ${messageId} sends it again as a new message`,
	});
});
