import {execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdtempSync, readFileSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {pathToFileURL} from 'node:url';
import test from 'ava';

const module = pathToFileURL('dist/src/daemon/store-faults.js');

function run(script: string) {
	const code = `const {killIfStuck} = await import('${module}'); ${script}`;
	return once(spawn(process.execPath, ['--input-type=module', '-e', code], {stdio: 'inherit'}), 'exit');
}

test('kills the process if a thread is stuck in a system call', async t => {
	const fifo = join(mkdtempSync(join(tmpdir(), 'mailctl-stuck-')), 'fifo');
	execFileSync('mkfifo', [fifo]);
	const stuck = `const {open} = await import('node:fs'); open('${fifo}', 'r', () => undefined);
		await new Promise(resolve => setTimeout(resolve, 200));`;
	t.deepEqual(await run(`${stuck} killIfStuck(1); process.exit(0);`), [null, 'SIGKILL']);
});

test('does not kill or delay a process that exits by itself', async t => {
	t.deepEqual(await run('killIfStuck(3600);'), [0, null]);
});

test('the process that waits for the exit inherits no secrets', async t => {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-stuck-'));
	const seen = join(folder, 'seen');
	writeFileSync(join(folder, 'sleep'), `#!/bin/sh\nenv > '${seen}.draft'; mv '${seen}.draft' '${seen}'\n`, {
		mode: 0o755,
	});
	const code = `const {killIfStuck} = await import('${module}'); killIfStuck(1); setTimeout(() => undefined, 60_000);`;
	const env = {PATH: `${folder}:${process.env.PATH}`, MAILCTL_SECRET_KEY: 'hunter2'};
	const child = spawn(process.execPath, ['--input-type=module', '-e', code], {stdio: 'inherit', env});
	// Our `sleep` takes no time.
	t.deepEqual(await once(child, 'exit'), [null, 'SIGKILL']);
	const told = readFileSync(seen, 'utf8');
	t.regex(told, /^PATH=/m);
	t.notRegex(told, /hunter2/);
});
