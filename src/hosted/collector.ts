import {type Engagement, merged, type Whose} from '../outcome/engagement.ts';

export type Hit = Whose & Engagement;

type CollectorOptions = {
	/** Writes one; resolves when it is on stable storage. */
	readonly write: (hit: Hit) => Promise<unknown>;
	/** Whether an error says that the store cannot be used now: then it is tried again. */
	readonly isUnavailable: (error: unknown) => boolean;
	readonly onError: (error: unknown) => void;
	/** How many came while too many waited; these are lost. */
	readonly onLost: (n: number) => void;
	/** How many different ones may wait. */
	readonly most?: number;
	/** Before a store that failed is asked again, milliseconds. */
	readonly retryMs?: number;
};

/**
 * Opens and clicks that wait to be written. No answer waits for it: the pixel and the redirect are sent before. However
 * many come, those of one copy and one link are one, few are written at a time, and little memory is held.
 */
export type Collector = {
	readonly add: (hit: Hit) => void;
	/** Resolves when all is written, or cannot be. */
	readonly stop: () => Promise<void>;
};

const atOnce = 64;

export function createCollector({
	write,
	isUnavailable,
	onError,
	onLost,
	most = 10_000,
	retryMs = 1000,
}: CollectorOptions): Collector {
	const waiting = new Map<string, Hit>();
	let running: Promise<void> | null = null;
	let stopping = false;
	let lost = 0;
	let endPause = () => {};

	function put(hit: Hit, before: boolean): void {
		const key = `${hit.messageId} ${hit.role} ${hit.address} ${hit.type} ${hit.url}`;
		const other = waiting.get(key);
		if (other) {
			waiting.set(key, before ? merged(hit, other) : merged(other, hit));
		} else if (before || waiting.size < most) {
			waiting.set(key, hit);
		} else {
			lost += hit.n;
		}
	}

	async function run(): Promise<void> {
		while (waiting.size > 0) {
			const failed = await writeSome();
			if (failed && stopping) {
				break;
			}
			if (failed) {
				await pause();
			}
		}
		if (lost > 0) {
			onLost(lost);
			lost = 0;
		}
		running = null;
	}

	/** Whether the store could not be used: then what was not written waits again. */
	async function writeSome(): Promise<boolean> {
		const hits: Hit[] = [];
		for (const [key, hit] of waiting) {
			hits.push(hit);
			waiting.delete(key);
			if (hits.length === atOnce) {
				break;
			}
		}
		const results = await Promise.allSettled(hits.map(write));
		let failed = false;
		for (const [index, result] of results.entries()) {
			if (result.status === 'rejected') {
				onError(result.reason);
				if (isUnavailable(result.reason)) {
					failed = true;
					put(hits[index] as Hit, true);
				}
			}
		}
		return failed;
	}

	async function pause(): Promise<void> {
		await new Promise<void>(resolve => {
			const timer = setTimeout(resolve, retryMs);
			endPause = () => {
				clearTimeout(timer);
				resolve();
			};
		});
	}

	return {
		add(hit) {
			put(hit, false);
			running ??= run();
		},
		async stop() {
			stopping = true;
			endPause();
			await running;
		},
	};
}
