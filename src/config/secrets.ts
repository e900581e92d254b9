import {randomBytes} from 'node:crypto';
import {closeSync, fsyncSync, linkSync, openSync, readFileSync, statSync, unlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {ConfigError} from './config-error.ts';
import {key256} from './parsers.ts';
import type {Settings} from './settings.ts';

/** Master keys by id (1 to 255: tokens carry it in a byte); `current` makes, every one of them reads. */
export type Secrets = {readonly current: number; readonly keys: Readonly<Record<number, Uint8Array>>};

export type SecretsInput = {
	readonly dataDir: string;
	readonly settings: Pick<Settings, 'databaseUrl' | 'secretKey' | 'secretKeyFile'>;
	/** The store holds what was sealed with the keys: a file that is missing was lost, and a new one would be no help. */
	readonly sealed: boolean;
	readonly random?: (size: number) => Buffer;
	readonly now?: () => number;
};

const keyLength = 32;

/**
 * SQLite: `secrets.json` in the data folder, made at first. PostgreSQL: MAILCTL_SECRET_KEY or its file.
 * Throws ConfigError for a damaged file, for one that others can read (such a file is never written over), and for one
 * that was lost.
 */
export function loadSecrets({dataDir, settings, sealed, random = randomBytes, now = Date.now}: SecretsInput): Secrets {
	if (settings.databaseUrl !== null) {
		return {current: 1, keys: {1: settings.secretKey ?? readKeyFile(settings.secretKeyFile ?? '')}};
	}

	const file = join(dataDir, 'secrets.json');
	if (!statSync(file, {throwIfNoEntry: false})) {
		if (sealed) {
			throw new ConfigError([
				`${file} is missing, without it the keys in the store cannot be read: restore it from a backup`,
			]);
		}
		createSecretsFile(dataDir, file, random(keyLength), now());
	}

	return readSecretsFile(file);
}

/** The whole file or nothing appears under its name, and of two that make it at once one wins for both. */
function createSecretsFile(folder: string, file: string, key: Buffer, now: number): void {
	const draft = `${file}.${process.pid}.${now}`;
	const content = {version: 1, current: 1, keys: {1: key.toString('base64')}, created: new Date(now).toISOString()};
	const handle = openSync(draft, 'wx', 0o600);
	try {
		writeFileSync(handle, `${JSON.stringify(content, undefined, '\t')}\n`);
		fsyncSync(handle);
	} finally {
		closeSync(handle);
	}

	try {
		linkSync(draft, file);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
			throw error;
		}
	} finally {
		unlinkSync(draft);
	}

	// The name itself must survive a power loss: everything sealed from now on depends on it.
	const folderHandle = openSync(folder, 'r');
	fsyncSync(folderHandle);
	closeSync(folderHandle);
}

function readSecretsFile(file: string): Secrets {
	if ((statSync(file).mode & 0o077) !== 0) {
		throw new ConfigError([`${file} can be read by others: run chmod 600 ${file}`]);
	}

	const secrets = parseSecrets(readFileSync(file, 'utf8'));
	if (!secrets) {
		throw new ConfigError([
			`${file} is damaged: restore it from the last backup, stored secrets cannot be read without it`,
		]);
	}

	return secrets;
}

function parseSecrets(text: string): Secrets | undefined {
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
		if (!bytes?.ok || !/^[1-9]\d{0,2}$/.test(id) || Number(id) > 255) {
			return undefined;
		}

		parsed[Number(id)] = bytes.value;
	}

	return Object.hasOwn(parsed, current) ? {current, keys: parsed} : undefined;
}

// Others may never read it; a group may: that is how systemd credentials and Kubernetes hand keys over.
function readKeyFile(file: string): Uint8Array {
	if ((statSync(file).mode & 0o007) !== 0) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" can be read by everybody: run chmod 640 ${file}`]);
	}

	const key = key256(readFileSync(file, 'utf8').trim(), '');
	if (!key.ok) {
		throw new ConfigError([`MAILCTL_SECRET_KEY_FILE="${file}" does not hold a key: ${key.allowed}`]);
	}

	return key.value;
}
