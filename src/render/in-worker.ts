import {parentPort, type ResourceLimits, Worker, workerData} from 'node:worker_threads';
import {limitWork, systemClocks, type WorkClocks} from '../mail/work-limit.ts';

export type WorkerOptions = {
	/** For the work, once the thread has loaded its code: of the clock and of the CPU (`limitWork`). */
	readonly timeoutMs: number;
	readonly limits: ResourceLimits;
	readonly clocks?: WorkClocks;
};

export type Ended<Result> =
	| {readonly ok: true; readonly result: Result}
	/** Which of its limits the thread ran into. */
	| {readonly ok: false; readonly spent: 'time' | 'memory'};

// Loading takes a tenth of a second, and much longer on a machine that has other work.
const longestStartMs = 20_000;
const looksPerLimit = 10;

/**
 * Does one piece of work in a thread of its own, which is ended whatever happens: no template can hold the caller up or
 * use its memory up.
 *
 * @param file a module that calls `answer`
 * @param input what its work gets, copied
 */
export function inWorker<Result>(
	file: URL,
	input: unknown,
	{timeoutMs, limits, clocks = systemClocks}: WorkerOptions,
): Promise<Ended<Result>> {
	const worker = new Worker(file, {workerData: input, resourceLimits: limits, env: {}});
	let timer: NodeJS.Timeout;
	return new Promise<Ended<Result>>((resolve, reject) => {
		const endIn = (milliseconds: number) => {
			const state = limitWork(milliseconds, clocks);
			const look = () => {
				if (state() !== 'within') {
					// Where the caller itself was held up, an answer that has come meanwhile is taken first.
					setImmediate(() => resolve({ok: false, spent: 'time'}));
				}
			};
			return setInterval(look, milliseconds / looksPerLimit);
		};
		timer = endIn(longestStartMs);
		worker.on('message', (message: 'loaded' | {readonly result: Result}) => {
			if (message === 'loaded') {
				clearInterval(timer);
				timer = endIn(timeoutMs);
			} else {
				resolve({ok: true, ...message});
			}
		});
		worker.once('error', (error: NodeJS.ErrnoException) => {
			if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
				resolve({ok: false, spent: 'memory'});
			} else {
				reject(error);
			}
		});
		worker.once('exit', code => reject(new Error(`The thread of ${file.pathname} ended with ${code}.`)));
	}).finally(() => {
		clearInterval(timer);
		return worker.terminate();
	});
}

/** The thread's side: says that it has loaded, works, and answers. */
export async function answer(work: (input: unknown) => unknown): Promise<void> {
	parentPort?.postMessage('loaded');
	parentPort?.postMessage({result: await work(workerData)});
}
