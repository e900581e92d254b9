import test from 'ava';
import type {AttemptResult} from '../../src/mail/outcome.ts';
import type {GroupWrite} from '../../src/store/engine/writer.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, writeMessages} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {routeTo} from '../helpers/routes.ts';
import {now, resultOf, schedulerOf} from '../helpers/scheduler.ts';
import {waitFor} from '../helpers/wait.ts';

storeTest(test, 'attempts recipients that a previous daemon deferred as each comes due', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	for (const [index, wait] of [100, 400, 700].entries()) {
		await insertMessages(store, workspaceId, [`u${index}@a.test`], {due: Date.now() + wait});
	}
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}));
	await scheduler.start();
	await waitFor('all three', () => recorded.length === 3);
	await scheduler.stop();
	t.deepEqual(recorded.toSorted(), ['u0@a.test', 'u1@a.test', 'u2@a.test']);
});

storeTest(test, 'does not claim a recipient again whose attempt outlasts its claim', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['slow@a.test']);
	const tries: string[] = [];
	let finish: (() => void) | undefined;
	const {scheduler, recorded} = schedulerOf(
		store,
		recipient => {
			tries.push(recipient.address);
			return recipient.address === 'slow@a.test'
				? new Promise<AttemptResult>(resolve => {
						finish = () => resolve(resultOf(recipient, {kind: 'delivered'}));
					})
				: Promise.resolve(resultOf(recipient, {kind: 'delivered'}));
		},
		// The claim expires as soon as it is made.
		{attemptDeadlineMs: -120_000},
	);
	await scheduler.start();
	await waitFor('the slow one', () => finish !== undefined);
	await insertMessages(store, workspaceId, ['quick@a.test']);
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await waitFor('the quick one', () => recorded.includes('quick@a.test'));
	finish?.();
	await waitFor('the slow one', () => recorded.includes('slow@a.test'));
	await scheduler.stop();
	t.deepEqual(tries, ['slow@a.test', 'quick@a.test']);
	t.is(scheduler.inFlight, 0);
});

storeTest(
	test,
	'attempts a recipient once if its claim is released and claimed again in the meantime',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['one@a.test']);
		const finish: Array<() => void> = [];
		const {scheduler, recorded} = schedulerOf(
			store,
			recipient =>
				new Promise<AttemptResult>(resolve =>
					finish.push(() => resolve(resultOf(recipient, {kind: 'delivered'}))),
				),
		);
		await scheduler.start();
		await waitFor('the try', () => finish.length === 1);
		// As another node does that believes this one is dead.
		await store.writer.transaction(trx =>
			changeRecipients(trx, all => all, {claimed_by: null, next_attempt_at: now()}),
		);
		await scheduler.rescan();
		await waitFor(
			'the second claim',
			async () => (await recipientRows(store.reader).whereNotNull('claimed_by')).length === 1,
		);
		await insertMessages(store, workspaceId, ['two@b.test']);
		scheduler.arriving([{destination: 'b.test', workspaceId}]);
		await waitFor('another', () => finish.length >= 2);
		for (const one of finish) {
			one();
		}
		await waitFor('both', () => recorded.length === 2);
		await scheduler.stop();
		t.is(finish.length, 2);
		t.is(scheduler.inFlight, 0);
	},
);

sqliteTest(test, 'ends recipients whose attempts have already been recorded', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const addresses = Array.from({length: 12}, (_, index) => `u${index}@d${index}.test`);
	await insertMessages(store, workspaceId, addresses);
	// Another node took over the claims, recorded the same attempts, and lost them again.
	const row = {n: 1, position: 0, at: now(), phase: 'dot', reply: 'x', ms: 1};
	const ids: string[] = await store.reader('recipients').pluck('id');
	await store.database('attempts').insert(ids.map(id => ({...row, recipient_id: id})));
	const ready: Array<() => void> = [];
	const {scheduler, recorded} = schedulerOf(
		store,
		async recipient => {
			// All end together.
			await new Promise<void>(resolve => {
				ready.push(resolve);
				if (ready.length === addresses.length) {
					for (const go of ready) {
						go();
					}
				}
			});
			return resultOf(recipient, {kind: 'delivered'});
		},
		{observer: {storeFailed: () => undefined}},
	);
	await scheduler.start();
	await waitFor('the ends', () => recorded.length === addresses.length);
	await scheduler.stop();
	t.false(scheduler.isStoreFailing);
	t.is((await store.reader('attempts').where({reply: 'x'})).length, addresses.length);
	t.is((await store.reader('recipients').where({state: 'delivered'})).length, addresses.length);
});

