import {once} from 'node:events';
import {setTimeout as delay} from 'node:timers/promises';
import type {TransferListItem, Worker} from 'node:worker_threads';
import type {Clock} from '../kit/clock.ts';

export type ThreadOptions<Message> = {
	/** For people. */
	readonly name: string;
	readonly spawn: () => Worker;
	readonly clock: Pick<Clock, 'monotonic'>;
	/** Another one has started. */
	readonly onStart?: () => void;
	readonly onMessage: (message: Message) => void;
	/** It ended by itself, or was killed: what it held is lost. */
	readonly onEnd: () => void;
	readonly onCrash: (reason: string) => void;
};

/** A worker thread that is replaced when it ends. */
export type Thread<Order> = {
	readonly isRunning: () => boolean;
	/** Starts it, unless it runs or is about to. */
	readonly start: () => void;
	/** Lost where it does not run. */
	readonly post: (order: Order, transfer?: readonly TransferListItem[]) => void;
	/** Ends it, so that it is replaced. */
	readonly kill: () => void;
	/** Ends it until the next `start`. */
	readonly rest: () => void;
	/** Ends it for good. With a last order it may end by itself within this time, milliseconds. */
	readonly stop: (last?: {readonly order: Order; readonly withinMs: number}) => Promise<void>;
};

/** A thread that ends sooner than this after its start is not replaced before, milliseconds. */
const restartMs = 1000;

export function keepThread<Order, Message>(options: ThreadOptions<Message>): Thread<Order> {
	const {name, clock, onStart, onMessage, onEnd, onCrash} = options;
	let worker: Worker | null = null;
	let restart: NodeJS.Timeout | undefined;
	let stopped = false;

	function start(): void {
		if (worker === null && restart === undefined && !stopped) {
			run();
		}
	}

	function run(): void {
		restart = undefined;
		const began = clock.monotonic();
		const one = options.spawn();
		worker = one;
		one.on('message', (message: Message) => worker === one && onMessage(message));
		// An uncaught error (out of memory) is followed by the exit, which is where the thread is replaced.
		one.on('error', error => onCrash(`${name}: ${error.message}`));
		one.on('exit', () => {
			if (worker === one) {
				worker = null;
				if (!stopped) {
					restart = setTimeout(run, Math.max(0, began + restartMs - clock.monotonic()));
				}
				onEnd();
			}
		});
		onStart?.();
	}

	return {
		isRunning: () => worker !== null,
		start,
		post: (order, transfer = []) => worker?.postMessage(order, transfer),
		kill: () => void worker?.terminate(),
		rest() {
			void worker?.terminate();
			worker = null;
		},
		async stop(last) {
			stopped = true;
			clearTimeout(restart);
			if (worker !== null && last !== undefined) {
				const ended = once(worker, 'exit');
				worker.postMessage(last.order);
				await Promise.race([ended, delay(last.withinMs, undefined, {ref: false})]);
			}
			await worker?.terminate();
		},
	};
}
