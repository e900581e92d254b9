import {parentPort, workerData} from 'node:worker_threads';
import {progress} from '../../src/kit/foreign-work.ts';
import type {FromRenderer, ToRenderer} from '../../src/queue/renderers.ts';

// A renderer that works on its first job until the gate opens, without using CPU time.
const {shared, gate} = workerData as {shared: SharedArrayBuffer; gate: SharedArrayBuffer};
const told = new Int32Array(shared);

parentPort?.on('message', (message: ToRenderer) => {
	if (message.kind === 'work') {
		Atomics.add(told, progress.begun, 1);
		Atomics.store(told, progress.working, 1);
		Atomics.wait(new Int32Array(gate), 0, 0);
		Atomics.store(told, progress.working, 0);
		const made = {
			mail: new Uint8Array(),
			subject: '',
			envelopeFrom: '',
			ref: '',
			firstLink: null,
			links: 0,
			smtputf8: false,
		};
		parentPort?.postMessage({
			kind: 'done',
			results: message.jobs.map(() => ({ok: true, message: made})),
		} satisfies FromRenderer);
	}
});
