import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import type {BounceCategory, Outcome} from '../../src/mail/outcome.ts';
import type {Report} from '../../src/mail/report.ts';
import {afterFailure, escalate, isDue, isSoftOfAddress} from '../../src/outcome/escalation.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {decideNext} from '../../src/outcome/settle.ts';
import {type Claimed, readRecipient} from '../../src/store/queue/claims.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {reading, record, returnPath, soft} from '../helpers/reports.ts';

const day = 86_400_000;
const start = Date.UTC(2026, 5, 1);
const boot = newId('req');
const recordWrite = createRecordWrite(boot, eventWriter);
const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 3_600_000};

const full: Outcome = {
	kind: 'bounced',
	type: 'permanent',
	category: 'mailbox_full',
	reason: '552 5.2.2 full',
	suppresses: false,
};

type Sent = {readonly store: Store; readonly workspaceId: string; readonly address?: string};

/** Sends a message on a day and records the outcome of its attempt. */
async function sendOn(
	onDay: number,
	outcome: Outcome,
	{store, workspaceId, address = 'ada@a.test'}: Sent,
	acceptedDaysBefore = 0,
): Promise<Claimed> {
	const now = start + onDay * day;
	const [messageId] = await insertMessages(store, workspaceId, [address], {due: now});
	const {id} = await recipientRows(store.reader).where({message_id: messageId}).first();
	await changeRecipients(store.database, all => all.where({id}), {claimed_by: boot, state: 'queued'});
	const recipient = (await readRecipient(store.reader, workspaceId, id)) as Claimed;
	const result = {recipientId: id, outcome, attempts: [], sentAt: null, at: storeTime(now)};
	const end = {result, acceptedAt: now - acceptedDaysBefore * day, attempts: 0, sentBefore: false, retry};
	const verdict = decideNext(end, now, Math.random);
	await store.writer.submit(recordWrite, {recipient, rendered: null, result, verdict, crashes: 0});
	return recipient;
}

async function lastDetail({store}: Sent, {message_id: messageId}: Claimed): Promise<unknown> {
	return (await readEvents(store.reader, messageId, {after: null, limit: 9})).at(-1)?.detail;
}

const isSuppressed = async ({store}: Sent) => (await store.reader('suppressions')).length > 0;

async function newShop(store: Store): Promise<Sent> {
	return {store, ...(await insertWorkspace(store))};
}

storeTest(test, 'suppresses after a third message to a full mailbox in a week, and reports why', async (t, store) => {
	const shop = await newShop(store);
	await sendOn(0, full, shop);
	await sendOn(3, full, shop);
	t.false(await isSuppressed(shop));
	const third = await sendOn(7, full, shop);
	t.like(await store.reader('suppressions').first(), {reason: 'hard_bounce', source: third.message_id});
	t.like(await lastDetail(shop, third), {
		type: 'permanent',
		category: 'mailbox_full',
		escalated: {messages: 3, since: storeTime(start)},
	});
	t.is((await store.reader('address_health')).length, 0, 'the count begins anew');
});

sqliteTest(
	test,
	'does not suppress after three messages within seven days, or after two in a year',
	async (t, store) => {
		const shop = await newShop(store);
		for (const onDay of [0, 3, 6.9]) {
			await sendOn(onDay, full, shop);
		}
		await sendOn(0, full, {...shop, address: 'bob@a.test'});
		await sendOn(365, full, {...shop, address: 'bob@a.test'});
		t.false(await isSuppressed(shop));
		t.is((await store.reader('address_health')).length, 2);
	},
);

storeTest(test, 'restarts the count after a delivery', async (t, store) => {
	const shop = await newShop(store);
	await sendOn(0, full, shop);
	await sendOn(3, full, shop);
	await sendOn(5, {kind: 'delivered'}, shop);
	await sendOn(8, full, shop);
	t.false(await isSuppressed(shop));
	await sendOn(12, full, shop);
	t.false(await isSuppressed(shop));
	await sendOn(15, full, shop);
	t.true(await isSuppressed(shop));
});

sqliteTest(test, 'does not count a message that bounced after delivery as delivered', async (t, store) => {
	const shop = await newShop(store);
	await sendOn(0, full, shop);
	const {id} = await sendOn(3, {kind: 'delivered'}, shop);
	await store.database('recipients').where({id}).update({state: 'bounced'});
	await sendOn(5, full, shop);
	await sendOn(8, full, shop);
	t.true(await isSuppressed(shop));
});

sqliteTest(
	test,
	'counts messages that expired because of a full mailbox, but not for other reasons',
	async (t, store) => {
		const shop = await newShop(store);
		const given = (category: BounceCategory): Outcome => ({kind: 'deferred', category, reason: '452 4.2.2 full'});
		for (const onDay of [0, 4, 8]) {
			await sendOn(onDay, given('network'), {...shop, address: 'net@a.test'}, 5);
			await sendOn(onDay, {...full, category: 'spam_content'}, {...shop, address: 'spam@a.test'});
		}
		t.false(await isSuppressed(shop));
		for (const onDay of [0, 4, 8]) {
			await sendOn(onDay, given('mailbox_full'), shop, 5);
		}
		t.like(await store.reader('suppressions').first(), {address: 'ada@a.test'});
	},
);

