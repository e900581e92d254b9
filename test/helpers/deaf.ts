import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {connect, type Socket} from 'node:net';
import process from 'node:process';
import {setImmediate, setTimeout} from 'node:timers/promises';
import type {Teardown} from './fake-mx.ts';

const program = `
	const server = require('node:net').createServer();
	server.listen({host: process.argv[1], port: Number(process.argv[2]), backlog: 1}, () => console.log('listening'));
`;

/**
 * An address where a connection is neither made nor refused: the process that listens is stopped and its backlog full,
 * so that the system leaves SYNs unanswered. Ends with the test.
 */
export async function startDeaf(t: Teardown, host: string, port: number): Promise<void> {
	const child = spawn(process.execPath, ['-e', program, host, String(port)], {stdio: ['ignore', 'pipe', 'inherit']});
	const fillers: Socket[] = [];
	t.teardown(async () => {
		fillers.forEach(socket => void socket.destroy());
		child.kill('SIGKILL');
		await once(child, 'exit');
	});
	await once(child.stdout, 'data');
	child.kill('SIGSTOP');
	for (let full = false; !full && fillers.length < 64; ) {
		const socket = connect({host, port});
		fillers.push(socket);
		socket.on('error', () => undefined);
		await Promise.race([once(socket, 'connect'), setTimeout(300)]);
		// Where this process was held up, a connection that was made meanwhile is seen only now.
		await setImmediate();
		full = socket.connecting;
	}
}
