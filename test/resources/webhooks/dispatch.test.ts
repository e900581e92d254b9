import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {performIn, Refused} from '../../../src/resources/operation.ts';
import {deliveryClaims} from '../../../src/resources/webhooks/queue-store.ts';
import {disableEndpoint, enableEndpoint, removeEndpoint} from '../../../src/resources/webhooks/rules.ts';
import {replayDelivery} from '../../../src/resources/webhooks/store.ts';
import {releaseOthers} from '../../../src/store/held-claims.ts';
import {purgeEndpoints} from '../../../src/store/retention.ts';
import type {Store} from '../../../src/store/store.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {losingAnswer} from '../../helpers/losing-answer.ts';
import {insertWorkspace} from '../../helpers/messages.ts';
import {testTools, testVault} from '../../helpers/tools.ts';
import {waitFor} from '../../helpers/wait.ts';
import {
	acknowledged,
	dispatcherOf,
	heldPosts,
	insertDue,
	insertEndpoint,
	refused,
	rowOf,
	statesOf,
} from '../../helpers/webhooks.ts';

const now = () => storeTime(Date.now());

async function change(store: Store, operation: typeof removeEndpoint, workspaceId: string, id: string) {
	const context = {face: 'cli', workspaceId, mode: 'live', tools: testTools(), vault: async () => testVault} as const;
	return await store.writer.transaction(trx => performIn(operation, {...context, trx}, {id}));
}

storeTest(test, 'posts due deliveries once, in order, with their stored bytes', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const overlap = {previous_secret: 'older', previous_until: '2026-06-09T10:15:30.123Z'};
	const endpoint = await insertEndpoint(store, workspaceId, overlap);
	const ids = await insertDue(store, workspaceId, endpoint, 50);
	const begun: string[] = [];
	const {dispatcher, attempted} = dispatcherOf(store, async delivery => {
		begun.push(delivery.id);
		t.is(Buffer.from(delivery.body).toString(), '{"type":"delivered"}');
		t.like(delivery, {
			endpointId: endpoint,
			workspaceId,
			url: `https://shop.example/${endpoint}`,
			secret: 'sealed',
		});
		t.like(delivery, {previousSecret: 'older', previousUntil: '2026-06-09T10:15:30.123Z'});
		return acknowledged;
	});
	await dispatcher.start();
	await waitFor('all are delivered', async () => (await statesOf(store)).delivered === 50);
	await dispatcher.stop();
	t.deepEqual(begun, ids);
	t.is(attempted.length, 50);
	t.like(await rowOf(store, ids[0] as string), {attempts: 1, claimed_by: null, next_attempt_at: null});
	t.is((await store.reader('webhook_attempts')).length, 50);
});

sqliteTest(test, 'an attempt that cannot start is not counted or stored and happens later', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const [id = ''] = await insertDue(store, workspaceId, endpoint, 1);
	let begun = 0;
	const {dispatcher} = dispatcherOf(store, async () => (++begun < 12 ? null : acknowledged));
	await dispatcher.start();
	await waitFor('it is delivered', async () => (await statesOf(store)).delivered === 1);
	await dispatcher.stop();
	t.is(begun, 12);
	t.like(await rowOf(store, id), {attempts: 1, claimed_by: null});
	t.is((await store.reader('webhook_attempts')).length, 1);
});

storeTest(test, 'posts at most four at once in order, and one at a time after a failure', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const ids = await insertDue(store, workspaceId, endpoint, 10);
	const {held, post} = heldPosts();
	const {dispatcher} = dispatcherOf(store, post, {backoffMs: 60_000});
	await dispatcher.start();
	await waitFor('four are under way', () => held.length === 4);
	held[3]?.end(acknowledged);
	await waitFor('the fifth starts though three before it last', () => held.length === 5);
	held[0]?.end(refused);
	held[1]?.end(acknowledged);
	held[2]?.end(acknowledged);
	await waitFor('three more start', () => held.length === 8);
	t.deepEqual(
		held.map(({delivery}) => delivery.id),
		ids.slice(0, 8),
	);
	for (const one of held.slice(4, 8)) {
		one.end(refused);
	}
	await waitFor('one alone starts', () => held.length === 9);
	t.is(dispatcher.inFlight, 1);
	held[8]?.end(acknowledged);
	await waitFor('the last starts', () => held.length === 10);
	held[9]?.end(acknowledged);
	await dispatcher.stop();
	t.deepEqual(await statesOf(store), {delivered: 5, failed: 5});
});

