import test from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {hourMs as hour, storeTime} from '../../src/kit/time.ts';
import {bringForward, waitingRecipients} from '../../src/store/held-claims.ts';
import {readDue} from '../../src/store/queue/open-recipients.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {resultOf, schedulerOf} from '../helpers/scheduler.ts';
import {waitFor} from '../helpers/wait.ts';

storeTest(test, 'attempts newly scheduled mail when it is due, and not before', async (t, store) => {
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

storeTest(test, 'sends each of thousands of scheduled messages once without delaying others', async (t, store) => {
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

sqliteTest(test, 'brings retries forward when the clock steps back, but not scheduled mail', async (t, store) => {
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

sqliteTest(test, 'sends everything once and nothing early if the clock jumps forward and back', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	let step = 0;
	const clock = {...systemClock, now: () => Date.now() + step};
	const start = Date.now();
	const dueOf = (address: string) => start + Number(address.split('@')[0]) * hour;
	const early: string[] = [];
	const {scheduler, recorded} = schedulerOf(
		store,
		async recipient => {
			if (clock.now() < dueOf(recipient.address)) {
				early.push(recipient.address);
			}
			return resultOf(recipient, {kind: 'delivered'});
		},
		{clock},
	);
	const schedule = async (address: string) => {
		const dueAt = dueOf(address);
		const [id] = await insertMessages(store, workspaceId, [address], {due: dueAt});
		const ids = await store.reader('recipients').where({message_id: id}).pluck('id');
		await store
			.database('queue')
			.whereIn('recipient_id', ids)
			.update({send_at: storeTime(dueAt)});
		scheduler.arriving([{destination: 'a.test', workspaceId, dueAt}]);
	};
	const goes = (address: string) => waitFor(address, () => recorded.includes(address));
	const jump = async (to: number) => {
		const isBack = to < step;
		step = to;
		if (isBack) {
			const now = clock.now();
			await store.writer.transaction(trx =>
				bringForward(waitingRecipients(trx, storeTime(now)), storeTime(now + 1000), storeTime(now)),
			);
			await scheduler.rescan();
		}
	};
	await scheduler.start();
	for (const address of ['1@a.test', '2@a.test', '3@a.test']) {
		await schedule(address);
	}
	await jump(hour);
	await goes('1@a.test');
	await jump(-10 * hour);
	// What is due now by the old clock is due later by this one.
	await schedule('0@a.test');
	await schedule('-10@a.test');
	await goes('-10@a.test');
	await jump(0);
	await goes('0@a.test');
	t.deepEqual(recorded, ['1@a.test', '-10@a.test', '0@a.test']);
	await jump(20 * hour);
	await goes('3@a.test');
	await goes('2@a.test');
	await jump(0);
	await schedule('-1@a.test');
	await goes('-1@a.test');
	await scheduler.stop();
	t.deepEqual(early, []);
	t.deepEqual(recorded.toSorted(), ['-10@a.test', '-1@a.test', '0@a.test', '1@a.test', '2@a.test', '3@a.test']);
	t.deepEqual(await store.reader('queue').pluck('recipient_id'), []);
});

storeTest(test, 'finds mail that another node scheduled, and attempts it when it is due', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const {scheduler, recorded} = schedulerOf(store, async recipient => {
		t.true(Date.now() >= dueAt);
		return resultOf(recipient, {kind: 'delivered'});
	});
	await scheduler.start();
	const dueAt = Date.now() + 1000;
	await insertMessages(store, workspaceId, ['soon@a.test'], {due: dueAt});
	await insertMessages(store, workspaceId, ['far@a.test'], {due: dueAt + hour});
	const found = await readDue(store.reader, storeTime(dueAt + 1000));
	scheduler.noticed(found.map(({due, ...queue}) => ({...queue, dueAt: Date.parse(due)})));
	await waitFor('its time', () => recorded.length > 0);
	await scheduler.stop();
	t.deepEqual(recorded, ['soon@a.test']);
});
