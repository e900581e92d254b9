import type {MessagePort, TransferListItem} from 'node:worker_threads';

/** The methods that a thread offers. Arguments and results are copied by structured clone. */
export type Methods = Record<string, (argument: never) => unknown>;

type Argument<Method extends (argument: never) => unknown> = Parameters<Method>[0];
type Result<Method extends (argument: never) => unknown> = Awaited<ReturnType<Method>>;

/** Calls of one method. `ids` is absent if no reply is expected. */
export type Calls = {readonly name: string; readonly ids?: number[]; readonly args: unknown[]};
/** Results and errors by id, and the thread's events. */
export type Replies = {
	readonly ids: number[];
	readonly results: unknown[];
	readonly errors: Array<readonly [id: number, error: SerializedError]>;
	readonly events: unknown[];
};

type PendingCall = {
	/** 0 if no reply is expected. */
	readonly id: number;
	readonly name: string;
	readonly argument: unknown;
	readonly transfer: readonly TransferListItem[];
	readonly resolve: (result: never) => void;
	readonly reject: (error: unknown) => void;
	/** The number of threads that have received the call. */
	threads: number;
};

type CallerOptions<Event> = {
	readonly send: (calls: readonly Calls[], transfer: readonly TransferListItem[]) => void;
	/** Receives everything the thread sends besides replies. */
	readonly event?: (event: Event) => void;
	/** Called just before a message is sent, to add calls for what has accumulated since the last one (`sendSoon`). */
	readonly gather?: () => void;
	/** A call is rejected after this many threads ended while processing it (default 1). 0: even if it was not sent. */
	readonly maxAttempts?: number;
};

/**
 * Calls the methods of a thread. All calls of one turn of the event loop are sent in one message, because a message
 * costs as much for one call as for many. Calls wait until the thread is ready.
 */
export class ThreadCaller<Remote extends Methods, Event = never> {
	readonly #options: CallerOptions<Event>;
	readonly #sent = new Map<number, PendingCall>();
	#waiting: PendingCall[] = [];
	#isReady = false;
	#isFlushing = false;
	#lastId = 0;

	constructor(options: CallerOptions<Event>) {
		this.#options = options;
	}

	get isReady(): boolean {
		return this.#isReady;
	}

	/** The number of calls without a reply. */
	get size(): number {
		return this.#sent.size + this.#waiting.length;
	}

	call<Name extends keyof Remote & string>(
		name: Name,
		argument: Argument<Remote[Name]>,
		transfer: readonly TransferListItem[] = [],
	): Promise<Result<Remote[Name]>> {
		this.#lastId++;
		const id = this.#lastId;
		return new Promise((resolve, reject) => this.#add({id, name, argument, transfer, resolve, reject, threads: 0}));
	}

	/** Calls a method without a reply, in order with other calls. */
	notify<Name extends keyof Remote & string>(name: Name, argument: Argument<Remote[Name]>): void {
		this.#add({id: 0, name, argument, transfer: [], resolve: ignore, reject: ignore, threads: 0});
	}

	/** Calls a method without a reply, ahead of waiting calls, even if the thread is not ready. */
	notifyNow<Name extends keyof Remote & string>(name: Name, argument: Argument<Remote[Name]>): void {
		this.#options.send([{name, args: [argument]}], []);
	}

	/** Processes a message from the thread. */
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
			this.#sent.get(id)?.reject(deserializeError(error));
			this.#sent.delete(id);
		}
		for (const event of events) {
			this.#options.event?.(event as Event);
		}
	}

	/**
	 * Handles the end of the thread. Calls are passed to the next thread, or rejected with the error if they have used
	 * up their attempts.
	 */
	end(error: Error): void {
		this.#isReady = false;
		const pending = [...this.#sent.values(), ...this.#waiting];
		this.#sent.clear();
		this.#waiting = pending.filter(({threads}) => threads < (this.#options.maxAttempts ?? 1));
		for (const {reject} of pending.filter(({threads}) => threads >= (this.#options.maxAttempts ?? 1))) {
			reject(error);
		}
	}

	/** Sends a message at the end of this turn of the event loop, if there are any calls by then. */
	sendSoon(): void {
		if (!this.#isFlushing) {
			this.#isFlushing = true;
			setImmediate(() => this.#flush());
		}
	}

	#add(call: PendingCall): void {
		this.#waiting.push(call);
		this.sendSoon();
	}

	#flush(): void {
		if (this.#isReady) {
			this.#isFlushing = true; // Calls that `gather` adds belong to this message, so they need no other flush.
			this.#options.gather?.();
		}
		this.#isFlushing = false;
		if (!this.#isReady || this.#waiting.length === 0) {
			return;
		}
		const waiting = this.#waiting;
		this.#waiting = [];
		try {
			this.#send(waiting);
		} catch {
			// Only the calls whose argument cannot be copied fail.
			for (const call of waiting) {
				try {
					this.#send([call]);
				} catch (error) {
					call.reject(error);
				}
			}
		}
	}

	#send(pending: readonly PendingCall[]): void {
		const calls: Calls[] = [];
		const transfer: TransferListItem[] = [];
		for (const {id, name, argument, transfer: callTransfer} of pending) {
			let group = calls.at(-1);
			if (group?.name !== name || (group.ids === undefined) !== (id === 0)) {
				group = {name, ...(id !== 0 && {ids: []}), args: []};
				calls.push(group);
			}
			group.ids?.push(id);
			group.args.push(argument);
			transfer.push(...callTransfer);
		}
		this.#options.send(calls, transfer);
		for (const call of pending) {
			if (call.id !== 0) {
				call.threads++;
				this.#sent.set(call.id, call);
			}
		}
	}
}

function ignore(): void {}

/**
 * Responds to calls in the thread. Replies and events of one turn of the event loop are sent in one message.
 *
 * @returns a function that sends an event
 */
export function serveCalls<Remote extends Methods, Event = never>(
	port: MessagePort,
	methods: Remote,
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

	async function respond(name: string, id: number, argument: unknown): Promise<void> {
		try {
			const result = await methods[name]?.(argument as never);
			replies.ids.push(id);
			replies.results.push(result);
		} catch (error) {
			replies.errors.push([id, serializeError(error)]);
		}
		replySoon();
	}

	port.on('message', (calls: readonly Calls[]) => {
		for (const {name, ids, args} of calls) {
			for (const [index, argument] of args.entries()) {
				if (ids === undefined) {
					methods[name]?.(argument as never);
				} else {
					void respond(name, ids[index] as number, argument);
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

/** The properties of an error that callers read. A structured clone of the error itself would lose `code`. */
export type SerializedError = {
	readonly name: string;
	readonly message: string;
	readonly stack?: string | undefined;
	readonly code?: string;
	readonly errno?: number;
};

export function serializeError(error: unknown): SerializedError {
	if (!(error instanceof Error)) {
		return {name: 'Error', message: String(error)};
	}
	const {name, message, stack, code, errno} = error as NodeJS.ErrnoException;
	return {name, message, stack, ...(code !== undefined && {code}), ...(errno !== undefined && {errno})};
}

export function deserializeError({message, ...properties}: SerializedError): Error {
	return Object.assign(new Error(message), properties);
}
