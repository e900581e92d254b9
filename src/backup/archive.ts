import {createHash} from 'node:crypto';
import {appendFileSync, createReadStream, writeFileSync} from 'node:fs';
import {open} from 'node:fs/promises';
import {join} from 'node:path';
import {create, Parser, type ReadEntry} from 'tar';
import {ConfigError} from '../config/config-error.ts';
import {openRegular, RefusedFileError} from '../kit/regular-file.ts';
import {
	type FileFacts,
	filesOf,
	type Manifest,
	manifestName,
	manifestText,
	mostManifestBytes,
	parseManifest,
} from './manifest.ts';

/** Receives the number of bytes read or written. */
export type OnBytes = (bytes: number) => void;

const bytesAtOnce = 1024 ** 2;

/** Makes a tar of the files in a folder, the manifest first. It is on stable storage when this returns. */
export async function packArchive(
	archive: string,
	folder: string,
	facts: Omit<Manifest, 'files'>,
	onBytes: OnBytes,
): Promise<Manifest> {
	const names = filesOf[facts.engine];
	const measured: Array<[string, FileFacts]> = [];
	for (const name of names) {
		measured.push([name, await measure(join(folder, name), onBytes)]);
	}
	const manifest: Manifest = {...facts, files: Object.fromEntries(measured)};
	writeFileSync(join(folder, manifestName), manifestText(manifest), {mode: 0o600});
	const handle = await open(archive, 'wx', 0o600);
	try {
		const options = {cwd: folder, portable: true, strict: true, mtime: new Date(manifest.time)};
		for await (const chunk of create(options, [manifestName, ...names])) {
			await handle.appendFile(chunk);
			onBytes(chunk.length);
		}
		await handle.sync();
	} finally {
		await handle.close();
	}
	return manifest;
}

async function measure(file: string, onBytes: OnBytes): Promise<FileFacts> {
	const hash = createHash('sha256');
	let bytes = 0;
	for await (const chunk of createReadStream(file, {highWaterMark: bytesAtOnce}) as AsyncIterable<Buffer>) {
		hash.update(chunk);
		bytes += chunk.length;
		onBytes(chunk.length);
	}
	return {bytes, sha256: hash.digest('hex')};
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
 * Reads a backup to its end and compares it with its manifest; `into`: a folder of ours that its files are written to. It takes
 * the files that a backup has, under the names that they have there, and nothing else. Throws RefusedFileError for what is no
 * backup or a damaged one, ConfigError for one of a newer form, and what the system says of files.
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
		if (entry.path !== manifestName || entry.type !== 'File' || entry.size > mostManifestBytes) {
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
			throw new ConfigError([`${archive} was made by a newer mailctl: restore it with that version`]);
		case 'damaged':
			throw new RefusedFileError(archive, `is damaged (${manifestName} has changed)`);
		case 'foreign':
			throw new RefusedFileError(archive, 'is no backup of mailctl');
		default:
			return parsed;
	}
}
