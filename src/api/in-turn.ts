import type {RequestListener} from 'node:http';
import type {Socket} from 'node:net';
import type {FastifyReply, FastifyRequest} from 'fastify';

/** A connection with more pipelined requests waiting than this is closed. */
const maxPipelined = 32;

const waitingCounts = new WeakMap<Socket, number>();

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
	const count = (waitingCounts.get(socket) ?? 0) + 1;
	if (count > maxPipelined) {
		socket.destroy();
		return;
	}
	waitingCounts.set(socket, count);
	// Node assigns the connection to a response once the ones before it are finished.
	raw.once('socket', () => {
		waitingCounts.set(socket, (waitingCounts.get(socket) ?? 1) - 1);
		done();
	});
}

const probes: ReadonlySet<string | undefined> = new Set(['/healthz', '/readyz']);

/**
 * Wraps the listener of a server so that only one request without an API key starts per turn of the event loop, in
 * order of arrival. Probes are exempt. Even in a flood of such requests, a request with a key waits for little
 * more than one of them to start.
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
export function releaseOnClose({raw}: FastifyReply, leave: () => void): void {
	if (raw.destroyed) {
		leave();
	} else {
		raw.once('close', leave);
	}
}
