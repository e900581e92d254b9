const waiting: Array<() => void> = [];

/**
 * Runs a piece of work that may take tens of milliseconds, one piece at a time in the whole process, in turns of the event loop of their own: what
 * arrived meanwhile gets its turn between two of them.
 */
export function inSlice<Result>(work: () => Result): Promise<Result> {
	return new Promise((resolve, reject) => {
		waiting.push(() => {
			try {
				resolve(work());
			} catch (error) {
				reject(error);
			}
		});
		if (waiting.length === 1) {
			setImmediate(runNext);
		}
	});
}

function runNext(): void {
	waiting[0]?.();
	waiting.shift();
	if (waiting.length > 0) {
		// Two turns: one in which a new connection is taken, one in which its request is read.
		setImmediate(setImmediate, runNext);
	}
}
