import {type MessagePort, parentPort, workerData} from 'node:worker_threads';
import {answerCalls} from '../../src/kit/thread-calls.ts';
import type {PosterMethods} from '../../src/webhook/post.ts';

/** Answers what it is given, unless the URL says that it must end; `workerData` are the URLs for which it ends. */
answerCalls<PosterMethods>(parentPort as MessagePort, {
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
