import type {RequestListener} from 'node:http';
import type {Socket} from 'node:net';
import type {FastifyReply, FastifyRequest} from 'fastify';

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
