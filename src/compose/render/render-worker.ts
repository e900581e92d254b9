import {processInputs, type RenderJob} from './in-worker.ts';
import {createRenderer} from './render.ts';

// The thread that `renderInWorker` starts.
await processInputs(job => {
	const {variant, input} = job as RenderJob;
	return createRenderer({strict: true}).render(variant, input);
});
