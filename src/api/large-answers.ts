import {ReadStream} from 'node:fs';
import {Readable} from 'node:stream';
import type {DoneFuncWithErrOrRes, FastifyReply, FastifyRequest} from 'fastify';
import {ConcurrencyLimit} from '../kit/turns.ts';
import {type ApiError, apiError, retryAfter} from '../mail/api-error.ts';
import {clientNetwork} from '../net/ip-address.ts';
import {errorBody} from './errors.ts';
import {releaseOnClose} from './in-turn.ts';

declare module 'fastify' {
	interface FastifyContextConfig {
		/** Responses may be large: a request waits for a seat before its handler reads anything. */
		isLarge?: true;
	}
	interface FastifyRequest {
		/** Releases the seat of this request; `null` if it has none. */
		leaveSeat: (() => void) | null;
	}
}

/** Longer responses (in octets) take a seat, and so do all streams except files. */
const minLargeLength = 256 * 1024;
const defaultLimits = {seats: 4, waiting: 256, waitMs: 20_000};
const retryMs = 2000;

/** Seats for large responses: a fixed number for each owner, and a bounded queue of requests that wait for one. */
export class ResponseSeats {
	readonly #limits: typeof defaultLimits;
	readonly #seats: ConcurrencyLimit;
	/** Each entry takes a seat for its request if one is free. */
	readonly #queues = new Map<string, Set<() => void>>();

	constructor(limits = defaultLimits) {
		this.#limits = limits;
		this.#seats = new ConcurrencyLimit(limits.seats);
	}

	/** Takes a seat and returns the function that releases it, or `undefined` if the owner has none left. */
	take(owner: string): (() => void) | undefined {
		const leave = this.#seats.take(owner);
		if (leave === undefined) {
			return undefined;
		}
		return () => {
			leave();
			const [next] = this.#queues.get(owner) ?? [];
			next?.();
		};
	}

	/**
	 * Waits for a seat in order of arrival. Resolves with `undefined` if the queue is full, the wait times out, or
	 * `signal` aborts it.
	 */
	async wait(owner: string, signal: AbortSignal): Promise<(() => void) | undefined> {
		const queue = this.#queues.get(owner) ?? new Set();
		const seat = this.take(owner);
		if (seat || queue.size >= this.#limits.waiting) {
			return seat;
		}
		this.#queues.set(owner, queue);
		return await new Promise(resolve => {
			const end = (leave?: () => void) => {
				clearTimeout(timer);
				signal.removeEventListener('abort', giveUp);
				queue.delete(enter);
				if (queue.size === 0) {
					this.#queues.delete(owner);
				}
				resolve(leave);
			};
			const giveUp = () => end();
			const enter = () => {
				const leave = this.take(owner);
				if (leave) {
					end(leave);
				}
			};
			const timer = setTimeout(giveUp, this.#limits.waitMs);
			signal.addEventListener('abort', giveUp);
			queue.add(enter);
		});
	}
}

const ownerOf = ({caller, ip}: FastifyRequest): string => caller?.workspaceId ?? clientNetwork(ip);

function tooMany(): ApiError {
	const message =
		'Too many large responses are in progress for this workspace. Read them to the end, then try again.';
	return apiError('rate_limited', {message, headers: retryAfter(retryMs)});
}

/**
 * Returns hooks that limit how many large responses an owner has in progress. A response counts from before its data is
 * read until the client has received it, because it stays in memory until then. The owner is the workspace or, without
 * a key, the client's network.
 */
export function createResponseLimits(seats = new ResponseSeats()) {
	return {
		/** A `preHandler` hook. Most requests continue synchronously. */
		enter(request: FastifyRequest, {raw}: FastifyReply, done: (error?: Error) => void): void {
			if (!request.routeOptions.config.isLarge) {
				done();
				return;
			}
			const controller = new AbortController();
			const leaveQueue = () => controller.abort();
			raw.once('close', leaveQueue);
			void seats.wait(ownerOf(request), controller.signal).then(leave => {
				raw.off('close', leaveQueue);
				request.leaveSeat = leave ?? null;
				done(leave === undefined ? tooMany() : undefined);
			});
		},

		/** An `onSend` hook. */
		send(request: FastifyRequest, reply: FastifyReply, payload: unknown, done: DoneFuncWithErrOrRes): void {
			const isLarge = isLargeResponse(reply, payload);
			const leave = request.leaveSeat ?? (isLarge ? seats.take(ownerOf(request)) : () => undefined);
			if (leave === undefined) {
				const error = tooMany();
				if (payload instanceof Readable) {
					payload.destroy();
				}
				reply.removeHeader('content-disposition');
				reply.removeHeader('content-length');
				reply.code(error.status).headers(error.headers).type('application/json; charset=utf-8');
				done(null, JSON.stringify(errorBody(error, request.id)));
				return;
			}
			if (isLarge) {
				releaseOnClose(reply, leave);
			} else {
				leave();
			}
			done(null, payload);
		},
	};
}

/**
 * Event streams last for hours and have their own limit. A file, such as a script of a page, is read only as fast as it
 * is sent.
 */
function isLargeResponse(reply: FastifyReply, payload: unknown): boolean {
	if (payload instanceof Readable) {
		return (
			!(payload instanceof ReadStream) && !String(reply.getHeader('content-type')).startsWith('text/event-stream')
		);
	}
	return (typeof payload === 'string' || payload instanceof Uint8Array) && payload.length > minLargeLength;
}
