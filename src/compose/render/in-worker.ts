import {on} from 'node:events';
import {parentPort, type ResourceLimits, Worker} from 'node:worker_threads';
import {entryPoint} from '../../kit/program-files.ts';
import {limitWork, systemClocks, type WorkClocks} from '../../kit/work-limit.ts';
import type {CompileResult, VariantSource} from './compile.ts';
import type {Layout} from './layouts.ts';
import type {Violation} from './liquid-source.ts';
import type {RenderInput, RenderResult, RenderVariant} from './render.ts';

export type WorkerOptions = {
	/** The limit on both wall-clock and CPU time (`limitWork`), from when the thread has loaded its code. */
	readonly timeoutMs: number;
	readonly limits: ResourceLimits;
	readonly clocks?: WorkClocks;
};

export type Ended<Result> =
	| {readonly ok: true; readonly result: Result}
	/** The limit that the thread exceeded. */
	| {readonly ok: false; readonly spent: 'time' | 'memory'};

// Loading the code takes a tenth of a second, but much longer on a busy machine.
const maxStartMs = 20_000;
const checksPerLimit = 10;

/** How long an idle thread waits for more work. The next preview often follows soon. */
const idleMs = 30_000;

type Thread = {readonly worker: Worker; isLoaded: boolean; isReused: boolean};
/** One idle thread for each module. */
const idle = new Map<string, Thread>();

function startThread(file: URL, limits: ResourceLimits): Thread {
	const thread = {worker: new Worker(file, {resourceLimits: limits, env: {}}), isLoaded: false, isReused: false};
	thread.worker.once('message', () => {
		thread.isLoaded = true;
	});
	return thread;
}

function takeThread(file: URL, limits: ResourceLimits): Thread {
	const thread = idle.get(file.href);
	if (!thread) {
		return startThread(file, limits);
	}
	idle.delete(file.href);
	removeListeners(thread.worker);
	thread.worker.ref();
	return {...thread, isReused: true};
}

/** Removes only our listeners, because Node.js has listeners of its own. */
function removeListeners(worker: Worker): void {
	for (const event of ['message', 'error', 'exit']) {
		worker.removeAllListeners(event);
	}
}

/** Makes a thread available for more work, without keeping the process alive. */
function keepIdle(file: URL, thread: Thread): void {
	const {worker} = thread;
	if (idle.has(file.href)) {
		void worker.terminate();
		return;
	}
	const drop = () => {
		if (idle.get(file.href) === thread) {
			idle.delete(file.href);
			void worker.terminate();
		}
	};
	removeListeners(worker);
	worker.on('error', drop).on('exit', drop).unref();
	idle.set(file.href, thread);
	setTimeout(drop, idleMs).unref();
}

/**
 * Runs one job in a thread of its own, with limits on time and memory, so that no template can block the caller or
 * exhaust its memory.
 *
 * @param file a module that calls `processInputs`
 * @param input the job's input, which is copied
 */
export async function inWorker<Result>(file: URL, input: unknown, options: WorkerOptions): Promise<Ended<Result>> {
	const ended = await runAllInWorker<Result>(file, [input], options);
	return ended.ok ? {ok: true, result: ended.result[0] as Result} : ended;
}

/**
 * Runs several inputs in one thread, within one time limit. Each is posted when the previous one is done, so that the
 * caller's event loop copies only one at a time.
 */
async function runAllInWorker<Result>(
	file: URL,
	inputs: readonly unknown[],
	options: WorkerOptions,
): Promise<Ended<readonly Result[]>> {
	const thread = takeThread(file, options.limits);
	const ended = await runInputs<Result>(thread, file, inputs, options).catch(error => {
		void thread.worker.terminate();
		throw error;
	});
	if (ended.ok) {
		keepIdle(file, thread);
		return ended;
	}
	await thread.worker.terminate();
	// Earlier work may have used up the memory of a reused thread, so try once more in a new one.
	return thread.isReused && ended.spent === 'memory' ? await runAllInWorker(file, inputs, options) : ended;
}

