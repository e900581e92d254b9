import type {Clock} from './clock.ts';

const maxRestMs = 1000;

/**
 * Runs steps until one returns `false` or `isStopped` returns `true`. It pauses after each step for as long as the step
 * took, but at most a second, so that work lasting hours leaves about half of the machine to others.
 */
export async function takeSteps(
	step: () => Promise<boolean>,
	clock: Pick<Clock, 'monotonic'>,
	isStopped: () => boolean = () => false,
): Promise<void> {
	for (;;) {
		const began = clock.monotonic();
		const isDone = !(await step());
		if (isDone || isStopped()) {
			return;
		}
		const elapsedMs = clock.monotonic() - began;
		await new Promise(resolve => setTimeout(resolve, Math.min(elapsedMs, maxRestMs)));
	}
}

/** Turns a generator into the steps of `takeSteps`: each step runs it to its next `yield`. */
export function stepsOf(parts: AsyncGenerator<void>): () => Promise<boolean> {
	return async () => !(await parts.next()).done;
}
