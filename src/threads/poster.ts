import {parentPort, workerData} from 'node:worker_threads';
import {systemClock} from '../mail/clock.ts';
import type {PostJob, PostResult} from '../webhook/post-thread.ts';
import {createPosting, type Posting} from './posting.ts';

const port = parentPort as NonNullable<typeof parentPort>;
const {post} = createPosting(workerData as Posting, systemClock);
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
