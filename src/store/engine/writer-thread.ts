import {once} from 'node:events';
import process from 'node:process';
import type {MessagePort, Worker} from 'node:worker_threads';
import {createGarbage} from '../../kit/memory.ts';
import type {AnyWrite, Writer} from './writer.ts';

/** A writer elsewhere that knows some writes by their names. */
type OtherWriter = {
	/** Whether what is submitted now goes there. */
	readonly makes: (write: AnyWrite) => boolean;
	readonly submit: (name: string, item: unknown) => Promise<unknown>;
};

type Place = 'own' | 'other';
/** Something to be written; `run` never rejects. */
type Step = {readonly place: Place; readonly run: () => Promise<void>};

/**
 * Makes one writer of two, which take turns by the order in which things are submitted: a turn ends when something for the
 * other writer is next, and that begins when all of the turn has ended. What comes in one turn shares transactions.
 */
function takeTurns(own: Writer, other: OtherWriter): Writer {
	let turn: Place = 'own';
	let running = 0;
	let waiting: Step[] = [];
	let onIdle: Array<() => void> = [];

	function add<Result>(place: Place, work: () => Promise<Result>): Promise<Result> {
		return new Promise((resolve, reject) => {
			const step: Step = {place, run: () => work().then(resolve, reject)};
			if (waiting.length === 0 && (running === 0 || place === turn)) {
				start(step);
			} else {
				waiting.push(step);
			}
		});
	}

	function start({place, run}: Step): void {
		turn = place;
		running++;
		void run().then(() => {
			running--;
			if (running === 0) {
				next();
			}
		});
	}

	function next(): void {
		const end = waiting.findIndex(({place}) => place !== waiting[0]?.place);
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
			other.makes(write)
				? add('other', () => other.submit(write.name, item) as Promise<Result>)
				: add('own', () => own.submit<Item, Result>(write, item)),
		transaction: work => add('own', () => own.transaction(work)),
		async idle() {
			while (running > 0) {
				await new Promise<void>(resolve => onIdle.push(resolve));
			}
		},
	};
}

type Order<Live> =
	| {readonly kind: 'write'; readonly items: readonly Item[]}
	| {readonly kind: 'live'; readonly live: Live}
	| {readonly kind: 'end'};
type Item = {readonly number: number; readonly name: string; readonly item: unknown};

type Answer<News> =
	| {readonly kind: 'ready'; readonly writes: readonly string[]}
	| {readonly kind: 'failed'; readonly error: CarriedError}
	| {readonly kind: 'written'; readonly ends: readonly End[]; readonly news: readonly News[]};
type End = {readonly number: number} & (
	| {readonly ok: true; readonly result: unknown}
	| {readonly ok: false; readonly error: CarriedError}
);

type WriterThreadOptions<News> = {
	/** Writes what the thread does not: all until it is ready, then what is a function or cannot be copied. */
	readonly own: Writer;
	/** Starts the thread, which gets the memory. */
	readonly spawn: (ended: SharedArrayBuffer) => Worker;
	/** A message that a write sent in addition to its result. */
	readonly onNews: (news: News) => void;
	/** The thread failed, or ended by itself: what it held was written or not. Nothing can be written any more. */
	readonly onDeath: (error: Error) => void;
};

/** How long the end of the process waits for running transactions, milliseconds. */
const haltMs = 2000;

/**
 * A thread with a writer of its own, for the writes that it knows. Items and results are copied (structured clone): what is
 * submitted in a turn of the event loop travels together, and so do the results of a transaction.
 */
