import {on} from 'node:events';
import {parentPort, type ResourceLimits, Worker} from 'node:worker_threads';
import {limitWork, systemClocks, type WorkClocks} from '../kit/work-limit.ts';
import type {CompileResult, VariantSource} from './compile.ts';
import type {Layout} from './layouts.ts';
import type {Violation} from './liquid-source.ts';
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
export async function inWorker<Result>(file: URL, input: unknown, options: WorkerOptions): Promise<Ended<Result>> {
	const ended = await eachInWorker<Result>(file, [input], options);
	return ended.ok ? {ok: true, result: ended.result[0] as Result} : ended;
}

/**
 * Runs several inputs in one thread, within one time limit. Each is posted when the previous one is done, so that the
 * caller copies only one of them in a turn of its event loop.
 */
function eachInWorker<Result>(
	file: URL,
	inputs: readonly unknown[],
	{timeoutMs, limits, ahead: goesOn = false, clocks = systemClocks}: WorkerOptions,
): Promise<Ended<readonly Result[]>> {
	const thread = takeThread(file, limits);
	const {worker} = thread;
	const results: Result[] = [];
	worker.postMessage(inputs[0]);
	let timer: NodeJS.Timeout;
	return new Promise<Ended<readonly Result[]>>((resolve, reject) => {
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
				return;
			}
			results.push(message.result);
			if (results.length < inputs.length) {
				worker.postMessage(inputs[results.length]);
			} else {
				resolve({ok: true, result: results});
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

/** The thread's side: reports that it has loaded, then posts the result of each input. */
export async function answer(work: (input: unknown) => unknown): Promise<void> {
	const port = parentPort as NonNullable<typeof parentPort>;
	const inputs = on(port, 'message');
	port.postMessage('loaded');
	for await (const [input] of inputs) {
		port.postMessage({result: await work(input)});
	}
}

const compileWorker = new URL('../render/compile-worker.js', import.meta.url);
// MJML holds some 100 MB while it compiles.
const compileLimits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

export type CompileJob =
	| {readonly layouts: readonly Layout[]}
	/** A variant to compile with these layouts. */
	| {readonly source: VariantSource}
	/** A layout or partial to check with these. */
	| {readonly layout: Layout};

/** Milliseconds; MJML alone loads in half a second, but in ten on a machine with much other work. */
export const usualCompileTime = 30_000;

/**
 * Compiles variants without layouts in a thread of their own, so that no template can block the caller or use up its
 * memory. A timeout is a violation of each variant.
 *
 * @param timeoutMs for all of them together, the loading of MJML included
 * @returns a result for each source, in order
 */
export async function compileInWorker(
	sources: readonly VariantSource[],
	timeoutMs = usualCompileTime,
): Promise<readonly CompileResult[]> {
	return (await compileAndCheck({sources, layouts: [], checked: []}, timeoutMs)).results;
}

type CheckedJob = {
	readonly sources: readonly VariantSource[];
	readonly layouts: readonly Layout[];
	/** Those of `layouts` that are checked by themselves, whether a source uses them or not. */
	readonly checked: readonly Layout[];
};

/**
 * Compiles variants with the layouts and partials that they use, and finds violations in layouts and partials
 * themselves.
 */
export async function compileAndCheck({sources, layouts, checked}: CheckedJob, timeoutMs: number) {
	const jobs: CompileJob[] = [{layouts}, ...checked.map(layout => ({layout})), ...sources.map(source => ({source}))];
	const options = {timeoutMs, limits: compileLimits};
	const ended = await eachInWorker<readonly Violation[] | CompileResult>(compileWorker, jobs, options);
	if (ended.ok) {
		const done = ended.result.slice(1);
		return {
			faults: done.slice(0, checked.length) as ReadonlyArray<readonly Violation[]>,
			results: done.slice(checked.length) as CompileResult[],
		};
	}
	return {
		faults: checked.map(() => [spentAt('files', ended.spent)]),
		results: sources.map(({mjml}) => ({
			ok: false as const,
			violations: [spentAt(mjml === undefined ? 'html' : 'mjml', ended.spent)],
		})),
	};
}

const spentAt = (field: string, spent: 'time' | 'memory'): Violation => ({
	...{field, line: 1, column: 1},
	message: `takes too ${spent === 'time' ? 'long' : 'much memory'} to compile`,
});

export type RenderJob = {readonly variant: RenderVariant; readonly input: RenderInput};

const renderWorker = new URL('../render/render-worker.js', import.meta.url);
// As renderers have them.
const renderLimits = {maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

/**
 * Renders one mail in a thread of its own, for callers with other duties: the limits of a render are cooperative. The
 * first costs a tenth of a second. Renderers, which render much, keep their threads.
 */
export async function renderInWorker(
	job: RenderJob,
	timeoutMs = 2000,
	clocks: WorkClocks = systemClocks,
): Promise<RenderResult> {
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
