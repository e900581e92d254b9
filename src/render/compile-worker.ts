import {parentPort, workerData} from 'node:worker_threads';
import {compileVariant, type VariantSource} from './compile.ts';

// The body of the thread that compileInWorker starts.
const results = [];
for (const source of workerData as readonly VariantSource[]) {
	results.push(await compileVariant(source));
}
parentPort?.postMessage(results);
