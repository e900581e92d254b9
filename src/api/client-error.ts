import {type IncomingMessage, STATUS_CODES} from 'node:http';
import type {Socket} from 'node:net';
import type {NewId} from '../mail/ids.ts';
import {apiError, errorBody} from './errors.ts';

type HttpSocket = Socket & {_httpMessage?: {headersSent: boolean; req: IncomingMessage} | null};

const statuses: Readonly<Record<string, number>> = {
	ERR_HTTP_REQUEST_TIMEOUT: 408,
	HPE_HEADER_OVERFLOW: 431,
	HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
};

/** Answers what is not HTTP, or did not arrive in time, in the API's envelope, and ends the connection. */
export function createClientErrorHandler(newId: NewId) {
	return (error: NodeJS.ErrnoException, socket: Socket): void => {
		if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) {
			socket.destroy();
			return;
		}

		const status = statuses[error.code ?? ''] ?? 400;
		const id = newId('req');
		const body = JSON.stringify(errorBody(apiError(status === 413 ? 'payload_too_large' : 'bad_request'), id));
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
