import type {CompileResult} from './compile.ts';
import {answer, type CompileJob} from './in-worker.ts';
import {compileInLayout, type Layout, layoutFaults} from './layouts.ts';
import type {Violation} from './liquid-source.ts';

let layouts: readonly Layout[] = [];

// The thread that `compileAndCheck` starts. It first receives the layouts, then each source to compile or layout to
// check.
await answer(async (job): Promise<CompileResult | readonly Violation[] | null> => {
	const given = job as CompileJob;
	if ('layouts' in given) {
		layouts = given.layouts;
		return null;
	}
	return 'source' in given ? await compileInLayout(given.source, layouts) : layoutFaults(given.layout, layouts);
});
