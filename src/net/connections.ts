import type {IncomingMessage, ServerResponse} from 'node:http';
import type {Server, Socket} from 'node:net';
import {clientNetwork} from './ip-address.ts';

/** The maximum number of simultaneous connections of all listeners of one kind. */
const defaultMax = 2000;
/** The maximum per client, that is, per IPv4 address or IPv6 /64. */
const maxPerClient = 200;
/** How long a shutdown waits for incomplete requests, in milliseconds. */
const incompleteMs = 2000;

/** `incomplete`: a request has started but has not arrived completely. */
type Use = {readonly client: string; state: 'idle' | 'incomplete' | 'busy'};

/**
 * Limits the connections of a server, in total and per client. At the limit, the connection idle for longest is closed,
 * so that clients that merely hold connections cannot shut others out. A connection with a complete request stays until
 * its response is sent.
 */
export class Connections {
	readonly #limit: number;
	/** All connections, the least recently used first. */
	readonly #uses = new Map<Socket, Use>();
	readonly #countByClient = new Map<string, number>();

	constructor(limit = defaultMax) {
		this.#limit = limit;
	}

	/** Returns false, after closing the new connection, if all others are busy. */
	add(socket: Socket): boolean {
		socket.on('error', () => socket.destroy());
		const client = clientNetwork(socket.remoteAddress ?? '');
		const isAtClientLimit = (this.#countByClient.get(client) ?? 0) >= maxPerClient;
		if (isAtClientLimit || this.#uses.size >= this.#limit) {
			const idlest = this.#findIdlest(isAtClientLimit ? client : null);
			if (idlest === undefined) {
				socket.destroy();
				return false;
			}
			this.#forget(idlest);
			idlest.destroy();
		}
		this.#countByClient.set(client, (this.#countByClient.get(client) ?? 0) + 1);
		this.#uses.set(socket, {client, state: 'idle'});
		socket.once('close', () => this.#forget(socket));
		return true;
	}

	#findIdlest(client: string | null): Socket | undefined {
		for (const [socket, use] of this.#uses) {
			if (use.state !== 'busy' && (client === null || use.client === client)) {
				return socket;
			}
		}
		return undefined;
	}

	#forget(socket: Socket): void {
		const {client = ''} = this.#uses.get(socket) ?? {};
		if (!this.#uses.delete(socket)) {
			return;
		}
		const remaining = (this.#countByClient.get(client) ?? 0) - 1;
		if (remaining > 0) {
			this.#countByClient.set(client, remaining);
		} else {
			this.#countByClient.delete(client);
		}
	}

	/** Marks the connection as busy from the start of a request until `response` closes. */
	use(socket: Socket, request: IncomingMessage, response: ServerResponse): void {
		const use = this.#uses.get(socket);
		if (use === undefined) {
			return;
		}
		const {'content-length': length = '0', 'transfer-encoding': coding} = request.headers;
		use.state = length === '0' && coding === undefined ? 'busy' : 'incomplete';
		// The response may be sent before the request has ended.
		request.once('end', () => {
			use.state = use.state === 'incomplete' ? 'busy' : use.state;
		});
		response.once('close', () => {
			use.state = 'idle';
			// Move it to the end, as the most recently used, unless it has closed.
			if (this.#uses.delete(socket)) {
				this.#uses.set(socket, use);
			}
		});
	}

	/**
	 * Closes the server: idle connections at once, those with an incomplete request soon after. Resolves when all are
	 * closed.
	 */
	async close(server: Server): Promise<void> {
		const closed = server.listening ? new Promise(resolve => server.close(resolve)) : null;
		this.#endAll(state => state === 'idle');
		const limit = setTimeout(() => this.#endAll(state => state !== 'busy'), incompleteMs);
		await closed;
		clearTimeout(limit);
	}

	#endAll(shouldEnd: (state: Use['state']) => boolean): void {
		for (const [socket, {state}] of this.#uses) {
			if (shouldEnd(state)) {
				socket.destroy();
			}
		}
	}
}
