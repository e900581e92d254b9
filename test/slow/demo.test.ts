import {execFile} from 'node:child_process';
import {existsSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test from 'ava';
import {startLab} from '../demo/lab.ts';
import {steps} from '../demo/steps.ts';

const run = promisify(execFile);

test('the demo shows each step within 80 columns and leaves nothing behind', async t => {
	const {stdout} = await run(process.execPath, ['dist/test/demo/main.js', '--fast'], {
		timeout: 180_000,
	});
	t.log(stdout);
	for (const left of [
		/signed for example\.com/,
		/The timeline says: accepted, queued, sent, delivered\./,
		/got the event "delivered"\. Its signature is right\./,
		/refused at once: 422 recipient_suppressed\./,
		/refused: 422 recipient_suppressed\./,
		/got 200\./,
		/refused \(422 recipient_unsubscribed\)/,
		// It came last: without its priority it would leave last. On a busy machine some that are under way leave
		// before it.
		/the code was number (?:[1-9]|[12]\d) of the 51 mails/,
		/still arrives: msg_\w+ is delivered\./,
		/It is accepted, and is sent at 20/,
		/cancelled before its time, and is errored\./,
	]) {
		t.regex(stdout.replaceAll(/\s+/g, ' '), left);
	}
	t.deepEqual(
		stdout.split('\n').filter(line => line.length > 80 && !line.includes('alias')),
		[],
	);
	const [, folder = ''] = /^ {4}cd (\S+)$/m.exec(stdout) ?? [];
	t.true(folder.length > 10);
	t.false(existsSync(folder));
});

test('every command the demo prints works in its folder', async t => {
	const lab = await startLab(t);
	const alias = `mailctl() { ${process.execPath} ${path.resolve('bin/mailctl.js')} "$@"; }`;
	for (const step of steps) {
		for (const command of (await step(lab)).look) {
			const options = {cwd: lab.program.folder, env: {PATH: process.env.PATH}};
			const {stdout} = await run('sh', ['-c', `${alias}; mailctl ${command}`], options);
			t.true(stdout.length > 20, command);
		}
	}
});
