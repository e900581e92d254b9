import {parentPort, workerData} from 'node:worker_threads';
import {createSharedClock} from '../../kit/clock.ts';
import {serveCalls} from '../../kit/thread-calls.ts';
import type {PosterMethods} from '../../resources/webhooks/post.ts';
import {createPosting, type PostingOptions} from './posting.ts';

/** The data with which the thread is started: the posting options, and the daemon's clock. */
export type PosterData = PostingOptions & {readonly time: SharedArrayBuffer};

const {time, ...posting} = workerData as PosterData;
const poster = createPosting(posting, createSharedClock(time));
serveCalls<PosterMethods>(parentPort as NonNullable<typeof parentPort>, {post: post => poster.post(post)});
