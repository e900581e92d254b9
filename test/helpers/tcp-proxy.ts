import {once} from 'node:events';
import {type AddressInfo, connect, createServer, type Socket} from 'node:net';
import type {ExecutionContext} from 'ava';

export type TcpProxy = {
	readonly port: number;
	/** Ends every connection and takes no more, as a server that is gone. */
	readonly cut: () => void;
	/** From now on nothing goes through and nothing ends, as where a firewall drops every packet. */
	readonly mute: () => void;
	/** New connections go through. Those from before stay silent for ever, as of a server that was replaced. */
	readonly unmute: () => void;
	/** Ends every connection; new ones go to this port, as where an address moves to another server. */
	readonly moveTo: (port: number) => void;
};

/** Hands connections on to a server, until it is cut. */
export async function startTcpProxy(t: ExecutionContext, target: {host: string; port: number}): Promise<TcpProxy> {
	const sockets = new Set<Socket>();
	let muted = false;
	let {port} = target;
	const server = createServer({allowHalfOpen: true}, client => {
		if (muted) {
			sockets.add(client);
			client.on('error', () => undefined);
			client.once('close', () => sockets.delete(client));
			return;
		}
		const upstream = connect(port, target.host);
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
	const endAll = () => {
		for (const socket of sockets) {
			socket.destroy();
		}
	};
	const cut = () => {
		server.close();
		endAll();
	};
	const mute = () => {
		muted = true;
		for (const socket of sockets) {
			socket.unpipe();
			socket.pause();
		}
	};
	const unmute = () => {
		muted = false;
	};
	const moveTo = (other: number) => {
		port = other;
		endAll();
	};
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(cut);
	return {port: (server.address() as AddressInfo).port, cut, mute, unmute, moveTo};
}