sqliteTest(test, 'counts reports of a disabled mailbox, but not those without a reason', async (t, store) => {
	const {workspaceId} = await newShop(store);
	const vague: Report = {...soft, category: 'undetermined', code: null, status: null};
	const days = [0, 4, 8].map(onDay => new Date(Date.now() + onDay * day).toISOString());
	for (const [address, report] of [
		['ann@a.test', vague],
		['cem@a.test', {...vague, code: 550, status: '5.0.0'}],
		['bob@a.test', {...vague, code: 550, status: '5.2.1'}],
	] as const) {
		const mails = await insertMessages(store, workspaceId, [address, address, address]);
		await changeRecipients(store.database, all => all.whereIn('message_id', mails), {
			state: 'delivered',
			attempts: 1,
		});
		for (const [n, receivedAt] of days.entries()) {
			const recipient = await recipientRows(store.reader).where({message_id: mails[n]}).first();
			await record(store, reading([report]), {to: [returnPath(recipient)], cameIn: {receivedAt}});
		}
	}
	t.deepEqual(await store.reader('suppressions').pluck('address'), ['bob@a.test']);
});

sqliteTest(test, 'never suppresses on rejections without a reason', async (t, store) => {
	const shop = await newShop(store);
	const refused: Outcome = {...full, category: 'undetermined', reason: '550 Rejected'};
	for (const onDay of [0, 4, 8, 12, 16]) {
		await sendOn(onDay, refused, shop);
	}
	t.false(await isSuppressed(shop));
	t.deepEqual(await store.reader('address_health'), []);
});

sqliteTest(test, 'counts per address and workspace, and ignores the simulator', async (t, store) => {
	const shop = await newShop(store);
	const other = {store, ...(await insertWorkspace(store, 'other'))};
	for (const onDay of [0, 8]) {
		await sendOn(onDay, full, shop);
		await sendOn(onDay, full, {...shop, address: 'bob@a.test'});
		await sendOn(onDay, full, other);
		await sendOn(onDay, full, {...shop, address: 'soft-bounced@simulator.test'});
		await sendOn(onDay, full, {...shop, address: 'soft-bounced@simulator.test'});
	}
	t.false(await isSuppressed(shop));
});

storeTest(test, 'counts concurrent bounces of one address correctly, and the same message once', async (t, store) => {
	const {workspaceId} = await newShop(store);
	const bounce = (n: number, onDay: number) => ({
		workspaceId,
		addressKey: 'ada@a.test',
		messageId: `msg_${n}`,
		at: storeTime(start + onDay * day),
	});
	const together = [bounce(3, 8), bounce(1, 0), bounce(2, 1), bounce(3, 9)];
	const escalated = await store.writer.transaction(trx => escalate(trx, together));
	t.deepEqual([...escalated], [[together[0], {messages: 3, since: storeTime(start)}]]);
	t.like(await store.reader('address_health').first(), {soft_messages: 1, last_message_id: 'msg_3'});
	t.is((await store.writer.transaction(trx => escalate(trx, [bounce(3, 10)]))).size, 0);
	t.like(await store.reader('address_health').first(), {soft_messages: 1});
});

test('counts soft bounces that are about the mailbox', t => {
	t.true(isSoftOfAddress('mailbox_full', '4.2.2'));
	t.true(isSoftOfAddress('undetermined', '4.2.1'), 'disabled, maybe for now');
	t.true(isSoftOfAddress('undetermined', '5.2.1'));
	t.false(isSoftOfAddress('undetermined', null), 'a bare 550 may mean us');
	t.false(isSoftOfAddress('undetermined', '5.0.0'));
	t.false(isSoftOfAddress('undetermined', '5.1.1'));
	t.false(isSoftOfAddress('block', null));
	t.false(isSoftOfAddress('unknown_user', null));
});

test('counts a message once and requires both the number of messages and the period', t => {
	const failure = (n: number, days: number) => ({
		workspaceId: 'ws',
		addressKey: 'a',
		messageId: `msg_${n}`,
		at: storeTime(start + days * day),
	});
	const one = afterFailure(undefined, failure(1, 0));
	t.deepEqual(afterFailure(one, failure(1, 9)), one);
	const three = afterFailure(afterFailure(one, failure(2, 1)), failure(3, 2));
	t.is(three.softMessages, 3);
	t.false(isDue(three, failure(0, 6.99).at));
	t.true(isDue(three, failure(0, 7).at));
	t.false(isDue(one, failure(0, 99).at));
});
