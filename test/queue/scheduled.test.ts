import test from 'ava';
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
