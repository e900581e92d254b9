import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {CameIn, Reading} from '../mail/report.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {type InboundEnd, listUnread, markRead, type UnreadInbound} from '../store/inbound-mails.ts';
import type {Store} from '../store/store.ts';
import {UnfinishedError} from './reader.ts';

export type ReadingOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'> & {
		readonly dialect: Pick<Store['dialect'], 'isUnavailable' | 'isConflict'>;
	};
	/** Whose mails are read at once. */
	readonly node: string;
	/** The first look takes every mail that was not read: nobody else is there who would. */
	readonly alone: boolean;
	/** Reads a mail; rejects where it cannot be read. */
	readonly read: (raw: Buffer) => Promise<Reading>;
	/** Writes what it says, and that it was read, in one transaction. */
	readonly record: (cameIn: CameIn, reading: Reading, raw: Buffer) => Promise<void>;
	readonly clock: Pick<Clock, 'now'>;
	readonly observer: {
		/** The mail cannot be read or recorded, though the store works: it is kept for a person. */
		readonly inboundUnreadable: (cameIn: CameIn, error: unknown) => void;
		readonly storeFailed: (error: unknown) => void;
	};
};

/** What another node took in is read by us if it was not after so long, milliseconds. */
const othersAfterMs = 60_000;
const mostRows = 128;
const mostBytes = 4 * 1024 * 1024;
/** When it has read all, it lets so much time pass before it looks again: few transactions for many mails. */
const gatherMs = 50;
/** How long it rests before it asks a failing store again, milliseconds. */
const retryMs = 1000;
const longestFault = 300;

/**
 * Reads the mails that came in and are on stable storage, the oldest first, so many at once as memory is set aside for. What
 * cannot be read is kept and said; what cannot be written down because the store fails is read again.
 */
export function createReading(options: ReadingOptions) {
	const {store, clock} = options;
	let running: Promise<void> | null = null;
	let again = false;
	let everything = options.alone;
	let stopped = false;
	let endRest = (): void => undefined;
	const others = setInterval(wake, othersAfterMs);
	others.unref();

	function wake(): void {
		if (stopped) {
			return;
		}
		again = true;
		running ??= run();
	}

	async function run(): Promise<void> {
		while (again && !stopped) {
			again = false;
			try {
				again = (await readSome()) || again;
			} catch (error) {
				options.observer.storeFailed(error);
				again = true;
				await rest(retryMs);
			}
		}
		running = null;
	}

	/** Answers whether there is more to read. */
	async function readSome(): Promise<boolean> {
		const othersUntil = everything ? latest : storeTime(clock.now() - othersAfterMs);
		const {mails, more} = await listUnread(store.reader, {node: options.node, othersUntil, mostRows, mostBytes});
		const ends = await Promise.all(mails.map(readOne));
		const isLater = ends.includes('later');
		everything &&= more || isLater;
		if (isLater) {
			await rest(retryMs);
		} else if (!more && mails.length > 0) {
			await rest(gatherMs);
		}
		return more || isLater;
	}

	async function readOne({raw, ...cameIn}: UnreadInbound): Promise<'done' | 'later'> {
		let reading: Reading;
		try {
			reading = await options.read(raw);
		} catch (error) {
			return error instanceof UnfinishedError ? 'later' : await keep(cameIn, error);
		}
		try {
			await options.record(cameIn, reading, raw);
		} catch (error) {
			const isOfStore = store.dialect.isUnavailable(error) || store.dialect.isConflict(error);
			return isOfStore ? later(error) : await keep(cameIn, error);
		}
		return 'done';
	}

	async function keep(cameIn: CameIn, error: unknown): Promise<'done' | 'later'> {
		const fault = (error instanceof Error ? error.message : String(error)).slice(0, longestFault);
		const at = storeTime(clock.now());
		try {
			await store.writer.submit(readMarkWrite, {
				id: cameIn.id,
				at,
				kept: 'unread',
				forgotten: false,
				reading: null,
				fault,
			});
		} catch (failure) {
			return later(failure);
		}
		options.observer.inboundUnreadable(cameIn, error);
		return 'done';
	}

	function later(error: unknown): 'later' {
		options.observer.storeFailed(error);
		return 'later';
	}

	function rest(milliseconds: number): Promise<void> {
		return new Promise(resolve => {
			const timer = setTimeout(resolve, stopped ? 0 : milliseconds);
			endRest = () => {
				clearTimeout(timer);
				resolve();
			};
		});
	}

	return {
		/** Mails came in, or may have. */
		wake,
		/** Resolves when nothing is left to read now. */
		async idle(): Promise<void> {
			while (running) {
				await running;
			}
		},
		/** Resolves when what is under way is written down; the rest is read at the next start. */
		async stop(): Promise<void> {
			stopped = true;
			clearInterval(others);
			endRest();
			await running;
		},
	};
}

/** After every time of the store. */
const latest = '9';

/** Marks mails as read of which nothing comes. */
export const readMarkWrite: GroupWrite<InboundEnd, void> = {
	name: 'read_mark',
	rank: 3,
	async apply(trx, ends) {
		await markRead(trx, ends);
		return ends.map(() => undefined);
	},
};
