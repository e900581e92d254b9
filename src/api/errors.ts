import {type IncomingMessage, STATUS_CODES} from 'node:http';
import type {Socket} from 'node:net';
import {Readable} from 'node:stream';
import type {DoneFuncWithErrOrRes, FastifyReply, FastifyRequest} from 'fastify';
import {ApiError, apiError, retryAfter, unavailable} from '../mail/api-error.ts';
import type {NewId} from '../mail/ids.ts';
import {Refused} from '../resources/operation.ts';

/** Returns the body of every error except 401 (docs/reference/errors.md). */
export function errorBody(error: ApiError, requestId: string): object {
	const {code, message, violations} = error;
	return {error: {code, message, request_id: requestId, ...(violations && {violations})}};
}

export function sendError(reply: FastifyReply, error: ApiError): FastifyReply {
	return reply.code(error.status).headers(error.headers).send(errorBody(error, reply.request.id));
}

export type ErrorReport = (request: FastifyRequest, error: unknown) => void;

/** Converts anything thrown while a request is processed to the error that the client gets. */
export function toApiError(error: unknown, isUnavailable: (error: unknown) => boolean): ApiError {
	if (error instanceof ApiError) {
		return error;
	}
	if (error instanceof Refused) {
		const {code, message, retryAfterMs} = error;
		return apiError(code, {message, ...(retryAfterMs !== undefined && {headers: retryAfter(retryAfterMs)})});
	}

	// Errors of Fastify itself: a wrong Content-Length, a body that ends early or is too large, or an unsupported media
	// type.
	switch (error instanceof Error && 'statusCode' in error && error.statusCode) {
		case 400:
			return apiError('bad_request');
		case 413:
			return apiError('payload_too_large');
		case 415:
			return apiError('unsupported_media_type');
	}

	return isUnavailable(error) ? unavailable() : apiError('internal_error');
}

type HttpSocket = Socket & {_httpMessage?: {headersSent: boolean; req: IncomingMessage} | null};

type ErrorResponse = {readonly status: number; readonly error: ApiError};

const malformed: ErrorResponse = {status: 400, error: apiError('bad_request')};
const responses: Readonly<Record<string, ErrorResponse>> = {
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

/** Responds to invalid HTTP and to requests that time out, in the API's error format, and closes the connection. */
export function sendClientError(newId: NewId, error: NodeJS.ErrnoException, socket: Socket): void {
	if (error.code === 'ECONNRESET' || !socket.writable || isResponsePending(socket)) {
		socket.destroy();
		return;
	}

	const {status, error: failure} = responses[error.code ?? ''] ?? malformed;
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

// After a complete request, its response is pending. If invalid data follows, a 400 must not be sent first: the client
// would take it for the response to that request, which may be a send that was accepted.
function isResponsePending(socket: HttpSocket): boolean {
	const response = socket._httpMessage;
	return response != null && (response.headersSent || response.req.complete);
}

/**
 * Creates an `onSend` hook that closes the connection of a client that has not read its response after `limit`
 * milliseconds. A stream is closed once the client has read nothing of the pending data for this long. Node only limits
 * how long a request may take to arrive; an unread response would hold its memory and its descriptor forever.
 */
export function createUnreadLimit(limit: number) {
	return (_request: FastifyRequest, {raw}: FastifyReply, payload: unknown, done: DoneFuncWithErrOrRes): void => {
		if (raw.destroyed) {
			done(null, payload);
			return;
		}
		const isStream = payload instanceof Readable;
		// `bytesWritten` also counts buffered data. It still stays the same while the client reads nothing, because
		// nothing is added to a full buffer.
		let previousBytes = -1;
		const timer = setInterval(() => {
			const bytes = raw.socket?.bytesWritten ?? 0;
			if (!isStream || (raw.writableLength > 0 && bytes === previousBytes)) {
				raw.destroy();
			}
			previousBytes = bytes;
		}, limit);
		raw.once('close', () => clearInterval(timer));
		done(null, payload);
	};
}
