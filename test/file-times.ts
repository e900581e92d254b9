import {appendFileSync, readFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {isMainThread} from 'node:worker_threads';

// Loaded before all else by the processes of ava where `TEST_TIMES` names a file (test/run.ts): each test file adds its
// line there. `node dist/test/file-times-table.js FILE` makes a table of it.

/** What a test file took, seconds: in all, of CPU by its process, and of CPU by the programs that it ran. */
export type FileTime = {
	readonly file: string;
	readonly wall: number;
	readonly own: number;
	readonly children: number;
};

const table = process.env.TEST_TIMES;
const ticksPerSecond = 100;

function ownSeconds(): number {
	const {userCPUTime, systemCPUTime} = process.resourceUsage();
	return (userCPUTime + systemCPUTime) / 1e6;
}

/** proc_pid_stat(5): cutime and cstime, which follow the name in brackets as fields 14 and 15 of the rest. */
function childSeconds(): number {
	const [, rest = ''] = readFileSync('/proc/self/stat', 'utf8').split(') ');
	const fields = rest.split(' ');
	return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond;
}

// Not in what a test forks: its first message would come before it listens.
const isOfAva = process.argv[1]?.endsWith(path.join('ava', 'lib', 'worker', 'base.js')) ?? false;

if (table && isMainThread && isOfAva) {
	const begun = performance.now();
	let file: string | undefined;
	process.on('message', (message: {readonly ava?: {readonly options?: {readonly file?: string}}}) => {
		file ??= message.ava?.options?.file;
	});
	process.on('exit', () => {
		if (file !== undefined) {
			const wall = (performance.now() - begun) / 1000;
			const time: FileTime = {
				file: path.relative('dist/test', String(file).replace(/^file:\/\//, '')),
				wall,
				own: ownSeconds(),
				children: childSeconds(),
			};
			appendFileSync(table, `${JSON.stringify(time)}\n`);
		}
	});
}
