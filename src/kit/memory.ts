import {setFlagsFromString} from 'node:v8';
import {runInNewContext} from 'node:vm';

// How V8's memory is limited. For the figures, see docs/internals/performance.md, Memory.
//
// | setting               | what it gains                                                                             |
// |-----------------------|-------------------------------------------------------------------------------------------|
// | keepHeapSmall         | 238 MB instead of 292 to 343 after two minutes of load, for about 5 % of the throughput   |
// | createGarbage         | up to 64 MB a thread of buffers that V8 keeps before it collects                          |
// | maxOldGenerationSize  | a hostile template or message ends its thread, not the daemon                             |
// | maxYoungGenerationSize| up to 30 MB a thread: V8's default keeps small objects that are long unused               |
// | stackSize             | deeply nested templates and messages cause an error instead of crashing the thread        |
// | allocator             | 301 MB instead of 441 after large messages, at most 302 instead of 321 MB under load      |

/** V8's limits for each kind of thread. */
export const threadLimits = {
	renderer: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16, stackSizeMb: 4},
	reader: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16, stackSizeMb: 4},
	poster: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 8},
	// With half as much, a batch's objects survive collections, which costs a quarter more time for garbage collection.
	writer: {maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 24},
	// This thread holds messages, which V8 frees only on collection, and creates few objects. A larger value leads to
	// four times as many full collections.
	smtpWorker: {maxYoungGenerationSizeMb: 8},
} as const;

/**
 * Environment variables for glibc: freed blocks return to the system, and all threads share two arenas instead of
 * keeping free memory in one each. They must be set by whatever starts the program: `bin`, `npm start`, the systemd
 * service and the image.
 */
export const allocator = {
	MALLOC_ARENA_MAX: '2',
	MALLOC_MMAP_THRESHOLD_: '1048576',
	MALLOC_TRIM_THRESHOLD_: '4194304',
} as const;

const growingPercent = 40;

/**
 * Makes V8 collect, in all threads, once the heap is 40 % larger than after the last collection. By default it waits
 * until the heap is up to four times as large: 31 MB of live objects became 135 MB, which looked like a leak for
 * minutes.
 */
export function keepHeapSmall(): void {
	setFlagsFromString(`--heap-growing-percent=${growingPercent}`);
}

const defaultMax = 8 * 1024 * 1024;
const defaultMin = 512 * 1024;

/**
 * Returns a function that counts the bytes of large values no longer needed, and collects this thread's garbage after
 * every 8 MiB. V8 alone keeps up to 64 MiB of unused buffers per thread before it collects. Smaller values are not
 * counted, because a collection takes milliseconds, and ordinary messages should not pay for it.
 */
export function createGarbage({max = defaultMax, min = defaultMin} = {}): (bytes: number) => void {
	setFlagsFromString('--expose-gc');
	const collect: () => void = runInNewContext('gc');
	let unused = 0;
	return bytes => {
		if (bytes < min) {
			return;
		}
		unused += bytes;
		if (unused >= max) {
			unused = 0;
			collect();
		}
	};
}
