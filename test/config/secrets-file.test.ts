import {execFileSync} from 'node:child_process';
import {
	chmodSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	statSync,
	symlinkSync,
	writeFileSync,
} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import {ConfigError} from '../../src/config/config-error.ts';
import {keys256} from '../../src/config/parsers.ts';
import {addSecret, freeId, loadSecrets, parseSecrets, readSecretKeys} from '../../src/config/secrets-file.ts';

const folder = () => mkdtempSync(join(tmpdir(), 'mailctl-secrets-'));
const key = Buffer.alloc(32, 5);

test('creates secrets.json for its owner only on the first start, and reads it on the second', t => {
	const dataDir = folder();
	const first = loadSecrets({dataDir, isExpected: false});
	t.is(first.current, 1);
	t.is(first.keys[1]?.length, 32);
	t.is(statSync(join(dataDir, 'secrets.json')).mode & 0o777, 0o600);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
	t.deepEqual(loadSecrets({dataDir, isExpected: false}), first);
	t.notDeepEqual(loadSecrets({dataDir: folder(), isExpected: false}), first);
});

test('two processes that create the file at once both get the same keys', t => {
	const dataDir = folder();
	const inner: unknown[] = [];
	const outer = loadSecrets({
		dataDir,
		isExpected: false,
		// The other process writes between this one's check and its write.
		random(size) {
			inner.push(loadSecrets({dataDir, isExpected: false, now: () => 1}));
			return Buffer.alloc(size, 9);
		},
	});
	t.deepEqual([outer], inner as [typeof outer]);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
});

