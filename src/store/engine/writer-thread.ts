import {once} from 'node:events';
import process from 'node:process';
import type {MessagePort, Worker} from 'node:worker_threads';
import {createGarbage} from '../../kit/memory.ts';
import {
	deserializeError,
	type SerializedError,
	serializeError,
	serveCalls,
	ThreadCaller,
} from '../../kit/thread-calls.ts';
import type {AnyWrite, Writer} from './writer.ts';

/** A writer in another thread, which knows some writes by their names. */
type OtherWriter = {
	/** Whether a write submitted now goes to that writer. */
	readonly handles: (write: AnyWrite) => boolean;
	readonly submit: (name: string, item: unknown) => Promise<unknown>;
};

type Target = 'own' | 'other';
/** A pending write. `run` never rejects. */
type Step = {readonly target: Target; readonly run: () => Promise<void>};

/**
 * Combines two writers into one. They take turns in the order in which writes are submitted: a turn ends when the next
 * write is for the other writer, whose turn starts when all writes of the current one have finished. Writes of one turn
 * share transactions.
 */
function takeTurns(own: Writer, other: OtherWriter): Writer {
	let turn: Target = 'own';
	let running = 0;
	let waiting: Step[] = [];
	let onIdle: Array<() => void> = [];

	function add<Result>(target: Target, work: () => Promise<Result>): Promise<Result> {
		return new Promise((resolve, reject) => {
			const step: Step = {target, run: () => work().then(resolve, reject)};
			if (waiting.length === 0 && (running === 0 || target === turn)) {
				start(step);
			} else {
				waiting.push(step);
			}
		});
	}

	function start({target, run}: Step): void {
		turn = target;
		running++;
		void run().then(() => {
			running--;
			if (running === 0) {
				next();
			}
		});
	}

	function next(): void {
		const end = waiting.findIndex(({target}) => target !== waiting[0]?.target);
		const steps = end === -1 ? waiting : waiting.slice(0, end);
		waiting = waiting.slice(steps.length);
		for (const step of steps) {
			start(step);
		}
		if (running === 0) {
			for (const resolve of onIdle) {
				resolve();
			}
			onIdle = [];
		}
	}

	return {
		isOrdered: true,
		submit: <Item, Result>(write: AnyWrite, item: Item) =>
			other.handles(write)
				? add('other', () => other.submit(write.name, item) as Promise<Result>)
				: add('own', () => own.submit<Item, Result>(write, item)),
		transaction: work => add('own', () => own.transaction(work)),
		between: work => add('own', () => own.between(work)),
		async idle() {
			while (running > 0) {
				await new Promise<void>(resolve => onIdle.push(resolve));
			}
		},
	};
}

/** The methods of the thread. */
type WriterMethods<Live> = {
	readonly write: (written: {readonly name: string; readonly item: unknown}) => Promise<unknown>;
	/** Changes its settings. */
	readonly live: (live: Live) => void;
	/** Ends the thread once everything is written. */
	readonly end: (none: undefined) => void;
};

type WriterEvent<News> =
	| {readonly kind: 'knows'; readonly writes: readonly string[]}
	| {readonly kind: 'failed'; readonly error: SerializedError}
	| {readonly kind: 'news'; readonly news: News};

type WriterThreadOptions<News> = {
	/**
	 * Performs the writes that the thread does not: all until it is ready, then functions and items that cannot be
	 * cloned.
	 */
	readonly own: Writer;
	/** Starts the thread, which gets the shared memory. */
	readonly spawn: (ended: SharedArrayBuffer) => Worker;
	/** Called with a message that a write sent in addition to its result. */
	readonly onNews: (news: News) => void;
	/**
	 * Called if the thread failed or exited unexpectedly. Its pending writes may or may not be committed; no more are
	 * possible.
	 */
	readonly onDeath: (error: Error) => void;
};

/** How long the exit of the process waits for running transactions, in milliseconds. */
const haltMs = 2000;

const noWrites: ReadonlySet<string> = new Set();

/**
 * A thread with its own writer, for the writes that it knows. Items and results are copied (structured clone). Items
 * submitted in one turn of the event loop are sent together, and so are the results of a transaction.
 */
