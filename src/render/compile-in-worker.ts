import type {CompileResult, VariantSource} from './compile.ts';
import {inWorker} from './in-worker.ts';

const worker = new URL('../render/compile-worker.js', import.meta.url);
// MJML holds some 100 MB while it compiles.
const limits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

/** Milliseconds; MJML alone loads in half a second, but in ten on a machine with much other work. */
export const usualCompileTime = 30_000;

/**
 * Compiles variants in a thread of their own, so that no template can hold the caller up or use its memory up.
 * What does not end in time is a violation of each variant.
 *
 * @param timeoutMs for all of them together, the loading of MJML included
 * @returns a result for each source, in order
 */
export async function compileInWorker(
	sources: readonly VariantSource[],
	timeoutMs = usualCompileTime,
): Promise<readonly CompileResult[]> {
	const ended = await inWorker<readonly CompileResult[]>(worker, sources, {timeoutMs, limits});
	if (ended.ok) {
		return ended.result;
	}
	const message = `takes too ${ended.spent === 'time' ? 'long' : 'much memory'} to compile`;
	return sources.map(source => ({
		ok: false,
		violations: [{field: source.mjml === undefined ? 'html' : 'mjml', message, line: 1, column: 1}],
	}));
}
