import {once} from 'node:events';
import {type AddressInfo, connect, createServer, type Socket} from 'node:net';
import type {ExecutionContext} from 'ava';

/** AuthenticationOk of PostgreSQL's protocol. */
const authenticated = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0]);

/**
 * What the server sends between AuthenticationOk and the first ReadyForQuery, both included; `null`: not all is there
 * yet.
 */
function findGreeting(received: Buffer): Buffer | null {
	const from = received.indexOf(authenticated);
	for (let at = from; at !== -1 && at + 5 <= received.length; ) {
		const end = at + 1 + received.readUInt32BE(at + 1);
		if (received[at] === 0x5a && end <= received.length) {
			return received.subarray(from, end);
		}
		at = end;
	}
	return null;
}

/** Gives all its clients one connection of the server by turns, as PgBouncer in transaction mode with a pool of one. */
export async function startTransactionPooler(
	t: ExecutionContext,
	target: {readonly host: string; readonly port: number},
): Promise<{readonly port: number /** All that clients sent, as text. */; readonly asked: () => string}> {
	const sockets = new Set<Socket>();
	const keep = (socket: Socket) => {
		sockets.add(socket);
		socket.on('error', () => undefined);
	};
	let upstream: Socket | null = null;
	let asking: Socket | null = null;
	let received = Buffer.alloc(0);
	let asked = '';

	/** The first client logs in; what the server says then is said to those after it. */
	function open(client: Socket): Socket {
		const server = connect(target.port, target.host);
		keep(server);
		asking = client;
		server.on('data', data => {
			received = Buffer.concat([received, data]);
			asking?.write(data);
		});
		passOn(client, server);
		return server;
	}

	function share(client: Socket, server: Socket): void {
		client.once('data', () => {
			client.write(findGreeting(received) ?? '');
			passOn(client, server);
		});
	}

	function passOn(client: Socket, server: Socket): void {
		client.on('data', data => {
			asking = client;
			asked += data.toString('latin1');
			server.write(data);
		});
	}

	const pooler = createServer(client => {
		keep(client);
		if (upstream === null) {
			upstream = open(client);
		} else {
			share(client, upstream);
		}
	});
	pooler.listen(0, '127.0.0.1');
	await once(pooler, 'listening');
	t.teardown(() => {
		pooler.close();
		for (const socket of sockets) {
			socket.destroy();
		}
	});
	return {port: (pooler.address() as AddressInfo).port, asked: () => asked};
}
