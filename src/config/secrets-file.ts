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
import {RefusedFileError, readFileWithOwner} from '../kit/regular-file.ts';
import {ConfigError} from './config-error.ts';
import {key256, keys256} from './parsers.ts';
import type {Settings} from './settings.ts';

/**
 * Master keys by id (1 to 255, because tokens carry it in a byte). `current` encrypts and signs; all of them decrypt.
 */
type Secrets = {readonly current: number; readonly keys: Readonly<Record<number, Uint8Array>>};

type SecretsFile = {
	readonly dataDir: string;
	/** Whether the store was used with a key: a missing file was then lost, and a new key could not replace it. */
	readonly isExpected: boolean;
	readonly random?: (size: number) => Buffer;
	readonly now?: () => number;
};

const keyLength = 32;
/** The highest id of a key. */
const maxId = 255;
/** More than 255 keys need: a larger file is not a file of keys. */
const maxBytes = 64 * 1024;

export function secretsFile(dataDir: string): string {
	return join(dataDir, 'secrets.json');
}

/**
 * Loads the keys of a store in SQLite from `secrets.json` in the data folder, which is created at the first start.
 * Throws ConfigError if the file is damaged, can be read by others (it is never overwritten), or was lost.
 */
export function loadSecrets({dataDir, isExpected, random = randomBytes, now = Date.now}: SecretsFile): Secrets {
	const file = secretsFile(dataDir);
	if (!statSync(file, {throwIfNoEntry: false})) {
		if (isExpected) {
			throw new ConfigError([
				`${file} is missing, and without it the secrets in the store and the links in sent messages cannot be read: restore it from a backup`,
			]);
		}
		linkSecrets(dataDir, file, {current: 1, keys: {1: random(keyLength)}}, now());
	}
	return readSecretsFile(file);
}

/**
 * Adds a new current key to `secrets.json`. The file is on stable storage when this returns, so that anything
 * encrypted with the key can be decrypted later. `avoid` lists the ids that the store has assigned to other keys.
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
		throw new ConfigError([`${file} holds ${maxId} keys: remove old keys from it`]);
	}
	const next = {current: id, keys: {...keys, [id]: new Uint8Array(random(keyLength))}};
	const draft = writeDraft(file, next, now());
	const {uid, gid} = statSync(file);
	chownSync(draft, uid, gid); // Root may rotate the keys of a daemon that runs as another user.
	renameSync(draft, file);
	syncFolder(dataDir);
	return next;
}

/** Returns the id after the highest one in use, else the lowest free one, or `null` if all are in use. */
export function freeId(used: readonly number[]): number | null {
	const next = Math.max(0, ...used) + 1;
	if (next <= maxId) {
		return next;
	}
	for (let id = 1; id <= maxId; id++) {
		if (!used.includes(id)) {
			return id;
		}
	}
	return null;
}

/** Writes a lost file again. An existing file is left alone. */
export function restoreSecrets(dataDir: string, secrets: Secrets, now = Date.now()): void {
	linkSecrets(dataDir, secretsFile(dataDir), secrets, now);
}

/** Creates the file atomically. If two processes create it at once, both use the one that was created first. */
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

/** Returns the content of `secrets.json`. */
export function secretsText({current, keys}: Secrets, now: number): string {
	const texts = Object.entries(keys).map(([id, key]) => [id, Buffer.from(key).toString('base64')]);
	const content = {version: 1, current, keys: Object.fromEntries(texts), created: new Date(now).toISOString()};
	return `${JSON.stringify(content, undefined, '\t')}\n`;
}

/** Writes the keys to stable storage in a temporary file beside `file` and returns its name. */
function writeDraft(file: string, secrets: Secrets, now: number): string {
	const draft = `${file}.${process.pid}.${now}`;
	const handle = openSync(draft, 'wx', 0o600);
	try {
		writeFileSync(handle, secretsText(secrets, now));
		fsyncSync(handle);
	} catch (error) {
		unlinkSync(draft); // If the disk is full, no part of a key must be left behind.
		throw error;
	} finally {
		closeSync(handle);
	}
	return draft;
}

/** Syncs a folder, so that the names in it survive a power loss. */
export function syncFolder(folder: string): void {
	const handle = openSync(folder, 'r');
	fsyncSync(handle);
	closeSync(handle);
}

function readSecretsFile(file: string): Secrets {
	const opened = readIfRegular(file);
	if (opened && (opened.mode & 0o077) !== 0) {
		throw new ConfigError([`${file} can be read by others: run chmod 600 ${file}`]);
	}
	const secrets = opened && parseSecrets(opened.content.toString());
	if (!secrets) {
		throw new ConfigError([
			`${file} is damaged: restore it from the last backup, because stored secrets cannot be read without it`,
		]);
	}
	return secrets;
}

/** Returns `undefined` if the file is not a regular file or is too long to be a file of keys. */
function readIfRegular(file: string): ReturnType<typeof readFileWithOwner> | undefined {
	try {
		return readFileWithOwner(file, maxBytes);
	} catch (error) {
		if (error instanceof RefusedFileError) {
			return undefined;
		}
		throw error;
	}
}

/** Parses the content of `secrets.json`. Returns `undefined` if it is damaged. */
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
		if (!bytes?.ok || !/^[1-9]\d{0,2}$/.test(id) || Number(id) > maxId) {
			return undefined;
		}
		parsed[Number(id)] = bytes.value;
	}
	const texts = Object.values(parsed).map(key => Buffer.from(key).toString('base64'));
	const isComplete = Object.hasOwn(parsed, current) && new Set(texts).size === texts.length;
	return isComplete ? {current, keys: parsed} : undefined;
}

/**
 * Returns the keys of MAILCTL_SECRET_KEY or of its file: the first encrypts, all of them decrypt. Throws ConfigError if
 * the file has no keys.
 */
export function readSecretKeys({
	secretKey,
	secretKeyFile,
}: Pick<Settings, 'secretKey' | 'secretKeyFile'>): readonly Uint8Array[] {
	return secretKey ?? readKeyFile(secretKeyFile ?? '');
}

// A group may read the file, because systemd credentials and Kubernetes provide keys that way; others may not.
function readKeyFile(file: string): readonly Uint8Array[] {
	const {content, mode} = readOrThrow(file);
	if ((mode & 0o007) !== 0) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" can be read by everyone: run chmod 640 ${file}`]);
	}
	const keys = keys256(content.toString().trim(), '');
	if (!keys.ok) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" does not contain a key: ${keys.allowed}`]);
	}
	return keys.value;
}

function readOrThrow(file: string): ReturnType<typeof readFileWithOwner> {
	try {
		return readFileWithOwner(file);
	} catch (error) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" cannot be read: ${(error as Error).message}`]);
	}
}
