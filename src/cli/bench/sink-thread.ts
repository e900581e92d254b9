import {type AddressInfo, createServer} from 'node:net';
import {parentPort, workerData} from 'node:worker_threads';
import type {SinkThread} from './measures.ts';
import {ok, serveSession} from './sink-session.ts';

// A sink that accepts all messages and counts them in shared memory.

const {settled, host, port} = workerData as SinkThread;
const policy = {rcpt: () => ok, onMessage: () => Atomics.add(settled, 0, 1)};
const server = createServer(socket => serveSession(socket, policy)).listen(port, host, () => {
	parentPort?.postMessage((server.address() as AddressInfo).port);
});
