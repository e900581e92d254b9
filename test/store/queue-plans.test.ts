import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {endWaiting, findClaimed, holdRecipients, makeDue, releaseHeld} from '../../src/store/queue/open-recipients.ts';
import {
	findNamed,
	findWaiting,
	listQueue,
	readQueueSize,
	readRecipientFacts,
	summarizeQueue,
} from '../../src/store/queue/queue-summary.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {plansDuring} from '../helpers/plans.ts';

const now = storeTime(Date.now());

/** The plans that scan the whole recipients table, delivered ones included. */
const greedy = (plans: readonly string[]) =>
	plans.filter(plan => /SCAN (?:recipients|r|f)\b|Seq Scan on recipients/.test(plan.replace('SCAN f\nSEARCH r', '')));

storeTest(test, 'queries about the queue read the indexes of waiting recipients', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test', 'two@b.test', 'three@c.test']);
	const filter = {workspaceId, destination: 'a.test', before: Date.now()};
	const plans = await plansDuring(store, engine, async () => {
		await summarizeQueue(store.reader, {now});
		await summarizeQueue(store.reader, {now, workspaceId});
		await listQueue(store.reader, {limit: 10});
		await listQueue(store.reader, {...filter, limit: 10});
		await listQueue(store.reader, {destinations: ['a.test'], held: true, limit: 10});
		await findWaiting(store.reader, {});
		await findWaiting(store.reader, filter);
		await readQueueSize(store.reader, now);
	});
	t.true(plans.length >= 15, String(plans.length));
	t.deepEqual(greedy(plans), []);
	t.deepEqual(
		plans.filter(plan => !/queue_(due|held|pkey)|claims|q USING PRIMARY KEY/.test(plan)),
		[],
	);
});

storeTest(test, 'finds named messages and recipients by id', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['one@a.test', 'two@b.test']);
	const recipients = await findWaiting(store.reader, {});
	const step = {ids: recipients, now, silentSince: now};
	const plans = await plansDuring(store, engine, async () => {
		await findNamed(store.reader, ids, workspaceId);
		await readRecipientFacts(store.reader, recipients);
		await store.writer.transaction(async trx => {
			await holdRecipients(trx, step);
			await releaseHeld(trx, step);
			await makeDue(trx, step);
			await findClaimed(trx, recipients);
			await endWaiting(trx, step, 'errored');
		});
	});
	t.true(plans.length >= 8, String(plans.length));
	t.deepEqual(
		plans.filter(plan =>
			/SCAN (?:recipients|r|messages|m|attempts|a|events|e)\b|Seq Scan on (?:recip|mess|att|ev)/.test(plan),
		),
		[],
	);
});
