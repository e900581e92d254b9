import type {Clock} from './clock.ts';

const maxRestMs = 1000;

/**
 * Takes steps until one says that there are no more, or `isStopped` does. It rests after each for as long as the step
 * took, so that work of hours leaves half of the time of what it uses to others.
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
		const took = clock.monotonic() - began;
		await new Promise(resolve => setTimeout(resolve, Math.min(took, maxRestMs)));
	}
}

/** The parts of some work as steps. */
export function stepsOf(parts: AsyncGenerator<void>): () => Promise<boolean> {
	return async () => !(await parts.next()).done;
}