export class WriterThread<Live, News> {
	readonly writer: Writer;
	readonly #options: WriterThreadOptions<News>;
	readonly #caller = new ThreadCaller<WriterMethods<Live>, WriterEvent<News>>({
		send: calls => this.#worker?.postMessage(calls),
		event: event => this.#receive(event),
		maxAttempts: 0,
	});
	/** Becomes 1 when the thread has no work in progress any more. */
	readonly #ended = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
	#worker: Worker | null = null;
	#known = noWrites;
	#failure: Error | null = null;
	#isStopping = false;
	#isHeld = false;

	constructor(options: WriterThreadOptions<News>) {
		this.#options = options;
		this.writer = takeTurns(options.own, {
			handles: ({name}) => !this.#isHeld && this.#known.has(name),
			submit: async (name, item) => {
				if (this.#failure !== null) {
					throw this.#failure;
				}
				return await this.#caller.call('write', {name, item});
			},
		});
	}

	start(): void {
		this.#worker = this.#options.spawn(this.#ended.buffer as SharedArrayBuffer);
		this.#worker.on('message', message => this.#caller.receive(message));
		this.#worker.on('error', error => this.#fail(error));
		this.#worker.on('exit', () => {
			this.#worker = null;
			if (!this.#isStopping) {
				this.#fail(new Error('The writer thread exited unexpectedly.'));
			}
		});
	}

	/** Applies new settings. */
	obey(live: Live): void {
		this.#caller.notifyNow('live', live);
	}

	/** While it is held, the thread writes nothing, and all writes use the connection of `own`. */
	hold(isHeld: boolean): void {
		this.#isHeld = isHeld;
	}

	/** Ends the thread once everything is written. Later writes are performed in this thread. */
	async stop(): Promise<void> {
		this.#isStopping = true;
		this.#known = noWrites;
		await this.writer.idle();
		if (this.#failure !== null) {
			await this.#worker?.terminate();
		} else if (this.#worker !== null) {
			const exit = once(this.#worker, 'exit');
			this.#caller.notifyNow('end', undefined);
			await exit;
		}
	}

	/**
	 * For the exit of the process, which waits for no promise. Node would terminate the thread in the middle of a
	 * statement and abort, because the driver cannot return results to a terminated thread.
	 */
	halt(): void {
		if (this.#worker !== null) {
			this.#caller.notifyNow('end', undefined);
			Atomics.wait(this.#ended, 0, 0, haltMs);
		}
	}

	#receive(event: WriterEvent<News>): void {
		if (event.kind === 'knows') {
			this.#known = this.#isStopping ? noWrites : new Set(event.writes);
		} else if (event.kind === 'failed') {
			this.#fail(deserializeError(event.error));
		} else {
			this.#options.onNews(event.news);
		}
	}

	#fail(error: Error): void {
		if (this.#failure === null) {
			this.#failure = error;
			this.#caller.end(error);
			this.#options.onDeath(error);
		}
	}
}

type AnsweringOptions<Live> = {
	/** The memory that `spawn` received. */
	readonly ended: SharedArrayBuffer;
	readonly writer: Writer;
	readonly writes: readonly AnyWrite[];
	readonly live: (live: Live) => void;
	/** Called at the end. Waits for the writer. */
	readonly close: () => Promise<void>;
};

/**
 * Runs in the thread: performs the writes that arrive at the port.
 *
 * @returns a function that sends a message in addition to a write's result
 */
export function answerWrites<Live, News>(port: MessagePort, options: AnsweringOptions<Live>): (news: News) => void {
	const {writer, live, close} = options;
	const ended = new Int32Array(options.ended);
	const writes = new Map(options.writes.map(write => [write.name, write]));
	const recordGarbage = createGarbage();
	const send = serveCalls<WriterMethods<Live>, WriterEvent<News>>(port, {
		async write({name, item}) {
			const write = writes.get(name) as AnyWrite;
			try {
				return await writer.submit(write, item);
			} finally {
				recordGarbage(write.bytes?.(item) ?? 0);
			}
		},
		live,
		async end() {
			await close();
			port.close();
			Atomics.store(ended, 0, 1);
			Atomics.notify(ended, 0);
		},
	});
	// The main thread exits the process. If Node terminated this thread instead, it would abort during a statement.
	process.on('uncaughtException', error => send({kind: 'failed', error: serializeError(error)}));
	send({kind: 'knows', writes: [...writes.keys()]});
	return news => send({kind: 'news', news});
}
