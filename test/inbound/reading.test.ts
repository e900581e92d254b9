import test, {type ExecutionContext} from 'ava';
import {acceptInbound} from '../../src/inbound/accept-inbound.ts';
import type {DnsLookups} from '../../src/inbound/dns-answers.ts';
import {UnfinishedError, UnreadableError} from '../../src/inbound/mail-reader.ts';
import {ReadingLoop, readMarkWrite} from '../../src/inbound/reading.ts';
import {storeTime} from '../../src/kit/time.ts';
import {
	type InboundSource,
	precedence,
	type Reading,
	type ReadingTurn,
	type StoredInbound,
} from '../../src/mail/report.ts';
import {countUnread} from '../../src/resources/received/inbound-store.ts';
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
	const unrecorded: string[] = [];
	const storeErrors: unknown[] = [];
	const reading = new ReadingLoop({
		store,
		node: 'req_a',
		isAlone: false,
		lane: {precedence: precedence.proven, perTurn: 128, maxRows: 128},
		async read(raw) {
			read.push(raw.toString());
			return nothing;
		},
		record: ({id}) => record(store, id),
		clock,
		observer: {
			inboundUnreadable: (_, error) => unreadable.push((error as Error).message),
			inboundUnrecorded: (_, error) => unrecorded.push((error as Error).message),
			storeFailed: error => storeErrors.push(error),
		},
		...options,
	});
	t.teardown(() => reading.stop());
	return {reading, read, unreadable, unrecorded, storeErrors};
}

async function record(store: Store, id: string): Promise<void> {
	await store.writer.submit(readMarkWrite, {
		id,
		at: storeTime(Date.now()),
		kept: null,
		isDiscarded: false,
		reading: null,
		fault: null,
	});
}

async function take(
	store: Store,
	texts: readonly string[],
	{
		node = 'req_a',
		at = Date.now(),
		source = 'smtp' as InboundSource,
		turn = {precedence: precedence.proven, turn: 'x'} as ReadingTurn,
	} = {},
): Promise<void> {
	const options = {writer: store.writer, node, clock: {now: () => at}};
	const mail = {source, mailFrom: '', rcptTo: ['b@x.test'], turn};
	await Promise.all(texts.map(text => acceptInbound(options, {...mail, raw: Buffer.from(text)})));
}

