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

test('the first start makes secrets.json for its owner alone, the second reads the same', t => {
	const dataDir = folder();
	const first = loadSecrets({dataDir, expected: false});
	t.is(first.current, 1);
	t.is(first.keys[1]?.length, 32);
	t.is(statSync(join(dataDir, 'secrets.json')).mode & 0o777, 0o600);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
	t.deepEqual(loadSecrets({dataDir, expected: false}), first);
	t.notDeepEqual(loadSecrets({dataDir: folder(), expected: false}), first);
});

test('of two that make the file at once, both get what one wrote', t => {
	const dataDir = folder();
	const inner: unknown[] = [];
	const outer = loadSecrets({
		dataDir,
		expected: false,
		// The other process comes between this one's look and its write.
		random(size) {
			inner.push(loadSecrets({dataDir, expected: false, now: () => 1}));
			return Buffer.alloc(size, 9);
		},
	});
	t.deepEqual([outer], inner as [typeof outer]);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
});

test('a file that others can read is refused with the way to fix it', t => {
	const dataDir = folder();
	loadSecrets({dataDir, expected: false});
	chmodSync(join(dataDir, 'secrets.json'), 0o640);
	const error = t.throws(() => loadSecrets({dataDir, expected: false}), {instanceOf: ConfigError});
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
	test(`a damaged file is refused and kept: ${index} ${text.slice(0, 40)}`, t => {
		const dataDir = folder();
		const file = join(dataDir, 'secrets.json');
		writeFileSync(file, text, {mode: 0o600});
		t.throws(() => loadSecrets({dataDir, expected: false}), {
			instanceOf: ConfigError,
			message: /is damaged: restore it/,
		});
		t.is(readFileSync(file, 'utf8'), text);
	});
}

test('what is no regular file is refused at once, also behind a link', t => {
	const [fifo, link] = [folder(), folder()];
	execFileSync('mkfifo', ['-m', '600', join(fifo, 'secrets.json')]);
	symlinkSync(join(fifo, 'secrets.json'), join(link, 'secrets.json'));
	for (const dataDir of [fifo, link]) {
		t.throws(() => loadSecrets({dataDir, expected: true}), {instanceOf: ConfigError, message: /is damaged/});
	}
});

test('every key of the file is read, the current one is used', t => {
	const dataDir = folder();
	const keys = {1: key.toString('base64'), 255: Buffer.alloc(32, 6).toString('base64')};
	writeFileSync(join(dataDir, 'secrets.json'), JSON.stringify({version: 1, current: 255, keys}), {mode: 0o600});
	t.deepEqual(loadSecrets({dataDir, expected: false}), {
		current: 255,
		keys: {1: new Uint8Array(key), 255: new Uint8Array(32).fill(6)},
	});
});

test('a file that was lost is not made again', t => {
	const dataDir = folder();
	const error = t.throws(() => loadSecrets({dataDir, expected: true}), {instanceOf: ConfigError});
	t.regex(error?.message ?? '', /secrets\.json is missing, .*: restore it from a backup$/);
	t.is(error?.exitCode, 78);
	t.deepEqual(readdirSync(dataDir), []);
});

test('a new key comes first, beside the former ones, and is not readable by others', t => {
	const dataDir = folder();
	const first = loadSecrets({dataDir, expected: false});
	const second = addSecret(dataDir, []);
	t.is(second.current, 2);
	t.deepEqual(second.keys[1], first.keys[1]);
	t.deepEqual(loadSecrets({dataDir, expected: true}), second);
	t.is(addSecret(dataDir, [2, 7]).current, 8);
	t.deepEqual(readdirSync(dataDir), ['secrets.json']);
	t.is(statSync(join(dataDir, 'secrets.json')).mode & 0o777, 0o600);
});

test('an id that is in use is not given again', t => {
	t.is(freeId([]), 1);
	t.is(freeId([3]), 4);
	t.is(freeId([1, 2, 4, 255]), 3);
	t.is(freeId(Array.from({length: 255}, (_, index) => index + 1)), null);
});

test('something else than a file is refused', t => {
	const dataDir = folder();
	mkdirSync(join(dataDir, 'secrets.json'), {mode: 0o700});
	t.throws(() => loadSecrets({dataDir, expected: false}), {instanceOf: ConfigError, message: /is damaged/});
});

const texts = fc.oneof(
	fc.string(),
	fc.json(),
	fc
		.record({version: fc.constantFrom(1, 2), current: fc.anything(), keys: fc.anything()})
		.map(content => JSON.stringify(content)),
);

test('whatever the file holds is read as keys or refused', t => {
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

test('keys come from the setting or its file, the first is first', t => {
	t.deepEqual(readSecretKeys({secretKey: [two, one], secretKeyFile: null}), [two, one]);
	const secretKeyFile = join(mkdtempSync(join(tmpdir(), 'mailctl-secrets-')), 'key');
	writeFileSync(secretKeyFile, `${text(one)}, ${text(two)}\n`, {mode: 0o640});
	t.deepEqual(readSecretKeys({secretKey: null, secretKeyFile}), [one, two]);
});

test('a file that everybody can read, or without keys, is refused and not shown', t => {
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

test('what is no file of keys is refused at once: a FIFO, a device, a folder, nothing', t => {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-secrets-'));
	const fifo = join(folder, 'fifo');
	execFileSync('mkfifo', ['-m', '600', fifo]);
	for (const secretKeyFile of [fifo, '/dev/zero', folder, join(folder, 'none')]) {
		const read = () => readSecretKeys({secretKey: null, secretKeyFile});
		t.throws(read, {instanceOf: ConfigError, message: /^MAILCTL_SECRET_KEY_FILE="[^"]+" cannot be read: /});
	}
});

test('a list of keys is read whole or refused; no key counts twice', t => {
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
