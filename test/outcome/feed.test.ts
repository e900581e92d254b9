import test, {type ExecutionContext} from 'ava';
import {createFeed, type Feed} from '../../src/outcome/feed.ts';
import {migrate} from '../../src/store/engine/migrate.ts';
import type {StreamedEvent} from '../../src/store/event-stream.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {insertEvents} from '../../src/store/timeline.ts';
import {engines, newLocation, storeTest} from '../helpers/databases.ts';
import {newEvent, startLateWrite} from '../helpers/events.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';

function startFeed(t: ExecutionContext, store: Store): Feed {
	const feed = createFeed(store.reader, 10);
	t.teardown(feed.close);
	return feed;
}

async function prepare(store: Store, name = 'test') {
	const {workspaceId} = await insertWorkspace(store, name);
	const [message = ''] = await insertMessages(store, workspaceId, ['a@x.test']);
	return {workspaceId, message};
}

/** Follows until it has this many events; calls `looked` on each poll. */
async function take(
	feed: Feed,
	workspaceId: string,
	{
		after,
		count,
		looked = () => undefined,
	}: {after: number | null; count: number; looked?: (looks: number) => unknown},
): Promise<StreamedEvent[]> {
	const events: StreamedEvent[] = [];
	let looks = 0;
	for await (const part of await feed.open(workspaceId, after)) {
		events.push(...part.events);
		if (events.length >= count) {
			break;
		}
		await looked(++looks);
	}
	return events;
}

const write = (store: Store, messages: readonly string[]) => {
	const events = messages.map(message => newEvent(message));
	return store.writer.transaction(trx => insertEvents(trx, events)).then(() => events.map(({id}) => id));
};
const idsOf = (events: readonly StreamedEvent[]) => events.map(({id}) => id);

storeTest(test, 'streams new events of the own workspace only, and resumes where it stopped', async (t, store) => {
	const feed = startFeed(t, store);
	const [own, other] = [await prepare(store), await prepare(store, 'other')];
	await write(store, [own.message]);
	const written: string[] = [];
	const first = await take(feed, own.workspaceId, {
		after: null,
		count: 2,
		looked: async looks =>
			looks < 3 && written.push(...(await write(store, [other.message, own.message])).slice(1)),
	});
	t.deepEqual(idsOf(first), written);
	const missed = await write(store, [own.message, other.message, own.message]);
	const next = await take(feed, own.workspaceId, {after: first.at(-1)?.position ?? 0, count: 2});
	t.deepEqual(idsOf(next), [missed[0], missed[2]]);
});

storeTest(
	test,
	'shares reads between followers at the same position, and reads nothing without followers',
	async (t, store) => {
		const feed = startFeed(t, store);
		const {workspaceId, message} = await prepare(store);
		const statements: string[] = [];
		store.reader.on('query', ({sql}) => statements.push(sql));
		let begun = 0;
		let written: Promise<unknown> | undefined;
		const all = await Promise.all(
			[1, 2, 3].map(() =>
				take(feed, workspaceId, {
					after: null,
					count: 1,
					looked(looks) {
						begun += looks === 1 ? 1 : 0;
						if (begun === 3) {
							// Not awaited: a follower that waits might poll after the others have read it.
							written ??= write(store, [message]);
						}
					},
				}),
			),
		);
		await written;
		t.deepEqual(
			all.map(events => events.length),
			[1, 1, 1],
		);
		t.is(statements.filter(sql => sql.includes('join messages')).length, 1);
		statements.length = 0;
		await write(store, [message]);
		t.deepEqual(statements, []);
	},
);

storeTest(test, 'ends all streams when the feed closes', async (t, store) => {
	const feed = createFeed(store.reader, 600_000);
	const {workspaceId} = await prepare(store);
	const parts = await feed.open(workspaceId, null);
	const ending = (async () => {
		for await (const {events} of parts) {
			t.deepEqual(events, []);
			setImmediate(feed.close);
		}
	})();
	await t.notThrowsAsync(ending);
	t.true(feed.closing.aborted);
});

if (engines.includes('postgres')) {
	test('skips no event when transactions of several nodes commit out of order', async t => {
		const location = await newLocation(t, 'postgres');
		const nodes = await Promise.all([1, 2, 3].map(() => openStore(location)));
		t.teardown(() => Promise.all(nodes.map(node => node.close())));
		const [node] = nodes as [Store, ...Store[]];
		await migrate(node.database);
		const {workspaceId, message} = await prepare(node);
		const feed = startFeed(t, node);
		const late = await startLateWrite(t, node, message);
		// Writes in progress when the stream began must have completed, or be part of it.
		const opening = take(feed, workspaceId, {after: 0, count: 1 + 3 * 40});
		const written = await Promise.all(
			nodes.map(async store => {
				const ids: string[] = [];
				for (let n = 0; n < 20; n++) {
					ids.push(...(await write(store, [message, message])));
				}
				return ids;
			}),
		);
		await late.end();
		const ids = idsOf(await opening);
		t.deepEqual(ids.toSorted(), [late.event.id, ...written.flat()].toSorted());
		t.is(ids[0], late.event.id);
		for (const own of written) {
			t.deepEqual(
				ids.filter(id => own.includes(id)),
				own,
			);
		}
	});

	test('streams everything committed after it opens, even if others were writing when it began', async t => {
		const location = await newLocation(t, 'postgres');
		const store = await openStore(location);
		t.teardown(() => store.close());
		await migrate(store.database);
		const {workspaceId, message} = await prepare(store);
		const feed = startFeed(t, store);
		const late = await startLateWrite(t, store, message);
		let isOpen = false;
		const opening = feed.open(workspaceId, null).finally(() => {
			isOpen = true;
		});
		await write(store, [message]);
		t.false(isOpen, 'nobody knows yet where it begins');
		await late.end();
		const parts = await opening;
		const after = await write(store, [message]);
		for await (const {events} of parts) {
			if (events.length > 0) {
				t.is(events.at(-1)?.id, after[0]);
				break;
			}
		}
	});
}

storeTest(test, 'notifies a listener about news of its own workspace, at the next poll', async (t, store) => {
	const feed = startFeed(t, store);
	const [own, other] = [await prepare(store), await prepare(store, 'other')];
	await write(store, [own.message]);
	const heard: boolean[] = [];
	const writes = [[other.message], [own.message, other.message], [], [own.message]];
	for await (const hasNews of await feed.news(own.workspaceId)) {
		heard.push(hasNews);
		// On PostgreSQL an event is settled one poll after the one that saw its transaction.
		if (heard.filter(Boolean).length === 2) {
			break;
		}
		const messages = writes.shift() ?? [];
		await (messages.length > 0 && write(store, messages));
	}
	t.false(heard[0]);
	t.is(writes.length, 0);
});
