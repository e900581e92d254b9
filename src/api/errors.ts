import {type IncomingMessage, STATUS_CODES} from 'node:http';
import type {Socket} from 'node:net';
import {Readable} from 'node:stream';
import type {DoneFuncWithErrOrRes, FastifyReply, FastifyRequest} from 'fastify';
import {type ApiErrorCode, apiErrors, type Violation} from '../mail/api-error.ts';
import type {NewId} from '../mail/ids.ts';
import {Refused} from '../ops/operation.ts';

type ApiErrorOptions = {
	/** Instead of the code's usual message. */
	readonly message?: string;
	readonly violations?: readonly Violation[];
	/** Instead of the code's usual status: 408 and 431 are `bad_request`. */
	readonly status?: number;
	readonly headers?: Readonly<Record<string, string>>;
};

/** A request's end as the client sees it; thrown by routes and hooks, written by `sendError`. */
export class ApiError extends Error {
	readonly code: ApiErrorCode;
	readonly status: number;
	readonly violations: readonly Violation[] | undefined;
	readonly headers: Readonly<Record<string, string>>;

	constructor(code: ApiErrorCode, options: ApiErrorOptions = {}) {
		super(options.message ?? apiErrors[code].message);
		this.code = code;
		this.status = options.status ?? apiErrors[code].status;
		this.violations = options.violations;
		this.headers = options.headers ?? {};
	}
}

export function apiError(code: ApiErrorCode, options?: ApiErrorOptions): ApiError {
	return new ApiError(code, options);
}

/** The envelope of every failure but 401 (docs/reference/errors.md). */
export function errorBody(error: ApiError, requestId: string): object {
	const {code, message, violations} = error;
	return {error: {code, message, request_id: requestId, ...(violations && {violations})}};
}

export function sendError(reply: FastifyReply, error: ApiError): FastifyReply {
	return reply.code(error.status).headers(error.headers).send(errorBody(error, reply.request.id));
}

/** The header that says when to try again: whole seconds, at least one. */
export function retryAfter(milliseconds: number): Record<'retry-after', string> {
	return {'retry-after': String(Math.max(1, Math.ceil(milliseconds / 1000)))};
}

const storeRetryMs = 5000;

export function unavailable(): ApiError {
	return apiError('unavailable', {headers: retryAfter(storeRetryMs)});
}

/** No body, or `null`, where an object is expected. */
export function bodyMissing(): ApiError {
	return apiError('bad_request', {message: 'A JSON object is expected as the body.'});
}

/** What a 415 says where people's browsers post. */
export const formExpected =
	'Send the body as a form, application/x-www-form-urlencoded or multipart/form-data, without a content encoding.';

export type ErrorReport = (request: FastifyRequest, error: unknown) => void;

/** The answer to the client for anything thrown while it was answered. What is not the client's fault is reported. */
export function toApiError(error: unknown, isUnavailable: (error: unknown) => boolean): ApiError {
	if (error instanceof ApiError) {
		return error;
	}
	if (error instanceof Refused) {
		const {code, message, retryAfterMs} = error;
		return apiError(code, {message, ...(retryAfterMs !== undefined && {headers: retryAfter(retryAfterMs)})});
	}

	// fastify's own: a length that does not fit, a connection that ended within the body, an invalid media type.
	switch (statusOf(error)) {
		case 400:
			return apiError('bad_request');
		case 413:
			return apiError('payload_too_large');
		case 415:
			return apiError('unsupported_media_type');
	}

	return isUnavailable(error) ? unavailable() : apiError('internal_error');
}

function statusOf(error: unknown): number | undefined {
	return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
		? error.statusCode
		: undefined;
}

type HttpSocket = Socket & {_httpMessage?: {headersSent: boolean; req: IncomingMessage} | null};

type Answer = {readonly status: number; readonly error: ApiError};

const malformed: Answer = {status: 400, error: apiError('bad_request')};
const answers: Readonly<Record<string, Answer>> = {
	ERR_HTTP_REQUEST_TIMEOUT: {
		status: 408,
		error: apiError('bad_request', {message: 'The request did not arrive within the time limit.'}),
	},
	HPE_HEADER_OVERFLOW: {
		status: 431,
		error: apiError('bad_request', {message: 'The request line and headers are longer than 16 KiB.'}),
	},
	HPE_CHUNK_EXTENSIONS_OVERFLOW: {status: 413, error: apiError('payload_too_large')},
};

/** Answers what is not HTTP, or did not arrive in time, in the API's envelope, and ends the connection. */
export function answerClientError(newId: NewId, error: NodeJS.ErrnoException, socket: Socket): void {
	if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) {
		socket.destroy();
		return;
	}

	const {status, error: failure} = answers[error.code ?? ''] ?? malformed;
	const id = newId('req');
	const body = JSON.stringify(errorBody(failure, id));
	socket.end(
		[
			`HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
			'Connection: close',
			'Content-Type: application/json; charset=utf-8',
			`Content-Length: ${Buffer.byteLength(body)}`,
			`X-Request-Id: ${id}`,
			'',
			body,
		].join('\r\n'),
	);
}

// What stands behind a complete request must not be answered in that request's place: the client would take the 400 for
// the answer to a send that may have been accepted.
function isAnswering(socket: HttpSocket): boolean {
	const response = socket._httpMessage;
	return response != null && (response.headersSent || response.req.complete);
}

/**
 * An `onSend` hook: a client that has not taken its answer after `limit` milliseconds loses its connection, of a stream
 * one that took nothing of what waits for this long. Node bounds only how long a request may take to arrive; an answer
 * that is not read would hold its memory and its descriptor for ever.
 */
export function createUnreadLimit(limit: number) {
	return (_request: FastifyRequest, {raw}: FastifyReply, payload: unknown, done: DoneFuncWithErrOrRes): void => {
		if (raw.destroyed) {
			done(null, payload);
			return;
		}
		const isStream = payload instanceof Readable;
		// What waits to be sent counts as written: where nothing is taken, nothing is added either.
		let written = -1;
		const timer = setInterval(() => {
			const bytes = raw.socket?.bytesWritten ?? 0;
			if (!isStream || (raw.writableLength > 0 && bytes === written)) {
				raw.destroy();
			}
			written = bytes;
		}, limit);
		raw.once('close', () => clearInterval(timer));
		done(null, payload);
	};
}