test('refuses a file that others can read and says how to fix it', t => {
	const dataDir = folder();
	loadSecrets({dataDir, isExpected: false});
	chmodSync(join(dataDir, 'secrets.json'), 0o640);
	const error = t.throws(() => loadSecrets({dataDir, isExpected: false}), {instanceOf: ConfigError});
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
	`{"version":1,"current":1,"keys":{"1":"${key.toString('base64')}","2":"${key.toString('base64')}"}}`,
	`{"version":1,"current":1,"keys":{"1":"${key.toString('base64')}"}}${' '.repeat(65_536)}`,
];
for (const [index, text] of damaged.entries()) {
	test(`refuses a damaged file and leaves it in place: ${index} ${text.slice(0, 40)}`, t => {
		const dataDir = folder();
		const file = join(dataDir, 'secrets.json');
		writeFileSync(file, text, {mode: 0o600});
		t.throws(() => loadSecrets({dataDir, isExpected: false}), {
			instanceOf: ConfigError,
			message: /is damaged: restore it/,
		});
		t.is(readFileSync(file, 'utf8'), text);
	});
}

test('refuses anything but a regular file at once, even behind a symlink', t => {
	const [fifo, link] = [folder(), folder()];
	execFileSync('mkfifo', ['-m', '600', join(fifo, 'secrets.json')]);
	symlinkSync(join(fifo, 'secrets.json'), join(link, 'secrets.json'));
	for (const dataDir of [fifo, link]) {
		t.throws(() => loadSecrets({dataDir, isExpected: true}), {instanceOf: ConfigError, message: /is damaged/});
	}
});

test('reads every key of the file and uses the current one', t => {
	const dataDir = folder();
	const keys = {1: key.toString('base64'), 255: Buffer.alloc(32, 6).toString('base64')};
	writeFileSync(join(dataDir, 'secrets.json'), JSON.stringify({version: 1, current: 255, keys}), {mode: 0o600});
	t.deepEqual(loadSecrets({dataDir, isExpected: false}), {
		current: 255,
		keys: {1: new Uint8Array(key), 255: new Uint8Array(32).fill(6)},
	});
});

test('does not recreate a lost file', t => {
	const dataDir = folder();
	const error = t.throws(() => loadSecrets({dataDir, isExpected: true}), {instanceOf: ConfigError});
	t.regex(error?.message ?? '', /secrets\.json is missing, .*: restore it from a backup$/);
	t.is(error?.exitCode, 78);
	t.deepEqual(readdirSync(dataDir), []);
});

test('a new key becomes the current one, retains the earlier ones and stays private', t => {
	const dataDir = folder();
	const first = loadSecrets({dataDir, isExpected: false});
	const second = addSecret(dataDir, []);
	t.is(second.current, 2);
	t.deepEqual(second.keys[1], first.keys[1]);
	t.deepEqual(loadSecrets({dataDir, isExpected: true}), second);
	t.is(addSecret(dataDir, [2, 7]).current, 8);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
	t.is(statSync(join(dataDir, 'secrets.json')).mode & 0o777, 0o600);
});

test('does not reuse a key ID that is in use', t => {
	t.is(freeId([]), 1);
	t.is(freeId([3]), 4);
	t.is(freeId([1, 2, 4, 255]), 3);
	t.is(freeId(Array.from({length: 255}, (_, index) => index + 1)), null);
});

test('refuses a folder in place of the file', t => {
	const dataDir = folder();
	mkdirSync(join(dataDir, 'secrets.json'), {mode: 0o700});
	t.throws(() => loadSecrets({dataDir, isExpected: false}), {instanceOf: ConfigError, message: /is damaged/});
});

const texts = fc.oneof(
	fc.string(),
	fc.json(),
	fc
		.record({version: fc.constantFrom(1, 2), current: fc.anything(), keys: fc.anything()})
		.map(content => JSON.stringify(content)),
);

test('reads any content as keys or refuses it', t => {
	fc.assert(
		fc.property(texts, text => {
			const read = parseSecrets(text);
			t.true(read === undefined || Object.hasOwn(read.keys, read.current));
		}),
	);
	const ids = fc.uniqueArray(fc.integer({min: 1, max: 255}), {minLength: 1});
	fc.assert(
		fc.property(ids, fc.nat(), (all, nth) => {
			const current = all[nth % all.length] as number;
			const keys = Object.fromEntries(all.map(id => [id, Buffer.alloc(32, id).toString('base64')]));
			t.is(parseSecrets(JSON.stringify({version: 1, current, keys}))?.current, current);
		}),
	);
});

const [one, two] = [new Uint8Array(32).fill(5), new Uint8Array(32).fill(6)];
const text = (...keys: readonly Uint8Array[]) => keys.map(key => Buffer.from(key).toString('base64')).join(',');

test('reads keys from the setting or its file, in order', t => {
	t.deepEqual(readSecretKeys({secretKey: [two, one], secretKeyFile: null}), [two, one]);
	const secretKeyFile = join(mkdtempSync(join(tmpdir(), 'mailctl-secrets-')), 'key');
	writeFileSync(secretKeyFile, `${text(one)}, ${text(two)}\n`, {mode: 0o640});
	t.deepEqual(readSecretKeys({secretKey: null, secretKeyFile}), [one, two]);
});

test('refuses a key file without keys or readable by everyone, without revealing its content', t => {
	const secretKeyFile = join(mkdtempSync(join(tmpdir(), 'mailctl-secrets-')), 'key');
	const read = () => readSecretKeys({secretKey: null, secretKeyFile});
	writeFileSync(secretKeyFile, text(one));
	chmodSync(secretKeyFile, 0o644);
	t.throws(read, {instanceOf: ConfigError, message: /by everyone/});
	chmodSync(secretKeyFile, 0o600);
	for (const content of ['hunter2', '', `${text(one)},hunter2`, `${text(one)},${text(one)}`]) {
		writeFileSync(secretKeyFile, content);
		const error = t.throws(read, {instanceOf: ConfigError, message: /does not contain a key/});
		t.notRegex(error?.message ?? '', /hunter2/);
	}
});

test('refuses a FIFO, a device, a folder and a missing file as the key file at once', t => {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-secrets-'));
	const fifo = join(folder, 'fifo');
	execFileSync('mkfifo', ['-m', '600', fifo]);
	for (const secretKeyFile of [fifo, '/dev/zero', folder, join(folder, 'none')]) {
		const read = () => readSecretKeys({secretKey: null, secretKeyFile});
		t.throws(read, {instanceOf: ConfigError, message: /^MAILCTL_SECRET_KEY_FILE="[^"]+" cannot be read: /});
	}
});

test('reads a list of keys completely or refuses it, and refuses duplicates', t => {
	const key = fc.uint8Array({minLength: 32, maxLength: 32});
	fc.assert(
		fc.property(fc.uniqueArray(key, {minLength: 1, selector: each => text(each)}), keys => {
			t.deepEqual(keys256(text(...keys), ''), {ok: true, value: keys.map(each => new Uint8Array(each))});
			t.false(keys256(text(...keys, keys[0] as Uint8Array), '').ok);
		}),
	);
	fc.assert(
		fc.property(fc.string(), other => {
			const read = keys256(other, '');
			t.true(!read.ok || read.value.every(each => each.length === 32));
		}),
	);
});
