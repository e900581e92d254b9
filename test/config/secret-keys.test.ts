import {execFileSync} from 'node:child_process';
import {chmodSync, mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import {ConfigError} from '../../src/config/config-error.ts';
import {keys256} from '../../src/config/parsers.ts';
import {secretKeysOf} from '../../src/config/secret-keys.ts';

const [one, two] = [new Uint8Array(32).fill(5), new Uint8Array(32).fill(6)];
const text = (...keys: readonly Uint8Array[]) => keys.map(key => Buffer.from(key).toString('base64')).join(',');

test('keys come from the setting or its file, the first is first', t => {
	t.deepEqual(secretKeysOf({secretKey: [two, one], secretKeyFile: null}), [two, one]);
	const secretKeyFile = join(mkdtempSync(join(tmpdir(), 'mailctl-secrets-')), 'key');
	writeFileSync(secretKeyFile, `${text(one)}, ${text(two)}\n`, {mode: 0o640});
	t.deepEqual(secretKeysOf({secretKey: null, secretKeyFile}), [one, two]);
});

test('a file that everybody can read, or without keys, is refused and not shown', t => {
	const secretKeyFile = join(mkdtempSync(join(tmpdir(), 'mailctl-secrets-')), 'key');
	const read = () => secretKeysOf({secretKey: null, secretKeyFile});
	writeFileSync(secretKeyFile, text(one));
	chmodSync(secretKeyFile, 0o644);
	t.throws(read, {instanceOf: ConfigError, message: /by everybody/});
	chmodSync(secretKeyFile, 0o600);
	for (const content of ['hunter2', '', `${text(one)},hunter2`, `${text(one)},${text(one)}`]) {
		writeFileSync(secretKeyFile, content);
		const error = t.throws(read, {instanceOf: ConfigError, message: /does not hold a key/});
		t.notRegex(error?.message ?? '', /hunter2/);
	}
});

test('what is no file of keys is refused at once: a FIFO, a device, a folder, nothing', t => {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-secrets-'));
	const fifo = join(folder, 'fifo');
	execFileSync('mkfifo', ['-m', '600', fifo]);
	for (const secretKeyFile of [fifo, '/dev/zero', folder, join(folder, 'none')]) {
		const read = () => secretKeysOf({secretKey: null, secretKeyFile});
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
