import {answer, type CompileJob} from './in-worker.ts';
import {compileInLayout} from './layouts.ts';

// The body of the thread that compileInWorker starts.
await answer(async job => {
	const {sources, layouts} = job as CompileJob;
	const results = [];
	for (const source of sources) {
		results.push(await compileInLayout(source, layouts));
	}
	return results;
});
