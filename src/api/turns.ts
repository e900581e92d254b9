import type {RequestListener} from 'node:http';
import type {Socket} from 'node:net';
import type {FastifyReply, FastifyRequest} from 'fastify';
import {unavailable} from './errors.ts';

/**
 * Runs costly work one piece at a time. Owners take turns, so an owner waits for at most one piece of each other owner.
 */
type Turns = <Result>(owner: string, work: () => Promise<Result>) => Promise<Result>;

type Waiting = {readonly start: () => void};

/**
 * @param maxWaiting pieces that may wait per owner, besides the one that runs; more throw the API's `unavailable`
 */
export function createTurns(maxWaiting = 8): Turns {
	// A Map retains the order of insertion: the owner that was added first is next.
	const owners = new Map<string, Waiting[]>();
	let isBusy = false;

	function next(): void {
		const [first] = owners;
		if (!first) {
			isBusy = false;
			return;
		}
		const [owner, [piece, ...rest]] = first;
		owners.delete(owner);
		if (rest.length > 0) {
			owners.set(owner, rest);
		}
		piece?.start();
	}

	function waitForTurn(owner: string): Promise<void> {
		const own = owners.get(owner) ?? [];
		if (own.length >= maxWaiting) {
			throw unavailable();
		}
		return new Promise(resolve => owners.set(owner, [...own, {start: resolve}]));
	}

	return async (owner, work) => {
		if (isBusy) {
			await waitForTurn(owner);
		}
		isBusy = true;
		try {
			return await work();
		} finally {
			next();
		}
	};
}

/** A client that sends more requests ahead than this loses its connection. */
const maxAhead = 32;

const ahead = new WeakMap<Socket, number>();

/**
 * An `onRequest` hook for pipelined requests (RFC 9112 §9.3.2). Node starts them all at once and buffers unread
 * responses, so a few connections could fill the memory. This hook makes each request wait until the response before it
 * has been written.
 */
export function inTurn({raw: {socket}}: FastifyRequest, {raw}: FastifyReply, done: () => void): void {
	if (raw.socket !== null) {
		done();
		return;
	}
	const count = (ahead.get(socket) ?? 0) + 1;
	if (count > maxAhead) {
		socket.destroy();
		return;
	}
	ahead.set(socket, count);
	// Node assigns the connection to a response once the ones before it are finished.
	raw.once('socket', () => {
		ahead.set(socket, (ahead.get(socket) ?? 1) - 1);
		done();
	});
}

const waiting: Array<() => void> = [];

/**
 * Runs work that may take tens of milliseconds, one piece at a time in the whole process. Between two pieces the event
 * loop handles what has arrived in the meantime.
 */
export function inSlice<Result>(work: () => Result): Promise<Result> {
	return new Promise((resolve, reject) => {
		waiting.push(() => {
			try {
				resolve(work());
			} catch (error) {
				reject(error);
			}
		});
		if (waiting.length === 1) {
			setImmediate(runNext);
		}
	});
}

function runNext(): void {
	waiting[0]?.();
	waiting.shift();
	if (waiting.length > 0) {
		// Two turns: a new connection is accepted in the first one, and its request is read in the second.
		setImmediate(setImmediate, runNext);
	}
}

const probes: ReadonlySet<string | undefined> = new Set(['/healthz', '/readyz']);

/**
 * Wraps the listener of a server so that only one request without an API key starts per turn of the event loop, in
 * order of arrival. Probes are exempt. A flood of such requests delays requests with a key by little more than the one
 * that is starting.
 */
export function startKeylessInTurn(listener: RequestListener): RequestListener {
	const queue: Array<() => void> = [];
	let isTurnTaken = false;

	function startNext(): void {
		const start = queue.shift();
		isTurnTaken = start !== undefined;
		if (start) {
			setImmediate(startNext);
			start();
		}
	}

	return (request, response) => {
		if (request.headers.authorization !== undefined || probes.has(request.url)) {
			listener(request, response);
			return;
		}
		queue.push(() => listener(request, response));
		if (!isTurnTaken) {
			startNext();
		}
	};
}

/** Releases a seat when the response or its connection has ended. */
export function leaveAtEnd({raw}: FastifyReply, leave: () => void): void {
	if (raw.destroyed) {
		leave();
	} else {
		raw.once('close', leave);
	}
}

/** Limits how many tasks each owner has in progress at once. */
export class Seats {
	readonly #max: number;
	readonly #occupied = new Map<string, number>();

	constructor(max: number) {
		this.#max = max;
	}

	/** Takes a seat and returns the function that releases it, or `undefined` if the owner has none left. */
	take(owner: string): (() => void) | undefined {
		const count = this.#occupied.get(owner) ?? 0;
		if (count >= this.#max) {
			return undefined;
		}
		this.#occupied.set(owner, count + 1);
		let isReleased = false;
		return () => {
			if (!isReleased) {
				isReleased = true;
				this.#leave(owner);
			}
		};
	}

	/** Runs work on a seat. Throws the API's `unavailable` if the owner has none left. */
	async hold<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
		const leave = this.take(owner);
		if (leave === undefined) {
			throw unavailable();
		}
		try {
			return await work();
		} finally {
			leave();
		}
	}

	#leave(owner: string): void {
		const remaining = (this.#occupied.get(owner) ?? 1) - 1;
		if (remaining === 0) {
			this.#occupied.delete(owner);
		} else {
			this.#occupied.set(owner, remaining);
		}
	}
}
