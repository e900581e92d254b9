import {createHash} from 'node:crypto';
import {appendFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {type FileHandle, mkdtemp, open, rename, rm} from 'node:fs/promises';
import {hostname} from 'node:os';
import {basename, dirname, join} from 'node:path';
import process from 'node:process';
import {create, Parser, type ReadEntry} from 'tar';
import {ConfigError} from '../../config/config-error.ts';
import {syncFolder} from '../../config/secrets-file.ts';
import type {Settings} from '../../config/settings.ts';
import {openRegular, RefusedFileError} from '../../kit/regular-file.ts';
import {storeTime} from '../../kit/time.ts';
import type {Acting} from '../../mail/operator.ts';
import {recordAct} from '../../resources/audit/store.ts';
import {recipientClaims, releaseOthers} from '../held-claims.ts';
import {holdAll} from '../queue/open-recipients.ts';
import {type QueueSize, readQueueSize} from '../queue/queue-summary.ts';
import type {Store} from '../store.ts';
import {isAlive} from './daemon-file.ts';
import {commitRestore, finishRestore, stagingFolder} from './data-dir.ts';
import {openData} from './open.ts';

export type BackupInput = {
	/**
	 * The file to write. An existing backup is replaced once the new one has been verified; any other file is refused.
	 */
	readonly file: string;
	readonly facts: Pick<Manifest, 'version' | 'engine' | 'time'>;
	/** Writes the files into a private folder next to the backup, and returns the schema. */
	readonly gather: (folder: string) => Promise<string>;
	readonly onBytes: OnBytes;
};

/**
 * Creates a backup and returns its manifest and size. This folder packs the store and its keys into a tar with
 * checksums, verifies it, and restores it. It relies on src/store/data-folder for locks and for replacing the store
 * atomically. It never deletes a backup, and never copies a database: `gather` does.
 *
 * Throws the system's errors for files.
 */
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
		await verifyDraft(draft, onBytes);
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

/** Adds the file to an error of `write`, which does not name it, unlike one of `open`. */
function withPath(error: NodeJS.ErrnoException, file: string): NodeJS.ErrnoException {
	if (error.syscall !== undefined && error.path === undefined) {
		error.message += ` '${file}'`;
	}
	return error;
}

/** Removes the temporary folders of backups to this file whose processes on this machine were killed. */
function removeAbandoned(file: string): void {
	const prefix = `${basename(file)}.partial-${hostname()}-`;
	for (const name of existsSync(dirname(file)) ? readdirSync(dirname(file)) : []) {
		const [, pid] = /^(\d+)-\w{6}$/.exec(name.startsWith(prefix) ? name.slice(prefix.length) : '') ?? [];
		if (pid !== undefined && !isAlive(Number(pid))) {
			rmSync(join(dirname(file), name), {recursive: true, force: true});
		}
	}
}

async function verifyDraft(draft: string, onBytes: OnBytes): Promise<void> {
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
	/** Whether to hold all queued messages. */
	readonly hold: boolean;
	readonly onBytes: OnBytes;
};

/**
 * Replaces the store of the data folder with that of a backup and returns the size of its queue. The caller must hold
 * the folder's lock. If the process dies at any point, the folder has the old store or the new one. Throws the errors
 * of `readArchive` and `openData`, which leave the old store in place.
 */
export async function restoreBackup({file, settings, acting, hold, onBytes}: RestoreInput): Promise<QueueSize> {
	const {dataDir} = settings;
	const staging = stagingFolder(dataDir);
	finishRestore(dataDir);
	rmSync(staging, {recursive: true, force: true});
	mkdirSync(staging, {mode: 0o700});
	try {
		const manifest = await readArchive(file, staging, onBytes);
		// Like a daemon at startup, this refuses a newer schema and unknown keys, and migrates an older schema.
		const {store, release} = await openData({...settings, dataDir: staging}, {asRoot: true});
		const queue = await prepareRestored(store, manifest, {acting, hold}).finally(release);
		commitRestore(dataDir);
		return queue;
	} finally {
		rmSync(staging, {recursive: true, force: true});
	}
}

async function prepareRestored(
	{writer, reader}: Store,
	{time, version}: Manifest,
	{acting, hold}: Pick<RestoreInput, 'acting' | 'hold'>,
): Promise<QueueSize> {
	const now = storeTime(acting.clock.now());
	await writer.transaction(async trx => {
		// No daemon of this data folder holds these claims.
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

/** The description of a backup: `manifest.json`, the first file in its tar. */
export type Manifest = {
	/** The version of the format. A program reads all formats up to its own. */
	readonly format: 1;
	/** The version of mailctl that created it. */
	readonly version: string;
	/** The last migration of the store. */
	readonly schema: string;
	readonly engine: Engine;
	/** An RFC 3339 time: the backup contains everything committed before it. */
	readonly time: string;
	/** The other files, by name; `sha256` in hex. */
	readonly files: Readonly<Record<string, FileFacts>>;
};

type Engine = 'sqlite' | 'postgres';
export type FileFacts = {readonly bytes: number; readonly sha256: string};

export const manifestName = 'manifest.json';
/** Much more than a manifest needs. */
export const maxManifestBytes = 64 * 1024;

/**
 * The files of a backup besides the manifest, smallest first. A database in PostgreSQL is copied by its own tools.
 */
export const filesOf: Readonly<Record<Engine, readonly string[]>> = {
	sqlite: ['secrets.json', 'mailctl.db'],
	postgres: ['secrets.json'],
};

/** Returns the text of a manifest, with a digest of its own: the digests of the files do not reveal a damaged time. */
export function manifestText(manifest: Manifest): string {
	return `${JSON.stringify({...manifest, digest: toDigest(manifest)}, undefined, '\t')}\n`;
}

/** Parses a manifest. Returns the kind of problem if it is not valid. */
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
	return digest === toDigest(manifest) && isComplete(manifest) ? manifest : 'damaged';
}

function isComplete(manifest: Partial<Manifest>): manifest is Manifest {
	const {version, schema, engine, time, files} = manifest;
	const names = engine !== undefined && Object.hasOwn(filesOf, engine) ? filesOf[engine] : [];
	const facts: Partial<Record<string, FileFacts>> = Object(files);
	return (
		[version, schema, time].every(text => typeof text === 'string') &&
		names.length > 0 &&
		names.length === Object.keys(facts).length &&
		names.every(name => Number.isSafeInteger(facts[name]?.bytes) && typeof facts[name]?.sha256 === 'string')
	);
}

function toDigest(manifest: Partial<Manifest>): string {
	return createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
}

/** Called with the number of bytes read or written. */
export type OnBytes = (bytes: number) => void;

const bytesAtOnce = 1024 ** 2;
/** The octets that may be written before a sync. A running daemon's commits have to wait for them to reach the disk. */
const bytesUnsynced = 32 * 1024 ** 2;

/**
 * Packs the files of a folder into a tar, the manifest first. Each file is read once, so the digests are filled into
 * the manifest afterwards. The tar is on stable storage when this returns.
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
		// If a file changed in the meantime, verifying the backup fails.
		await replaceManifest(handle, draft, manifestText(manifest));
		await handle.sync();
		return manifest;
	} finally {
		await handle.close();
	}
}

/** Computes the digests of the files in a tar while it is written. */
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

/** Overwrites the draft of the manifest, which has the same length, at the beginning of a tar. */
async function replaceManifest(handle: FileHandle, draft: string, text: string): Promise<void> {
	const {buffer} = await handle.read(Buffer.alloc(maxManifestBytes), 0, maxManifestBytes, 0);
	const offset = buffer.indexOf(draft);
	if (offset === -1 || Buffer.byteLength(text) !== Buffer.byteLength(draft)) {
		throw new Error('The size of the backup manifest has changed.');
	}
	await handle.write(text, offset);
}

/** Returns the manifest of a backup. Throws the errors of `readArchive`. */
export async function readManifest(archive: string): Promise<Manifest> {
	const reading = new BackupReading(archive, null);
	for await (const chunk of readChunks(archive)) {
		reading.write(chunk);
		if (reading.manifest) {
			return reading.manifest;
		}
	}
	return reading.end();
}

/**
 * Reads a backup to its end, verifies it against its manifest, and writes its files to the folder `into`, unless it is
 * `null`. It accepts only the files of a backup under their names. Throws RefusedFileError if the file is not a backup
 * or is damaged, ConfigError for a newer format, and the system's errors for files.
 */
export async function readArchive(archive: string, into: string | null, onBytes: OnBytes): Promise<Manifest> {
	const reading = new BackupReading(archive, into);
	for await (const chunk of readChunks(archive)) {
		reading.write(chunk);
		onBytes(chunk.length);
	}
	return reading.end();
}

async function* readChunks(archive: string): AsyncGenerator<Buffer> {
	const {file} = await openRegular(archive, 'follow');
	yield* file.createReadStream({highWaterMark: bytesAtOnce}) as AsyncIterable<Buffer>;
}

/** Reads a backup piece by piece. */
class BackupReading {
	readonly #archive: string;
	readonly #into: string | null;
	readonly #parser = new Parser({strict: true});
	#manifest: Manifest | undefined;
	#missing = new Map<string, FileFacts>();

	constructor(archive: string, into: string | null) {
		this.#archive = archive;
		this.#into = into;
		const take = (entry: ReadEntry) => (this.#manifest ? this.#takeFile(entry) : this.#takeManifest(entry));
		this.#parser.on('entry', take);
		// An entry of an unknown type.
		this.#parser.on('ignoredEntry', take);
	}

	get manifest(): Manifest | undefined {
		return this.#manifest;
	}

	write(chunk: Buffer): void {
		this.#parse(() => void this.#parser.write(chunk));
	}

	end(): Manifest {
		this.#parse(() => void this.#parser.end());
		const [name] = this.#missing.keys();
		if (name !== undefined) {
			this.#refuse(`${name} is missing`);
		}
		return this.#manifest ?? this.#refuse('');
	}

	#takeManifest(entry: ReadEntry): void {
		if (entry.path !== manifestName || entry.type !== 'File' || entry.size > maxManifestBytes) {
			this.#refuse('');
		}
		const chunks: Buffer[] = [];
		entry.on('data', chunk => void chunks.push(chunk));
		entry.on('end', () => {
			this.#manifest = parseKnownManifest(this.#archive, Buffer.concat(chunks).toString());
			this.#missing = new Map(Object.entries(this.#manifest.files));
		});
	}

	#takeFile(entry: ReadEntry): void {
		const {path: name, type, size} = entry;
		const facts = this.#missing.get(name);
		if (type !== 'File' || facts === undefined) {
			this.#refuse(`it contains ${name}, which does not belong to a backup`);
		}
		if (size !== facts.bytes) {
			this.#refuse(`${name} has ${size} bytes instead of ${facts.bytes}`);
		}
		const hash = createHash('sha256');
		entry.on('data', chunk => {
			hash.update(chunk);
			if (this.#into !== null) {
				appendFileSync(join(this.#into, name), chunk, {mode: 0o600});
			}
		});
		entry.on('end', () => {
			if (hash.digest('hex') !== facts.sha256) {
				this.#refuse(`${name} has changed`);
			}
			this.#missing.delete(name);
		});
	}

	/**
	 * Runs a step of the parser. It calls the methods above synchronously, so that their errors and its own are thrown
	 * here.
	 */
	#parse(step: () => void): void {
		try {
			step();
		} catch (error) {
			if (error instanceof Error && 'tarCode' in error) {
				this.#refuse(error.message);
			}
			throw error;
		}
	}

	#refuse(reason: string): never {
		throw new RefusedFileError(
			this.#archive,
			this.#manifest ? `is damaged (${reason})` : 'is not a backup of mailctl',
		);
	}
}

function parseKnownManifest(archive: string, text: string): Manifest {
	const parsed = parseManifest(text);
	switch (parsed) {
		case 'newer':
			throw new ConfigError([`${archive} was created by a newer version: restore it with that version`]);
		case 'damaged':
			throw new RefusedFileError(archive, `is damaged (${manifestName} has changed)`);
		case 'foreign':
			throw new RefusedFileError(archive, 'is not a backup of mailctl');
		default:
			return parsed;
	}
}
