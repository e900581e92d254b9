import type {RequestListener} from 'node:http';
import type {Socket} from 'node:net';
import type {FastifyReply, FastifyRequest} from 'fastify';
import {unavailable} from './errors.ts';

/**
 * Does costly work one piece at a time: owners take turns, so that what one asks for holds each other up once at most.
 */
type Turns = <Result>(owner: string, work: () => Promise<Result>) => Promise<Result>;

type Waiting = {readonly start: () => void};

/**
 * @param maxWaiting pieces of one owner, in addition to the one that runs; a further one throws the API's `unavailable`
 */
export function createTurns(maxWaiting = 8): Turns {
	// A Map keeps the order in which owners came: the first one's turn is next.
	const owners = new Map<string, Waiting[]>();
	let busy = false;

	function next(): void {
		const [first] = owners;
		if (!first) {
			busy = false;
			return;
		}
		const [owner, [piece, ...rest]] = first;
		owners.delete(owner);
		if (rest.length > 0) {
			owners.set(owner, rest);
		}
		piece?.start();
	}

	function turn(owner: string): Promise<void> {
		const mine = owners.get(owner) ?? [];
		if (mine.length >= maxWaiting) {
			throw unavailable();
		}
		return new Promise(resolve => owners.set(owner, [...mine, {start: resolve}]));
	}

	return async (owner, work) => {
		if (busy) {
			await turn(owner);
		}
		busy = true;
		try {
			return await work();
		} finally {
			next();
		}
	};
}

/** A client that asks further ahead than this loses its connection. */
const maxAhead = 32;

const ahead = new WeakMap<Socket, number>();

/**
 * An `onRequest` hook for requests that a client sends before it has the answers to those before (RFC 9112 §9.3.2).
 * Node begins them all at once and holds unread answers, so that a few connections fill the memory. Here each one waits
 * until the answer before it is written.
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
	// Node gives the connection to a response when those before it are done with it.
	raw.once('socket', () => {
		ahead.set(socket, (ahead.get(socket) ?? 1) - 1);
		done();
	});
}

const waiting: Array<() => void> = [];

/**
 * Runs a piece of work that may take tens of milliseconds, one piece at a time in the whole process, in turns of the
 * event loop of their own: what arrived meanwhile gets its turn between two of them.
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
		// Two turns: one in which a new connection is taken, one in which its request is read.
		setImmediate(setImmediate, runNext);
	}
}

const probes: ReadonlySet<string | undefined> = new Set(['/healthz', '/readyz']);

/**
 * Wraps the listener of a server so that requests without an API key, except for probes, start one per turn of the
 * event loop, in order of arrival. A flood of them delays requests with a key by little more than the one that is being
 * started.
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

/** Bounds how many things each owner has under way at once. */
export class Seats {
	readonly #most: number;
	readonly #taken = new Map<string, number>();

	constructor(most: number) {
		this.#most = most;
	}

	/** Takes a seat and answers what gives it back; undefined: the owner has all of theirs already. */
	take(owner: string): (() => void) | undefined {
		const count = this.#taken.get(owner) ?? 0;
		if (count >= this.#most) {
			return undefined;
		}
		this.#taken.set(owner, count + 1);
		let left = false;
		return () => {
			if (!left) {
				left = true;
				this.#leave(owner);
			}
		};
	}

	/** Works on a seat; throws the API's `unavailable` where the owner has all of theirs already. */
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
		const rest = (this.#taken.get(owner) ?? 1) - 1;
		if (rest === 0) {
			this.#taken.delete(owner);
		} else {
			this.#taken.set(owner, rest);
		}
	}
}
