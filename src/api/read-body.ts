import type {IncomingMessage} from 'node:http';
import type {FastifyRequest} from 'fastify';
import {inSlice} from '../kit/turns.ts';
import {type ApiError, apiError, bodyMissing, unavailable} from '../mail/api-error.ts';
import {createBody} from './body.ts';
import {BodyRoom, type Reservation} from './body-room.ts';
import type {Caller} from './caller.ts';
import {type JsonLimits, JsonScan, type ParsedJson, parseJson, parseLargeJson, type ScanProblem} from './json.ts';

declare module 'fastify' {
	interface FastifyContextConfig {
		/** The limits of JSON bodies of this route. */
		json?: JsonLimits;
		/** The maximum body length of a caller, if it differs from `bodyLimit`. */
		maxBodyLength?: (caller: Caller) => number;
	}
	interface FastifyRequest {
		/** Whether the body is so large, or has so many values, that it is processed in slices. */
		isHeavy: boolean;
		/** The memory reserved for a large body. */
		reservation: Reservation | null;
	}
}

type Done = (error: Error | null, body?: unknown) => void;

/** The maximum number of values in a body that is not a list. A send with 256 KiB of data has fewer. */
export const maxValues = 50_000;
const defaultLimits: JsonLimits = {values: maxValues};
const maxLightLength = 256 * 1024;
const manyValues = 5000;
// Each piece of a body takes a few microseconds: six megabytes, sent one byte at a time, would take seconds.
const maxPieces = 20_000;
const bytesPerPiece = 256;

/**
 * Returns a reader of JSON bodies. Their values are counted while they arrive, before anything is parsed. Reading
 * a large body pauses while memory is short, and heavy bodies (`isHeavy`) are parsed in slices.
 */
export function createReadBody(room = new BodyRoom({bytes: 32 * 1024 * 1024, waiting: 128, waitMs: 15_000})) {
	return (request: FastifyRequest, payload: IncomingMessage, done: Done): void => {
		const {config} = request.routeOptions;
		const bodyLimit = (request.caller && config.maxBodyLength?.(request.caller)) ?? request.routeOptions.bodyLimit;
		const declaredLength = Number(request.headers['content-length'] ?? Number.NaN);
		if (declaredLength > bodyLimit) {
			done(apiError('payload_too_large'));
			return;
		}
		const limits = config.json ?? defaultLimits;
		new BodyReading({room, request, payload, limits, bodyLimit, declaredLength, done}).start();
	};
}

type BodyReadingOptions = {
	readonly room: BodyRoom;
	readonly request: FastifyRequest;
	readonly payload: IncomingMessage;
	readonly limits: JsonLimits;
	readonly bodyLimit: number;
	/** `NaN` if the request declares no length. */
	readonly declaredLength: number;
	readonly done: Done;
};

/** Reads the body of one request. */
class BodyReading {
	readonly #options: BodyReadingOptions;
	readonly #scan: JsonScan;
	readonly #body = createBody();
	#pieces = 0;

	constructor(options: BodyReadingOptions) {
		this.#options = options;
		this.#scan = new JsonScan(options.limits);
	}

	start(): void {
		const {payload} = this.#options;
		payload.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onError);
		payload.resume();
	}

	readonly #onData = (chunk: Buffer): void => {
		const body = this.#body;
		body.add(chunk);
		this.#pieces++;
		const error =
			body.length() > this.#options.bodyLimit
				? apiError('payload_too_large')
				: (toError(this.#scan.feed(chunk)) ?? this.#checkPieces());
		if (error) {
			this.#end(error);
		} else if (body.length() > maxLightLength && !this.#reserve(chunk.length)) {
			this.#options.payload.pause();
		}
	};

	#checkPieces(): ApiError | null {
		return this.#pieces > maxPieces + this.#body.length() / bytesPerPiece
			? apiError('payload_too_large', {message: 'The body arrived in too many pieces; send larger ones.'})
			: null;
	}

	#reserve(bytes: number): boolean {
		const {room, request, payload} = this.#options;
		if (request.reservation !== null) {
			return request.reservation.grow(bytes);
		}
		request.reservation = room.enter(request.caller?.workspaceId ?? '', {
			go: () => payload.resume(),
			giveUp: () => this.#end(unavailable()),
		});
		if (request.reservation === null) {
			this.#end(unavailable());
			return true; // The rest of the body is discarded, so reading must not pause.
		}
		return request.reservation.grow(this.#body.length());
	}

	readonly #onEnd = (): void => {
		const {request, limits, declaredLength, done} = this.#options;
		const body = this.#body;
		if (!Number.isNaN(declaredLength) && declaredLength !== body.length()) {
			this.#end(apiError('bad_request'));
			return;
		}
		this.#stop();
		const scan = this.#scan.result();
		const listLength = scan.list ? scan.list.end - scan.list.start : 0;
		request.isHeavy = body.length() > maxLightLength || scan.values > manyValues;
		if (body.length() === 0) {
			done(null, undefined);
		} else if (!request.isHeavy) {
			this.#complete(parseJson(body.all(), scan));
		} else if (limits.items && body.length() - listLength > maxLightLength) {
			done(toError({violation: {field: 'body', message: 'must have at most 256 KiB outside its items'}}));
		} else {
			// Later steps, such as the checks of a send, run in a slice of their own.
			parseLargeJson(body, scan, limits.items?.list ?? null)
				.then(parsed => inSlice(() => this.#complete(parsed)))
				.catch(done);
		}
	};

	#complete(parsed: ParsedJson): void {
		const {done} = this.#options;
		if (!parsed.ok) {
			done(apiError('bad_request', {message: parsed.problem}));
		} else if (parsed.value === null) {
			done(bodyMissing());
		} else {
			done(null, parsed.value);
		}
	}

	#stop(): void {
		this.#options.payload.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onError);
	}

	/** Stops reading with an error and discards the rest of the body. */
	#end(error: ApiError): void {
		const {request, payload, done} = this.#options;
		this.#stop();
		request.reservation?.leave();
		payload.resume();
		done(error);
	}

	// The connection was closed before the end of the body.
	readonly #onError = (): void => this.#end(apiError('bad_request'));
}

function toError(problem: ScanProblem | null): ApiError | null {
	if (problem === null) {
		return null;
	}
	return 'violation' in problem
		? apiError('validation_failed', {violations: [problem.violation]})
		: apiError('bad_request', problem);
}
