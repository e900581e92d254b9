import {type IncomingMessage, STATUS_CODES} from 'node:http';
import type {Socket} from 'node:net';
import {Readable} from 'node:stream';
import type {DoneFuncWithErrOrRes, FastifyReply, FastifyRequest} from 'fastify';
import type {NewId} from '../mail/ids.ts';
import {type ApiError, apiError, errorBody} from './errors.ts';

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
export function createClientErrorHandler(newId: NewId) {
	return (error: NodeJS.ErrnoException, socket: Socket): void => {
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
	};
}

// What stands behind a complete request must not be answered in that request's place: the client would take the 400 for
// the answer to a send that may have been accepted.
function isAnswering(socket: HttpSocket): boolean {
	const response = socket._httpMessage;
	return response != null && (response.headersSent || response.req.complete);
}

/**
 * An `onSend` hook: a client that has not taken its answer after `limit` milliseconds loses its connection, of a stream one that
 * took nothing of what waits for this long. Node bounds only how long a request may take to arrive; an answer that is not read
 * would hold its memory and its descriptor for ever.
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
