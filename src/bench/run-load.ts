import {fork} from 'node:child_process';
import {once} from 'node:events';
import type {LoadOrder, LoadReport} from './load.ts';

/** Sends many messages by keep-alive connections of a process of its own; resolves when all are answered. */
export async function load(order: LoadOrder): Promise<LoadReport> {
	const child = fork(new URL('../bench/load.js', import.meta.url));
	child.send(order);
	const [report] = (await once(child, 'message')) as [LoadReport];
	child.kill();
	return report;
}
