import test from 'ava';
import type {AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import {recipientClaims, releaseOthers} from '../../src/store/held-claims.ts';
import type {Claimed} from '../../src/store/queue/claims.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {storeTest} from '../helpers/databases.ts';
import {losingAnswer} from '../helpers/losing-answer.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {recipientRows} from '../helpers/recipient-rows.ts';
import {now, resultOf, schedulerOf} from '../helpers/scheduler.ts';
import {waitFor} from '../helpers/wait.ts';

const statesOf = async (store: Store) =>
	Object.fromEntries(
		(await store.reader('recipients').select('address', 'state')).map(row => [row.address, row.state]),
	);

storeTest(test, 'claims, renders, delivers and records a recipient', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [messageId = ''] = await insertMessages(store, workspaceId, ['one@a.test']);
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}));
	await scheduler.start();
	await waitFor('the outcome', () => recorded.length === 1);
	await scheduler.stop();

	const row = await recipientRows(store.reader).first();
	t.like(row, {state: 'delivered', subject: 'Grüße', attempts: 1, next_attempt_at: null, claimed_by: null});
	const events = await readEvents(store.reader, messageId, {after: null, limit: 9});
	t.deepEqual(
		events.map(event => event.type),
		['queued', 'sent', 'delivered'],
	);
	t.like(events[1]?.detail, {recipient: 'one@a.test', role: 'to', attempt: 1, code: undefined});
	t.like(events[2]?.detail, {recipient: 'one@a.test', role: 'to', attempt: 1, code: 250, host: 'mx.test'});
	t.like(await store.reader('attempts').first(), {n: 1, position: 0, host: 'mx.test', code: 250});
	t.is(scheduler.inFlight, 0);
});

storeTest(test, 'does not let 5,000 recipients at an unresponsive destination delay another one', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(
		store,
		workspaceId,
		Array.from({length: 5000}, (_, index) => `u${index}@dead.test`),
		{due: Date.now() - 60_000},
	);
	const release: Array<() => void> = [];
	const {scheduler, recorded} = schedulerOf(store, recipient =>
		recipient.destination === 'dead.test'
			? new Promise(resolve => release.push(() => resolve(resultOf(recipient, {kind: 'released'}))))
			: Promise.resolve(resultOf(recipient, {kind: 'delivered'})),
	);
	await scheduler.start();
	await waitFor('the dead destination to be full', () => release.length === 5);
	await insertMessages(store, workspaceId, ['one@well.test']);
	scheduler.arriving([{destination: 'well.test', workspaceId}]);
	await waitFor('the other mail', () => recorded.includes('one@well.test'));
	t.is(release.length, 5, 'no more was claimed than it may have connections');
	const stopped = scheduler.stop();
	for (const one of release) {
		one();
	}
	await stopped;
});

storeTest(test, 'retries a deferral on schedule, then gives up with a transient bounce', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	const {scheduler} = schedulerOf(store, async recipient =>
		resultOf(recipient, {kind: 'deferred', category: 'greylist', reason: '450 later'}),
	);
	await scheduler.start();
	await waitFor('the end', async () => (await statesOf(store))['one@a.test'] === 'bounced');
	await scheduler.stop();
	const row = await recipientRows(store.reader).first();
	t.like(row, {attempts: 3, next_attempt_at: null, last_category: 'greylist'});
	const [bounce] = await store.reader('events').where({type: 'bounced'});
	t.like(JSON.parse(bounce.detail), {type: 'transient', category: 'expired', enhanced: '4.4.7'});
	t.is((await store.reader('events').where({type: 'sent'})).length, 1, 'sent stands once');
	t.is((await store.reader('suppressions')).length, 0);
	t.is((await store.reader('attempts')).length, 3);
});

storeTest(
	test,
	'attempts every deferred recipient when due, whatever arrives or ends in the meantime',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const waits: Record<string, number> = {'soon@a.test': 100, 'later@a.test': 400, 'last@a.test': 700};
		await insertMessages(store, workspaceId, Object.keys(waits));
		let goOn = (): void => undefined;
		const seen = new Promise<void>(resolve => {
			goOn = resolve;
		});
		const {scheduler, recorded} = schedulerOf(
			store,
			async recipient => {
				if (recipient.address in waits && recipient.attempts === 0) {
					return resultOf(recipient, {kind: 'deferred', category: 'greylist', reason: '450 later'});
				}
				await seen;
				return resultOf(recipient, {kind: 'delivered'});
			},
			{fixedWaitOf: recipient => waits[recipient.address]},
		);
		await scheduler.start();
		await waitFor('the deferrals', () => recorded.length === 3);
		t.is((await recipientRows(store.reader).first()).last_reply, '450 later', 'the code too, which a reply lacks');
		goOn();
		await insertMessages(store, workspaceId, ['new@a.test']);
		scheduler.arriving([{destination: 'a.test', workspaceId}]);
		await waitFor('every delivery', () => recorded.length === 7);
		await scheduler.stop();
		t.deepEqual(Object.values(await statesOf(store)), ['delivered', 'delivered', 'delivered', 'delivered']);
	},
);

