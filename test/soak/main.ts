import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {parseArgs} from 'node:util';
import {wrapped} from '../../src/cli/terminal-text.ts';
import {drawRun} from './picture.ts';
import {readRun} from './record.ts';
import {soak} from './run.ts';
import {judge} from './verdicts.ts';

// A day in an hour (docs/internals/soak.md): npm run soak -- [--minutes N] [--rate 70%|N] [--past N] [--disk GIB]
// [--out FOLDER] `--draw` only draws and judges again what the folder has.

const {values: options} = parseArgs({
	options: {
		minutes: {type: 'string', default: '60'},
		rate: {type: 'string', default: '70%'},
		past: {type: 'string', default: '200000'},
		disk: {type: 'string', default: '24'},
		out: {type: 'string', default: join(tmpdir(), 'mailctl-soak')},
		draw: {type: 'boolean', default: false},
	},
});
const [record, picture] = ['soak.jsonl', 'soak.svg'].map(name => join(options.out, name)) as [string, string];
const [width, margin] = [80, ' '.repeat(22)];
const teardowns: Array<() => unknown> = [];
const scope = {passed: true, log: console.log, teardown: (run: () => unknown) => void teardowns.push(run)};

async function close(): Promise<void> {
	for (let run = teardowns.pop(); run; run = teardowns.pop()) {
		await run();
	}
}

process.once('SIGINT', () => void close().finally(() => process.exit(130)));
try {
	if (!options.draw) {
		if (process.getuid?.() !== 0) {
			throw new Error('Only root on Linux can run it: the data folder is on a disk of its own.');
		}
		mkdirSync(options.out, {recursive: true});
		rmSync(record, {force: true});
		await soak(scope, {
			...{record, rate: options.rate, seconds: Number(options.minutes) * 60},
			...{past: Number(options.past), diskGib: Number(options.disk)},
		});
	}
	const run = readRun(readFileSync(record, 'utf8'));
	writeFileSync(picture, drawRun(run));
	const verdicts = judge(run);
	const {topPerS, perS, seconds} = run.facts;
	console.log(`\n${seconds / 60} minutes at ${perS} mails a second, ${topPerS} at most\n`);
	for (const {name, ok, text} of verdicts) {
		const [first = '', ...more] = wrapped(text, width, margin);
		console.log(
			[`${ok ? 'ok' : 'FAIL'}   `.slice(0, 5) + name.padEnd(margin.length - 5) + first.trimStart(), ...more].join(
				'\n',
			),
		);
	}
	const errors = Object.entries(run.end?.errors ?? {}).map(([event, count]) => `${event} ${count}`);
	console.log(`\nerrors in the log: ${errors.join(', ') || 'none'}\n${record}\n${picture}`);
	process.exitCode = verdicts.every(({ok}) => ok) ? 0 : 1;
} catch (error) {
	scope.passed = false;
	console.error(error);
	process.exitCode = 1;
} finally {
	await close();
	process.exit();
}
