import {once} from 'node:events';
import {setTimeout as delay} from 'node:timers/promises';
import type {TransferListItem, Worker} from 'node:worker_threads';
import type {Clock} from '../kit/clock.ts';

/** Learns of crashes; `reason` is for people. */
export type ThreadObserver = {readonly workerEnded: (reason: string) => void};

export type ThreadOptions = {
	readonly spawn: () => Worker;
	readonly clock: Pick<Clock, 'monotonic'>;
	readonly observer: ThreadObserver;
};

/** Uses a thread. */
type ThreadUser<Message> = {
	/** A thread has started. */
	started?(): void;
	receive(message: Message): void;
	/** The thread ended by itself, or was killed: what it held is lost. */
	ended(): void;
};

/** A thread that ends sooner than this after its start is not replaced before, milliseconds. */
const restartMs = 1000;

/** A worker thread that is replaced when it ends. */
export class Thread<Order, Message> {
	/** For people. */
	readonly #name: string;
	readonly #options: ThreadOptions;
	readonly #user: ThreadUser<Message>;
	#worker: Worker | null = null;
	#restart: NodeJS.Timeout | undefined;
	#isStopped = false;

	constructor(name: string, options: ThreadOptions, user: ThreadUser<Message>) {
		this.#name = name;
		this.#options = options;
		this.#user = user;
	}

	get isRunning(): boolean {
		return this.#worker !== null;
	}

	/** Starts it, unless it runs or is about to. */
	start(): void {
		if (this.#worker === null && this.#restart === undefined && !this.#isStopped) {
			this.#run();
		}
	}

	/** Lost where it does not run. */
	post(order: Order, transfer: readonly TransferListItem[] = []): void {
		this.#worker?.postMessage(order, transfer);
	}

	/** Ends it, so that it is replaced. */
	kill(): void {
		void this.#worker?.terminate();
	}

	/** Ends it until the next `start`. */
	rest(): void {
		this.kill();
		this.#worker = null;
	}

	/** Ends it for good; with `withinMs` it may end by itself within this time, milliseconds. */
	async stop(withinMs?: number): Promise<void> {
		this.#isStopped = true;
		clearTimeout(this.#restart);
		if (this.#worker !== null && withinMs !== undefined) {
			await Promise.race([once(this.#worker, 'exit'), delay(withinMs, undefined, {ref: false})]);
		}
		await this.#worker?.terminate();
	}

	#run(): void {
		const {spawn, clock, observer} = this.#options;
		this.#restart = undefined;
		const began = clock.monotonic();
		const worker = spawn();
		this.#worker = worker;
		worker.on('message', (message: Message) => this.#worker === worker && this.#user.receive(message));
		// An uncaught error (out of memory) is followed by the exit, which is where the thread is replaced.
		worker.on('error', error => observer.workerEnded(`${this.#name}: ${error.message}`));
		worker.on('exit', () => {
			if (this.#worker === worker) {
				this.#worker = null;
				if (!this.#isStopped) {
					this.#restart = setTimeout(() => this.#run(), Math.max(0, began + restartMs - clock.monotonic()));
				}
				this.#user.ended();
			}
		});
		this.#user.started?.();
	}
}
