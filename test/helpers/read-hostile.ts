import process from 'node:process';
import {readReport} from '../../src/report/read-report.ts';
import {classify} from './classify.ts';
import {hostileMails} from './hostile-mails.ts';

export type Cost = {readonly name: string; readonly ms: number; readonly bytes: number; readonly output: number};

/** Reads the hostile mails that are named, a process each so that one's memory is not another's, and prints their costs. */
function main([name]: readonly string[]): void {
	const mail = hostileMails.find(each => each.name === name);
	if (!mail) {
		throw new Error(`There is no hostile mail ${name}.`);
	}
	// Code that is compiled and the heap that it takes are no cost of the mail.
	readReport(Buffer.from('Subject: x\r\nContent-Type: text/plain\r\n\r\ntext'), classify);
	const raw = mail.build();
	const before = process.memoryUsage().rss;
	const started = performance.now();
	const reading = readReport(raw, classify);
	const ms = performance.now() - started;
	const peak = process.resourceUsage().maxRSS * 1024;
	const cost: Cost = {name: mail.name, ms, bytes: peak - before, output: JSON.stringify(reading).length};
	process.stdout.write(JSON.stringify(cost));
}

main(process.argv.slice(2));
