import {once} from 'node:events';
import {Worker} from 'node:worker_threads';

/** A place where mail ends. */
export type Sink = {
	readonly name: string;
	readonly port: number;
	/** Messages taken so far. */
	readonly count: () => number;
	readonly stop: () => Promise<void>;
};

/** An SMTP server in a thread of its own that takes every mail and keeps none. */
export async function startSink({host = '127.0.0.1', port = 0} = {}): Promise<Sink> {
	const taken = new Int32Array(new SharedArrayBuffer(4));
	const worker = new Worker(new URL('../bench/sink-thread.js', import.meta.url), {workerData: {taken, host, port}});
	const [bound] = (await once(worker, 'message')) as [number];
	return {
		name: 'built-in sink',
		port: bound,
		count: () => Atomics.load(taken, 0),
		stop: async () => void (await worker.terminate()),
	};
}
