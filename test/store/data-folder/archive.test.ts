import {existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {gzipSync} from 'node:zlib';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {create} from 'tar';
import {ConfigError} from '../../../src/config/config-error.ts';
import {RefusedFileError} from '../../../src/kit/regular-file.ts';
import {
	makeBackup,
	manifestText,
	parseManifest,
	readArchive,
	readManifest,
} from '../../../src/store/data-folder/backup.ts';
import {temporaryFolder} from '../../helpers/databases.ts';

const secrets = '{"version":1}';
const store = Buffer.from(Array.from({length: 1500}, (_, index) => (index * 7) % 251));
const facts = {version: '1.2.3', engine: 'sqlite', time: '2026-11-23T10:00:00.123Z'} as const;
const noBytes = () => undefined;

async function gather(folder: string): Promise<string> {
	writeFileSync(join(folder, 'secrets.json'), secrets, {mode: 0o600});
	writeFileSync(join(folder, 'mailctl.db'), store, {mode: 0o600});
	return '014_secrets';
}

async function prepare(t: ExecutionContext) {
	const folder = await temporaryFolder(t);
	const file = join(folder, 'backup.tar');
	const made = await makeBackup({file, facts, gather, onBytes: noBytes});
	let folders = 0;
	/** Unpacks these bytes as a backup and returns the folder. */
	async function unpack(bytes: Uint8Array): Promise<string> {
		const into = join(folder, `into${folders++}`);
		mkdirSync(into);
		const name = `${into}.tar`;
		writeFileSync(name, bytes);
		t.deepEqual(await readArchive(name, into, noBytes), await readManifest(name));
		return into;
	}
	return {folder, file, made, bytes: readFileSync(file), unpack};
}

const contentOf = (folder: string) =>
	Object.fromEntries(readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'latin1')]));
const whole = {'mailctl.db': store.toString('latin1'), 'secrets.json': secrets};

test('writes a backup as one private tar with the manifest first, and restores its contents', async t => {
	const {folder, file, made, bytes, unpack} = await prepare(t);
	t.is(statSync(file).mode & 0o777, 0o600);
	t.is(made.bytes, bytes.length);
	t.like(made, {...facts, format: 1, schema: '014_secrets'});
	t.deepEqual(Object.keys(made.files), ['secrets.json', 'mailctl.db']);
	t.is(bytes.toString('latin1', 0, 13), 'manifest.json');
	t.deepEqual(readdirSync(folder), ['backup.tar'], 'nothing else is left beside it');
	const into = await unpack(bytes);
	t.deepEqual(contentOf(into), whole);
	t.is(statSync(join(into, 'secrets.json')).mode & 0o777, 0o600);
	t.deepEqual(contentOf(await unpack(gzipSync(bytes))), whole, 'somebody packed it');
});

test('refuses a damaged backup unless the damage changes none of its contents', async t => {
	const {bytes, made, unpack} = await prepare(t);
	const {bytes: _, ...manifest} = made;
	const at = fc.nat(bytes.length - 1);
	const flips = fc
		.array(fc.record({at, by: fc.integer({min: 1, max: 255})}), {minLength: 1, maxLength: 3})
		.map(all =>
			all.reduce(
				(recipient, {at, by}) => recipient.fill((recipient[at] ?? 0) ^ by, at, at + 1),
				Buffer.from(bytes),
			),
		);
	const shortened = at.map(length => bytes.subarray(0, length));
	const doubled = fc.tuple(at, at).map(([one, other]) => {
		const [from, to] = [Math.min(one, other), Math.max(one, other)];
		return Buffer.concat([bytes.subarray(0, to), bytes.subarray(from)]);
	});
	let refusals = 0;
	await fc.assert(
		fc.asyncProperty(fc.oneof(flips, shortened, doubled), async damaged => {
			try {
				const into = await unpack(damaged);
				t.deepEqual(contentOf(into), whole);
				t.deepEqual(await readManifest(`${into}.tar`), manifest);
			} catch (error) {
				refusals++;
				t.true(error instanceof RefusedFileError || error instanceof ConfigError, String(error));
			}
		}),
		{numRuns: 500},
	);
	t.true(refusals > 100);
});

test('refuses files that are not backups', async t => {
	const {unpack} = await prepare(t);
	const why = /is not a backup of mailctl$/;
	for (const bytes of [Buffer.alloc(0), Buffer.alloc(4096), Buffer.from('SQLite format 3\0'), gzipSync('text')]) {
		await t.throwsAsync(unpack(bytes), {instanceOf: RefusedFileError, message: why});
	}
	await fc.assert(
		fc.asyncProperty(fc.uint8Array({maxLength: 3000}), async bytes => {
			await t.throwsAsync(unpack(bytes), {instanceOf: RefusedFileError, message: why});
		}),
	);
});

