import type {Socket} from 'node:net';
import type {FastifyReply, FastifyRequest} from 'fastify';

/** A client that asks further ahead than this loses its connection. */
const mostAhead = 32;

/**
 * An `onRequest` hook for requests that a client sends before it has the answers to those before (RFC 9112 §9.3.2). Node begins
 * them all at once and holds answers that nobody reads, so that a few connections fill the memory. Here each one waits until
 * the answer before it is written.
 */
export function createInTurn() {
	const ahead = new WeakMap<Socket, number>();

	return ({raw: {socket}}: FastifyRequest, {raw}: FastifyReply, done: () => void): void => {
		if (raw.socket !== null) {
			done();
			return;
		}
		const count = (ahead.get(socket) ?? 0) + 1;
		if (count > mostAhead) {
			socket.destroy();
			return;
		}
		ahead.set(socket, count);
		// Node gives the connection to a response when those before it are done with it.
		raw.once('socket', () => {
			ahead.set(socket, (ahead.get(socket) ?? 1) - 1);
			done();
		});
	};
}
