import {once} from 'node:events';
import path from 'node:path';
import process from 'node:process';
import {createInterface} from 'node:readline';
import {wrapped} from '../../src/cli/terminal-text.ts';
import {startLab} from './lab.ts';
import {steps} from './steps.ts';

// `npm run demo`: a daemon and what it mails with, all on loopback; sends, bounces, complains, unsubscribes, and says
// what each left. On a terminal it then waits, so that one can look around. `--fast` ends at once.

const width = 80;
const print = (...lines: readonly string[]) => process.stdout.write(lines.map(line => `${line}\n`).join(''));
const say = (text: string, indent = '') => print(...wrapped(text, width, indent));

const endings: Array<() => unknown> = [];
const scope = {
	passed: true,
	log: (...lines: readonly unknown[]) => print(lines.join(' ')),
	teardown: (work: () => unknown) => void endings.push(work),
};

async function demo(): Promise<void> {
	say(
		'Starting DNS, a mail server for inbox.example, a webhook receiver and the daemon. Nothing leaves this machine.',
	);
	const lab = await startLab(scope);
	print('', `The daemon answers at ${lab.url}.`, 'To look around, in another terminal:', '');
	print(`    cd ${lab.program.folder}`, `    alias mailctl='node ${path.resolve('bin/mailctl.js')}'`);
	for (const [index, step] of steps.entries()) {
		const {title, left, look} = await step(lab);
		print('', `${index + 1}. ${title}`, '');
		for (const sentence of left) {
			say(sentence, '   ');
		}
		print('', ...look.map(command => `   $ mailctl ${command}`));
	}
	print('', 'Everything at a glance:', '', '   $ mailctl message list', '   $ mailctl stats', '   $ mailctl export');
	if (process.stdin.isTTY && !process.argv.includes('--fast')) {
		print('', 'Press Enter to stop everything and remove the folder.');
		const input = createInterface({input: process.stdin});
		await Promise.race([once(input, 'line'), once(input, 'close')]);
		input.close();
	}
}

try {
	await Promise.race([demo(), once(process, 'SIGINT')]);
} catch (error) {
	scope.passed = false;
	print('', `The demo failed: ${(error as Error).message}`);
	process.exitCode = 1;
} finally {
	// Also what a start that was interrupted goes on to begin.
	for (let end = endings.pop(); end; end = endings.pop()) {
		await end();
	}
	process.exit();
}