sqliteTest(
	test,
	'five failed attempts are stored, exhaust a delivery and mark the endpoint as failing',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const endpoint = await insertEndpoint(store, workspaceId);
		const [id = ''] = await insertDue(store, workspaceId, endpoint, 1);
		const {dispatcher, attempted} = dispatcherOf(store, async () => refused, {backoffMs: 50});
		await dispatcher.start();
		await waitFor('it is exhausted', () => attempted.length === 5);
		t.like(await rowOf(store, id), {state: 'exhausted', attempts: 5, next_attempt_at: null, claimed_by: null});
		t.deepEqual(
			attempted.map(({after}) => [after.attempts, after.state]),
			[1, 2, 3, 4, 5].map(n => [n, n === 5 ? 'exhausted' : 'failed']),
		);
		for (const [index, {ended}] of attempted.slice(0, -1).entries()) {
			t.true((attempted[index + 1]?.began ?? 0) >= ended + 50, 'the backoff counts from the end');
		}
		const posts = await store.reader('webhook_attempts').orderBy('n');
		t.deepEqual(
			posts.map(({n, status, error}) => [n, status, error]),
			[1, 2, 3, 4, 5].map(n => [n, 503, 'the server responded with 503']),
		);
		const noted = await store.reader('webhook_endpoints').first();
		t.is(noted.failing_since, storeTime(attempted[0]?.ended ?? 0));

		await store.writer.transaction(trx => replayDelivery(trx, workspaceId, id, now()));
		dispatcher.due([endpoint]);
		await waitFor('the replay is exhausted too', () => attempted.length === 10);
		t.like(await rowOf(store, id), {attempts: 5, generation: 1, state: 'exhausted'});
		t.is((await store.reader('webhook_attempts')).length, 10);
		await dispatcher.stop();
	},
);

sqliteTest(test, 'a recovered endpoint is no longer marked as failing and gets its backlog', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	await insertDue(store, workspaceId, endpoint, 200);
	let refusals = 0;
	let isWell = (): void => undefined;
	const well = new Promise<void>(resolve => {
		isWell = resolve;
	});
	const {dispatcher, attempted} = dispatcherOf(store, async () => {
		if (refusals < 4) {
			refusals++;
			return refused;
		}
		await well;
		return acknowledged;
	});
	await dispatcher.start();
	await waitFor('it fails', () => attempted.length === 4);
	t.truthy((await store.reader('webhook_endpoints').first()).failing_since);
	isWell();
	await waitFor('all are delivered', async () => (await statesOf(store)).delivered === 200);
	t.is((await store.reader('webhook_endpoints').first()).failing_since, null);
	await dispatcher.stop();
});

storeTest(test, 'a replay during an attempt wins; the result of the attempt is only stored', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const [id = ''] = await insertDue(store, workspaceId, endpoint, 1);
	const {held, post} = heldPosts();
	const {dispatcher} = dispatcherOf(store, post);
	await dispatcher.start();
	await waitFor('it is under way', () => held.length === 1);
	const replayed = await store.writer.transaction(trx => replayDelivery(trx, workspaceId, id, now()));
	t.like(replayed, {id, state: 'pending', attempts: 0});
	dispatcher.due([endpoint]);
	await waitFor('it is tried anew', () => held.length === 2);
	held[0]?.end(acknowledged);
	await waitFor('the first end is kept', async () => (await store.reader('webhook_attempts')).length === 1);
	t.like(await rowOf(store, id), {state: 'pending', attempts: 0, generation: 1});
	held[1]?.end(refused);
	await waitFor('the second end counts', async () => (await rowOf(store, id)).state === 'failed');
	t.like(await rowOf(store, id), {attempts: 1, generation: 1});
	t.deepEqual(
		(await store.reader('webhook_attempts').orderBy('generation')).map(({generation, n, status}) => [
			generation,
			n,
			status,
		]),
		[
			[0, 1, 200],
			[1, 1, 503],
		],
	);
	await waitFor('it is due again', () => held.length === 3);
	held[2]?.end(acknowledged);
	await dispatcher.stop();
});

