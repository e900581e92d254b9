import {readFileSync} from 'node:fs';
import process from 'node:process';
import type {FileTime} from './file-times.ts';

// Prints, as Markdown, which test files took most CPU time in a run with `TEST_TIMES`.

const shown = 30;
const [source = ''] = process.argv.slice(2);
const times = readFileSync(source, 'utf8')
	.trim()
	.split('\n')
	.map(line => JSON.parse(line) as FileTime)
	.sort((a, b) => cpuOf(b) - cpuOf(a));

function cpuOf({own, children}: FileTime): number {
	return own + children;
}

function rowOf(name: string, some: readonly FileTime[]): string {
	const sums = (['wall', 'own', 'children'] as const).map(key => some.reduce((sum, time) => sum + time[key], 0));
	return `| ${name} | ${sums.map(sum => sum.toFixed(0)).join(' | ')} |\n`;
}

process.stdout.write('| file | seconds | CPU of the file | CPU of what it ran |\n|---|---:|---:|---:|\n');
process.stdout.write(
	times
		.slice(0, shown)
		.map(time => rowOf(time.file, [time]))
		.join(''),
);
process.stdout.write(rowOf(`all ${times.length}`, times));