function runInputs<Result>(
	thread: Thread,
	file: URL,
	inputs: readonly unknown[],
	{timeoutMs, clocks = systemClocks}: WorkerOptions,
): Promise<Ended<readonly Result[]>> {
	const {worker} = thread;
	const results: Result[] = [];
	worker.postMessage(inputs[0]);
	let timer: NodeJS.Timeout;
	return new Promise<Ended<readonly Result[]>>((resolve, reject) => {
		const startLimit = (milliseconds: number) => {
			const state = limitWork(milliseconds, clocks);
			const check = () => {
				if (state() !== 'within') {
					// If the caller itself was blocked, a response that has arrived by now takes precedence.
					setImmediate(() => resolve({ok: false, spent: 'time'}));
				}
			};
			return setInterval(check, milliseconds / checksPerLimit);
		};
		timer = startLimit(thread.isLoaded ? timeoutMs : maxStartMs);
		worker.on('message', (message: 'loaded' | {readonly result: Result}) => {
			if (message === 'loaded') {
				clearInterval(timer);
				timer = startLimit(timeoutMs);
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
		worker.once('exit', code => reject(new Error(`The thread of ${file.pathname} exited with code ${code}.`)));
	}).finally(() => clearInterval(timer));
}

/** Runs in the thread: reports that it has loaded, then posts the result of each input. */
export async function processInputs(work: (input: unknown) => unknown): Promise<void> {
	const port = parentPort as NonNullable<typeof parentPort>;
	const inputs = on(port, 'message');
	port.postMessage('loaded');
	for await (const [input] of inputs) {
		port.postMessage({result: await work(input)});
	}
}

const compileWorker = entryPoint('compose/render/compile-worker');
// MJML needs about 100 MB while it compiles.
const compileLimits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

export type CompileJob =
	| {readonly layouts: readonly Layout[]}
	/** A variant to compile with the layouts sent before. */
	| {readonly source: VariantSource}
	/** A layout or partial to check with the layouts sent before. */
	| {readonly layout: Layout};

/** Milliseconds. Loading MJML takes half a second, but ten on a busy machine. */
export const defaultCompileTime = 30_000;

/**
 * Compiles variants without layouts in a separate thread, so that no template can block the caller or exhaust its
 * memory. A timeout is a violation of each variant.
 *
 * @param timeoutMs for all variants together, including the loading of MJML
 * @returns a result for each source, in order
 */
export async function compileInWorker(
	sources: readonly VariantSource[],
	timeoutMs = defaultCompileTime,
): Promise<readonly CompileResult[]> {
	return (await compileAndCheck({sources, layouts: [], checked: []}, timeoutMs)).results;
}

type CheckedJob = {
	readonly sources: readonly VariantSource[];
	readonly layouts: readonly Layout[];
	/** The members of `layouts` to check on their own, whether a source uses them or not. */
	readonly checked: readonly Layout[];
};

/**
 * Compiles variants with the layouts and partials that they use, and finds violations in layouts and partials
 * themselves.
 */
export async function compileAndCheck({sources, layouts, checked}: CheckedJob, timeoutMs: number) {
	const jobs: CompileJob[] = [{layouts}, ...checked.map(layout => ({layout})), ...sources.map(source => ({source}))];
	const options = {timeoutMs, limits: compileLimits};
	const ended = await runAllInWorker<readonly Violation[] | CompileResult>(compileWorker, jobs, options);
	if (ended.ok) {
		const results = ended.result.slice(1);
		return {
			problems: results.slice(0, checked.length) as ReadonlyArray<readonly Violation[]>,
			results: results.slice(checked.length) as CompileResult[],
		};
	}
	return {
		problems: checked.map(() => [limitViolation('files', ended.spent)]),
		results: sources.map(({mjml}) => ({
			ok: false as const,
			violations: [limitViolation(mjml === undefined ? 'html' : 'mjml', ended.spent)],
		})),
	};
}

const limitViolation = (field: string, spent: 'time' | 'memory'): Violation => ({
	field,
	line: 1,
	column: 1,
	message: `takes too ${spent === 'time' ? 'long' : 'much memory'} to compile`,
});

export type RenderJob = {readonly variant: RenderVariant; readonly input: RenderInput};

const renderWorker = entryPoint('compose/render/render-worker');
// The same limits as the renderers of the daemon have.
const renderLimits = {maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

/**
 * Renders one message in a separate thread, for callers that must stay responsive, because the limits of a renderer are
 * cooperative. The first call takes a tenth of a second. The daemon's renderers have threads of their own.
 */
export async function renderInWorker(
	job: RenderJob,
	timeoutMs = 2000,
	clocks: WorkClocks = systemClocks,
): Promise<RenderResult> {
	const ended = await inWorker<RenderResult>(renderWorker, job, {
		timeoutMs,
		limits: renderLimits,
		clocks,
	});
	return ended.ok
		? ended.result
		: {
				ok: false,
				reason: 'render_limit',
				message: `rendering: takes too ${ended.spent === 'time' ? 'long' : 'much memory'}`,
			};
}
