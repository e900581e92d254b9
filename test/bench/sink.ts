import {type ChildProcess, fork, spawn} from 'node:child_process';
import {once} from 'node:events';
import {connect, createServer} from 'node:net';
import {setTimeout as wait} from 'node:timers/promises';

/** A place where mail ends, in a process of its own. */
export type Sink = {
	readonly name: string;
	readonly port: number;
	/** Messages taken so far. */
	readonly count: () => Promise<number>;
	readonly stop: () => void;
};

/** Postfix's smtp-sink where it is installed, so that peers are measured against the same; else one of ours. */
export async function startSink(): Promise<Sink> {
	return (await startSmtpSink()) ?? (await startOwnSink());
}

async function startSmtpSink(): Promise<Sink | null> {
	const port = await freePort();
	const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
	const child = spawn('smtp-sink', [...user, '-c', `127.0.0.1:${port}`, '1000'], {stdio: ['ignore', 'pipe', 'ignore']});
	const started = await once(child, 'spawn').then(
		() => true,
		() => false,
	);
	if (!started || !(await answers(port))) {
		child.kill();
		return null;
	}
	let taken = 0;
	child.stdout.on('data', (chunk: Buffer) => {
		taken = Number(/.*mesg=(\d+)/s.exec(chunk.toString())?.[1] ?? taken);
	});
	return {name: 'smtp-sink', port, count: async () => taken, stop: () => child.kill()};
}

async function startOwnSink(): Promise<Sink> {
	const child: ChildProcess = fork(new URL('sink-process.js', import.meta.url));
	const [port] = (await once(child, 'message')) as [number];
	return {
		name: 'a sink of ours',
		port,
		async count() {
			child.send('count');
			return ((await once(child, 'message')) as [number])[0];
		},
		stop: () => child.kill(),
	};
}

async function freePort(): Promise<number> {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const {port} = server.address() as {port: number};
	server.close();
	return port;
}

async function answers(port: number): Promise<boolean> {
	for (let tries = 0; tries < 50; tries++) {
		const socket = connect(port, '127.0.0.1');
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
