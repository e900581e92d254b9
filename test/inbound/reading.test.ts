import test, {type ExecutionContext} from 'ava';
import {ReadingLoop, readMarkWrite, UnfinishedError, UnreadableError} from '../../src/inbound/reading.ts';
import {takeIn} from '../../src/inbound/take-in.ts';
import {storeTime} from '../../src/kit/time.ts';
import type {CameIn, Reading} from '../../src/mail/report.ts';
import {countUnread} from '../../src/store/inbound-mails.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {waitFor} from '../helpers/wait.ts';

type ReadingOptions = ConstructorParameters<typeof ReadingLoop>[0];

const clock = {now: () => Date.now()};
const nothing: Reading = {
	kind: 'other',
	reports: [],
	clues: {addressees: [], envelopeIds: [], refs: [], messageIds: [], returnPaths: [], unsubscribeAddresses: []},
	fault: null,
};

function readingOf(t: ExecutionContext, store: Store, options: Partial<ReadingOptions> = {}) {
	const read: string[] = [];
	const unreadable: string[] = [];
	const storeErrors: unknown[] = [];
	const reading = new ReadingLoop({
		store,
		node: 'req_a',
		alone: false,
		async read({raw}) {
			read.push(Buffer.from(raw).toString());
			return nothing;
		},
		record: ({id}) => record(store, id),
		clock,
		observer: {
			inboundUnreadable: (_, error) => unreadable.push((error as Error).message),
			storeFailed: error => storeErrors.push(error),
		},
		...options,
	});
	t.teardown(() => reading.stop());
	return {reading, read, unreadable, storeErrors};
}

async function record(store: Store, id: string): Promise<void> {
	await store.writer.submit(readMarkWrite, {
		id,
		at: storeTime(Date.now()),
		kept: null,
		forgotten: false,
		reading: null,
		fault: null,
	});
}

async function take(store: Store, texts: readonly string[], node = 'req_a', at = Date.now()): Promise<void> {
	const options = {writer: store.writer, node, clock: {now: () => at}};
	await Promise.all(
		texts.map(text => takeIn(options, {raw: Buffer.from(text), source: 'smtp', mailFrom: '', rcptTo: ['b@x.test']})),
	);
}

storeTest(test, 'every mail is read once and let go', async (t, store) => {
	const texts = Array.from({length: 300}, (_, n) => `mail ${n}`);
	const {reading, read} = readingOf(t, store);
	await take(store, texts.slice(0, 200));
	reading.wake();
	await take(store, texts.slice(200));
	reading.wake();
	await reading.idle();
	t.deepEqual(read.toSorted(), texts.toSorted());
	t.is(await countUnread(store.reader), 0);
	const left = await store.reader('inbound').select('raw', 'kept', 'size');
	t.true(left.every(({raw, kept}) => raw.length === 0 && kept === null));
	t.true(left[0].size > 0);
});

storeTest(test, 'mails of others are read when they are old, at a start alone all of them', async (t, store) => {
	await take(store, ['old'], 'req_b', Date.now() - 61_000);
	await take(store, ['new'], 'req_b');
	const first = readingOf(t, store);
	first.reading.wake();
	await first.reading.idle();
	t.deepEqual(first.read, ['old']);

	const second = readingOf(t, store, {alone: true});
	second.reading.wake();
	await second.reading.idle();
	t.deepEqual(second.read, ['new']);
	await take(store, ['newer'], 'req_b');
	second.reading.wake();
	await second.reading.idle();
	t.deepEqual(second.read, ['new']);
});

storeTest(test, 'a mail whose DNS is slow is set aside for others, and read when it has answered', async (t, store) => {
	let asked = 0;
	let answer = (): void => undefined;
	const answered = new Promise<void>(resolve => {
		answer = resolve;
	});
	const {reading, read} = readingOf(t, store, {
		ask(raw) {
			const isSlow = raw.toString().startsWith('slow');
			asked += isSlow ? 1 : 0;
			return isSlow ? answered : null;
		},
	});
	await take(store, ['slow 1', 'slow 2', 'quick']);
	reading.wake();
	await reading.idle();
	t.deepEqual(read, ['quick']);
	await take(store, ['next']);
	reading.wake();
	await reading.idle();
	t.deepEqual([read, asked], [['quick', 'next'], 2]);
	t.is(await countUnread(store.reader), 2);
	answer();
	await waitFor('all are read', async () => (await countUnread(store.reader)) === 0);
	t.deepEqual([read.toSorted(), asked], [['next', 'quick', 'slow 1', 'slow 2'], 2]);
});

