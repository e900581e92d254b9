import type {Clock} from '../kit/clock.ts';

/** Removes what is too old of one kind, bit by bit. */
export type SweepTask = {
	readonly name: string;
	/** Begins at the oldest; the step that it answers removes a bit and says whether there may be more. */
	readonly begin: () => () => Promise<boolean>;
};

export type SweepOptions = {
	readonly tasks: readonly SweepTask[];
	/** From the end of a sweep to the next, as the settings are now. */
	readonly intervalMs: () => number;
	readonly clock: Pick<Clock, 'monotonic'>;
	/** A task failed; it is tried again at the next sweep. */
	readonly onError: (error: unknown, task: string) => void;
};

export type Sweep = {
	/** The interval has changed. */
	readonly reschedule: () => void;
	/** Resolves when nothing is being removed any more. */
	readonly stop: () => Promise<void>;
};

const longestRestMs = 1000;
const longestTimer = 2 ** 31 - 1;

/** Sweeps at intervals. Several nodes may sweep one store at once. */
export function startSweep({tasks, intervalMs, clock, onError}: SweepOptions): Sweep {
	let stopping = false;
	let timer: NodeJS.Timeout | undefined;
	let sweeping: Promise<void> | null = null;

	function schedule(): void {
		clearTimeout(timer);
		timer = setTimeout(
			() => {
				sweeping = sweep().finally(() => {
					sweeping = null;
					if (!stopping) {
						schedule();
					}
				});
			},
			Math.min(intervalMs(), longestTimer),
		);
	}

	async function sweep(): Promise<void> {
		for (const {name, begin} of tasks) {
			if (stopping) {
				return;
			}
			try {
				await runSteps(begin());
			} catch (error) {
				onError(error, name);
			}
		}
	}

	/** Rests after each step for as long as it took: a backlog of millions leaves half of the writer's time to mail. */
	async function runSteps(step: () => Promise<boolean>): Promise<void> {
		for (;;) {
			const began = clock.monotonic();
			const isDone = !(await step());
			if (isDone || stopping) {
				return;
			}
			const took = clock.monotonic() - began;
			await new Promise(resolve => setTimeout(resolve, Math.min(took, longestRestMs)));
		}
	}

	schedule();
	return {
		reschedule() {
			if (!sweeping) {
				schedule();
			}
		},
		async stop() {
			stopping = true;
			clearTimeout(timer);
			await sweeping;
		},
	};
}
