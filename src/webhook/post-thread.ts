import {type Calls, type Replies, ThreadCaller} from '../kit/thread-calls.ts';
import {Thread, type ThreadOptions} from '../pool/thread.ts';
import type {Post, PostEnd} from './post.ts';

/** What the thread does. */
export type PosterMethods = {readonly post: (post: Post) => Promise<PostEnd>};

/**
 * A thread for the attempts: an endpoint that closes every connection costs a TLS handshake for each delivery, and the main
 * thread's time is the API's and the store's. What a dead thread held is posted again, once.
 */
export class PostThread {
	readonly #caller = new ThreadCaller<PosterMethods>({send: calls => this.#thread.post(calls), tries: 2});
	readonly #thread: Thread<readonly Calls[], 'ready' | Replies>;

	constructor(options: ThreadOptions) {
		this.#thread = new Thread('poster', options, {
			receive: message => this.#caller.receive(message),
			ended: () => this.#caller.end(new Error('The thread that posted it ended twice.')),
		});
	}

	/** Starts the thread ahead of the first attempt, which starts it otherwise. */
	start(): void {
		this.#thread.start();
	}

	post(post: Post): Promise<PostEnd> {
		this.#thread.start();
		// A copy of its own: a driver's buffer may be a part of a large one, which would travel with it.
		return this.#caller.call('post', {...post, body: new Uint8Array(post.body)});
	}

	async stop(): Promise<void> {
		await this.#thread.stop();
	}
}
