import {fork} from 'node:child_process';
import {once} from 'node:events';
import type {ReportLoadEnd, ReportOrder} from '../bench/report-load.ts';

/** Brings many bounces to a listener by connections of a process of its own; resolves when all are answered. */
export async function loadReports(order: ReportOrder): Promise<ReportLoadEnd> {
	const child = fork(new URL('../bench/report-load.js', import.meta.url));
	child.send(order);
	const [end] = (await once(child, 'message')) as [ReportLoadEnd];
	child.kill();
	return end;
}
