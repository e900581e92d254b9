import {once} from 'node:events';
import {get} from 'node:http';
import {isMainThread, parentPort, Worker, workerData} from 'node:worker_threads';
import type {Scope} from './daemon.ts';

export type HealthWatch = {
	/** Ends it. The longest time that an answer took, in milliseconds, and how many there were. */
	readonly stop: () => Promise<{readonly longest: number; readonly answers: number}>;
};

const pauseMs = 20;

/** Asks `/healthz` again and again, from a thread of its own: what the test does meanwhile delays nothing. */
export async function watchHealth(t: Pick<Scope, 'teardown'>, url: string): Promise<HealthWatch> {
	const worker = new Worker(new URL(import.meta.url), {workerData: {healthUrl: `${url}/healthz`}});
	t.teardown(() => worker.terminate());
	await once(worker, 'message');
	return {
		async stop() {
			worker.postMessage('stop');
			const [found] = await once(worker, 'message');
			return found;
		},
	};
}

async function watch(url: string): Promise<void> {
	let [longest, answers, isOver] = [0, 0, false];
	parentPort?.once('message', () => {
		isOver = true;
	});
	await ask(url);
	parentPort?.postMessage('started');
	while (!isOver) {
		const began = performance.now();
		await ask(url);
		longest = Math.max(longest, performance.now() - began);
		answers++;
		await new Promise(resolve => setTimeout(resolve, pauseMs));
	}
	parentPort?.postMessage({longest, answers});
}

async function ask(url: string): Promise<void> {
	const request = get(url);
	const [response] = await once(request, 'response');
	response.resume();
	await once(response, 'end');
}

if (!isMainThread && workerData?.healthUrl) {
	await watch(workerData.healthUrl);
}
