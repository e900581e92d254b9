import {compileVariant, type VariantSource} from './compile.ts';
import {answer} from './in-worker.ts';

// The body of the thread that compileInWorker starts.
await answer(async sources => {
	const results = [];
	for (const source of sources as readonly VariantSource[]) {
		results.push(await compileVariant(source));
	}
	return results;
});
