import {systemClocks} from '../mail/work-limit.ts';
import {inWorker} from './in-worker.ts';
import type {RenderInput, RenderResult, RenderVariant} from './render.ts';

export type RenderJob = {readonly variant: RenderVariant; readonly input: RenderInput};

const worker = new URL('../render/render-worker.js', import.meta.url);
// As makers have them.
const limits = {maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

/**
 * Renders one mail in a thread of its own, for callers that have other duties: the limits of a render are cooperative.
 * It costs a tenth of a second; makers, who render much, have threads that stay.
 */
export async function renderInWorker(job: RenderJob, timeoutMs = 2000, clocks = systemClocks): Promise<RenderResult> {
	const ended = await inWorker<RenderResult>(worker, job, {timeoutMs, limits, clocks});
	return ended.ok
		? ended.result
		: {
				ok: false,
				reason: 'render_limit',
				message: `rendering: takes too ${ended.spent === 'time' ? 'long' : 'much memory'}`,
			};
}
