import {Worker} from 'node:worker_threads';
import type {CompileResult, VariantSource} from './compile.ts';

const workerLimits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

export type Compiler = {
	/** As `compileInWorker`, one call after the other: each thread holds some 100 MB while it compiles. */
	readonly compile: (sources: readonly VariantSource[]) => Promise<CompileResult[]>;
};

/**
 * Compiles variants in a thread of their own, so that no template can hold the caller up or use its memory up.
 * What does not end in time is a violation of each variant.
 *
 * @param timeoutMs for all of them together, the loading of MJML (0.5 s) included
 * @returns a result for each source, in order
 */
export function compileInWorker(sources: readonly VariantSource[], timeoutMs = 10_000): Promise<CompileResult[]> {
	// Beside this file once both are compiled.
	const worker = new Worker(new URL('compile-worker.js', import.meta.url), {
		workerData: sources,
		resourceLimits: workerLimits,
		env: {},
	});
	const refused = (message: string): CompileResult[] =>
		sources.map(source => ({
			ok: false,
			violations: [{field: source.mjml === undefined ? 'html' : 'mjml', message, line: 1, column: 1}],
		}));

	return new Promise<CompileResult[]>((resolve, reject) => {
		const timer = setTimeout(() => resolve(refused('takes too long to compile')), timeoutMs);
		worker.once('message', resolve);
		worker.once('error', (error: NodeJS.ErrnoException) => {
			if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
				resolve(refused('takes too much memory to compile'));
			} else {
				reject(error);
			}
		});
		worker.once('exit', code => reject(new Error(`the compiling thread ended with ${code}`)));
		worker.once('exit', () => clearTimeout(timer));
	}).finally(() => worker.terminate());
}

/** A compiler for the daemon, where many may save templates at once. */
export function createCompiler(timeoutMs = 10_000): Compiler {
	let last: Promise<unknown> = Promise.resolve();
	return {
		compile(sources) {
			const result = last.then(() => compileInWorker(sources, timeoutMs));
			last = result.catch(() => undefined);
			return result;
		},
	};
}
