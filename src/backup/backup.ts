import {createHash} from 'node:crypto';
import {appendFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {type FileHandle, mkdtemp, open, rename, rm} from 'node:fs/promises';
import {hostname} from 'node:os';
import {basename, dirname, join} from 'node:path';
import process from 'node:process';
import {create, Parser, type ReadEntry} from 'tar';
import {ConfigError} from '../config/config-error.ts';
import {syncFolder} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import {isAlive} from '../data-folder/daemon-file.ts';
import {commitRestore, finishRestore, stagingFolder} from '../data-folder/data-dir.ts';
import {openData} from '../data-folder/open.ts';
import {openRegular, RefusedFileError} from '../kit/regular-file.ts';
import {storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import {recipientClaims, releaseOthers} from '../store/held-claims.ts';
import {holdAll} from '../store/queue/open-recipients.ts';
import {type QueueSize, readQueueSize} from '../store/queue/queue-summary.ts';
import type {Store} from '../store/store.ts';

export type BackupInput = {
	/**
	 * Where the backup is put. An older one is replaced once the new one was read again; anything else there is
	 * refused.
	 */
	readonly file: string;
	readonly facts: Pick<Manifest, 'version' | 'engine' | 'time'>;
	/** Puts the files into a folder of the owner's alone, beside the backup; answers the schema. */
	readonly gather: (folder: string) => Promise<string>;
	readonly onBytes: OnBytes;
};

/** Makes a backup; its bytes and what it says of itself. Throws what the system says of files. */
export async function makeBackup({file, facts, gather, onBytes}: BackupInput): Promise<Manifest & {bytes: number}> {
	if ((statSync(file, {throwIfNoEntry: false})?.size ?? 0) > 0) {
		await readManifest(file);
	}
	removeAbandoned(file);
	const folder = await mkdtemp(`${file}.partial-${hostname()}-${process.pid}-`);
	try {
		const schema = await gather(folder);
		const draft = join(folder, 'backup.tar');
		const {version, engine, time} = facts;
		const manifest = await packArchive(draft, folder, {format: 1, version, schema, engine, time}, onBytes);
		await readAgain(draft, onBytes);
		const bytes = statSync(draft).size;
		await rename(draft, file);
		syncFolder(dirname(file));
		return {...manifest, bytes};
	} catch (error) {
		throw withPath(error as NodeJS.ErrnoException, file);
	} finally {
		await rm(folder, {recursive: true, force: true});
	}
}

/** An error of `write` does not say which file, unlike one of `open`. */
function withPath(error: NodeJS.ErrnoException, file: string): NodeJS.ErrnoException {
	if (error.syscall !== undefined && error.path === undefined) {
		error.message += ` '${file}'`;
	}
	return error;
}

/** Removes the folders of backups into this file by processes of this machine that were killed. */
function removeAbandoned(file: string): void {
	const start = `${basename(file)}.partial-${hostname()}-`;
	for (const name of existsSync(dirname(file)) ? readdirSync(dirname(file)) : []) {
		const [, pid] = /^(\d+)-\w{6}$/.exec(name.startsWith(start) ? name.slice(start.length) : '') ?? [];
		if (pid !== undefined && !isAlive(Number(pid))) {
			rmSync(join(dirname(file), name), {recursive: true, force: true});
		}
	}
}

async function readAgain(draft: string, onBytes: OnBytes): Promise<void> {
	try {
		await readArchive(draft, null, onBytes);
	} catch (error) {
		throw error instanceof RefusedFileError ? Object.assign(new Error(error.message), {code: 'EIO'}) : error;
	}
}

export type RestoreInput = {
	readonly file: string;
	readonly settings: Settings;
	readonly acting: Acting;
	/** Holds all mail that waits. */
	readonly hold: boolean;
	readonly onBytes: OnBytes;
};

/**
 * Replaces the store of the data folder by that of a backup; its queue. Needs the folder's lock. Whenever it dies, the
 * folder has the former store or the new one. Throws as `readArchive` and `openData`; then the former one stays.
 */
export async function restoreBackup({file, settings, acting, hold, onBytes}: RestoreInput): Promise<QueueSize> {
	const {dataDir} = settings;
	const staging = stagingFolder(dataDir);
	finishRestore(dataDir);
	rmSync(staging, {recursive: true, force: true});
	mkdirSync(staging, {mode: 0o700});
	try {
		const manifest = await readArchive(file, staging, onBytes);
		// As a daemon does at its start: a newer schema and foreign keys are found out, an older schema is brought up
		// to date.
		const {store, release} = await openData({...settings, dataDir: staging}, {asRoot: true});
		const queue = await prepare(store, manifest, {acting, hold}).finally(release);
		commitRestore(dataDir);
		return queue;
	} finally {
		rmSync(staging, {recursive: true, force: true});
	}
}

async function prepare(
	{writer, reader}: Store,
	{time, version}: Manifest,
	{acting, hold}: Pick<RestoreInput, 'acting' | 'hold'>,
): Promise<QueueSize> {
	const now = storeTime(acting.clock.now());
	await writer.transaction(async trx => {
		// No daemon has them here.
		await releaseOthers(trx, recipientClaims, '', now);
		const act = {at: now, workspaceId: null, target: null};
		await recordAct(trx, acting, {...act, action: 'store.restored', detail: {backup: time, version, hold}});
		for (const {workspaceId, recipients} of hold ? await holdAll(trx, now) : []) {
			const detail = {reason: `restored from a backup of ${time}`, copies: recipients};
			await recordAct(trx, acting, {...act, action: 'queue.held', workspaceId, detail});
		}
	});
	return await readQueueSize(reader, now);
}

/** What a backup says of itself: `manifest.json`, the first file of its tar. */
export type Manifest = {
	/** Of this page's form; a program knows those up to its own. */
	readonly format: 1;
	/** Of the mailctl that made it. */
	readonly version: string;
	/** The last migration of the store. */
	readonly schema: string;
	readonly engine: Engine;
	/** RFC 3339: what was committed before is in it. */
	readonly time: string;
	/** The other files, by name; `sha256` in hex. */
	readonly files: Readonly<Record<string, FileFacts>>;
};

type Engine = 'sqlite' | 'postgres';
export type FileFacts = {readonly bytes: number; readonly sha256: string};

export const manifestName = 'manifest.json';
/** Many times what one has. */
export const maxManifestBytes = 64 * 1024;

/** The files of a backup in addition to the manifest, the small one first. PostgreSQL's own tools copy its database. */
export const filesOf: Readonly<Record<Engine, readonly string[]>> = {
	sqlite: ['secrets.json', 'mailctl.db'],
	postgres: ['secrets.json'],
};

/** With a digest of itself: the digests of the files would not show that the time was damaged. */
export function manifestText(manifest: Manifest): string {
	return `${JSON.stringify({...manifest, digest: digestOf(manifest)}, undefined, '\t')}\n`;
}

/** A manifest that was read; a word for what is wrong with it. */
export function parseManifest(text: string): Manifest | 'foreign' | 'newer' | 'damaged' {
	let content: unknown;
	try {
		content = JSON.parse(text);
	} catch {
		return 'foreign';
	}
	const {digest, ...manifest} = Object(content) as Partial<Manifest> & {digest?: unknown};
	if (typeof manifest.format !== 'number' || typeof digest !== 'string') {
		return 'foreign';
	}
	if (manifest.format > 1) {
		return 'newer';
	}
	return digest === digestOf(manifest) && isWhole(manifest) ? manifest : 'damaged';
}

function isWhole(manifest: Partial<Manifest>): manifest is Manifest {
	const {version, schema, engine, time, files} = manifest;
	const names = engine !== undefined && Object.hasOwn(filesOf, engine) ? filesOf[engine] : [];
	const known: Partial<Record<string, FileFacts>> = Object(files);
	return (
		[version, schema, time].every(text => typeof text === 'string') &&
		names.length > 0 &&
		names.length === Object.keys(known).length &&
		names.every(name => Number.isSafeInteger(known[name]?.bytes) && typeof known[name]?.sha256 === 'string')
	);
}

function digestOf(manifest: Partial<Manifest>): string {
	return createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
}

/** Receives the number of bytes read or written. */
export type OnBytes = (bytes: number) => void;

const bytesAtOnce = 1024 ** 2;
/** What is written may wait for the disk up to this, octets: commits of a daemon beside wait for the disk behind it. */
const bytesUnsynced = 32 * 1024 ** 2;

/**
 * Makes a tar of the files in a folder, the manifest first. They are read once: the manifest has its digests when all
 * is packed. It is on stable storage when this returns.
 */
export async function packArchive(
	archive: string,
	folder: string,
	facts: Omit<Manifest, 'files'>,
	onBytes: OnBytes,
): Promise<Manifest> {
	const names = filesOf[facts.engine];
	const manifestOf = (digestOfFile: (name: string) => string): Manifest => ({
		...facts,
		files: Object.fromEntries(
			names.map(name => [name, {bytes: statSync(join(folder, name)).size, sha256: digestOfFile(name)}]),
		),
	});
	const draft = manifestText(manifestOf(() => '0'.repeat(64)));
	writeFileSync(join(folder, manifestName), draft, {mode: 0o600});
	const handle = await open(archive, 'wx+', 0o600);
	try {
		const digests = new EntryDigests();
		let unsynced = 0;
		const options = {cwd: folder, portable: true, strict: true, follow: true, mtime: new Date(facts.time)};
		for await (const chunk of create(options, [manifestName, ...names])) {
			await handle.appendFile(chunk);
			digests.add(chunk);
			onBytes(chunk.length);
			unsynced += chunk.length;
			if (unsynced >= bytesUnsynced) {
				await handle.datasync();
				unsynced = 0;
			}
		}
		const manifest = manifestOf(name => digests.of(name));
		// A file that changed meanwhile is found when the backup is read again.
		await replaceManifest(handle, draft, manifestText(manifest));
		await handle.sync();
		return manifest;
	} finally {
		await handle.close();
	}
}

/** The digests of the files in a tar that is being made. */
class EntryDigests {
	readonly #digests = new Map<string, string>();
	readonly #parser = new Parser({strict: true});

	constructor() {
		this.#parser.on('entry', (entry: ReadEntry) => {
			const hash = createHash('sha256');
			entry.on('data', chunk => void hash.update(chunk));
			entry.on('end', () => void this.#digests.set(entry.path, hash.digest('hex')));
		});
	}

	add(chunk: Buffer): void {
		this.#parser.write(chunk);
	}

	of(name: string): string {
		return this.#digests.get(name) ?? '';
	}
}

/** Writes the manifest over its draft, which is as long, at the beginning of a tar. */
async function replaceManifest(handle: FileHandle, draft: string, text: string): Promise<void> {
	const {buffer} = await handle.read(Buffer.alloc(maxManifestBytes), 0, maxManifestBytes, 0);
	const at = buffer.indexOf(draft);
	if (at === -1 || Buffer.byteLength(text) !== Buffer.byteLength(draft)) {
		throw new Error('The manifest of the backup has changed its size.');
	}
	await handle.write(text, at);
}

/** What a backup says of itself. Throws as `readArchive`. */
export async function readManifest(archive: string): Promise<Manifest> {
	const reading = createReading(archive, null);
	for await (const chunk of chunksOf(archive)) {
		reading.write(chunk);
		if (reading.manifest) {
			return reading.manifest;
		}
	}
	return reading.end();
}

/**
 * Reads a backup to its end and compares it with its manifest; `into`: a folder of ours that its files are written to.
 * It takes the files that a backup has, under the names that they have there, and nothing else. Throws RefusedFileError
 * for what is no backup or a damaged one, ConfigError for one of a newer form, and what the system says of files.
 */
export async function readArchive(archive: string, into: string | null, onBytes: OnBytes): Promise<Manifest> {
	const reading = createReading(archive, into);
	for await (const chunk of chunksOf(archive)) {
		reading.write(chunk);
		onBytes(chunk.length);
	}
	return reading.end();
}

async function* chunksOf(archive: string): AsyncGenerator<Buffer> {
	const {file} = await openRegular(archive, 'follow');
	yield* file.createReadStream({highWaterMark: bytesAtOnce}) as AsyncIterable<Buffer>;
}

function createReading(archive: string, into: string | null) {
	let manifest: Manifest | undefined;
	let missing = new Map<string, FileFacts>();

	function refuse(why: string): never {
		throw new RefusedFileError(archive, manifest ? `is damaged (${why})` : 'is no backup of mailctl');
	}

	function takeManifest(entry: ReadEntry): void {
		if (entry.path !== manifestName || entry.type !== 'File' || entry.size > maxManifestBytes) {
			refuse('');
		}
		const chunks: Buffer[] = [];
		entry.on('data', chunk => void chunks.push(chunk));
		entry.on('end', () => {
			manifest = known(archive, Buffer.concat(chunks).toString());
			missing = new Map(Object.entries(manifest.files));
		});
	}

	function takeFile(entry: ReadEntry): void {
		const {path: name, type, size} = entry;
		const facts = missing.get(name);
		if (type !== 'File' || facts === undefined) {
			refuse(`it has ${name}, which does not belong there`);
		}
		if (size !== facts.bytes) {
			refuse(`${name} has ${size} bytes, not ${facts.bytes}`);
		}
		const hash = createHash('sha256');
		entry.on('data', chunk => {
			hash.update(chunk);
			if (into !== null) {
				appendFileSync(join(into, name), chunk, {mode: 0o600});
			}
		});
		entry.on('end', () => {
			if (hash.digest('hex') !== facts.sha256) {
				refuse(`${name} has changed`);
			}
			missing.delete(name);
		});
	}

	const parser = new Parser({strict: true});
	const take = (entry: ReadEntry) => (manifest ? takeFile : takeManifest)(entry);
	parser.on('entry', take);
	// Of an unknown kind.
	parser.on('ignoredEntry', take);

	/** The parser calls the above before it returns: what they throw comes out of it, as its own faults do. */
	function parse(step: () => void): void {
		try {
			step();
		} catch (error) {
			if (error instanceof Error && 'tarCode' in error) {
				refuse(error.message);
			}
			throw error;
		}
	}

	return {
		get manifest() {
			return manifest;
		},
		write: (chunk: Buffer) => parse(() => void parser.write(chunk)),
		end(): Manifest {
			parse(() => void parser.end());
			const [lost] = missing.keys();
			if (lost !== undefined) {
				refuse(`${lost} is missing`);
			}
			return manifest ?? refuse('');
		},
	};
}

function known(archive: string, text: string): Manifest {
	const parsed = parseManifest(text);
	switch (parsed) {
		case 'newer':
			throw new ConfigError([`${archive} was created by a newer version: restore it with that version`]);
		case 'damaged':
			throw new RefusedFileError(archive, `is damaged (${manifestName} has changed)`);
		case 'foreign':
			throw new RefusedFileError(archive, 'is no backup of mailctl');
		default:
			return parsed;
	}
}
