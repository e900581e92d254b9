import type {IncomingMessage} from 'node:http';
import type {FastifyRequest} from 'fastify';
import {createBody} from './body.ts';
import type {Caller} from './caller.ts';
import {type ApiError, apiError, bodyMissing, unavailable} from './errors.ts';
import {type JsonLimits, JsonScan, type ParsedJson, parseJson, parseLargeJson, type ScanFault} from './json.ts';
import {inSlice} from './turns.ts';

declare module 'fastify' {
	interface FastifyContextConfig {
		/** What a JSON body of this route may hold. */
		json?: JsonLimits;
		/** The longest body of a caller, where that is not `bodyLimit`. */
		maxBodyLength?: (caller: Caller) => number;
	}
	interface FastifyRequest {
		/** Whether the body takes long enough to be handled in slices. */
		isHeavy: boolean;
		/** Of a large body. */
		place: Place | null;
	}
}

type Done = (error: Error | null, body?: unknown) => void;

/** What a body may hold that is one thing: a send with 256 KiB of data has fewer. */
export const maxValues = 50_000;
const defaultLimits: JsonLimits = {values: maxValues};
const large = 256 * 1024;
const manyValues = 5000;
// Each piece of a body costs some microseconds: one byte at a time, six megabytes would take seconds.
const maxPieces = 20_000;
const bytesPerPiece = 256;

/**
 * Reads JSON bodies. What they hold is counted while they come, before anything is made of it; large ones wait for room
 * before they are read on, and what takes long is read in slices.
 */
export function createReadBody(room = createBodyRoom({bytes: 32 * 1024 * 1024, waiting: 128, waitMs: 15_000})) {
	return (request: FastifyRequest, payload: IncomingMessage, done: Done): void => {
		const {config} = request.routeOptions;
		const bodyLimit = (request.caller && config.maxBodyLength?.(request.caller)) ?? request.routeOptions.bodyLimit;
		const limits = config.json ?? defaultLimits;
		const declared = Number(request.headers['content-length'] ?? Number.NaN);
		if (declared > bodyLimit) {
			done(apiError('payload_too_large'));
			return;
		}
		const scan = new JsonScan(limits);
		const body = createBody();
		let pieces = 0;

		function onData(chunk: Buffer): void {
			body.add(chunk);
			pieces++;
			const fault =
				body.length() > bodyLimit ? apiError('payload_too_large') : (faultOf(scan.feed(chunk)) ?? crumbled());
			if (fault) {
				end(fault);
			} else if (body.length() > large && !growPlace(chunk.length)) {
				payload.pause();
			}
		}

		function crumbled(): ApiError | null {
			return pieces > maxPieces + body.length() / bytesPerPiece
				? apiError('payload_too_large', {message: 'The body comes in too many pieces; send it in larger ones.'})
				: null;
		}

		function growPlace(bytes: number): boolean {
			if (request.place === null) {
				const owner = request.caller?.workspaceId ?? '';
				request.place = room(owner, {go: () => payload.resume(), giveUp: () => end(unavailable())});
				if (request.place === null) {
					end(unavailable());
					return true;
				}
				return request.place.grow(body.length());
			}
			return request.place.grow(bytes);
		}

		function onEnd(): void {
			if (!Number.isNaN(declared) && declared !== body.length()) {
				end(apiError('bad_request'));
				return;
			}
			stop();
			const seen = scan.seen();
			request.isHeavy = body.length() > large || seen.values > manyValues;
			if (body.length() === 0) {
				done(null, undefined);
			} else if (!request.isHeavy) {
				answer(parseJson(body.all(), seen));
			} else if (body.length() - (seen.list ? seen.list.end - seen.list.start : 0) > large && limits.items) {
				done(faultOf({violation: {field: 'body', message: 'must have at most 256 KiB around its items'}}));
			} else {
				// What follows, the checks of a send for instance, has a slice of its own.
				parseLargeJson(body, seen, limits.items?.list ?? null)
					.then(parsed => inSlice(() => answer(parsed)))
					.catch(done);
			}
		}

		function answer(parsed: ParsedJson): void {
			if (!parsed.ok) {
				done(apiError('bad_request', {message: parsed.fault}));
			} else if (parsed.value === null) {
				done(bodyMissing());
			} else {
				done(null, parsed.value);
			}
		}

		function stop(): void {
			payload.off('data', onData).off('end', onEnd).off('error', onError);
		}

		/** What still comes is dropped. */
		function end(error: ApiError): void {
			stop();
			request.place?.leave();
			payload.resume();
			done(error);
		}

		// The connection ended within the body.
		function onError(): void {
			end(apiError('bad_request'));
		}

		payload.on('data', onData).on('end', onEnd).on('error', onError);
		payload.resume();
	};
}