test('unpacks only the files of a backup, and no path, link, folder or duplicate', async t => {
	const {folder, unpack} = await prepare(t);
	const source = join(folder, 'source');
	mkdirSync(source);
	await gather(source);
	const {made} = await prepare(t);
	writeFileSync(join(source, 'manifest.json'), manifestText({...made, files: made.files}));
	writeFileSync(join(source, 'evil'), secrets);
	mkdirSync(join(source, 'folder'));
	symlinkSync('/etc/passwd', join(source, 'link'));

	/** Returns a tar of these files under other names. */
	async function renamed(names: Readonly<Record<string, string>>): Promise<Uint8Array> {
		const parts: Buffer[] = [];
		const options = {
			...{cwd: source, portable: true, preservePaths: true, noDirRecurse: true},
			onWriteEntry(entry: {path: string}) {
				entry.path = names[entry.path] ?? entry.path;
			},
		};
		for await (const part of create(options, Object.keys(names))) {
			parts.push(part);
		}
		return Buffer.concat(parts);
	}

	const good = {'manifest.json': 'manifest.json', 'secrets.json': 'secrets.json', 'mailctl.db': 'mailctl.db'};
	t.deepEqual(contentOf(await unpack(await renamed(good))), whole);
	for (const [name, more] of [
		['../evil', {...good, evil: '../evil'}],
		[join(folder, 'evil'), {...good, evil: join(folder, 'evil')}],
		['secrets.json', {...good, evil: 'secrets.json'}],
		['mailctl.db', {'manifest.json': 'manifest.json', 'secrets.json': 'secrets.json', link: 'mailctl.db'}],
		['folder/', {'manifest.json': 'manifest.json', folder: 'folder'}],
	] as const) {
		const error = await t.throwsAsync(unpack(await renamed(more)), {instanceOf: RefusedFileError}, name);
		t.true(
			error?.message.endsWith(`is damaged (it contains ${name}, which does not belong to a backup)`),
			error?.message,
		);
	}
	t.false(existsSync(join(folder, 'evil')));
	const lacking = renamed({'manifest.json': 'manifest.json', 'secrets.json': 'secrets.json'});
	await t.throwsAsync(unpack(await lacking), {message: /is damaged \(mailctl\.db is missing\)$/});
	const noManifest = renamed({'secrets.json': 'secrets.json', 'mailctl.db': 'mailctl.db'});
	await t.throwsAsync(unpack(await noManifest), {message: /is not a backup of mailctl$/});
});

test('reads back a manifest and refuses an incomplete or unknown one', t => {
	const manifest = {...facts, format: 1, schema: 's', files: {'secrets.json': {bytes: 1, sha256: 'x'}}} as const;
	const keys = {...manifest, engine: 'postgres'} as const;
	t.deepEqual(parseManifest(manifestText(keys)), keys);
	t.is(parseManifest(manifestText(manifest)), 'damaged', 'a file is missing');
	t.is(parseManifest(manifestText({...keys, format: 2} as never)), 'newer');
	t.is(parseManifest(manifestText({...keys, engine: 'toString'} as never)), 'damaged');
	fc.assert(
		fc.property(fc.oneof(fc.json(), fc.string()), text => {
			t.is(parseManifest(text), 'foreign');
		}),
	);
});

test('replaces only an older backup, and leaves it in place if writing fails', async t => {
	const {folder, file, bytes} = await prepare(t);
	const fails = async () => await Promise.reject(new Error('disk'));
	await t.throwsAsync(makeBackup({file, facts, gather: fails, onBytes: noBytes}), {message: 'disk'});
	t.true(readFileSync(file).equals(bytes));
	t.deepEqual(readdirSync(folder), ['backup.tar']);
	await makeBackup({file, facts: {...facts, version: '2.0.0'}, gather, onBytes: noBytes});
	t.is((await readManifest(file)).version, '2.0.0');

	const other = join(folder, 'mailctl.db');
	writeFileSync(other, 'kept');
	await t.throwsAsync(makeBackup({file: other, facts, gather, onBytes: noBytes}), {instanceOf: RefusedFileError});
	t.is(readFileSync(other, 'utf8'), 'kept');
	writeFileSync(other, '');
	await makeBackup({file: other, facts, gather, onBytes: noBytes});
	t.is((await readManifest(other)).version, '1.2.3', 'an empty file, as mktemp makes');
});
