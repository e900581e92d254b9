import {type MessagePort, parentPort, workerData} from 'node:worker_threads';
import {serveCalls} from '../../../src/kit/thread-calls.ts';
import type {PosterMethods} from '../../../src/resources/webhooks/post.ts';

/** Returns a result for each post, but exits for the URLs in `workerData`. */
serveCalls<PosterMethods>(parentPort as MessagePort, {
	async post({url, body}) {
		if ((workerData as readonly string[]).includes(url)) {
			setImmediate(() => {
				throw new Error('broken');
			});
			await new Promise(() => undefined);
		}
		return {status: 200, error: null, detail: null, answer: null, address: `${body.length}`, tls: null, ms: 1};
	},
});
