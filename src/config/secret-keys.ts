import {readGuarded} from '../mail/regular-file.ts';
import {ConfigError} from './config-error.ts';
import {keys256} from './parsers.ts';
import type {Settings} from './settings.ts';

/** The keys of MAILCTL_SECRET_KEY or of its file: the first seals, all open. Throws ConfigError for a file without keys. */
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
