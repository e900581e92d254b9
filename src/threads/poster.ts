import {parentPort, workerData} from 'node:worker_threads';
import {createSharedClock} from '../kit/clock.ts';
import type {PostJob, PostResult} from '../webhook/post-thread.ts';
import {createPosting, type Posting} from './posting.ts';

const port = parentPort as NonNullable<typeof parentPort>;
/** What the thread is started with: how it posts, and the time of the daemon's clock. */
export type PosterData = Posting & {readonly time: SharedArrayBuffer};

const {time, ...posting} = workerData as PosterData;
const {post} = createPosting(posting, createSharedClock(time));
let results: PostResult[] = [];

port.on('message', (jobs: readonly PostJob[]) => {
	for (const {number, ...job} of jobs) {
		post(job).then(end => answer({number, end}));
	}
});

/** What ends in the same turn of the event loop travels together. */
function answer(result: PostResult): void {
	results.push(result);
	if (results.length === 1) {
		setImmediate(() => {
			port.postMessage(results);
			results = [];
		});
	}
}
