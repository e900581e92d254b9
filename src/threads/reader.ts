import {parentPort, workerData} from 'node:worker_threads';
import {createClassify} from '../bounce/classify.ts';
import type {NewRules, ToRead} from '../inbound/reading.ts';
import {bufferOf} from '../kit/text.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {Reading} from '../mail/report.ts';
import {type FromWorker, progress, type ToWorker} from '../pool/foreign-work.ts';
import {readEvent} from '../providers/read-event.ts';
import {loadLibraries, readLetter} from '../report/letter.ts';
import {readReport} from '../report/read-report.ts';

/** What a reader thread is started with. */
export type ReaderData = {
	readonly shared: SharedArrayBuffer;
	/** By which refusals are judged, until others are sent. */
	readonly bounceRules: readonly BounceRule[];
};

const {shared, bounceRules} = workerData as ReaderData;
const cells = new Int32Array(shared);
let classify = createClassify(bounceRules);
const port = parentPort as NonNullable<typeof parentPort>;
let reading = Promise.resolve();

port.on('message', (message: ToWorker<ToRead> | NewRules) => {
	if (message.kind === 'rules') {
		classify = createClassify(message.rules);
	} else {
		reading = reading.then(() => readAll(message.jobs));
	}
});

/** In order: a parser may let others in. What it throws ends the thread. */
async function readAll(jobs: readonly ToRead[]): Promise<void> {
	const results: Reading[] = [];
	for (const job of jobs) {
		results.push(await readOne(job));
	}
	port.postMessage({kind: 'done', results} satisfies FromWorker<Reading>);
}

async function readOne({raw, isEvent, keys}: ToRead): Promise<Reading> {
	await (keys && loadLibraries());
	Atomics.add(cells, progress.begun, 1);
	Atomics.store(cells, progress.working, 1);
	const report = isEvent ? readEvent(raw, classify) : readReport(bufferOf(raw), classify);
	const letter = keys && (await readLetter(bufferOf(raw), keys));
	// Not where it threw: the thread ends, and the parent must learn which mail caused it.
	Atomics.store(cells, progress.working, 0);
	return letter ? {...report, letter} : report;
}
