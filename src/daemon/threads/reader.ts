import {parentPort, workerData} from 'node:worker_threads';
import type {NewRules, ReaderJob, ReaderResult} from '../../inbound/mail-reader.ts';
import {readEvent} from '../../inbound/providers/read-event.ts';
import {KnownAnswers} from '../../inbound/reports/known-answers.ts';
import {readInbound} from '../../inbound/reports/read-inbound.ts';
import {missingAnswers} from '../../inbound/reports/verdicts.ts';
import {type FromWorker, progress, type ToWorker} from '../../kit/foreign-work.ts';
import {toBuffer} from '../../kit/text.ts';
import {systemClocks} from '../../kit/work-limit.ts';
import type {BounceRule} from '../../mail/bounce.ts';
import {createClassify} from '../../mail/classify-reply.ts';

/** The data with which a reader thread is started. */
export type ReaderData = {
	readonly shared: SharedArrayBuffer;
	/** The rules for classifying rejections, until others are sent. */
	readonly bounceRules: readonly BounceRule[];
};

const {shared, bounceRules} = workerData as ReaderData;
const cells = new Int32Array(shared);
let classify = createClassify(bounceRules);
const port = parentPort as NonNullable<typeof parentPort>;
let reading = Promise.resolve();

port.on('message', (message: ToWorker<ReaderJob> | NewRules) => {
	if (message.kind === 'rules') {
		classify = createClassify(message.rules);
	} else {
		reading = reading.then(() => readAll(message.jobs));
	}
});

/** Reads in order, because a parser may yield. An error thrown by a parser ends the thread. */
async function readAll(jobs: readonly ReaderJob[]): Promise<void> {
	for (const job of jobs) {
		Atomics.add(cells, progress.begun, 1);
		Atomics.store(cells, progress.working, 1);
		const result = await readResult(job);
		// Not in a `finally`: after an error the thread ends, and the parent must learn which job caused it.
		Atomics.store(cells, progress.working, 0);
		// Sent at once, because the next job may take long.
		port.postMessage({kind: 'done', results: [result]} satisfies FromWorker<ReaderResult>);
	}
}

async function readResult(job: ReaderJob): Promise<ReaderResult> {
	switch (job.kind) {
		case 'missing':
			return missingAnswers(toBuffer(job.head), job.envelope, new KnownAnswers(job.answers));
		case 'event':
			return readEvent(job.raw, classify);
		case 'mail':
			return await readInbound(job, classify, systemClocks);
	}
}
