import {randomBytes} from 'node:crypto';
import {
	chownSync,
	closeSync,
	fsyncSync,
	linkSync,
	openSync,
	renameSync,
	statSync,
	unlinkSync,
	writeFileSync,
} from 'node:fs';
import {join} from 'node:path';
import {RefusedFileError, readGuarded} from '../kit/regular-file.ts';
import {ConfigError} from './config-error.ts';
import {key256, keys256} from './parsers.ts';
import type {Settings} from './settings.ts';

/** Master keys by id (1 to 255: tokens carry it in a byte); `current` makes, every one of them reads. */
type Secrets = {readonly current: number; readonly keys: Readonly<Record<number, Uint8Array>>};

type SecretsFile = {
	readonly dataDir: string;
	/** The store was used with a key: a file that is missing was lost, and a new one would be no help. */
	readonly expected: boolean;
	readonly random?: (size: number) => Buffer;
	readonly now?: () => number;
};

const keyLength = 32;
/** The last id of a key. */
const lastId = 255;
/** More than 255 keys need; a larger file is not ours. */
const maxBytes = 64 * 1024;

export function secretsFile(dataDir: string): string {
	return join(dataDir, 'secrets.json');
}

/**
 * The keys of a store in SQLite: `secrets.json` in the data folder, made at the first start. Throws ConfigError for a
 * damaged file, for one that others can read (such a file is never written over), and for one that was lost.
 */
export function loadSecrets({dataDir, expected, random = randomBytes, now = Date.now}: SecretsFile): Secrets {
	const file = secretsFile(dataDir);
	if (!statSync(file, {throwIfNoEntry: false})) {
		if (expected) {
			throw new ConfigError([
				`${file} is missing, without it the secrets in the store and the links in sent mail cannot be read: restore it from a backup`,
			]);
		}
		createSecretsFile(dataDir, file, random(keyLength), now());
	}

	return readSecretsFile(file);
}

/**
 * Puts a new key first in `secrets.json` and keeps the others. It is on stable storage when this returns: what is
 * sealed with it from now on can be opened. `avoid`: ids that the store gave to other keys.
 */
export function addSecret(
	dataDir: string,
	avoid: readonly number[],
	{random = randomBytes, now = Date.now}: Pick<SecretsFile, 'random' | 'now'> = {},
): Secrets {
	const file = secretsFile(dataDir);
	const {keys} = readSecretsFile(file);
	const id = freeId([...Object.keys(keys).map(Number), ...avoid]);
	if (id === null) {
		throw new ConfigError([`${file} holds ${lastId} keys: remove keys of former years from it`]);
	}
	const next = {current: id, keys: {...keys, [id]: new Uint8Array(random(keyLength))}};
	const draft = writeDraft(file, next, now());
	const {uid, gid} = statSync(file);
	chownSync(draft, uid, gid); // Root may rotate the keys of a daemon that runs as another user.
	renameSync(draft, file);
	syncFolder(dataDir);
	return next;
}

/** The id after the highest one in use; else a free one below it. Null: all are in use. */
export function freeId(used: readonly number[]): number | null {
	const after = Math.max(0, ...used) + 1;
	if (after <= lastId) {
		return after;
	}
	for (let id = 1; id <= lastId; id++) {
		if (!used.includes(id)) {
			return id;
		}
	}
	return null;
}

function createSecretsFile(folder: string, file: string, key: Buffer, now: number): void {
	linkSecrets(folder, file, {current: 1, keys: {1: key}}, now);
}

/** Writes a file that was lost again. One that is there stays. */
export function restoreSecrets(dataDir: string, secrets: Secrets, now = Date.now()): void {
	linkSecrets(dataDir, secretsFile(dataDir), secrets, now);
}

/** The whole file or nothing appears under its name, and of two that make it at once one wins for both. */
function linkSecrets(folder: string, file: string, secrets: Secrets, now: number): void {
	const draft = writeDraft(file, secrets, now);
	try {
		linkSync(draft, file);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
			throw error;
		}
	} finally {
		unlinkSync(draft);
	}

	syncFolder(folder);
}

