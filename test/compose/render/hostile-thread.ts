import {parentPort, workerData} from 'node:worker_threads';
import {createRenderer} from '../../../src/compose/render/render.ts';
import {input, variant} from './inputs.ts';

// What a maker does with mails: renders them, without a clock of its own.
const {templates, data} = workerData as {templates: string[]; data: Record<string, unknown>};
const renderer = createRenderer();
const results = templates.map(html => renderer.render(variant({html}), input(data)));
parentPort?.postMessage({results, polluted: Object.keys(Object.prototype)});
