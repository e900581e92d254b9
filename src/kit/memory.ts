import {setFlagsFromString} from 'node:v8';
import {runInNewContext} from 'node:vm';

// How V8 is kept small. Figures: docs/internals/performance.md, Memory.
//
// | setting               | what it buys                                                                              |
// |-----------------------|-------------------------------------------------------------------------------------------|
// | keepHeapSmall         | 238 MB instead of 292 to 343 after two minutes of load, for about 5 % of the throughput   |
// | createGarbage         | up to 64 MB a thread of buffers that V8 keeps before it collects                          |
// | maxOldGenerationSize  | a hostile template or mail ends its thread, not the daemon                                |
// | maxYoungGenerationSize| up to 30 MB a thread: V8's usual size holds small work that is long done                  |
// | stackSize             | deeply nested templates and mails end in an error of theirs, not in a crash of the thread |
// | allocator             | 301 MB instead of 441 after large mails, and 302 instead of 321 MB at most under load     |

/** V8's limits for each kind of thread. */
export const threadLimits = {
	renderer: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16, stackSizeMb: 4},
	reader: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16, stackSizeMb: 4},
	poster: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 8},
	// With half of it objects of a batch outlive collections: a quarter more time for garbage.
	writer: {maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 24},
	// It holds mails, which V8 lets go only when it collects, and makes few objects: with more, four times as many
	// whole collections.
	smtpWorker: {maxYoungGenerationSizeMb: 8},
} as const;

/**
 * Of glibc, in the environment of the process: freed blocks go back to the system, and the threads share two arenas
 * instead of keeping what is free in one each. What starts the program sets them: `bin`, `npm start`, the service and
 * the image.
 */
export const allocator = {
	MALLOC_ARENA_MAX: '2',
	MALLOC_MMAP_THRESHOLD_: '1048576',
	MALLOC_TRIM_THRESHOLD_: '4194304',
} as const;

const growingPercent = 40;

/**
 * Lets V8 collect when the heap is 40 % larger than after the last collection, in all threads. By default it waits
 * until the heap is up to four times as large: 31 MB alive became 135 MB, which looked like a leak for minutes.
 */
export function keepHeapSmall(): void {
	setFlagsFromString(`--heap-growing-percent=${growingPercent}`);
}

const defaultMax = 8 * 1024 * 1024;
const defaultMin = 512 * 1024;

/**
 * Returns a function that counts bytes of large values that are no longer needed, and collects this thread's garbage
 * after every 8 MiB of them. V8 itself keeps up to 64 MiB of unused buffers in each thread before it collects. Smaller
 * values are left to V8: a collection costs milliseconds, and usual mail should not pay for it.
 */
export function createGarbage({most = defaultMax, least = defaultMin} = {}): (bytes: number) => void {
	setFlagsFromString('--expose-gc');
	const collect: () => void = runInNewContext('gc');
	let unused = 0;
	return bytes => {
		if (bytes < least) {
			return;
		}
		unused += bytes;
		if (unused >= most) {
			unused = 0;
			collect();
		}
	};
}