storeTest(
	test,
	'deleting an endpoint stops its deliveries at once and removes its rows in batches',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const endpoint = await insertEndpoint(store, workspaceId);
		const [, , , , fifth = ''] = await insertDue(store, workspaceId, endpoint, 30);
		const {held, post} = heldPosts();
		const {dispatcher, attempted} = dispatcherOf(store, post);
		await dispatcher.start();
		await waitFor('four are under way', () => held.length === 4);
		t.is((await change(store, removeEndpoint, workspaceId, endpoint)).id, endpoint);
		await t.throwsAsync(change(store, removeEndpoint, workspaceId, endpoint), {instanceOf: Refused});
		t.is(await store.writer.transaction(trx => replayDelivery(trx, workspaceId, fifth, now())), undefined);
		held[0]?.end(acknowledged);
		await waitFor('the end is stored', () => attempted.length === 1);
		t.is(held.length, 4, 'nothing more starts');

		const purge = () => store.writer.transaction(trx => purgeEndpoints(trx, 20));
		t.deepEqual([await purge(), await purge(), await purge(), await purge()], [true, true, true, false]);
		t.is((await store.reader('webhook_endpoints')).length, 0);
		for (const one of held.slice(1)) {
			one.end(refused);
		}
		await dispatcher.stop();
		t.is((await store.reader('webhook_deliveries')).length, 0);
		t.is((await store.reader('webhook_attempts')).length, 0);
	},
);

storeTest(test, 'deliveries of a disabled endpoint wait until it is enabled', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId, {disabled_at: now()});
	const other = await insertEndpoint(store, workspaceId);
	await insertDue(store, workspaceId, endpoint, 3);
	await insertDue(store, workspaceId, other, 1);
	const {dispatcher, attempted} = dispatcherOf(store, async () => acknowledged);
	await dispatcher.start();
	dispatcher.due([endpoint]);
	await waitFor('the other is posted', () => attempted.length === 1);
	t.deepEqual(await statesOf(store), {pending: 3, delivered: 1});
	t.like(await change(store, enableEndpoint, workspaceId, endpoint), {disabledAt: null});
	await dispatcher.rescan();
	await waitFor('what waited is posted', () => attempted.length === 4);
	await dispatcher.stop();
});

storeTest(
	test,
	'starts prefetched deliveries without the store, but not after their endpoint is disabled',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const endpoint = await insertEndpoint(store, workspaceId);
		const ids = await insertDue(store, workspaceId, endpoint, 30);
		const {held, post} = heldPosts();
		const {dispatcher, boot} = dispatcherOf(store, post);
		const claimed = async () =>
			(await store
				.reader('webhook_queue')
				.where({claimed_by: boot})
				.orderBy('delivery_id')
				.pluck('delivery_id')) as string[];
		await dispatcher.start();
		await waitFor('four are under way', () => held.length === 4);
		held[0]?.end(acknowledged);
		// What is claimed begins a moment after its commit.
		await waitFor('sixteen more are claimed', async () => (await claimed()).length === 20 && held.length >= 5);
		t.deepEqual(await claimed(), ids.slice(1, 21));
		t.is(held.length, 5);
		for (const one of held.slice(1, 3)) {
			one.end(acknowledged);
		}
		await waitFor('two begin in their place', () => held.length === 7);
		await waitFor('others are claimed in theirs', async () => (await claimed()).length === 20);

		await change(store, disableEndpoint, workspaceId, endpoint);
		await dispatcher.rescan();
		await waitFor('what waited is given back', async () => (await claimed()).length === 4);
		for (const one of held.slice(3)) {
			one.end(acknowledged);
		}
		await dispatcher.stop();
		t.is(held.length, 7);
		t.deepEqual(await statesOf(store), {delivered: 7, pending: 23});
		t.deepEqual(await claimed(), []);
	},
);