storeTest(test, 'reads every message once and removes its content', async (t, store) => {
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

storeTest(
	test,
	'reads messages of other nodes once they are old, or all of them when it starts alone',
	async (t, store) => {
		await take(store, ['old'], {node: 'req_b', at: Date.now() - 61_000});
		await take(store, ['new'], {node: 'req_b'});
		const first = readingOf(t, store);
		first.reading.wake();
		await first.reading.idle();
		t.deepEqual(first.read, ['old']);

		const second = readingOf(t, store, {isAlone: true});
		second.reading.wake();
		await second.reading.idle();
		t.deepEqual(second.read, ['new']);
		await take(store, ['newer'], {node: 'req_b'});
		second.reading.wake();
		await second.reading.idle();
		t.deepEqual(second.read, ['new']);
	},
);

storeTest(test, 'sets aside a message with slow DNS lookups and reads others in the meantime', async (t, store) => {
	let asked = 0;
	let answer = (): void => undefined;
	const answered = new Promise<void>(resolve => {
		answer = resolve;
	});
	const {reading, read} = readingOf(t, store, {
		ask(raw): DnsLookups | null {
			const isSlow = raw.toString().startsWith('slow');
			asked += isSlow ? 1 : 0;
			return isSlow ? {known: new Map(), done: answered} : null;
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

storeTest(test, 'retains an unreadable message for review and reads the others', async (t, store) => {
	const {reading, unreadable} = readingOf(t, store, {
		async read(raw) {
			if (raw.toString() === 'bad') {
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

storeTest(
	test,
	'retains a message that fails to be recorded, and reads it again after a store error',
	async (t, store) => {
		const failure = (code: string) => Object.assign(new Error(code), {code});
		// A full disk, and for PostgreSQL also deadlocks, as many as the writer retries.
		const failures = (store.dialect.name === 'sqlite' ? ['SQLITE_FULL'] : ['53100', '40P01']).map(failure);
		const failed: Error[] = [];
		const recorded: string[] = [];
		const {reading, unreadable, unrecorded, storeErrors} = readingOf(t, store, {
			async read(raw) {
				return {...nothing, fault: raw.toString()};
			},
			async record({id}: StoredInbound, {fault}: Reading) {
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
		t.deepEqual(unrecorded, ['a bug']);
		t.deepEqual(unreadable, ['The result could not be recorded; see the log for the reason.']);
		t.deepEqual(storeErrors, failed);
		t.is(failures.length, 0);
		t.is(await countUnread(store.reader), 0);
	},
);

storeTest(
	test,
	'delivers a personal message that cannot be recorded with an error that reveals no SQL',
	async (t, store) => {
		const given: Array<string | null> = [];
		const {reading, unreadable, unrecorded} = readingOf(t, store, {
			salvage: (_, {message}) => ({...nothing, fault: message}),
			async record({id}, {fault}) {
				given.push(fault);
				if (fault === null) {
					// PostgreSQL fails this way on text with a NUL.
					await store.reader.raw('select ? as "secret" from "nowhere"', ['a\0b']);
				}
				await record(store, id);
			},
		});
		await take(store, ['mail']);
		reading.wake();
		await reading.idle();
		const fault = 'The result could not be recorded; see the log for the reason.';
		t.deepEqual([given, unreadable, unrecorded.length], [[null, fault], [], 1]);
		const [row] = await store.reader('inbound').select('kept', 'fault');
		t.like(row, {kept: null, fault: null});
	},
);

storeTest(test, 'repeats a query that fails', async (t, store) => {
	const {reading, read, storeErrors} = readingOf(t, store);
	await take(store, ['x']);
	await store.database.raw('alter table inbound rename to away');
	reading.wake();
	await waitFor('the look failed', () => storeErrors.length > 0);
	await store.database.raw('alter table away rename to inbound');
	await reading.idle();
	t.deepEqual(read, ['x']);
});

storeTest(test, 'on stop, records messages in progress and leaves the others unread', async (t, store) => {
	let reads = 0;
	let release = (): void => undefined;
	const released = new Promise<void>(resolve => {
		release = resolve;
	});
	const {reading} = readingOf(t, store, {
		async read(raw) {
			reads++;
			await released;
			if (raw.toString() === 'unfinished') {
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
	const again = readingOf(t, store, {isAlone: true});
	again.reading.wake();
	await again.reading.idle();
	t.is(await countUnread(store.reader), 0);
});

storeTest(test, 'gives each turn an equal share, and each precedence a loop of its own', async (t, store) => {
	const of = (turn: string, texts: readonly string[], at: number) =>
		take(store, texts, {at, turn: {precedence: precedence.unproven, turn}});
	const flood = Array.from({length: 30}, (_, n) => `flood ${n}`);
	await of('ws_a', flood, 1000);
	for (let n = 0; n < 12; n++) {
		await of(`ws_${n}`, [`late ${n}`], 2000);
	}
	await of('ws_b', ['b 1', 'b 2', 'b 3'], 3000);
	await take(store, ['proven'], {at: 4000});
	const {reading, read} = readingOf(t, store, {
		lane: {precedence: precedence.unproven, perTurn: 2, maxRows: 8},
		async read(raw) {
			read.push(raw.toString());
			return nothing;
		},
	});
	reading.wake();
	await reading.idle();
	t.is(read.length, 45);
	t.true(Math.max(...read.flatMap((text, at) => (text.startsWith('flood') ? [] : [at]))) < 24, read.join());
	t.deepEqual(read.filter(text => text.startsWith('flood')).toSorted(), flood.toSorted());
	t.is(await countUnread(store.reader), 1);
});

/** A loop whose process dies while it reads these messages. */
async function dyingAt(t: ExecutionContext, store: Store, fatal: readonly string[]): Promise<string[]> {
	let end = (): void => undefined;
	const ended = new Promise<never>((_, reject) => {
		end = () => reject(new UnfinishedError('The process ended.'));
	});
	ended.catch(() => undefined);
	const {reading, read} = readingOf(t, store, {
		...{isAlone: true, lane: {precedence: precedence.proven, perTurn: 4, maxRows: 8}},
		async read(raw) {
			read.push(raw.toString());
			return fatal.includes(raw.toString()) ? await ended : nothing;
		},
		// A process that has died writes nothing anymore.
		record: async ({id}) => (fatal.some(text => read.includes(text)) ? undefined : await record(store, id)),
	});
	t.teardown(end);
	reading.wake();
	await waitFor('it reads', () => read.length > 0 && (fatal.length === 0 || fatal.some(text => read.includes(text))));
	return read;
}

storeTest(
	test,
	'retains a message whose reading was interrupted twice, and does not read it again',
	async (t, store) => {
		await take(store, ['before', 'fatal', 'beside']);
		const first = await dyingAt(t, store, ['fatal']);
		t.true(first.includes('fatal'));
		const second: string[] = await dyingAt(t, store, ['fatal']);
		t.is(second.at(-1), 'fatal');
		const given: string[] = [];
		const {reading, read, unreadable} = readingOf(t, store, {
			isAlone: true,
			salvage: ({id}, error) => {
				given.push(`${id.length} ${error.message}`);
				return null;
			},
		});
		reading.wake();
		await reading.idle();
		t.false(read.includes('fatal'));
		t.deepEqual(unreadable, ['The daemon crashed 2 times while reading it.']);
		t.deepEqual(given, ['64 The daemon crashed 2 times while reading it.']);
		t.is(await countUnread(store.reader), 0);
		const kept = await store.reader('inbound').whereNotNull('kept').select('raw', 'kept', 'fault');
		t.deepEqual(
			kept.map(({raw, ...row}) => ({...row, raw: raw.toString()})),
			[{raw: 'fatal', kept: 'unread', fault: 'The daemon crashed 2 times while reading it.'}],
		);
	},
);

storeTest(test, 'reads an event of a provider however often the daemon was killed', async (t, store) => {
	await take(store, ['event'], {source: 'provider'});
	for (let kill = 0; kill < 3; kill++) {
		await dyingAt(t, store, ['event']);
	}
	const {reading, read, unreadable} = readingOf(t, store, {isAlone: true});
	reading.wake();
	await reading.idle();
	t.deepEqual(read, ['event']);
	t.deepEqual(unreadable, []);
});

storeTest(test, 'does not suspect other messages if a mark cannot be stored', async (t, store) => {
	await take(store, ['x', 'y']);
	let refused = 0;
	const writer = Object.create(store.writer, {
		submit: {
			value(...[write, input]: Parameters<typeof store.writer.submit>) {
				const isRefused = write.name === 'read_begin' && refused === 0;
				refused += Number(isRefused);
				return isRefused ? Promise.reject(new Error('no disk')) : store.writer.submit(write, input);
			},
		},
	});
	const marks: number[] = [];
	const {reading, storeErrors} = readingOf(t, store, {
		store: {reader: store.reader, writer, dialect: store.dialect},
		async read() {
			marks.push(...(await store.reader('inbound').pluck('begun')));
			return nothing;
		},
	});
	reading.wake();
	await reading.idle();
	t.is(storeErrors.length, 1);
	t.is(Math.max(...marks), 1);
	t.is(await countUnread(store.reader), 0);
});

storeTest(test, 'does not suspect a message that an orderly stop leaves unread', async (t, store) => {
	await take(store, ['x']);
	for (let start = 0; start < 3; start++) {
		let begun = false;
		const {reading} = readingOf(t, store, {
			isAlone: true,
			async read() {
				begun = true;
				throw new UnfinishedError('The reader was stopped.');
			},
		});
		reading.wake();
		await waitFor('it reads', () => begun);
		await reading.stop();
		t.deepEqual(await store.reader('inbound').pluck('begun'), [0]);
	}
	const {reading, read} = readingOf(t, store, {isAlone: true});
	reading.wake();
	await reading.idle();
	t.deepEqual(read, ['x']);
});
