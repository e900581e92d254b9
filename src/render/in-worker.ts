import {once} from 'node:events';
import {parentPort, type ResourceLimits, Worker} from 'node:worker_threads';
import {limitWork, systemClocks, type WorkClocks} from '../kit/work-limit.ts';
import type {CompileResult, VariantSource} from './compile.ts';
import type {Layout} from './layouts.ts';
import type {RenderInput, RenderResult, RenderVariant} from './render.ts';

export type WorkerOptions = {
	/** For the work, once the thread has loaded its code: of the clock and of the CPU (`limitWork`). */
	readonly timeoutMs: number;
	readonly limits: ResourceLimits;
	/** The next thread is started ahead: one piece of work follows the other. */
	readonly ahead?: boolean;
	readonly clocks?: WorkClocks;
};

export type Ended<Result> =
	| {readonly ok: true; readonly result: Result}
	/** Which of its limits the thread ran into. */
	| {readonly ok: false; readonly spent: 'time' | 'memory'};

// Loading takes a tenth of a second, and much longer on a machine that has other work.
const longestStartMs = 20_000;
const looksPerLimit = 10;

/** The next preview often follows soon: a thread is started ahead and waits this long. */
const aheadMs = 60_000;

type Thread = {readonly worker: Worker; loaded: boolean};
/** By the module that they run. */
const ahead = new Map<string, Thread>();

function startThread(file: URL, limits: ResourceLimits): Thread {
	const thread = {worker: new Worker(file, {resourceLimits: limits, env: {}}), loaded: false};
	thread.worker.once('message', () => {
		thread.loaded = true;
	});
	return thread;
}

function takeThread(file: URL, limits: ResourceLimits): Thread {
	const thread = ahead.get(file.href);
	ahead.delete(file.href);
	thread?.worker.removeAllListeners('error').removeAllListeners('exit').ref();
	return thread ?? startThread(file, limits);
}

/** It does not keep the process alive. */
function startAhead(file: URL, limits: ResourceLimits): void {
	if (ahead.has(file.href)) {
		return;
	}
	const thread = startThread(file, limits);
	const drop = () => {
		if (ahead.get(file.href) === thread) {
			ahead.delete(file.href);
			void thread.worker.terminate();
		}
	};
	thread.worker.on('error', drop).on('exit', drop).unref();
	ahead.set(file.href, thread);
	setTimeout(drop, aheadMs).unref();
}

/**
 * Does one piece of work in a thread of its own, which always ends: no template can block the caller or use up its
 * memory.
 *
 * @param file a module that calls `answer`
 * @param input what its work gets, copied
 */
export function inWorker<Result>(
	file: URL,
	input: unknown,
	{timeoutMs, limits, ahead: goesOn = false, clocks = systemClocks}: WorkerOptions,
): Promise<Ended<Result>> {
	const thread = takeThread(file, limits);
	const {worker} = thread;
	worker.postMessage(input);
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
		timer = endIn(thread.loaded ? timeoutMs : longestStartMs);
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
		if (goesOn) {
			startAhead(file, limits);
		}
		return worker.terminate();
	});
}

/** The thread's side: says that it has loaded, works, and answers. */
export async function answer(work: (input: unknown) => unknown): Promise<void> {
	const port = parentPort as NonNullable<typeof parentPort>;
	port.postMessage('loaded');
	const [input] = await once(port, 'message');
	port.postMessage({result: await work(input)});
}

const compileWorker = new URL('../render/compile-worker.js', import.meta.url);
// MJML holds some 100 MB while it compiles.
const compileLimits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

export type CompileJob = {readonly sources: readonly VariantSource[]; readonly layouts: readonly Layout[]};

/** Milliseconds; MJML alone loads in half a second, but in ten on a machine with much other work. */
export const usualCompileTime = 30_000;

/**
 * Compiles variants, with the layouts and partials that they name, in a thread of their own, so that no template can hold the caller up or use its memory up.
 * What does not end in time is a violation of each variant.
 *
 * @param timeoutMs for all of them together, the loading of MJML included
 * @returns a result for each source, in order
 */
export async function compileInWorker(
	sources: readonly VariantSource[],
	timeoutMs = usualCompileTime,
	layouts: readonly Layout[] = [],
): Promise<readonly CompileResult[]> {
	const ended = await inWorker<readonly CompileResult[]>(compileWorker, {sources, layouts} satisfies CompileJob, {
		...{timeoutMs, limits: compileLimits},
	});
	if (ended.ok) {
		return ended.result;
	}
	const message = `takes too ${ended.spent === 'time' ? 'long' : 'much memory'} to compile`;
	return sources.map(source => ({
		ok: false,
		violations: [{field: source.mjml === undefined ? 'html' : 'mjml', message, line: 1, column: 1}],
	}));
}

export type RenderJob = {readonly variant: RenderVariant; readonly input: RenderInput};

const renderWorker = new URL('../render/render-worker.js', import.meta.url);
// As renderers have them.
const renderLimits = {maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

/**
 * Renders one mail in a thread of its own, for callers with other duties: the limits of a render are cooperative. The
 * first costs a tenth of a second. Renderers, which render much, keep their threads.
 */
export async function renderInWorker(job: RenderJob, timeoutMs = 2000, clocks = systemClocks): Promise<RenderResult> {
	const ended = await inWorker<RenderResult>(renderWorker, job, {
		...{timeoutMs, limits: renderLimits, ahead: true, clocks},
	});
	return ended.ok
		? ended.result
		: {
				ok: false,
				reason: 'render_limit',
				message: `rendering: takes too ${ended.spent === 'time' ? 'long' : 'much memory'}`,
			};
}
