import process from 'node:process';
import {readReport} from '../../src/inbound/reports/read-report.ts';
import {classify} from './classify.ts';
import {cpuCost} from './cpu-cost.ts';
import {hostileMails} from './hostile-mails.ts';

/** What it cost to read a mail. */
export type Cost = {
	readonly name: string;
	/** Of processor time, as `cpuCost` measures it. */
	readonly ms: number;
	/** By how much the process grew beyond what it had ever been; 0: it did not. */
	readonly bytes: number;
	/** The length of the reading as JSON. */
	readonly output: number;
};

/**
 * Milliseconds. A quiet machine of two cores needs 300 for the dearest; the bound is above the second that the mails
 * may cost there because other machines are slower, and below what anything but linear work takes for 10 MB.
 */
export const maxMs = 4000;

/**
 * Reads the hostile mails, those with the word in their name or all, and prints what each costs, a line each. A process
 * of its own, so that its memory is that of the reading alone: run it with --expose-gc.
 */
function main([word = '']: readonly string[]): void {
	// Code that is compiled is no cost of a mail.
	readReport(Buffer.from('Subject: x\r\nContent-Type: text/plain\r\n\r\n550 <a@b.example> unknown'), classify);
	for (const {name, build} of hostileMails.filter(each => each.name.includes(word))) {
		const raw = build();
		const before = {rss: process.memoryUsage().rss, peak: peak()};
		let output = 0;
		const ms = cpuCost(() => {
			output = JSON.stringify(readReport(raw, classify)).length;
		}, maxMs);
		const bytes = peak() > before.peak ? peak() - before.rss : 0;
		const cost: Cost = {name, ms, bytes, output};
		process.stdout.write(`${JSON.stringify(cost)}\n`);
		globalThis.gc?.();
	}
}

function peak(): number {
	return process.resourceUsage().maxRSS * 1024;
}

if (import.meta.filename === process.argv[1]) {
	main(process.argv.slice(2));
}
