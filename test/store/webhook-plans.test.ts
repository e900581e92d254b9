import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {deliveryStates} from '../../src/mail/webhook.ts';
import {
	claimDeliveries,
	deliveryClaims,
	readDueEndpoints,
	readEndpointWork,
	writeDeliveryOutcomes,
} from '../../src/resources/webhooks/queue-store.ts';
import {
	findDelivery,
	findNewest,
	listDeliveries,
	replayDeliveries,
	replayDelivery,
} from '../../src/resources/webhooks/store.ts';
import {releaseOthers} from '../../src/store/held-claims.ts';
import {purgeEndpoints} from '../../src/store/retention.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertWorkspace, newId} from '../helpers/messages.ts';
import {plansDuring} from '../helpers/plans.ts';
import {insertDue, insertEndpoint} from '../helpers/webhooks.ts';

/** The plans that scan the whole deliveries table. */
const greedy = (plans: readonly string[]) =>
	plans.filter(plan =>
		/SCAN (?:webhook_(?:deliveries|queue)|d)\b|Seq Scan on webhook_(?:deliveries|queue)/.test(plan),
	);

storeTest(test, 'lists deliveries of one state in the order of an index', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpointId = await insertEndpoint(store, workspaceId);
	await insertDue(store, workspaceId, endpointId, 3);
	for (const state of deliveryStates) {
		const [plan = ''] = await plansDuring(store, engine, async () => {
			await listDeliveries(store.reader, endpointId, {after: null, limit: 25, state});
		});
		t.regex(plan, /webhook_deliveries_by_state/);
		t.notRegex(plan, /Sort|TEMP B-TREE/, plan);
	}
	const page = {after: null, limit: 25, state: 'pending'} as const;
	const countSince = async (since: number) =>
		(await listDeliveries(store.reader, endpointId, {...page, since})).length;
	t.is(await countSince(Date.now() - 3_600_000), 3);
	t.is(await countSince(Date.now() + 3_600_000), 0);
});

storeTest(test, 'claims, attempt results and lists find their deliveries by an index', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpointId = await insertEndpoint(store, workspaceId);
	const [id = '', done = ''] = await insertDue(store, workspaceId, endpointId, 3);
	const now = storeTime(Date.now());
	const boot = newId('req');
	const {transaction} = store.writer;
	const permits = [{endpointId, limit: 4}];
	const filter = {workspaceId, endpointId, since: 0, until: Date.now()};
	const settled = {
		id,
		generation: 0,
		n: 1,
		state: 'failed',
		nextAttemptAt: now,
		at: now,
		end: {status: 500, error: 'x', answer: 'y', ms: 1},
	};
	const plans = await plansDuring(store, engine, async () => {
		await transaction(trx => claimDeliveries(trx, boot, {permits, now}));
		await transaction(trx =>
			writeDeliveryOutcomes(trx, boot, [settled, {...settled, id: done, nextAttemptAt: null}]),
		);
		await transaction(trx => releaseOthers(trx, deliveryClaims, boot, now));
		await readEndpointWork(store.reader);
		await readDueEndpoints(store.reader, now);
		await listDeliveries(store.reader, endpointId, {after: id, limit: 26});
		await findDelivery(store.reader, workspaceId, id);
		await transaction(trx => replayDelivery(trx, workspaceId, id, now));
		await transaction(trx => replayDeliveries(trx, filter, {after: null, limit: 1000, now}));
		await store.database('webhook_endpoints').update({deleted_at: now});
		await transaction(trx => purgeEndpoints(trx, 500));
	});
	t.true(plans.length >= 14);
	t.deepEqual(greedy(plans), []);
	// A daemon has many claims, so a result must look up its row by id.
	const ends = plans.filter(plan =>
		/set next_attempt_at = v.column3|delete from webhook_queue where \(delivery_id/.test(plan),
	);
	t.is(ends.length, 2);
	t.notRegex(ends.join(), /webhook_queue_claimed/);
	// Waiting deliveries are read in due order, however many there are.
	const claims = plans.filter(plan => plan.includes('string_agg'));
	t.is(claims.length, 1);
	t.regex(claims[0] ?? '', /webhook_queue_due/);
	t.notRegex(claims[0] ?? '', /USE TEMP B-TREE FOR ORDER BY|Sort Key: d\.next_attempt_at/);
});

storeTest(
	test,
	'finds the newest delivery of many endpoints with as many statements as of one',
	async (t, store, engine) => {
		const {workspaceId} = await insertWorkspace(store);
		const newest = new Map<string, string | undefined>();
		for (let n = 0; n < 5; n++) {
			const endpointId = await insertEndpoint(store, workspaceId);
			newest.set(
				endpointId,
				n === 0 ? undefined : (await insertDue(store, workspaceId, endpointId, n)).sort().at(-1),
			);
		}
		const find = async (ids: readonly string[]) => await findNewest(store.reader, ids);
		const found = await find([...newest.keys()]);
		for (const [endpointId, id] of newest) {
			t.is(found.get(endpointId)?.id, id);
		}
		const [[one = '']] = [...newest.keys()].slice(-1).map(id => [id]) as [[string]];
		const ofOne = await plansDuring(store, engine, async () => void (await find([one])));
		const ofAll = await plansDuring(store, engine, async () => void (await find([...newest.keys()].slice(1))));
		t.is(ofAll.length, ofOne.length);
		t.deepEqual(greedy(ofAll), []);
	},
);