sqliteTest(test, 'posts the claims of a dead daemon, but not those of a running one', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	await insertDue(store, workspaceId, endpoint, 3);
	const dead = heldPosts();
	const {dispatcher: crashed} = dispatcherOf(store, dead.post);
	await crashed.start();
	await waitFor('they are under way', () => dead.held.length === 3);

	const {dispatcher, attempted, boot} = dispatcherOf(store, async () => acknowledged);
	await dispatcher.start();
	dispatcher.due([endpoint]);
	t.is(attempted.length, 0);
	t.is(await store.writer.transaction(trx => releaseOthers(trx, deliveryClaims, boot, now())), 3);
	await dispatcher.rescan();
	await waitFor('they are delivered', async () => (await statesOf(store)).delivered === 3);
	t.like((await store.reader('webhook_deliveries').first()) as object, {attempts: 1});

	for (const one of dead.held) {
		one.end(refused);
	}
	await crashed.stop();
	t.deepEqual(await statesOf(store), {delivered: 3}, 'the dead one moves nothing');
	await dispatcher.stop();
});

storeTest(test, 'two daemons on one store post each delivery once', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoints = await Promise.all([1, 2, 3].map(() => insertEndpoint(store, workspaceId)));
	for (const endpoint of endpoints) {
		await insertDue(store, workspaceId, endpoint, 40);
	}
	const posted: string[] = [];
	const post = async ({id}: {id: string}) => {
		posted.push(id);
		return acknowledged;
	};
	const daemons = [dispatcherOf(store, post), dispatcherOf(store, post)];
	await Promise.all(daemons.map(({dispatcher}) => dispatcher.start()));
	await waitFor('all are delivered', async () => (await statesOf(store)).delivered === 120);
	await Promise.all(daemons.map(({dispatcher}) => dispatcher.stop()));
	t.is(posted.length, 120, engine);
	t.is(new Set(posted).size, 120);
});

storeTest(test, 'keeps a result that cannot be stored, and claims nothing until it is stored', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const ids = await insertDue(store, workspaceId, endpoint, 6);
	const {held, post} = heldPosts();
	const errors: unknown[] = [];
	let failing = false;
	const {dispatcher} = dispatcherOf(store, post, {
		writer: {
			...store.writer,
			submit: async (write, item) => {
				if (failing) {
					throw new Error('disk full');
				}
				return await store.writer.submit(write, item);
			},
		},
		onStoreError: error => errors.push(error),
	});
	await dispatcher.start();
	await waitFor('four are under way', () => held.length === 4);
	failing = true;
	held[0]?.end(acknowledged);
	await waitFor('it cannot be stored', () => errors.length > 0);
	t.is(held.length, 4);
	failing = false;
	await waitFor('it is stored', async () => (await rowOf(store, ids[0] as string)).state === 'delivered');
	await waitFor('the next starts', () => held.length === 5);
	for (const one of held.slice(1)) {
		one.end(acknowledged);
	}
	await waitFor('the last starts', () => held.length === 6);
	held[5]?.end(acknowledged);
	await dispatcher.stop();
	t.deepEqual(await statesOf(store), {delivered: 6});
});

storeTest(test, 'starts prefetched deliveries with a free slot even if the store fails', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const other = await insertEndpoint(store, workspaceId);
	const ids = await insertDue(store, workspaceId, endpoint, 10);
	const {held, post} = heldPosts();
	let failing = false;
	const {dispatcher} = dispatcherOf(store, post, {
		perEndpoint: 3,
		total: 3,
		backoffMs: 60_000,
		writer: {
			...store.writer,
			submit: async (write, item) => {
				if (failing) {
					throw new Error('disk full');
				}
				return await store.writer.submit(write, item);
			},
		},
		onStoreError: () => undefined,
	});
	await dispatcher.start();
	await waitFor('three are under way', () => held.length === 3);
	held[0]?.end(acknowledged);
	await waitFor('three wait in memory', async () => {
		const [row] = await store.reader('webhook_queue').whereNotNull('claimed_by').count('* as n');
		return Number(row?.n) === 6 && held.length === 4;
	});
	await insertDue(store, workspaceId, other, 2);
	for (const one of held.slice(1, 4)) {
		one.end(refused);
	}
	dispatcher.due([other]);
	await waitFor('one begins alone, and the two of the other', () => held.length === 7);
	held[4]?.end(acknowledged);
	await waitFor('the next begins, and the last waits for a place', () => held.length === 8);
	await waitFor('its end is stored', async () => (await rowOf(store, ids[4] as string)).state === 'delivered');
	failing = true;
	held[5]?.end(acknowledged);
	await waitFor('it has one', () => held.length === 9);
	t.is(held[8]?.delivery.id, ids[6]);
	failing = false;
	await waitFor('all are posted', () => {
		for (const one of held) {
			one.end(acknowledged);
		}
		return held.length === 12;
	});
	held[11]?.end(acknowledged);
	await dispatcher.stop();
	t.deepEqual(await statesOf(store), {delivered: 9, failed: 3});
});

