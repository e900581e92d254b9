import type {Command} from 'commander';
import {changeVerbs} from './queue-change.ts';
import {listVerb} from './queue-list.ts';
import {summaryVerb} from './queue-summary.ts';
import {suspendVerbs} from './queue-suspend.ts';
import {traceVerb} from './queue-trace.ts';
import {whyVerb} from './queue-why.ts';

export function queueCommands(queue: Command): void {
	summaryVerb(queue);
	listVerb(queue);
	whyVerb(queue);
	traceVerb(queue);
	changeVerbs(queue);
	suspendVerbs(queue);
}
