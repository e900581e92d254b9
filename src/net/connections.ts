import type {IncomingMessage, ServerResponse} from 'node:http';
import type {Server, Socket} from 'node:net';
import {clientNetwork} from './ip-address.ts';

/** Connections of all listeners of one kind, at once. */
const most = 2000;
/** Of these by one client: an IPv4 address, or an IPv6 /64. */
const maxPerClient = 200;
/** How long a stop waits for the rest of requests, milliseconds. */
const incompleteMs = 2000;

/** `asked`: a request has begun, and not all of it is here. */
type Use = {readonly client: string; state: 'idle' | 'asked' | 'busy'};

/**
 * Bounds the connections of a server, and those of a client. At the limit the one that was idle for longest makes room,
 * so that clients which only hold connections never keep others out. One with a whole request stays until its answer is
 * sent.
 */
export class Connections {
	readonly #most: number;
	/** By when each was last used, longest ago first. */
	readonly #uses = new Map<Socket, Use>();
	readonly #ofClient = new Map<string, number>();

	constructor(limit = most) {
		this.#most = limit;
	}

	/** False: all are busy, and the new one was ended. */
	add(socket: Socket): boolean {
		socket.on('error', () => socket.destroy());
		const client = clientNetwork(socket.remoteAddress ?? '');
		const isGreedy = (this.#ofClient.get(client) ?? 0) >= maxPerClient;
		if (isGreedy || this.#uses.size >= this.#most) {
			const longest = this.#maxIdle(isGreedy ? client : null);
			if (longest === undefined) {
				socket.destroy();
				return false;
			}
			this.#forget(longest);
			longest.destroy();
		}
		this.#ofClient.set(client, (this.#ofClient.get(client) ?? 0) + 1);
		this.#uses.set(socket, {client, state: 'idle'});
		socket.once('close', () => this.#forget(socket));
		return true;
	}

	#maxIdle(client: string | null): Socket | undefined {
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
		const left = (this.#ofClient.get(client) ?? 0) - 1;
		if (left > 0) {
			this.#ofClient.set(client, left);
		} else {
			this.#ofClient.delete(client);
		}
	}

	/** A request began, which `response` ends. */
	use(socket: Socket, request: IncomingMessage, response: ServerResponse): void {
		const use = this.#uses.get(socket);
		if (use === undefined) {
			return;
		}
		const {'content-length': length = '0', 'transfer-encoding': coding} = request.headers;
		use.state = length === '0' && coding === undefined ? 'busy' : 'asked';
		// An answer may be out before the end of the request.
		request.once('end', () => {
			use.state = use.state === 'asked' ? 'busy' : use.state;
		});
		response.once('close', () => {
			use.state = 'idle';
			// It was used now, unless it has ended.
			if (this.#uses.delete(socket)) {
				this.#uses.set(socket, use);
			}
		});
	}

	/**
	 * Closes their server: ends those without a request, soon those whose request is not whole, and resolves when all
	 * have ended.
	 */
	async close(server: Server): Promise<void> {
		const closed = server.listening ? new Promise(resolve => server.close(resolve)) : null;
		this.#end(state => state === 'idle');
		const limit = setTimeout(() => this.#end(state => state !== 'busy'), incompleteMs);
		await closed;
		clearTimeout(limit);
	}

	#end(isEnded: (state: Use['state']) => boolean): void {
		for (const [socket, {state}] of this.#uses) {
			if (isEnded(state)) {
				socket.destroy();
			}
		}
	}
}
