import {execFileSync} from 'node:child_process';
import {chmodSync, mkdtempSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import test from 'ava';
import {ConfigError} from '../../../src/config/config-error.ts';
import {openDataDir} from '../../../src/store/data-folder/data-dir.ts';

const folder = () => mkdtempSync(join(tmpdir(), 'mailctl-data-'));

test('creates a folder and its files for its owner only', t => {
	const dataDir = join(folder(), 'a', 'b');
	openDataDir({dataDir});
	t.is(statSync(dataDir).mode & 0o777, 0o700);
	writeFileSync(join(dataDir, 'mailctl.db-wal'), '');
	t.is(statSync(join(dataDir, 'mailctl.db-wal')).mode & 0o777, 0o600);
	t.notThrows(() => openDataDir({dataDir}));
});

for (const name of [
	'mailctl.db',
	'mailctl.db-wal',
	'mailctl.db-shm',
	'secrets.json',
	'daemon.lock',
	'first-keys.txt',
]) {
	test(`refuses ${name} if others can read it`, t => {
		const dataDir = folder();
		const file = join(dataDir, name);
		writeFileSync(file, '');
		chmodSync(file, 0o644);
		const error = t.throws(() => openDataDir({dataDir}), {instanceOf: ConfigError, message: /: run chmod 600 /});
		t.is(error?.exitCode, 78);
		chmodSync(file, 0o600);
		t.notThrows(() => openDataDir({dataDir}));
	});
}

for (const mode of [0o770, 0o722, 0o777, 0o1777, 0o2770]) {
	test(`refuses a folder that others can write to (${mode.toString(8)}) and suggests the chmod`, t => {
		const dataDir = folder();
		chmodSync(dataDir, mode);
		const error = t.throws(() => openDataDir({dataDir}), {instanceOf: ConfigError});
		t.is(error?.exitCode, 78);
		const [, ...command] = /: run (chmod) (\S+) (\S+)$/.exec(error?.message ?? '') ?? [];
		t.is(command[2], dataDir, error?.message);
		execFileSync(command[0] as string, command.slice(1));
		t.notThrows(() => openDataDir({dataDir}));
	});
}

for (const mode of [0o700, 0o750, 0o755, 0o2750]) {
	test(`opens a folder that only its owner can write to (${mode.toString(8)})`, t => {
		const dataDir = folder();
		chmodSync(dataDir, mode);
		t.notThrows(() => openDataDir({dataDir}));
	});
}

test('refuses a folder that cannot be created', t => {
	const file = join(folder(), 'file');
	writeFileSync(file, '');
	for (const dataDir of [file, join(file, 'below')]) {
		const error = t.throws(() => openDataDir({dataDir}), {
			instanceOf: ConfigError,
			message: /set MAILCTL_DATA_DIR/,
		});
		t.is(error?.exitCode, 78);
	}
});

test('refuses a folder of another user unless forced', t => {
	const dataDir = folder();
	const uid = (process.getuid?.() ?? 0) + 1;
	const error = t.throws(() => openDataDir({dataDir, uid}), {
		instanceOf: ConfigError,
		message: /belongs to user .*, or run chown -R \d+ /,
	});
	t.is(error?.exitCode, 78);
	t.notThrows(() => openDataDir({dataDir, uid, asRoot: true}));
});