function faultOf(fault: ScanFault | null): ApiError | null {
	if (fault === null) {
		return null;
	}
	return 'violation' in fault
		? apiError('validation_failed', {violations: [fault.violation]})
		: apiError('bad_request', fault);
}

type CapacityOptions = {
	/** How many bytes large bodies may have in memory; one owner's have half of it. */
	readonly bytes: number;
	/** How many of them may wait for room; one owner's have half of these places. */
	readonly waiting: number;
	/** How long after its first wait a body may wait again. */
	readonly waitMs: number;
};

/** A large body's part of the room. */
export type Place = {
	/** Counts bytes that came. False: there is no room; no more may be read until `go`. */
	readonly grow: (bytes: number) => boolean;
	/** How many it counted. */
	readonly bytes: () => number;
	readonly leave: () => void;
};

/** Called for a body that waited: it may go on, or it waited too long. */
type Waiter = {readonly go: () => void; readonly giveUp: () => void};

type Taken = Waiter & {
	readonly owner: string;
	bytes: number;
	isWaiting: boolean;
	/** It waited as long as it may. */
	isLate: boolean;
	timer: NodeJS.Timeout | null;
};

/**
 * Bounds the memory of large bodies from their arrival to their answer. They count by what has arrived, so that one
 * that comes slowly takes no room from others; the one that came first may always go on. A semaphore in which each took
 * its whole length refused four of ten sends of 4 MB that took 12 s to arrive, where this refuses one.
 */
export function createBodyRoom({bytes: most, waiting, waitMs}: CapacityOptions) {
	// In the order in which they came.
	const places = new Set<Taken>();

	function sum(of: (place: Taken) => boolean): number {
		let bytes = 0;
		for (const place of places) {
			bytes += of(place) ? place.bytes : 0;
		}
		return bytes;
	}

	function hasRoom(place: Taken): boolean {
		const [first] = places;
		return place === first || (sum(() => true) <= most && sum(({owner}) => owner === place.owner) <= most / 2);
	}

	function wake(): void {
		for (const place of places) {
			if (place.isWaiting && hasRoom(place)) {
				place.isWaiting = false;
				place.go();
			}
		}
	}

	function expire(place: Taken): void {
		place.isLate = true;
		if (place.isWaiting) {
			place.giveUp();
		}
	}

	/** Null: too many wait already. */
	return (owner: string, waiter: Waiter): Place | null => {
		const all = [...places].filter(({isWaiting}) => isWaiting);
		const own = all.filter(place => place.owner === owner);
		if (all.length >= waiting || own.length >= waiting / 2) {
			return null;
		}
		const place: Taken = {...waiter, owner, bytes: 0, isWaiting: false, isLate: false, timer: null};
		places.add(place);
		return {
			grow(bytes) {
				place.bytes += bytes;
				if (hasRoom(place)) {
					return true;
				}
				if (place.isLate) {
					place.giveUp();
					return true;
				}
				place.isWaiting = true;
				place.timer ??= setTimeout(expire, waitMs, place);
				return false;
			},
			bytes: () => place.bytes,
			leave() {
				if (places.delete(place)) {
					clearTimeout(place.timer ?? undefined);
					wake();
				}
			},
		};
	};
}
