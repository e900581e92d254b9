import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {connect} from 'node:net';
import {setTimeout as wait} from 'node:timers/promises';
import {relayTo, type Sink, startSink} from '../../src/cli/bench/measures.ts';
import {freePort} from '../helpers/free-port.ts';

/** Postfix's smtp-sink where it is installed, so that peers are measured against the same; else the built-in one. */
export async function startSinkOf(host = '127.0.0.1', port?: number): Promise<Sink> {
	const at = {host, port: port ?? (await freePort())};
	return (await startSmtpSink(at)) ?? (await startSink(at));
}

async function startSmtpSink({host, port}: {host: string; port: number}): Promise<Sink | null> {
	const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
	const child = spawn('smtp-sink', [...user, '-c', `${host}:${port}`, '1000'], {stdio: ['ignore', 'pipe', 'ignore']});
	const started = await once(child, 'spawn').then(
		() => true,
		() => false,
	);
	if (!started || !(await answers(host, port))) {
		child.kill();
		return null;
	}
	let taken = 0;
	child.stdout.on('data', (chunk: Buffer) => {
		taken = Number(/.*mesg=(\d+)/s.exec(chunk.toString())?.[1] ?? taken);
	});
	return {settings: relayTo({port}), port, count: () => taken, stop: async () => void child.kill()};
}

async function answers(host: string, port: number): Promise<boolean> {
	for (let tries = 0; tries < 50; tries++) {
		const socket = connect(port, host);
		const open = await Promise.race([
			once(socket, 'connect').then(() => true),
			once(socket, 'error').then(() => false),
		]).catch(() => false);
		socket.destroy();
		if (open) {
			return true;
		}
		await wait(50);
	}
	return false;
}
