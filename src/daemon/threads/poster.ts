import {parentPort, workerData} from 'node:worker_threads';
import {createSharedClock} from '../../kit/clock.ts';
import {answerCalls} from '../../kit/thread-calls.ts';
import type {PosterMethods} from '../../resources/webhooks/post.ts';
import {createPosting, type Posting} from './posting.ts';

/** The data with which the thread is started: the posting options, and the daemon's clock. */
export type PosterData = Posting & {readonly time: SharedArrayBuffer};

const {time, ...posting} = workerData as PosterData;
const poster = createPosting(posting, createSharedClock(time));
answerCalls<PosterMethods>(parentPort as NonNullable<typeof parentPort>, {post: post => poster.post(post)});
