import {setFlagsFromString} from 'node:v8';
import {runInNewContext} from 'node:vm';

const usualMost = 8 * 1024 * 1024;
const usualLeast = 512 * 1024;

/**
 * Returns a function that counts bytes of large values that are no longer needed, and collects this thread's garbage after
 * every 8 MiB of them. V8 itself keeps up to 64 MiB of unused buffers in each thread before it collects. Smaller values
 * are left to V8: a collection costs milliseconds, and usual mail should not pay for it.
 */
export function createGarbage({most = usualMost, least = usualLeast} = {}): (bytes: number) => void {
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
