import type {Knex} from 'knex';
import {systemClock} from '../../kit/clock.ts';
import {DisplacedFileError, findDisplaced, type OpenFile} from '../../kit/open-files.ts';
import type {Dialect} from './dialect.ts';

/**
 * One kind of frequent write. `apply` gets every item of this kind in the batch and returns one result for each, in
 * order. It must lock rows in a fixed order if others may lock them, too. If it throws, the batch fails and each item
 * is run alone.
 */
export type GroupWrite<Item, Result> = {
	readonly name: string;
	/** The kinds of writes in a batch run in ascending rank, so that two nodes lock rows in the same order. */
	readonly rank: number;
	readonly apply: (trx: Knex.Transaction, items: readonly Item[]) => Promise<readonly Result[]>;
	/** How many rows' worth of work the item is; one if absent. */
	readonly size?: (item: Item) => number;
	/** Whether it has a connection of its own with PostgreSQL, because it needs no rows that others lock. */
	readonly isBeside?: boolean;
	/** About how many bytes the item writes; negligible if absent. */
	readonly bytes?: (item: Item) => number;
};

/** Runs one write transaction at a time. Items that arrive in the meantime share the next one (group commit). */
export type Writer = {
	/** Whether a write sees everything submitted before it. Otherwise it only sees what was completed before. */
	readonly isOrdered: boolean;
	/** Resolves with the item's result after its transaction has committed. Rejects if the item fails on its own. */
	readonly submit: <Item, Result>(write: GroupWrite<Item, Result>, item: Item) => Promise<Result>;
	/** Runs `work` in a transaction of its own, in turn with the batches. */
	readonly transaction: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	/** Runs `work` in turn with the batches, outside of a transaction. */
	readonly between: <Result>(work: () => Promise<Result>) => Promise<Result>;
	/** Resolves when nothing is waiting or running. */
	readonly idle: () => Promise<void>;
	/** Registers a listener that is called with the milliseconds that each commit took. */
	readonly onCommit?: (listener: (ms: number) => void) => void;
};

// biome-ignore lint/suspicious/noExplicitAny: a batch holds items of many kinds; `submit` keeps each pair together.
export type AnyWrite = GroupWrite<any, any>;
/** The target of a writer. */
type Database = {
	readonly connection: Knex;
	readonly dialect: Dialect;
	readonly files: readonly OpenFile[];
	/** Called with the milliseconds that each commit took. */
	readonly committed: (ms: number) => void;
};

type Entry = {
	/** `null` if the item is a function, to be run in its own transaction or (`isBetween`) between two. */
	readonly write: AnyWrite | null;
	readonly isBetween?: true;
	readonly item: unknown;
	readonly size: number;
	readonly bytes: number;
	readonly resolve: (result: unknown) => void;
	readonly reject: (error: unknown) => void;
};

const maxSize = 128;
const maxBytes = 4 * 1024 * 1024;
const maxRepeats = 3;

/**
 * Creates a writer. `files` are SQLite's files: a commit is reported as failed if their paths do not lead to them any
 * more.
 */
export function createWriter(connection: Knex, dialect: Dialect, files: readonly OpenFile[] = []): Writer {
	let committed: (ms: number) => void = () => undefined;
	const database: Database = {connection, dialect, files, committed: ms => committed(ms)};
	let waiting: Entry[] = [];
	let running: Promise<void> | null = null;

	function add(entry: Entry): void {
		waiting.push(entry);
		// One microtask later, so that everything submitted in the same tick shares the first transaction.
		running ??= Promise.resolve().then(drain);
	}

	async function drain(): Promise<void> {
		while (waiting.length > 0) {
			const batch = takeBatch(waiting);
			waiting = waiting.slice(batch.length);
			const [first] = batch;
			await (first?.isBetween ? runBetween(first) : runBatch(database, batch));
		}
		running = null;
	}

	return {
		isOrdered: true,
		onCommit(listener) {
			committed = listener;
		},
		submit: (write, item) =>
			new Promise((resolve, reject) => {
				const [size, bytes] = [write.size?.(item) ?? 1, write.bytes?.(item) ?? 0];
				add({write, item, size, bytes, resolve: resolve as Entry['resolve'], reject});
			}),
		transaction: work =>
			new Promise((resolve, reject) => {
				add({write: null, item: work, size: 1, bytes: 0, resolve: resolve as Entry['resolve'], reject});
			}),
		between: work =>
			new Promise((resolve, reject) => {
				add({
					write: null,
					isBetween: true,
					item: work,
					size: 1,
					bytes: 0,
					resolve: resolve as Entry['resolve'],
					reject,
				});
			}),
		async idle() {
			while (running) {
				await running;
			}
		},
	};
}

