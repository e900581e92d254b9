import {keepThread, type ThreadOptions} from '../pool/thread.ts';
import type {Post, PostEnd, Poster} from './post.ts';

export type PostJob = Post & {readonly number: number};
export type PostResult = {readonly number: number; readonly end: PostEnd};

/** `spawn`: a thread that gets lists of `PostJob` and answers with lists of `PostResult`. */
type PostThreadOptions = Pick<ThreadOptions<never>, 'spawn' | 'clock' | 'onCrash'>;

type PostThread = {
	/** Starts the thread ahead of the first attempt, which starts it otherwise. */
	readonly start: () => void;
	readonly post: Poster;
	readonly stop: () => Promise<void>;
};

type Waiting = {
	readonly job: PostJob;
	/** How many threads it was given to. */
	threads: number;
	readonly resolve: (end: PostEnd) => void;
	readonly reject: (error: Error) => void;
};

/**
 * A thread for the attempts: an endpoint that closes every connection costs a TLS handshake for each delivery, and the main
 * thread's time is the API's and the store's. What a dead thread held is posted again, once.
 */
export function createPostThread(options: PostThreadOptions): PostThread {
	const held = new Map<number, Waiting>();
	/** Sent at the end of this turn of the event loop: a message to a thread costs as much for one as for many. */
	let waiting: Waiting[] = [];
	let last = 0;
	const thread = keepThread<readonly PostJob[], readonly PostResult[]>({
		...options,
		name: 'poster',
		onStart: () => flush(),
		onMessage: receive,
		onEnd: repeat,
	});

	function receive(results: readonly PostResult[]): void {
		for (const {number, end} of results) {
			held.get(number)?.resolve(end);
			held.delete(number);
		}
	}

	function repeat(): void {
		for (const one of held.values()) {
			if (one.threads > 1) {
				one.reject(new Error('The thread that posted it ended twice.'));
			} else {
				waiting.push(one);
			}
		}
		held.clear();
	}

	function flush(): void {
		if (!thread.isRunning()) {
			thread.start();
			return;
		}
		for (const one of waiting) {
			one.threads++;
			held.set(one.job.number, one);
		}
		if (waiting.length > 0) {
			thread.post(waiting.map(({job}) => job));
			waiting = [];
		}
	}

	return {
		start: thread.start,
		post: post =>
			new Promise((resolve, reject) => {
				last++;
				// A copy of its own: a driver's buffer may be a part of a large one, which would travel with it.
				const job = {...post, body: new Uint8Array(post.body), number: last};
				waiting.push({job, threads: 0, resolve, reject});
				if (waiting.length === 1) {
					setImmediate(flush);
				}
			}),
		stop: () => thread.stop(),
	};
}