storeTest(test, 'what cannot be read is kept for a person, and those beside it are read', async (t, store) => {
	const {reading, unreadable} = readingOf(t, store, {
		async read({raw}) {
			if (Buffer.from(raw).toString() === 'bad') {
				throw new UnreadableError('Reading it took longer than 2000 ms.');
			}
			return nothing;
		},
	});
	await take(store, ['good', 'bad', 'fine']);
	reading.wake();
	await reading.idle();
	t.deepEqual(unreadable, ['Reading it took longer than 2000 ms.']);
	const kept = await store.reader('inbound').whereNotNull('kept').select('raw', 'kept', 'fault', 'read_at');
	t.is(kept.length, 1);
	t.is(kept[0].raw.toString(), 'bad');
	t.is(kept[0].kept, 'unread');
	t.is(kept[0].fault, 'Reading it took longer than 2000 ms.');
	t.is(await countUnread(store.reader), 0);
});

storeTest(test, 'a fault in writing it down keeps the mail; a store that fails has it read again', async (t, store) => {
	const failure = (code: string) => Object.assign(new Error(code), {code});
	// Full; of PostgreSQL, a deadlock besides, as often as the writer repeats it.
	const failures = (store.dialect.name === 'sqlite' ? ['SQLITE_FULL'] : ['53100', '40P01']).map(failure);
	const failed: Error[] = [];
	const recorded: string[] = [];
	const {reading, unreadable, storeErrors} = readingOf(t, store, {
		async read({raw}) {
			return {...nothing, fault: Buffer.from(raw).toString()};
		},
		async record({id}: CameIn, {fault}: Reading) {
			if (fault === 'bug') {
				throw new Error('a bug');
			}
			const next = fault === 'later' ? failures.shift() : undefined;
			if (next) {
				failed.push(next);
				throw next;
			}
			recorded.push(fault ?? '');
			await record(store, id);
		},
	});
	await take(store, ['later', 'bug', 'good']);
	reading.wake();
	await reading.idle();
	t.deepEqual(recorded, ['good', 'later']);
	t.deepEqual(unreadable, ['a bug']);
	t.deepEqual(storeErrors, failed);
	t.is(failures.length, 0);
	t.is(await countUnread(store.reader), 0);
});

storeTest(test, 'a look that fails is repeated', async (t, store) => {
	const {reading, read, storeErrors} = readingOf(t, store);
	await take(store, ['x']);
	await store.database.raw('alter table inbound rename to away');
	reading.wake();
	await waitFor('the look failed', () => storeErrors.length > 0);
	await store.database.raw('alter table away rename to inbound');
	await reading.idle();
	t.deepEqual(read, ['x']);
});

storeTest(test, 'stopped: what is under way is written down, what is not stays unread', async (t, store) => {
	let reads = 0;
	let release = (): void => undefined;
	const released = new Promise<void>(resolve => {
		release = resolve;
	});
	const {reading} = readingOf(t, store, {
		async read({raw}) {
			reads++;
			await released;
			if (Buffer.from(raw).toString() === 'unfinished') {
				throw new UnfinishedError('The reader was stopped.');
			}
			return nothing;
		},
	});
	await take(store, ['a', 'unfinished']);
	reading.wake();
	await waitFor('it reads', () => reads === 2);
	const stopped = reading.stop();
	release();
	await stopped;
	t.is(await countUnread(store.reader), 1);
	const again = readingOf(t, store, {alone: true});
	again.reading.wake();
	await again.reading.idle();
	t.is(await countUnread(store.reader), 0);
});