storeTest(test, 'stores any reply of a hostile mail server', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	const {scheduler, recorded} = schedulerOf(
		store,
		async recipient => {
			const result = resultOf(recipient, {kind: 'delivered'});
			const [attempt] = result.attempts;
			return {...result, attempts: attempt ? [{...attempt, reply: 'a\0b\ud800', host: 'mx\0.test'}] : []};
		},
		{observer: {storeFailed: () => undefined}},
	);
	await scheduler.start();
	await waitFor('the end', () => recorded.length === 1);
	await scheduler.stop();
	t.false(scheduler.isStoreFailing);
});

sqliteTest(test, 'does not let a thousand unresponsive destinations delay one that responds', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const dead = Array.from({length: 3000}, (_, index) => `u${index}@dead${index % 1000}.test`);
	await insertMessages(store, workspaceId, dead, {due: Date.now() - 60_000});
	const release: Array<() => void> = [];
	let ending = false;
	const {scheduler, recorded} = schedulerOf(store, recipient =>
		recipient.destination === 'well.test' || ending
			? Promise.resolve(resultOf(recipient, {kind: 'delivered'}))
			: new Promise(resolve => release.push(() => resolve(resultOf(recipient, {kind: 'released'})))),
	);
	await scheduler.start();
	await waitFor('the dead to take all they may', () => release.length === 24);
	scheduler.arriving(Array.from({length: 900}, (_, index) => ({destination: `dead${index}.test`, workspaceId})));
	await insertMessages(store, workspaceId, ['one@well.test']);
	scheduler.arriving([{destination: 'well.test', workspaceId}]);
	await waitFor('the other mail', () => recorded.includes('one@well.test'));
	t.true(release.length <= 36, 'new mail for the dead takes some more, and leaves a part');
	ending = true;
	const stopped = scheduler.stop();
	for (const one of release) {
		one();
	}
	await stopped;
});

storeTest(test, 'retries a recipient whose data is temporarily unreadable, however often', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	let failures = 0;
	const errors: unknown[] = [];
	const {scheduler, recorded} = schedulerOf(
		store,
		async recipient => {
			failures++;
			if (failures < 5) {
				throw Object.assign(new Error('busy'), {
					code: store.dialect.name === 'sqlite' ? 'SQLITE_BUSY' : '57P03',
				});
			}
			return resultOf(recipient, {kind: 'delivered'});
		},
		{observer: {storeFailed: error => errors.push(error)}},
	);
	await scheduler.start();
	await waitFor('the end', async () => (await recipientRows(store.reader).where({state: 'delivered'})).length === 1);
	await scheduler.stop();
	t.is(recorded.length, 5);
	t.is(errors.length, 4);
	t.like(await recipientRows(store.reader).first(), {crashes: 0, attempts: 1});
});

storeTest(test, 'claims new mail with a known route in the transaction that writes it', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const finish: Array<() => void> = [];
	const {scheduler, recorded, boot} = schedulerOf(
		store,
		recipient => new Promise(resolve => finish.push(() => resolve(resultOf(recipient, {kind: 'delivered'})))),
		{routeOf: ({destination}) => routeTo(destination)},
	);
	await scheduler.start();
	const write: GroupWrite<string, null> = {
		name: 'accept',
		rank: 1,
		async apply(trx, addresses) {
			await writeMessages(trx, workspaceId, addresses);
			return addresses.map(() => null);
		},
	};
	const written = store.writer.submit(write, 'one@a.test');
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await written;
	t.like(await recipientRows(store.reader).first(), {claimed_by: boot});
	await waitFor('the try', () => finish.length === 1);
	finish[0]?.();
	await waitFor('the outcome', () => recorded.length === 1);
	await scheduler.stop();
});

storeTest(test, 'leaves nothing behind for new mail that was rejected, and sends what follows', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		routeOf: ({destination}) => routeTo(destination),
	});
	await scheduler.start();
	const broken: GroupWrite<null, null> = {name: 'accept', rank: 1, apply: () => Promise.reject(new Error('refused'))};
	const refused = t.throwsAsync(store.writer.submit(broken, null), {message: 'refused'});
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await refused;
	await insertMessages(store, workspaceId, ['one@a.test']);
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await waitFor('the outcome', () => recorded.length === 1);
	await scheduler.stop();
	t.is(scheduler.inFlight, 0);
});
