import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {bringForward, waitingRecipients} from '../../src/store/held-claims.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {resultOf, schedulerOf} from '../helpers/scheduler.ts';
import {waitFor} from '../helpers/wait.ts';

storeTest(test, 'scheduled mail that arrives is tried once its time has come, and none before', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const early: string[] = [];
	const due = new Map<string, number>();
	const {scheduler, recorded} = schedulerOf(store, async recipient => {
		if (Date.now() < (due.get(recipient.address) ?? 0)) {
			early.push(recipient.address);
		}
		return resultOf(recipient, {kind: 'delivered'});
	});
	await scheduler.start();
	for (const [index, wait] of [900, 300, 600, 300].entries()) {
		const [address, dueAt] = [`u${index}@a.test`, Date.now() + wait];
		due.set(address, dueAt);
		await insertMessages(store, workspaceId, [address], {due: dueAt});
		scheduler.arriving([{destination: 'a.test', workspaceId, dueAt}]);
	}
	await insertMessages(store, workspaceId, ['far@a.test'], {due: Date.now() + 3_600_000});
	await insertMessages(store, workspaceId, ['now@a.test']);
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await waitFor('all that are due', () => recorded.length === 5);
	await scheduler.stop();
	t.deepEqual(recorded.toSorted(), ['now@a.test', 'u0@a.test', 'u1@a.test', 'u2@a.test', 'u3@a.test']);
	t.deepEqual(early, []);
});

storeTest(test, 'thousands that are scheduled in one queue hold up nothing, and each goes once', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const many = Array.from({length: 2000}, (_, n) => `later${n}@a.test`);
	await insertMessages(store, workspaceId, many, {due: Date.now() + 3_600_000});
	const soon = Array.from({length: 200}, (_, n) => `soon${n}@a.test`);
	await insertMessages(store, workspaceId, soon, {due: Date.now() + 500});
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}));
	await scheduler.start();
	await insertMessages(store, workspaceId, ['now@a.test']);
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await waitFor('what is due', () => recorded.length === 201);
	await scheduler.stop();
	t.deepEqual(recorded.toSorted(), ['now@a.test', ...soon].toSorted());
});

storeTest(test, 'a clock that steps back brings retries forward, not what is scheduled', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [now, later] = [Date.now(), Date.now() + 20 * 86_400_000];
	await insertMessages(store, workspaceId, ['scheduled@a.test', 'retried@a.test'], {due: later});
	const ids: string[] = await store.reader('recipients').orderBy('address', 'desc').pluck('id');
	await store
		.database('queue')
		.where({recipient_id: ids[0]})
		.update({send_at: storeTime(later)});
	await store.writer.transaction(trx =>
		bringForward(waitingRecipients(trx, storeTime(now)), storeTime(now + 1000), storeTime(now)),
	);
	const due = await store.reader('queue').orderBy('next_attempt_at').select('recipient_id', 'next_attempt_at');
	t.deepEqual(
		due.map(row => [row.recipient_id, row.next_attempt_at]),
		[
			[ids[1], storeTime(now)],
			[ids[0], storeTime(later)],
		],
	);
});