/** Combines two writers into one that write at the same time, each on its own connection. */
export function writeBeside(main: Writer, secondary: Writer): Writer {
	return {
		isOrdered: false,
		submit: (write, item) => (write.isBeside ? secondary : main).submit(write, item),
		transaction: main.transaction,
		between: main.between,
		onCommit(listener) {
			main.onCommit?.(listener);
			secondary.onCommit?.(listener);
		},
		async idle() {
			await secondary.idle();
			await main.idle();
		},
	};
}

// A transaction of its own ends the batch before it. The first item is accepted at any size.
function takeBatch(waiting: readonly Entry[]): Entry[] {
	if (waiting[0]?.write === null) {
		return [waiting[0]];
	}
	const batch: Entry[] = [];
	let [size, bytes] = [0, 0];
	for (const entry of waiting) {
		size += entry.size;
		bytes += entry.bytes;
		if (entry.write === null || (batch.length > 0 && (size > maxSize || bytes > maxBytes))) {
			break;
		}
		batch.push(entry);
	}
	return batch;
}

/**
 * SQLite keeps writing to a file that was removed or replaced. Such a commit must not be reported as successful,
 * because the next start would not find it.
 */
function refuseDisplaced(files: readonly OpenFile[]): void {
	const [displaced] = findDisplaced(files);
	if (displaced !== undefined) {
		throw new DisplacedFileError(displaced);
	}
}

async function runBetween({item, resolve, reject}: Entry): Promise<void> {
	await (item as () => Promise<unknown>)().then(resolve, reject);
}

/** Why the store cannot be used at all. */
type StoreFault = {readonly error: unknown};

async function runBatch(database: Database, batch: readonly Entry[]): Promise<StoreFault | null> {
	const {connection, dialect, files, committed} = database;
	for (let repeats = 0; ; repeats++) {
		let results: Map<Entry, unknown>;
		let [begun, applied] = [false, false];
		let appliedAt = 0;
		try {
			results = await connection.transaction(async trx => {
				// knex also calls this if BEGIN failed.
				begun = !trx.isCompleted();
				const batchResults = await applyBatch(trx, batch);
				applied = true;
				appliedAt = systemClock.monotonic();
				return batchResults;
			});
			refuseDisplaced(files);
			committed(systemClock.monotonic() - appliedAt);
		} catch (error) {
			// A connection that was lost unnoticed wrote nothing, so another connection may do it.
			const isStale = begun ? !applied && dialect.isLost(error) : dialect.isUnavailable(error);
			if ((isStale && repeats === 0) || (dialect.isConflict(error) && repeats < maxRepeats)) {
				continue;
			}
			return await failBatch(database, batch, error);
		}
		for (const entry of batch) {
			entry.resolve(results.get(entry));
		}
		return null;
	}
}

/**
 * Rejects a batch, or runs its items one by one, so that one bad item does not fail the others. If the store cannot be
 * written at all, trying each item is pointless, and the error is returned.
 */
async function failBatch(database: Database, batch: readonly Entry[], error: unknown): Promise<StoreFault | null> {
	const {dialect} = database;
	const isHopeless = dialect.isUnavailable(error) || dialect.isDamage(error);
	if (batch.length === 1 || isHopeless) {
		for (const entry of batch) {
			entry.reject(error);
		}
		return isHopeless ? {error} : null;
	}
	let problem: StoreFault | null = null;
	for (const entry of batch) {
		if (problem) {
			entry.reject(problem.error);
		} else {
			problem = await runBatch(database, [entry]);
		}
	}
	return problem;
}

async function applyBatch(trx: Knex.Transaction, batch: readonly Entry[]): Promise<Map<Entry, unknown>> {
	const results = new Map<Entry, unknown>();
	for (const [write, entries] of byWrite(batch)) {
		if (write === null) {
			for (const entry of entries) {
				results.set(entry, await (entry.item as (trx: Knex.Transaction) => Promise<unknown>)(trx));
			}
			continue;
		}
		const applied = await write.apply(
			trx,
			entries.map(entry => entry.item),
		);
		if (applied.length !== entries.length) {
			throw new Error(`${write.name}: ${applied.length} results for ${entries.length} items`);
		}
		for (const [index, entry] of entries.entries()) {
			results.set(entry, applied[index]);
		}
	}
	return results;
}

function byWrite(batch: readonly Entry[]): Array<[AnyWrite | null, Entry[]]> {
	const groups = new Map<AnyWrite | null, Entry[]>();
	for (const entry of batch) {
		const group = groups.get(entry.write);
		if (group) {
			group.push(entry);
		} else {
			groups.set(entry.write, [entry]);
		}
	}
	return [...groups].sort(([a], [b]) => (a?.rank ?? 0) - (b?.rank ?? 0));
}
