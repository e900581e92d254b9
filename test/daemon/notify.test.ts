import {mkdtempSync, readFileSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import test from 'ava';
import {Notify} from '../../src/daemon/run.ts';

/** A stand-in for systemd-notify that records its calls. */
function recorder(exitCode = 0) {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-notify-'));
	const binary = join(folder, 'systemd-notify');
	const calls = join(folder, 'calls');
	writeFileSync(calls, '');
	writeFileSync(binary, `#!/bin/sh\necho "$NOTIFY_SOCKET $*" >> '${calls}'\nexit ${exitCode}\n`, {mode: 0o755});
	return {binary, calls: () => readFileSync(calls, 'utf8').split('\n').slice(0, -1)};
}

test('runs systemd-notify once for each state', async t => {
	const {binary, calls} = recorder();
	const notify = new Notify({env: {NOTIFY_SOCKET: '/run/n', WATCHDOG_USEC: '30000000'}, warn: t.fail, binary});
	await notify.ready();
	await notify.reloading();
	await notify.stopping();
	await notify.alive();
	t.deepEqual(calls(), ['/run/n READY=1', '/run/n RELOADING=1', '/run/n STOPPING=1', '/run/n WATCHDOG=1']);
	t.is(notify.watchdogMs, 15_000);
});

test('passes no secrets to the child process', async t => {
	const {binary, calls} = recorder();
	const env = {NOTIFY_SOCKET: '/run/n', PATH: process.env.PATH, MAILCTL_SECRET_KEY: 'hunter2'};
	writeFileSync(binary, readFileSync(binary, 'utf8').replace('$NOTIFY_SOCKET $*', '$(env)'));
	await new Notify({env, warn: t.fail, binary}).ready();
	t.true(calls().includes('NOTIFY_SOCKET=/run/n'));
	t.notRegex(calls().join('\n'), /hunter2/);
});

test('runs nothing without systemd', async t => {
	const {binary, calls} = recorder();
	const notify = new Notify({env: {WATCHDOG_USEC: '30000000'}, warn: t.fail, binary});
	await notify.ready();
	t.deepEqual(calls(), []);
	t.is(notify.watchdogMs, null);
});

for (const binary of ['/nonexistent/systemd-notify', recorder(1).binary]) {
	test(`warns once if the binary fails: ${binary.startsWith('/nonexistent') ? 'missing' : 'exit 1'}`, async t => {
		const warnings: string[] = [];
		const notify = new Notify({env: {NOTIFY_SOCKET: '/run/n'}, warn: text => warnings.push(text), binary});
		await notify.ready();
		await notify.stopping();
		t.is(warnings.length, 1);
		t.regex(warnings[0] ?? '', /systemd cannot be notified: /);
		t.is(notify.watchdogMs, null);
	});
}