storeTest(test, 'suppresses after a permanent failure and stops what is queued for the recipient', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [messageId] = await insertMessages(store, workspaceId, ['gone@a.test']);
	const {scheduler, recorded} = schedulerOf(store, async recipient =>
		resultOf(recipient, {
			kind: 'bounced',
			type: 'permanent',
			category: 'unknown_user',
			reason: '550',
			suppresses: true,
		}),
	);
	await scheduler.start();
	await waitFor('the bounce', () => recorded.length === 1);
	t.like(await store.reader('suppressions').first(), {
		address: 'gone@a.test',
		reason: 'hard_bounce',
		source: messageId,
	});
	await insertMessages(store, workspaceId, ['gone@a.test']);
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await waitFor('the second', () => recorded.length === 2);
	await scheduler.stop();
	t.is((await recipientRows(store.reader).where({state: 'suppressed'})).length, 1);
	t.is((await store.reader('events').where({type: 'suppressed'})).length, 1);
});

storeTest(
	test,
	'stops a queued recipient on a topic opt-out, a removed sender or a paused workspace',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['out@a.test'], {topic: 'news'});
		await insertMessages(store, workspaceId, ['in@a.test'], {topic: 'offers'});
		await store.writer.transaction(trx =>
			trx('topic_optouts').insert({
				workspace_id: workspaceId,
				code: 'news',
				address_key: 'out@a.test',
				address: 'out@a.test',
				source: 'api',
				created_at: now(),
			}),
		);
		const paused = await insertWorkspace(store, 'paused');
		await insertMessages(store, paused.workspaceId, ['held@a.test']);
		await store.writer.transaction(trx =>
			trx('workspaces').where({id: paused.workspaceId}).update({paused_at: now(), pause_reason: 'test'}),
		);
		const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}));
		await scheduler.start();
		await waitFor('both', () => recorded.length === 2);
		await store.writer.transaction(trx => trx('senders').where({workspace_id: workspaceId}).delete());
		await insertMessages(store, workspaceId, ['orphan@a.test']);
		scheduler.arriving([{destination: 'a.test', workspaceId}]);
		await waitFor('the third', () => recorded.length === 3);
		await scheduler.stop();
		t.deepEqual(await statesOf(store), {
			'out@a.test': 'suppressed',
			'in@a.test': 'delivered',
			'held@a.test': 'accepted',
			'orphan@a.test': 'errored',
		});
	},
);

storeTest(test, 'releases the claims of a dead daemon and ignores its late outcome', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	let finish: (result: AttemptResult) => void = () => undefined;
	let claimed: Claimed | undefined;
	const first = schedulerOf(store, recipient => {
		claimed = recipient;
		return new Promise(resolve => {
			finish = resolve;
		});
	});
	await first.scheduler.start();
	await waitFor('the claim', () => claimed !== undefined);

	const second = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}));
	t.is(await store.writer.transaction(trx => releaseOthers(trx, recipientClaims, second.boot, now())), 1);
	await second.scheduler.start();
	await waitFor('the second daemon', () => second.recorded.length === 1);
	finish(resultOf(claimed as Claimed, {kind: 'deferred', category: 'network', reason: 'late'}));
	await Promise.all([first.scheduler.stop(), second.scheduler.stop()]);
	t.deepEqual(first.recorded, []);
	t.deepEqual(await statesOf(store), {'one@a.test': 'delivered'});
	t.is((await store.reader('events').where({type: 'queued'})).length, 1);
	const {detail} = await store.reader('events').where({type: 'delivered'}).first();
	t.true(JSON.parse(detail).possible_duplicate, 'the dead daemon may have sent it');
});