sqliteTest(test, 'does not start prefetched deliveries of a deleted endpoint', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	await insertDue(store, workspaceId, endpoint, 12);
	const {held, post} = heldPosts();
	const {dispatcher} = dispatcherOf(store, post);
	await dispatcher.start();
	await waitFor('four are under way', () => held.length === 4);
	held[0]?.end(acknowledged);
	await waitFor('the others are claimed', async () => {
		const [row] = await store.reader('webhook_queue').whereNotNull('claimed_by').count('* as n');
		return Number(row?.n) === 11 && held.length === 5;
	});
	await change(store, removeEndpoint, workspaceId, endpoint);
	dispatcher.recall();
	for (const one of held) {
		one.end(acknowledged);
	}
	await dispatcher.stop();
	t.is(held.length, 5);
});

sqliteTest(test, 'a success of a delivery claimed before a failure ends the failing state', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	await insertDue(store, workspaceId, endpoint, 8);
	const {held, post} = heldPosts();
	const {dispatcher} = dispatcherOf(store, post, {backoffMs: 60_000});
	const failingSince = async () => (await store.reader('webhook_endpoints').first()).failing_since;
	await dispatcher.start();
	await waitFor('four are under way', () => held.length === 4);
	held[0]?.end(acknowledged);
	await waitFor('the others are claimed', async () => {
		const [row] = await store.reader('webhook_queue').whereNotNull('claimed_by').count('* as n');
		return Number(row?.n) === 7;
	});
	held[1]?.end(refused);
	await waitFor('it fails', async () => (await failingSince()) !== null);
	for (let n = 2; n < 8; n++) {
		await waitFor('the next is under way', () => held.length > n);
		held[n]?.end(acknowledged);
	}
	await dispatcher.stop();
	t.deepEqual(await statesOf(store), {delivered: 7, failed: 1});
	t.is(await failingSince(), null);
});

sqliteTest(test, 'released deliveries keep their order', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const ids = await insertDue(store, workspaceId, endpoint, 30);
	const {held, post} = heldPosts();
	const {dispatcher} = dispatcherOf(store, post);
	await dispatcher.start();
	for (let n = 0; n < 30; n++) {
		await waitFor('the next is under way', () => held.length > n);
		if (n % 5 === 3) {
			await dispatcher.rescan();
		}
		held[n]?.end(acknowledged);
	}
	await dispatcher.stop();
	t.deepEqual(
		held.map(({delivery}) => delivery.id),
		ids,
	);
});

sqliteTest(test, 'an internal error is a failed attempt and does not stop the others', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const [id = ''] = await insertDue(store, workspaceId, endpoint, 1);
	const faults: unknown[] = [];
	const {dispatcher} = dispatcherOf(store, () => Promise.reject(new Error('bug')), {
		observer: {posted: () => undefined, webhookProblem: error => faults.push(error)},
		backoffMs: 60_000,
	});
	await dispatcher.start();
	await waitFor('it has failed', async () => (await rowOf(store, id)).state === 'failed');
	t.is(faults.length, 1);
	await dispatcher.stop();
});

