import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {
	readDeliveryTimes,
	readLastTries,
	readRefusals,
	readSimulated,
	type Sample,
} from '../../src/store/reputation.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';

const now = Date.now();

type End = {readonly state: string; readonly after?: number; readonly waits?: boolean; readonly reply?: string};

/** Ends the `to` recipient of a message after `after` milliseconds. */
async function end(
	store: Store,
	id: string | undefined,
	{state, after = 0, waits = false, reply}: End,
): Promise<string> {
	const recipient = await recipientRows(store.reader).where({message_id: id}).first();
	const at = storeTime(now + after);
	await changeRecipients(store.database, all => all.where({id: recipient.id}), {
		...{state, state_at: at, next_attempt_at: waits ? at : null, attempts: 1},
		...(waits && {last_reply: reply, last_category: 'greylist'}),
	});
	if (state === 'bounced') {
		await store.database('events').insert({
			...{
				id: newId('evt'),
				message_id: id,
				recipient_id: recipient.id,
				type: state,
				occurred_at: at,
				recorded_at: at,
			},
			detail: JSON.stringify({category: 'unknown_user', reply}),
		});
	}
	return recipient.id;
}

async function converse(store: Store, recipientId: string, n: number, position: number, more: object): Promise<void> {
	await store.database('attempts').insert({
		...{
			recipient_id: recipientId,
			n,
			position,
			at: storeTime(now),
			phase: 'dot',
			code: 250,
			reply: '250 ok',
			ms: 1,
		},
		...more,
	});
}

/** Two workspaces. In the first one, two messages are delivered, one has bounced and one is waiting. */
async function prepare(store: Store) {
	const {workspaceId} = await insertWorkspace(store, 'own');
	const other = await insertWorkspace(store, 'other');
	const addresses = ['a@x.test', 'b@x.test', 'c@y.test', 'd@y.test', 'e@simulator.test', 'f@simulator.test'];
	const ids = await insertMessages(store, workspaceId, addresses);
	const [foreign] = await insertMessages(store, other.workspaceId, ['a@x.test']);
	const first = await end(store, ids[0], {state: 'delivered', after: 60_000});
	await end(store, ids[1], {state: 'delivered', after: 120_000});
	await end(store, ids[2], {state: 'bounced', reply: '550 5.1.1 no such user'});
	await end(store, ids[3], {state: 'sent', waits: true, reply: '451 4.7.1 later'});
	await end(store, ids[4], {state: 'delivered'});
	await end(store, ids[5], {state: 'bounced', reply: '550 simulated'});
	await end(store, foreign, {state: 'delivered'});
	await converse(store, first, 1, 0, {host: 'mx1.x.test', code: 451, reply: '451 later'});
	await converse(store, first, 2, 0, {host: 'mx1.x.test', code: null, reply: 'connect ETIMEDOUT'});
	await converse(store, first, 2, 1, {host: 'mx2.x.test', tls: 'TLSv1.3 verified'});
	const sample: Sample = {workspaceId, since: now - 3_600_000, limit: 100};
	return {sample, ids};
}

storeTest(test, 'reads delivery times, without simulated messages', async (t, store) => {
	const {sample} = await prepare(store);
	const times = await readDeliveryTimes(store.reader, sample);
	t.deepEqual(
		times.map(time => Math.round(time / 60_000)),
		[2, 1],
		'the newest first',
	);
	t.is((await readDeliveryTimes(store.reader, {...sample, since: now + 3_600_000})).length, 0);
});

storeTest(test, 'reads the refusals of bounced and waiting messages', async (t, store) => {
	const {sample} = await prepare(store);
	t.deepEqual(await readRefusals(store.reader, sample), [
		{destination: 'y.test', category: 'unknown_user', reply: '550 5.1.1 no such user', isQueued: false},
		{destination: 'y.test', category: 'greylist', reply: '451 4.7.1 later', isQueued: true},
	]);
});

storeTest(test, 'returns each recipient of the newest messages once, with its last session', async (t, store) => {
	const {sample} = await prepare(store);
	const recipients = await readLastTries(store.reader, sample);
	t.is(recipients.length, 6, 'simulated ones too');
	t.deepEqual(recipients[0], {
		...{destination: 'x.test', state: 'delivered', attempts: 1, isQueued: false},
		...{host: 'mx2.x.test', tls: 'TLSv1.3 verified', code: 250},
	});
	t.deepEqual(recipients[3], {
		...{destination: 'y.test', state: 'sent', attempts: 1, isQueued: true},
		...{host: null, tls: null, code: null},
	});
	t.is((await readLastTries(store.reader, {...sample, limit: 3})).length, 3);
});

storeTest(test, 'reads simulated messages on request', async (t, store) => {
	const {sample} = await prepare(store);
	const simulated = await readSimulated(store.reader, sample);
	t.deepEqual(simulated.map(({state}) => state).toSorted(), ['bounced', 'delivered']);
	t.true(simulated.every(({at}) => at >= sample.since));
	t.is((await readDeliveryTimes(store.reader, {...sample, simulated: true})).length, 3);
	t.is((await readRefusals(store.reader, {...sample, simulated: true})).length, 3);
	t.deepEqual(await readSimulated(store.reader, {...sample, since: now + 3_600_000}), []);
});

storeTest(test, 'no sample scans a whole table', async (t, store, engine) => {
	const {sample} = await prepare(store);
	for (const read of [readDeliveryTimes, readRefusals, readSimulated, readLastTries]) {
		for (const plan of await plansDuring(store, engine, () => read(store.reader, sample))) {
			t.false(readsAll(plan), plan);
		}
	}
});
