import process from 'node:process';
import {readReport} from '../../src/report/read-report.ts';
import {classify} from './classify.ts';
import {hostileMails} from './hostile-mails.ts';

/** What it cost to read a mail. */
export type Cost = {
	readonly name: string;
	/** Of processor time. */
	readonly ms: number;
	/** By how much the process grew beyond what it had ever been; 0: it did not. */
	readonly bytes: number;
	/** The length of the reading as JSON. */
	readonly output: number;
};

/**
 * Reads the hostile mails, those with the word in their name or all, and prints what each costs, a line each. A process of its
 * own, so that its memory is that of the reading alone: run it with --expose-gc.
 */
function main([word = '']: readonly string[]): void {
	// Code that is compiled is no cost of a mail.
	readReport(Buffer.from('Subject: x\r\nContent-Type: text/plain\r\n\r\n550 <a@b.example> unknown'), classify);
	for (const {name, build} of hostileMails.filter(each => each.name.includes(word))) {
		const raw = build();
		const before = {rss: process.memoryUsage().rss, peak: peak()};
		const started = process.cpuUsage();
		const reading = readReport(raw, classify);
		const {user, system} = process.cpuUsage(started);
		const bytes = peak() > before.peak ? peak() - before.rss : 0;
		const cost: Cost = {name, ms: (user + system) / 1000, bytes, output: JSON.stringify(reading).length};
		process.stdout.write(`${JSON.stringify(cost)}\n`);
		globalThis.gc?.();
	}
}

function peak(): number {
	return process.resourceUsage().maxRSS * 1024;
}

main(process.argv.slice(2));
