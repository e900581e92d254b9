import {chmodSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import {ConfigError} from '../../src/config/config-error.ts';
import {loadSecrets} from '../../src/config/secrets.ts';

const sqlite = {databaseUrl: null, secretKey: null, secretKeyFile: null};
const postgres = {...sqlite, databaseUrl: 'postgres://db.example/mailctl'};
const folder = () => mkdtempSync(join(tmpdir(), 'mailctl-secrets-'));
const key = Buffer.alloc(32, 5);

test('the first start makes secrets.json for its owner alone, the second reads the same', t => {
	const dataDir = folder();
	const first = loadSecrets({dataDir, settings: sqlite, sealed: false});
	t.is(first.current, 1);
	t.is(first.keys[1]?.length, 32);
	t.is(statSync(join(dataDir, 'secrets.json')).mode & 0o777, 0o600);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
	t.deepEqual(loadSecrets({dataDir, settings: sqlite, sealed: false}), first);
	t.notDeepEqual(loadSecrets({dataDir: folder(), settings: sqlite, sealed: false}), first);
});

test('of two that make the file at once, both get what one wrote', t => {
	const dataDir = folder();
	const inner: unknown[] = [];
	const outer = loadSecrets({
		dataDir,
		settings: sqlite,
		sealed: false,
		// The other process comes between this one's look and its write.
		random(size) {
			inner.push(loadSecrets({dataDir, settings: sqlite, sealed: false, now: () => 1}));
			return Buffer.alloc(size, 9);
		},
	});
	t.deepEqual([outer], inner as [typeof outer]);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
});

test('a file that others can read is refused with the mend', t => {
	const dataDir = folder();
	loadSecrets({dataDir, settings: sqlite, sealed: false});
	chmodSync(join(dataDir, 'secrets.json'), 0o640);
	const error = t.throws(() => loadSecrets({dataDir, settings: sqlite, sealed: false}), {instanceOf: ConfigError});
	t.is(error?.exitCode, 78);
	t.is(error?.message, `${dataDir}/secrets.json can be read by others: run chmod 600 ${dataDir}/secrets.json`);
});

const damaged = [
	'',
	'{',
	'null',
	'[]',
	'{"version":2,"current":1,"keys":{}}',
	'{"version":1,"current":1,"keys":{}}',
	'{"version":1,"current":1,"keys":null}',
	`{"version":1,"current":2,"keys":{"1":"${key.toString('base64')}"}}`,
	`{"version":1,"current":256,"keys":{"256":"${key.toString('base64')}"}}`,
	`{"version":1,"current":1,"keys":{"1":"${key.toString('base64')}","x":"${key.toString('base64')}"}}`,
	'{"version":1,"current":1,"keys":{"1":"c2hvcnQ="}}',
];
for (const text of damaged) {
	test(`a damaged file is refused and kept: ${text.slice(0, 40)}${text.length}`, t => {
		const dataDir = folder();
		const file = join(dataDir, 'secrets.json');
		writeFileSync(file, text, {mode: 0o600});
		t.throws(() => loadSecrets({dataDir, settings: sqlite, sealed: false}), {
			instanceOf: ConfigError,
			message: /is damaged: restore it/,
		});
		t.is(readFileSync(file, 'utf8'), text);
	});
}

test('every key of the file is read, the current one is used', t => {
	const dataDir = folder();
	const keys = {1: key.toString('base64'), 255: Buffer.alloc(32, 6).toString('base64')};
	writeFileSync(join(dataDir, 'secrets.json'), JSON.stringify({version: 1, current: 255, keys}), {mode: 0o600});
	t.deepEqual(loadSecrets({dataDir, settings: sqlite, sealed: false}), {
		current: 255,
		keys: {1: new Uint8Array(key), 255: new Uint8Array(32).fill(6)},
	});
});

test('with PostgreSQL the key comes from the setting or its file, and none is made', t => {
	const dataDir = folder();
	const bytes = new Uint8Array(key);
	t.deepEqual(loadSecrets({dataDir, settings: {...postgres, secretKey: bytes}, sealed: true}), {
		current: 1,
		keys: {1: bytes},
	});
	const secretKeyFile = join(dataDir, 'key');
	writeFileSync(secretKeyFile, `${key.toString('base64')}\n`, {mode: 0o640});
	t.deepEqual(loadSecrets({dataDir, settings: {...postgres, secretKeyFile}, sealed: true}), {
		current: 1,
		keys: {1: bytes},
	});
	t.deepEqual(readdirSync(dataDir), ['key']);
	chmodSync(secretKeyFile, 0o644);
	t.throws(() => loadSecrets({dataDir, settings: {...postgres, secretKeyFile}, sealed: true}), {
		instanceOf: ConfigError,
		message: /by everybody/,
	});
	writeFileSync(secretKeyFile, 'hunter2');
	chmodSync(secretKeyFile, 0o600);
	const error = t.throws(() => loadSecrets({dataDir, settings: {...postgres, secretKeyFile}, sealed: true}), {
		instanceOf: ConfigError,
	});
	t.notRegex(error?.message ?? '', /hunter2/);
});

test('a file that was lost is not made again', t => {
	const dataDir = folder();
	const error = t.throws(() => loadSecrets({dataDir, settings: sqlite, sealed: true}), {instanceOf: ConfigError});
	t.regex(error?.message ?? '', /secrets\.json is missing, .*: restore it from a backup$/);
	t.is(error?.exitCode, 78);
	t.deepEqual(readdirSync(dataDir), []);
});