export function createWriterThread<Live, News>({own, spawn, onNews, onDeath}: WriterThreadOptions<News>) {
	const none: ReadonlySet<string> = new Set();
	const pending = new Map<number, {resolve: (result: unknown) => void; reject: (error: unknown) => void}>();
	/** Becomes 1 when the thread has nothing under way any more. */
	const ended = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
	let worker: Worker | null = null;
	let known = none;
	let dead: Error | null = null;
	let stopping = false;
	let items: Item[] = [];
	let last = 0;

	const writer = takeTurns(own, {
		makes: ({name}) => known.has(name),
		submit: (name, item) =>
			new Promise((resolve, reject) => {
				if (dead !== null) {
					reject(dead);
					return;
				}
				last++;
				pending.set(last, {resolve, reject});
				items.push({number: last, name, item});
				if (items.length === 1) {
					setImmediate(handOver);
				}
			}),
	});

	function handOver(): void {
		const all = items;
		items = [];
		try {
			post({kind: 'write', items: all});
		} catch {
			for (const one of all) {
				handOverAlone(one);
			}
		}
	}

	/** An item that cannot be copied fails alone. */
	function handOverAlone(item: Item): void {
		try {
			post({kind: 'write', items: [item]});
		} catch (error) {
			pending.get(item.number)?.reject(error);
			pending.delete(item.number);
		}
	}

	function post(order: Order<Live>): void {
		worker?.postMessage(order);
	}

	function receive(answer: Answer<News>): void {
		if (answer.kind === 'ready') {
			known = stopping ? none : new Set(answer.writes);
			return;
		}
		if (answer.kind === 'failed') {
			die(rebuilt(answer.error));
			return;
		}
		for (const end of answer.ends) {
			const its = pending.get(end.number);
			pending.delete(end.number);
			if (end.ok) {
				its?.resolve(end.result);
			} else {
				its?.reject(rebuilt(end.error));
			}
		}
		for (const news of answer.news) {
			onNews(news);
		}
	}

	function die(error: Error): void {
		if (dead !== null) {
			return;
		}
		dead = error;
		for (const {reject} of pending.values()) {
			reject(error);
		}
		pending.clear();
		onDeath(error);
	}

	return {
		writer,
		start(): void {
			worker = spawn(ended.buffer as SharedArrayBuffer);
			worker.on('message', receive);
			worker.on('error', die);
			worker.on('exit', () => {
				worker = null;
				if (!stopping) {
					die(new Error('The thread that writes ended by itself.'));
				}
			});
		},
		/** From now on these settings hold. */
		obey(live: Live): void {
			post({kind: 'live', live});
		},
		/** Ends the thread when all is written; what follows is written here. */
		async stop(): Promise<void> {
			stopping = true;
			known = none;
			await writer.idle();
			if (dead !== null) {
				await worker?.terminate();
			} else if (worker !== null) {
				const exit = once(worker, 'exit');
				post({kind: 'end'});
				await exit;
			}
		},
		/**
		 * For the end of the process, which waits for no promise: Node would end the thread in the middle of a statement, and abort, as
		 * the driver cannot answer a thread that is gone.
		 */
		halt(): void {
			if (worker !== null) {
				post({kind: 'end'});
				Atomics.wait(ended, 0, 0, haltMs);
			}
		},
	};
}

type AnsweringOptions<Live> = {
	/** As `spawn` got it. */
	readonly ended: SharedArrayBuffer;
	readonly writer: Writer;
	readonly writes: readonly AnyWrite[];
	readonly onLive: (live: Live) => void;
	/** Called at the end. Waits for the writer. */
	readonly close: () => Promise<void>;
};

/** The other end, in the thread. `add` sends a message of a write in addition to its result. */
export function answerWrites<Live, News>(port: MessagePort, options: AnsweringOptions<Live>) {
	const {writer, onLive, close} = options;
	const ended = new Int32Array(options.ended);
	const writes = new Map(options.writes.map(write => [write.name, write]));
	const letGo = createGarbage();
	let ends: End[] = [];
	let news: News[] = [];

	function post(answer: Answer<News>): void {
		port.postMessage(answer);
	}

	function add(one: {readonly end: End} | {readonly news: News}): void {
		if (ends.length + news.length === 0) {
			setImmediate(() => {
				post({kind: 'written', ends, news});
				[ends, news] = [[], []];
			});
		}
		if ('end' in one) {
			ends.push(one.end);
		} else {
			news.push(one.news);
		}
	}

	async function write({number, name, item}: Item): Promise<void> {
		const its = writes.get(name) as AnyWrite;
		try {
			add({end: {number, ok: true, result: await writer.submit(its, item)}});
		} catch (error) {
			add({end: {number, ok: false, error: carried(error)}});
		}
		letGo(its.bytes?.(item) ?? 0);
	}

	async function end(): Promise<void> {
		await close();
		port.close();
		Atomics.store(ended, 0, 1);
		Atomics.notify(ended, 0);
	}

	// The main thread ends the process. Ended by Node, this thread would abort it where a statement is under way.
	process.on('uncaughtException', error => post({kind: 'failed', error: carried(error)}));

	port.on('message', (order: Order<Live>) => {
		switch (order.kind) {
			case 'write':
				for (const item of order.items) {
					void write(item);
				}
				break;
			case 'live':
				onLive(order.live);
				break;
			case 'end':
				void end();
		}
	});
	post({kind: 'ready', writes: [...writes.keys()]});

	return {tell: (one: News): void => add({news: one})};
}

/** What is asked of a store's error; a copy of the error itself would have no `code`. */
type CarriedError = {
	readonly name: string;
	readonly message: string;
	readonly stack?: string | undefined;
	readonly code?: string;
	readonly errno?: number;
};

function carried(error: unknown): CarriedError {
	if (!(error instanceof Error)) {
		return {name: 'Error', message: String(error)};
	}
	const {name, message, stack, code, errno} = error as NodeJS.ErrnoException;
	return {name, message, stack, ...(code !== undefined && {code}), ...(errno !== undefined && {errno})};
}

function rebuilt({message, ...properties}: CarriedError): Error {
	return Object.assign(new Error(message), properties);
}