storeTest(test, 'stops sending a message that may have been delivered three times', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test', 'two@a.test']);
	const doubtful: Outcome = {kind: 'deferred', category: 'network', reason: 'no reply to the data'};
	const tries = new Map<string, number>();
	const {scheduler} = schedulerOf(
		store,
		async recipient => {
			const n = (tries.get(recipient.address) ?? 0) + 1;
			tries.set(recipient.address, n);
			// The other one is temporarily rejected in between, and accepted in the end.
			const isRefused = recipient.address === 'two@a.test' && n % 2 === 0;
			if (isRefused && n === 4) {
				return resultOf(recipient, {kind: 'delivered'});
			}
			const result = resultOf(
				recipient,
				isRefused ? {kind: 'deferred', category: 'greylist', reason: '450'} : doubtful,
			);
			const code = isRefused ? 450 : null;
			return {...result, attempts: result.attempts.map(one => ({...one, code}))};
		},
		{retry: () => ({schedule: {waits: [20], repeatLast: true}, lifetime: 3_600_000})},
	);
	await scheduler.start();
	await waitFor('both', async () => (await recipientRows(store.reader).whereNotNull('next_attempt_at')).length === 0);
	await scheduler.stop();
	t.deepEqual(await statesOf(store), {'one@a.test': 'bounced', 'two@a.test': 'delivered'});
	t.deepEqual(Object.fromEntries(tries), {'one@a.test': 3, 'two@a.test': 4});
	const detailOf = async (type: string) => JSON.parse((await store.reader('events').where({type}).first()).detail);
	t.like(await detailOf('bounced'), {attempt: 3, type: 'transient', category: 'network', possible_duplicate: true});
	t.like(await detailOf('delivered'), {attempt: 4, possible_duplicate: true});
	t.deepEqual(await store.reader('suppressions'), []);
});

storeTest(
	test,
	'retries a message that crashed a worker once, and fails it after the second crash',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['one@a.test', 'bad@a.test']);
		const crashed = new Set<string>();
		const {scheduler} = schedulerOf(store, async recipient => {
			if (recipient.address === 'bad@a.test' || !crashed.has(recipient.id)) {
				crashed.add(recipient.id);
				throw new Error('The sender thread ended.');
			}
			return resultOf(recipient, {kind: 'delivered'});
		});
		await scheduler.start();
		await waitFor(
			'both',
			async () => (await recipientRows(store.reader).whereNotNull('next_attempt_at')).length === 0,
		);
		await scheduler.stop();
		t.deepEqual(await statesOf(store), {'one@a.test': 'delivered', 'bad@a.test': 'errored'});
		t.like(await recipientRows(store.reader).where({address: 'one@a.test'}).first(), {attempts: 1, crashes: 1});
		t.like(JSON.parse((await store.reader('events').where({type: 'errored'}).first()).detail), {reason: 'crashes'});
	},
);

storeTest(
	test,
	'retries once on an internal error, then fails, but keeps an accepted message as accepted',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const faults: string[] = [];
		const unreadable: Outcome = {
			...({kind: 'deferred', category: 'greylist', reason: '450 later'} as const),
			get waitMs(): number {
				throw new Error('cannot be read');
			},
		};
		const tries: string[] = [];
		const {scheduler} = schedulerOf(
			store,
			async recipient => {
				tries.push(recipient.address);
				switch (recipient.address) {
					case 'judge@a.test':
						return resultOf(recipient, unreadable);
					case 'site@b.test':
						return {
							...resultOf(recipient, {kind: 'deferred', category: 'greylist', reason: '450'}),
							attempts: [null as never],
						};
					case 'taken@c.test':
						return {...resultOf(recipient, {kind: 'relayed'}), attempts: [null as never]};
					default:
						return resultOf(recipient, {kind: 'delivered'});
				}
			},
			{observer: {faulted: (_error, recipient) => faults.push(recipient.address)}},
		);
		const addresses = ['judge@a.test', 'well@a.test', 'site@b.test', 'taken@c.test'];
		await insertMessages(store, workspaceId, addresses);
		await scheduler.start();
		await waitFor(
			'all',
			async () => (await recipientRows(store.reader).whereNotNull('next_attempt_at')).length === 0,
		);
		await scheduler.stop();
		t.deepEqual(await statesOf(store), {
			'judge@a.test': 'errored',
			'well@a.test': 'delivered',
			'site@b.test': 'errored',
			'taken@c.test': 'sent',
		});
		const twice = ['judge@a.test', 'judge@a.test', 'site@b.test', 'site@b.test', 'taken@c.test'];
		t.deepEqual(faults.toSorted(), twice);
		t.deepEqual(tries.toSorted(), [...twice, 'well@a.test']);
		for (const {detail} of await store.reader('events').where({type: 'errored'})) {
			t.like(JSON.parse(detail), {reason: 'crashes'});
		}
		t.is(scheduler.inFlight, 0);
	},
);