/** The content of `secrets.json`. */
export function secretsText({current, keys}: Secrets, now: number): string {
	const texts = Object.entries(keys).map(([id, key]) => [id, Buffer.from(key).toString('base64')]);
	const content = {version: 1, current, keys: Object.fromEntries(texts), created: new Date(now).toISOString()};
	return `${JSON.stringify(content, undefined, '\t')}\n`;
}

/** Writes the keys to a file beside `file`, on stable storage; its name. */
function writeDraft(file: string, secrets: Secrets, now: number): string {
	const draft = `${file}.${process.pid}.${now}`;
	const handle = openSync(draft, 'wx', 0o600);
	try {
		writeFileSync(handle, secretsText(secrets, now));
		fsyncSync(handle);
	} catch (error) {
		unlinkSync(draft); // The disk is full: no part of a key stays behind.
		throw error;
	} finally {
		closeSync(handle);
	}
	return draft;
}

/** The names in a folder must survive a power loss, too. */
export function syncFolder(folder: string): void {
	const handle = openSync(folder, 'r');
	fsyncSync(handle);
	closeSync(handle);
}

function readSecretsFile(file: string): Secrets {
	const read = readOrRefuse(file);
	if (read && (read.mode & 0o077) !== 0) {
		throw new ConfigError([`${file} can be read by others: run chmod 600 ${file}`]);
	}

	const secrets = read && parseSecrets(read.content.toString());
	if (!secrets) {
		throw new ConfigError([
			`${file} is damaged: restore it from the last backup, stored secrets cannot be read without it`,
		]);
	}

	return secrets;
}

/** Undefined: no regular file, or longer than ours ever is. */
function readOrRefuse(file: string): ReturnType<typeof readGuarded> | undefined {
	try {
		return readGuarded(file, maxBytes);
	} catch (error) {
		if (error instanceof RefusedFileError) {
			return undefined;
		}
		throw error;
	}
}

/** The content of `secrets.json`; undefined where it is damaged. */
export function parseSecrets(text: string): Secrets | undefined {
	let content: unknown;
	try {
		content = JSON.parse(text);
	} catch {
		return undefined;
	}

	const {version, current, keys} = (content ?? {}) as Record<string, unknown>;
	if (version !== 1 || typeof current !== 'number' || typeof keys !== 'object' || keys === null) {
		return undefined;
	}

	const parsed: Record<number, Uint8Array> = {};
	for (const [id, key] of Object.entries(keys)) {
		const bytes = typeof key === 'string' ? key256(key, '') : undefined;
		if (!bytes?.ok || !/^[1-9]\d{0,2}$/.test(id) || Number(id) > lastId) {
			return undefined;
		}

		parsed[Number(id)] = bytes.value;
	}

	const texts = Object.values(parsed).map(key => Buffer.from(key).toString('base64'));
	const isWhole = Object.hasOwn(parsed, current) && new Set(texts).size === texts.length;
	return isWhole ? {current, keys: parsed} : undefined;
}

/**
 * The keys of MAILCTL_SECRET_KEY or of its file: the first seals, all open. Throws ConfigError for a file without keys.
 */
export function secretKeysOf({
	secretKey,
	secretKeyFile,
}: Pick<Settings, 'secretKey' | 'secretKeyFile'>): readonly Uint8Array[] {
	return secretKey ?? readKeyFile(secretKeyFile ?? '');
}

// Others may never read it; a group may: that is how systemd credentials and Kubernetes hand keys over.
function readKeyFile(file: string): readonly Uint8Array[] {
	const {content, mode} = readOrThrow(file);
	if ((mode & 0o007) !== 0) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" can be read by everybody: run chmod 640 ${file}`]);
	}

	const keys = keys256(content.toString().trim(), '');
	if (!keys.ok) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" does not hold a key: ${keys.allowed}`]);
	}

	return keys.value;
}

function readOrThrow(file: string): ReturnType<typeof readGuarded> {
	try {
		return readGuarded(file);
	} catch (error) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" cannot be read: ${(error as Error).message}`]);
	}
}
