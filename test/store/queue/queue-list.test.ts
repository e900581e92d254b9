import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {listQueue, type QueueListing, readQueueSize, summarizeQueue} from '../../../src/store/queue/queue-summary.ts';
import type {Store} from '../../../src/store/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../../helpers/messages.ts';
import {changeRecipients} from '../../helpers/recipient-rows.ts';

const now = Date.now();
const later = storeTime(now + 600_000);

async function prepare(store: Store) {
	const {workspaceId} = await insertWorkspace(store);
	const other = await insertWorkspace(store, 'other');
	const ids = await insertMessages(store, workspaceId, [
		'a@x.test',
		'b@x.test',
		'c@x.test',
		'd@x.test',
		'e@y.test',
		'f@z.test',
	]);
	await insertMessages(store, other.workspaceId, ['g@y.test']);
	const set = (index: number, values: object) =>
		changeRecipients(store.database, all => all.where({message_id: ids[index]}), values);
	await set(1, {next_attempt_at: later, last_reply: '451 later', attempts: 1});
	await set(2, {next_attempt_at: later, claimed_by: 'req_x'});
	await set(3, {held_at: storeTime(now)});
	await set(5, {next_attempt_at: null, state: 'delivered', last_reply: '250 ok'});
	return {workspaceId, other: other.workspaceId, ids};
}

storeTest(
	test,
	'the summary counts ready, deferred, in-flight and held recipients by destination',
	async (t, store) => {
		const {workspaceId, other} = await prepare(store);
		const summarize = (workspace?: string) =>
			summarizeQueue(store.reader, {now: storeTime(now + 300_000), workspaceId: workspace});
		const [x, y, ...rest] = await summarize();
		t.deepEqual(rest, []);
		t.like(x, {destination: 'x.test', ready: 1, deferred: 1, in_flight: 1, held: 1, last_reply: '451 later'});
		t.like(y, {destination: 'y.test', ready: 2, deferred: 0, in_flight: 0, held: 0, last_reply: null});
		const age = Date.now() - Date.parse(x?.oldest ?? '');
		t.true(age >= 0 && age < 120_000, 'accepted just now, by the message id');
		t.deepEqual(
			(await summarize(workspaceId)).map(({destination, ready}) => [destination, ready]),
			[
				['x.test', 1],
				['y.test', 1],
			],
		);
		t.like((await summarize(other))[0], {destination: 'y.test', ready: 1});
	},
);

storeTest(test, 'the summary counts waiting recipients by priority', async (t, store) => {
	await prepare(store);
	await store.database('queue').whereNull('held_at').where({destination: 'x.test'}).update({priority: -1});
	await store.database('queue').where({destination: 'y.test'}).update({priority: 1});
	const [x, y] = await summarizeQueue(store.reader, {now: storeTime(now + 300_000)});
	t.like(x, {destination: 'x.test', ready: 1, deferred: 1, in_flight: 1, held: 1, last_reply: '451 later'});
	t.deepEqual(
		[x?.by_priority, y?.by_priority],
		[
			{high: 0, normal: 0, low: 2},
			{high: 2, normal: 0, low: 0},
		],
	);
	const size = await readQueueSize(store.reader, storeTime(now + 300_000));
	t.deepEqual([size.ready, size.byPriority], [3, {high: 2, normal: 0, low: 1}]);
});

storeTest(test, 'the last reply is that of the most recently deferred recipient with one', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test', 'c@x.test']);
	const replies = ['450 first', '451 second', null];
	for (const [index, last_reply] of replies.entries()) {
		const due = {next_attempt_at: storeTime(now + (index + 1) * 60_000), last_reply};
		await changeRecipients(store.database, all => all.where({message_id: ids[index]}), due);
	}
	const all = await summarizeQueue(store.reader, {now: storeTime(now)});
	const [x] = all;
	for (const row of all) {
		const {destination} = row;
		t.deepEqual(await summarizeQueue(store.reader, {now: storeTime(now), destination}), [row]);
	}
	t.like(x, {deferred: 3, last_reply: '451 second'});
	await store.database('recipients').where({message_id: ids[2]}).update({last_reply: '452 third'});
	const [after] = await summarizeQueue(store.reader, {now: storeTime(now)});
	t.is(after?.last_reply, '452 third');
});

storeTest(test, 'lists every waiting recipient, next due first', async (t, store) => {
	const {workspaceId, ids} = await prepare(store);
	const list = async (filter: Partial<QueueListing>) =>
		(await listQueue(store.reader, {limit: 100, ...filter})).map(({address}) => address);
	t.deepEqual((await list({})).toSorted(), ['a@x.test', 'b@x.test', 'c@x.test', 'd@x.test', 'e@y.test', 'g@y.test']);
	t.deepEqual((await list({})).slice(-2), ['b@x.test', 'c@x.test']);
	t.deepEqual(await list({workspaceId, destination: 'y.test'}), ['e@y.test']);
	t.is((await list({limit: 2})).length, 2);
	t.deepEqual(await list({before: now - 60_000}), []);
	t.is((await list({before: Date.now() + 1000})).length, 6);
	const [deferred] = await listQueue(store.reader, {workspaceId, destination: 'x.test', limit: 4}).then(rows =>
		rows.slice(-2),
	);
	t.like(deferred, {
		message_id: ids[1],
		attempts: 1,
		last_reply: '451 later',
		next_attempt_at: later,
		state: 'accepted',
	});
});
