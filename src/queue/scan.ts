import type {QueueKey} from '../mail/route.ts';
import type {Moment} from '../pace/saved.ts';
import {storeRetryMs} from '../store/held-claims.ts';
import type {DestinationQueues} from './destination-queues.ts';

export type ScanOptions = {
	/** Every lane with work and when it is due, in the store's form. */
	readonly readWaitingQueues: () => Promise<ReadonlyArray<QueueKey & {readonly due: string}>>;
	/** Destinations that an operator lets nothing go to. */
	readonly readSuspensions: () => Promise<readonly string[]>;
	/** When an operator resumed sites that were left alone, by their names. */
	readonly readResumed: () => Promise<ReadonlyMap<string, string>>;
	/** The store could not be read; it is tried again. */
	readonly onStoreError: (error: unknown) => void;
};

type Scanned = {
	readonly queues: DestinationQueues;
	readonly moment: () => Moment;
	readonly isRunning: () => boolean;
	/** The lanes know what the store holds. */
	readonly onScanned: () => void;
};

/** Looks through the whole queue in the store, for what is due and what operators changed, and tells the lanes. */
export function createScan(options: ScanOptions & Scanned) {
	const {queues, moment, isRunning, onScanned, onStoreError} = options;
	/** As it was at the last look at the store. */
	let knownResumed: ReadonlyMap<string, string> | null = null;
	/** The look at the store that is under way, and whether something changed since it began. */
	let scanning: Promise<void> | null = null;
	let scanAgain = false;

	async function scan(): Promise<void> {
		const [suspended, resumed, found] = await Promise.all([
			options.readSuspensions(),
			options.readResumed(),
			options.readWaitingQueues(),
		]);
		const now = moment();
		queues.suspend(new Set(suspended), now);
		const before = knownResumed ?? resumed; // What was resumed before the start may be suspended again.
		queues.probe(
			[...resumed].filter(([site, at]) => before.get(site) !== at).map(([site]) => site),
			now,
		);
		knownResumed = resumed;
		for (const {due, ...queue} of found) {
			queues.found(queue, Date.parse(due), now);
		}
		onScanned();
	}

	/** One look after the other: what was read before must not replace what was read later. */
	async function scanInTurn(): Promise<void> {
		scanAgain = true;
		scanning ??= (async () => {
			while (scanAgain) {
				scanAgain = false;
				await scan();
			}
		})().finally(() => {
			scanning = null;
		});
		await scanning;
	}

	/** Something changed the queue: looks until the store can be read, for nobody tells of a change twice. */
	async function rescan(): Promise<void> {
		try {
			await (isRunning() && scanInTurn());
		} catch (error) {
			onStoreError(error);
			setTimeout(rescan, storeRetryMs).unref();
		}
	}

	return {scan: scanInTurn, rescan};
}
