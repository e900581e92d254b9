import type {MessagePort, TransferListItem} from 'node:worker_threads';

/** What a thread does when it is called. An argument and a result are copied (structured clone). */
export type Methods = Record<string, (argument: never) => unknown>;

type Argument<Method extends (argument: never) => unknown> = Parameters<Method>[0];
type Result<Method extends (argument: never) => unknown> = Awaited<ReturnType<Method>>;

/** Calls of one method. Their ids are missing where no reply is expected. */
export type Calls = {readonly name: string; readonly ids?: number[]; readonly args: unknown[]};
/** Results and errors by id, and events of the thread. */
export type Replies = {
	readonly ids: number[];
	readonly results: unknown[];
	readonly errors: Array<readonly [id: number, error: CarriedError]>;
	readonly events: unknown[];
};

type Waiting = {
	/** 0: no reply is expected. */
	readonly id: number;
	readonly name: string;
	readonly argument: unknown;
	readonly transfer: readonly TransferListItem[];
	readonly resolve: (result: never) => void;
	readonly reject: (error: unknown) => void;
	/** Number of threads that got the call. */
	threads: number;
};

type CallerOptions<Event> = {
	readonly send: (calls: readonly Calls[], transfer: readonly TransferListItem[]) => void;
	/** Receives what the thread sends besides replies. */
	readonly event?: (event: Event) => void;
	/** Makes calls just before a message is sent: of what was gathered since the last one (`sendSoon`). */
	readonly gather?: () => void;
	/** A call is rejected when this many threads ended while they had it (1). 0: no thread follows. */
	readonly tries?: number;
};

/**
 * Calls the methods of a thread. The calls of one turn of the event loop travel in one message: a message costs as much
 * for one call as for many. Calls wait until the thread is ready.
 */
export class ThreadCaller<Its extends Methods, Event = never> {
	readonly #options: CallerOptions<Event>;
	readonly #sent = new Map<number, Waiting>();
	#waiting: Waiting[] = [];
	#isReady = false;
	#isFlushing = false;
	#last = 0;

	constructor(options: CallerOptions<Event>) {
		this.#options = options;
	}

	get isReady(): boolean {
		return this.#isReady;
	}

	/** Number of calls without a reply. */
	get size(): number {
		return this.#sent.size + this.#waiting.length;
	}

