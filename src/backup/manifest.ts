import {createHash} from 'node:crypto';

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
export const mostManifestBytes = 64 * 1024;

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
