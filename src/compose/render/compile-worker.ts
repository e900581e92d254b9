import type {CompileResult} from './compile.ts';
import {type CompileJob, processInputs} from './in-worker.ts';
import {compileInLayout, type Layout, layoutProblems} from './layouts.ts';
import type {Violation} from './liquid-source.ts';

let layouts: readonly Layout[] = [];

// The thread that `compileAndCheck` starts. It first receives the layouts, then each source to compile or layout to
// check.
await processInputs(async (job): Promise<CompileResult | readonly Violation[] | null> => {
	const request = job as CompileJob;
	if ('layouts' in request) {
		layouts = request.layouts;
		return null;
	}
	return 'source' in request
		? await compileInLayout(request.source, layouts)
		: layoutProblems(request.layout, layouts);
});
