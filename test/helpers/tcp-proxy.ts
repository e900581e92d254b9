import {once} from 'node:events';
import {type AddressInfo, connect, createServer, type Socket} from 'node:net';
import type {ExecutionContext} from 'ava';

export type TcpProxy = {
	readonly port: number;
	/** Ends every connection and takes no more, as a server that is gone. */
	readonly cut: () => void;
};

/** Hands connections on to a server, until it is cut. */
export async function startTcpProxy(t: ExecutionContext, target: {host: string; port: number}): Promise<TcpProxy> {
	const sockets = new Set<Socket>();
	const server = createServer(client => {
		const upstream = connect(target.port, target.host);
		for (const socket of [client, upstream]) {
			sockets.add(socket);
			socket.on('error', () => undefined);
			socket.once('close', () => {
				sockets.delete(socket);
				client.destroy();
				upstream.destroy();
			});
		}
		client.pipe(upstream).pipe(client);
	});
	const cut = () => {
		server.close();
		for (const socket of sockets) {
			socket.destroy();
		}
	};
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(cut);
	return {port: (server.address() as AddressInfo).port, cut};
}
