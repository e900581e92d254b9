import {existsSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {isMainThread, workerData} from 'node:worker_threads';
import type {WriterData} from '../../src/daemon/threads/store-writer.ts';

/** A file in the data folder: once it is there the thread that writes dies. */
export const lastWish = 'last-wish';

// Preloaded by a daemon (`--import`), in each of its threads.
const {file} = (isMainThread ? {} : Object(workerData)) as Partial<WriterData>;
if (file !== undefined) {
	const wish = join(dirname(file), lastWish);
	setInterval(() => {
		if (existsSync(wish)) {
			throw new Error('the thread that writes was told to die');
		}
	}, 5);
}
