import type {Server, Socket} from 'node:net';

/** Connections of all listeners of one kind, at once. */
const most = 2000;

/**
 * Bounds the connections of a server. At the limit the one that has done nothing for longest makes room, so that clients which
 * only hold connections never keep others out. One that a request is under way on stays.
 */
export class Connections {
	readonly #most: number;
	/** By when each was last used, longest ago first. */
	readonly #idle = new Set<Socket>();
	readonly #busy = new Set<Socket>();

	constructor(limit = most) {
		this.#most = limit;
	}

	/** False: all are busy, and the new one was ended. */
	add(socket: Socket): boolean {
		socket.on('error', () => socket.destroy());
		if (this.size >= this.#most) {
			const [longest] = this.#idle;
			if (longest === undefined) {
				socket.destroy();
				return false;
			}
			this.#idle.delete(longest);
			longest.destroy();
		}
		this.#idle.add(socket);
		socket.once('close', () => {
			this.#idle.delete(socket);
			this.#busy.delete(socket);
		});
		return true;
	}

	/** A request began, which `response` ends. */
	use(socket: Socket, response: {readonly once: (event: 'close', listener: () => void) => unknown}): void {
		this.#idle.delete(socket);
		this.#busy.add(socket);
		response.once('close', () => {
			this.#busy.delete(socket);
			if (!socket.destroyed) {
				this.#idle.add(socket);
			}
		});
	}

	get size(): number {
		return this.#idle.size + this.#busy.size;
	}

	/** Closes their server: ends those without a request, and resolves when the others have ended too. */
	async close(server: Server): Promise<void> {
		const closed = server.listening ? new Promise(resolve => server.close(resolve)) : null;
		for (const socket of this.#idle) {
			socket.destroy();
		}
		await closed;
	}
}
