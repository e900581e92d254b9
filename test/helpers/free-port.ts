import {createServer, type Server} from 'node:net';

const firstPort = 20_000;
const ports = 10_000;
const mark = '127.0.0.2';

/**
 * A port of 127.0.0.1 for a server that cannot be asked which one it got, or that comes back at the same one. Below the
 * range of the kernel's own choice, so that no `listen(0)` and no client of another test takes it. Until this process
 * ends it is nobody else's who asks here: the same port of another address is held for that.
 */
export async function freePort(): Promise<number> {
	for (;;) {
		const port = firstPort + Math.floor(Math.random() * ports);
		const marker = await listenAt(port, mark);
		if (marker === null) {
			continue;
		}

		marker.unref();
		const server = await listenAt(port, '127.0.0.1');
		if (server !== null) {
			await new Promise(resolve => server.close(resolve));
			return port;
		}
	}
}

/** Null: the port is taken. */
async function listenAt(port: number, host: string): Promise<Server | null> {
	const server = createServer();
	return await new Promise((resolve, reject) => {
		server.once('error', (error: NodeJS.ErrnoException) => {
			if (error.code === 'EADDRINUSE') {
				resolve(null);
			} else {
				reject(error);
			}
		});
		server.listen(port, host, () => resolve(server));
	});
}
