import type {IncomingMessage} from 'node:http';
import type {FastifyRequest} from 'fastify';
import {createBody} from './body.ts';
import type {Caller} from './caller.ts';
import {type ApiError, apiError, bodyMissing, unavailable} from './errors.ts';
import {type JsonLimits, JsonScan, type ParsedJson, parseJson, parseLargeJson, type ScanFault} from './json.ts';
import {inSlice} from './turns.ts';

declare module 'fastify' {
	interface FastifyContextConfig {
		/** The limits of JSON bodies of this route. */
		json?: JsonLimits;
		/** The maximum body length of a caller, if it differs from `bodyLimit`. */
		maxBodyLength?: (caller: Caller) => number;
	}
	interface FastifyRequest {
		/** Whether the body is so large that it is processed in slices. */
		isHeavy: boolean;
		/** The memory reserved for a large body. */
		place: Place | null;
	}
}

type Done = (error: Error | null, body?: unknown) => void;

/** The maximum number of values in a body that is not a list. A send with 256 KiB of data has fewer. */
export const maxValues = 50_000;
const defaultLimits: JsonLimits = {values: maxValues};
const large = 256 * 1024;
const manyValues = 5000;
// Each piece of a body takes a few microseconds: six megabytes, sent one byte at a time, would take seconds.
const maxPieces = 20_000;
const bytesPerPiece = 256;

/**
 * Reads JSON bodies. Their values are counted while they arrive, before anything is parsed. Large bodies wait for
 * memory before more of them is read, and heavy ones are parsed in slices.
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
				? apiError('payload_too_large', {message: 'The body arrives in too many pieces: send larger ones.'})
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
				// Later steps, such as the checks of a send, run in a slice of their own.
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

		/** Stops reading with an error and discards the rest of the body. */
		function end(error: ApiError): void {
			stop();
			request.place?.leave();
			payload.resume();
			done(error);
		}

		// The connection was closed within the body.
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
	/** The memory for all large bodies in bytes. Those of one owner may use half of it. */
	readonly bytes: number;
	/** How many bodies may wait for memory. Those of one owner may take half of these places. */
	readonly waiting: number;
	/** How long a body may wait, counted from the start of its first wait, in milliseconds. */
	readonly waitMs: number;
};

/** The memory reserved for one large body. */
export type Place = {
	/** Counts received bytes. Returns `false` if memory is short: no more may be read until `go` is called. */
	readonly grow: (bytes: number) => boolean;
	/** Returns the number of bytes counted. */
	readonly bytes: () => number;
	readonly leave: () => void;
};

/** Called when a waiting body may continue, or has waited too long. */
type Waiter = {readonly go: () => void; readonly giveUp: () => void};

type Taken = Waiter & {
	readonly owner: string;
	bytes: number;
	isWaiting: boolean;
	/** Whether it has used up its waiting time. */
	isLate: boolean;
	timer: NodeJS.Timeout | null;
};

/**
 * Limits the memory of large bodies from their arrival to their response. Only bytes that have arrived count, so that a
 * slow body takes no memory from others. The oldest body may always continue. A semaphore that reserved the whole
 * length refused four of ten sends of 4 MB that took 12 s to arrive; this refuses one.
 */
export function createBodyRoom({bytes: most, waiting, waitMs}: CapacityOptions) {
	// In order of arrival.
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

	/** Reserves memory for a body. Returns `null` if too many bodies are already waiting. */
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