storeTest(test, 'releases and attempts a claim whose commit is not confirmed', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	const errors: unknown[] = [];
	const ends: Array<() => void> = [];
	const tried: string[] = [];
	const {scheduler, recorded} = schedulerOf(
		store,
		recipient => {
			tried.push(recipient.address);
			return new Promise(resolve => ends.push(() => resolve(resultOf(recipient, {kind: 'delivered'}))));
		},
		{
			writer: losingAnswer(store.writer, result => JSON.stringify(result).includes('two@b.test')),
			observer: {storeFailed: error => errors.push(error)},
		},
	);
	await scheduler.start();
	await waitFor('the first', () => tried.length === 1);
	await insertMessages(store, workspaceId, ['two@b.test']);
	scheduler.arriving([{destination: 'b.test', workspaceId}]);
	await waitFor('the one whose claim was not confirmed', () => tried.length === 2);
	t.is(errors.length, 1);
	t.deepEqual(tried, ['one@a.test', 'two@b.test'], 'what is being tried is not tried again');
	for (const end of ends) {
		end();
	}
	await waitFor('both outcomes', () => recorded.length === 2);
	await scheduler.stop();
	t.deepEqual(await statesOf(store), {'one@a.test': 'delivered', 'two@b.test': 'delivered'});
});

storeTest(test, 'reports a failed route lookup with its queue', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	const told: unknown[] = [];
	const {scheduler} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		async routeOf() {
			throw new Error('the stored route is damaged');
		},
		observer: {routeNotFound: (error, queue) => told.push([String(error), queue])},
	});
	await scheduler.start();
	await waitFor('the error', () => told.length > 0);
	await scheduler.stop();
	t.deepEqual(told, [['Error: the stored route is damaged', {destination: 'a.test', workspaceId}]]);
	t.deepEqual(await statesOf(store), {'one@a.test': 'accepted'});
});

storeTest(test, 'repeats a failed query of the store', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	let failures = 0;
	const errors: unknown[] = [];
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		async readSuspensions() {
			if (failures-- > 0) {
				throw new Error('busy');
			}
			return [];
		},
		observer: {storeFailed: error => errors.push(error)},
	});
	await scheduler.start();
	await insertMessages(store, workspaceId, ['one@a.test']);
	failures = 1;
	await scheduler.rescan();
	await waitFor('the copy', () => recorded.length === 1);
	await scheduler.stop();
	t.is(errors.length, 1);
});

storeTest(test, 'ignores a slow query result that is older than a later one', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	let suspended: string[] = [];
	let hold: Promise<unknown> = Promise.resolve();
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		readSuspensions: async () => suspended,
		async readResumed() {
			await hold;
			return new Map();
		},
		readWaitingQueues: async () => [],
	});
	await scheduler.start();
	suspended = ['a.test'];
	let go: () => void = () => undefined;
	hold = new Promise<void>(resolve => {
		go = resolve;
	});
	const first = scheduler.rescan();
	suspended = [];
	hold = Promise.resolve();
	const second = scheduler.rescan();
	await new Promise(setImmediate);
	go();
	await Promise.all([first, second]);
	scheduler.arriving([{destination: 'a.test', workspaceId}]);
	await waitFor('the copy', () => recorded.length === 1);
	await scheduler.stop();
	t.pass();
});

storeTest(test, 'does not report an error after a stored outcome as a failure of the store', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test', 'two@a.test']);
	const faults: string[] = [];
	let followed = 0;
	const {scheduler} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		observer: {
			recorded() {
				followed++;
				throw new Error('no figures');
			},
			lost: () => t.fail('the outcome was written twice'),
			faulted: (error, recipient) => faults.push(`${recipient.address}: ${(error as Error).message}`),
			storeFailed: () => t.fail('the store has not failed'),
		},
	});
	await scheduler.start();
	await waitFor('the outcomes', () => faults.length === 2);
	await waitFor('the lanes', () => scheduler.inFlight === 0);
	t.false(scheduler.isStoreFailing);
	await scheduler.stop();
	t.is(followed, 2);
	t.deepEqual(faults.sort(), ['one@a.test: no figures', 'two@a.test: no figures']);
	t.deepEqual(await statesOf(store), {'one@a.test': 'delivered', 'two@a.test': 'delivered'});
});