	call<Name extends keyof Its & string>(
		name: Name,
		argument: Argument<Its[Name]>,
		transfer: readonly TransferListItem[] = [],
	): Promise<Result<Its[Name]>> {
		this.#last++;
		const id = this.#last;
		return new Promise((resolve, reject) => this.#add({id, name, argument, transfer, resolve, reject, threads: 0}));
	}

	/** Calls without a reply, in order with the other calls. */
	notify<Name extends keyof Its & string>(name: Name, argument: Argument<Its[Name]>): void {
		this.#add({id: 0, name, argument, transfer: [], resolve: ignore, reject: ignore, threads: 0});
	}

	/** Calls without a reply, before the calls that wait, even if the thread is not ready. */
	notifyNow<Name extends keyof Its & string>(name: Name, argument: Argument<Its[Name]>): void {
		this.#options.send([{name, args: [argument]}], []);
	}

	/** Takes a message of the thread. */
	receive(message: 'ready' | Replies): void {
		if (message === 'ready') {
			this.#isReady = true;
			this.#flush();
			return;
		}
		const {ids, results, errors, events} = message;
		for (const [index, id] of ids.entries()) {
			this.#sent.get(id)?.resolve(results[index] as never);
			this.#sent.delete(id);
		}
		for (const [id, error] of errors) {
			this.#sent.get(id)?.reject(rebuilt(error));
			this.#sent.delete(id);
		}
		for (const event of events) {
			this.#options.event?.(event as Event);
		}
	}

	/**
	 * The thread has ended: each call goes to the next thread, or is rejected with the error if it was tried often
	 * enough.
	 */
	end(error: Error): void {
		this.#isReady = false;
		const all = [...this.#sent.values(), ...this.#waiting];
		this.#sent.clear();
		this.#waiting = all.filter(({threads}) => threads < (this.#options.tries ?? 1));
		for (const {reject} of all.filter(({threads}) => threads >= (this.#options.tries ?? 1))) {
			reject(error);
		}
	}

	/** Sends a message at the end of this turn of the event loop, if there are calls by then. */
	sendSoon(): void {
		if (!this.#isFlushing) {
			this.#isFlushing = true;
			setImmediate(() => this.#flush());
		}
	}

	#add(waiting: Waiting): void {
		this.#waiting.push(waiting);
		this.sendSoon();
	}

	#flush(): void {
		if (this.#isReady) {
			this.#isFlushing = true; // What `gather` calls goes with this message.
			this.#options.gather?.();
		}
		this.#isFlushing = false;
		if (!this.#isReady || this.#waiting.length === 0) {
			return;
		}
		const all = this.#waiting;
		this.#waiting = [];
		try {
			this.#send(all);
		} catch {
			// An argument that cannot be copied fails alone.
			for (const one of all) {
				try {
					this.#send([one]);
				} catch (error) {
					one.reject(error);
				}
			}
		}
	}

	#send(all: readonly Waiting[]): void {
		const calls: Calls[] = [];
		const transfer: TransferListItem[] = [];
		for (const {id, name, argument, transfer: its} of all) {
			let last = calls.at(-1);
			if (last?.name !== name || (last.ids === undefined) !== (id === 0)) {
				last = {name, ...(id !== 0 && {ids: []}), args: []};
				calls.push(last);
			}
			last.ids?.push(id);
			last.args.push(argument);
			transfer.push(...its);
		}
		this.#options.send(calls, transfer);
		for (const one of all) {
			if (one.id !== 0) {
				one.threads++;
				this.#sent.set(one.id, one);
			}
		}
	}
}

function ignore(): void {}

/**
 * The thread's side. Replies and events of one turn of the event loop travel in one message.
 *
 * @returns sends an event
 */
export function answerCalls<Its extends Methods, Event = never>(
	port: MessagePort,
	methods: Its,
): (event: Event) => void {
	let replies = noReplies();
	let isReplying = false;

	function replySoon(): void {
		if (!isReplying) {
			isReplying = true;
			setImmediate(() => {
				isReplying = false;
				port.postMessage(replies);
				replies = noReplies();
			});
		}
	}

	async function answer(name: string, id: number, argument: unknown): Promise<void> {
		try {
			const result = await methods[name]?.(argument as never);
			replies.ids.push(id);
			replies.results.push(result);
		} catch (error) {
			replies.errors.push([id, carried(error)]);
		}
		replySoon();
	}

	port.on('message', (calls: readonly Calls[]) => {
		for (const {name, ids, args} of calls) {
			for (const [index, argument] of args.entries()) {
				if (ids === undefined) {
					methods[name]?.(argument as never);
				} else {
					void answer(name, ids[index] as number, argument);
				}
			}
		}
	});
	port.postMessage('ready');
	return event => {
		replies.events.push(event);
		replySoon();
	};
}

function noReplies(): Replies {
	return {ids: [], results: [], errors: [], events: []};
}

/** What the caller reads of an error; a copy of the error itself would have no `code`. */
export type CarriedError = {
	readonly name: string;
	readonly message: string;
	readonly stack?: string | undefined;
	readonly code?: string;
	readonly errno?: number;
};

export function carried(error: unknown): CarriedError {
	if (!(error instanceof Error)) {
		return {name: 'Error', message: String(error)};
	}
	const {name, message, stack, code, errno} = error as NodeJS.ErrnoException;
	return {name, message, stack, ...(code !== undefined && {code}), ...(errno !== undefined && {errno})};
}

export function rebuilt({message, ...properties}: CarriedError): Error {
	return Object.assign(new Error(message), properties);
}
