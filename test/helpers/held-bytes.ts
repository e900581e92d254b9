import process from 'node:process';
import {setFlagsFromString} from 'node:v8';
import {runInNewContext} from 'node:vm';

/** What the heap holds, without what nobody can reach any more. */
export function heldBytes(): number {
	setFlagsFromString('--expose-gc');
	runInNewContext('gc')();
	return process.memoryUsage().heapUsed;
}