sqliteTest(test, 'a dead endpoint with thousands of deliveries does not delay another', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const dead = await insertEndpoint(store, workspaceId);
	const live = await insertEndpoint(store, workspaceId);
	await insertDue(store, workspaceId, dead, 3000);
	const {held, post} = heldPosts();
	const {dispatcher, attempted} = dispatcherOf(store, async delivery =>
		delivery.endpointId === dead ? await post(delivery) : acknowledged,
	);
	await dispatcher.start();
	await waitFor('the dead one is tried', () => held.length === 4);
	for (let n = 1; n <= 20; n++) {
		await insertDue(store, workspaceId, live, 1);
		dispatcher.due([live]);
		await waitFor('the live one gets it', () => attempted.length === n);
	}
	t.is(held.length, 4);
	for (const one of held) {
		one.end(refused);
	}
	await waitFor('one more is tried', () => held.length === 5);
	held[4]?.end(refused);
	await dispatcher.stop();
});

storeTest(test, 'releases and posts a claim whose commit was not confirmed', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const ids = await insertDue(store, workspaceId, endpoint, 6);
	const errors: unknown[] = [];
	const {held, post} = heldPosts();
	const writer = losingAnswer(store.writer, result => JSON.stringify(result).includes(ids[4] as string));
	const {dispatcher} = dispatcherOf(store, post, {writer, onStoreError: error => errors.push(error)});
	await dispatcher.start();
	await waitFor('four are under way', () => held.length === 4);
	held[0]?.end(acknowledged);
	await waitFor('all, also the one whose claim was not confirmed', () => {
		for (const one of held.slice(1)) {
			one.end(acknowledged);
		}
		return held.length === 6;
	});
	held[5]?.end(acknowledged);
	await dispatcher.stop();
	t.is(errors.length, 1);
	t.deepEqual(held.map(({delivery}) => delivery.id).sort(), ids, 'each is tried once');
	t.deepEqual(await statesOf(store), {delivered: 6});
});

storeTest(
	test,
	'with long retry a 410 disables the endpoint, keeps its deliveries, and notifies other endpoints',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const endpoint = await insertEndpoint(store, workspaceId, {retry: 'long'});
		const other = await insertEndpoint(store, workspaceId, {events: ['endpoint_disabled']});
		const ids = await insertDue(store, workspaceId, endpoint, 20);
		const posts: string[] = [];
		const {dispatcher, attempted} = dispatcherOf(store, async ({endpointId, body}) => {
			posts.push(endpointId);
			return endpointId === other
				? {...acknowledged, answer: Buffer.from(body).toString()}
				: {...refused, status: 410, error: 'the server responded with 410'};
		});
		await dispatcher.start();
		await waitFor(
			'it is disabled',
			async () => (await store.reader('webhook_endpoints').where({id: endpoint}).first()).disabled_at,
		);
		await dispatcher.rescan();
		await waitFor('the other learns of it', () => posts.includes(other));
		await dispatcher.stop();
		t.like(await store.reader('webhook_endpoints').where({id: endpoint}).first(), {disabled_reason: 'gone'});
		t.is(
			await statesOf(store).then(({pending = 0}) => pending),
			ids.length - posts.filter(id => id === endpoint).length,
		);
		const notice = attempted.find(({delivery}) => delivery.endpointId === other)?.end?.answer ?? '';
		t.like(JSON.parse(notice), {
			type: 'endpoint_disabled',
			detail: {endpoint, host: 'shop.example', reason: 'gone'},
		});
		t.is(
			await store
				.reader('webhook_deliveries')
				.where({endpoint_id: other})
				.then(rows => rows.length),
			1,
		);

		await change(store, enableEndpoint, workspaceId, endpoint);
		t.like(await store.reader('webhook_endpoints').where({id: endpoint}).first(), {
			disabled_at: null,
			disabled_reason: null,
		});
	},
);

sqliteTest(test, 'long retry continues after the fifth attempt, counted from the first', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId, {retry: 'long'});
	const [id = ''] = await insertDue(store, workspaceId, endpoint, 1);
	const first: Array<string | null> = [];
	const {dispatcher} = dispatcherOf(
		store,
		async ({firstAt}) => {
			first.push(firstAt);
			return first.length === 7 ? acknowledged : refused;
		},
		{backoffMs: 5},
	);
	await dispatcher.start();
	await waitFor('it is delivered', async () => (await statesOf(store)).delivered === 1);
	await dispatcher.stop();
	t.like(await rowOf(store, id), {attempts: 7, state: 'delivered'});
	t.is(first[0], null);
	t.is(new Set(first.slice(1)).size, 1);
});
