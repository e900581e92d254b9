import {readFileSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {readFileWithOwner} from '../../kit/regular-file.ts';
import {isId} from '../../mail/ids.ts';

/**
 * The content of `daemon.json` in the data folder. With it the CLI and scripts find the running daemon, even if it
 * listens on port 0.
 */
export type DaemonFile = {
	readonly pid: number;
	/** `http://127.0.0.1:8125`, or `null` if this daemon does not serve HTTP. */
	readonly http: string | null;
	/** The URL of `/metrics` and `/docs`, `http://127.0.0.1:8126`, or `null` if they are not served. */
	readonly admin: string | null;
	/** `0.0.0.0:443`, or `null` if this daemon does not serve HTTPS itself. */
	readonly https: string | null;
	/** `0.0.0.0:80`, or `null` if it does not redirect to HTTPS. */
	readonly redirect: string | null;
	/** `0.0.0.0:25`, or `null` without a listener. */
	readonly inbound: string | null;
	/** `127.0.0.1:2525`, several separated by commas, or `null` without submission. */
	readonly submission: string | null;
	readonly version: string;
	/** Its roles (MAILCTL_ROLES). */
	readonly roles: readonly string[];
};

const fileName = 'daemon.json';
const maxBytes = 16 * 1024;

/** Replaces the file atomically: a reader sees the old one or the new one. */
export function writeDaemonFile(dataDir: string, content: DaemonFile): void {
	const draft = join(dataDir, `${fileName}.${content.pid}`);
	writeFileSync(draft, `${JSON.stringify(content)}\n`, {mode: 0o600});
	renameSync(draft, join(dataDir, fileName));
}

/** Removes the file if it still belongs to `pid` and not to a later daemon. */
export function removeDaemonFile(dataDir: string, pid: number): void {
	if (readDaemonFile(dataDir)?.pid === pid) {
		rmSync(join(dataDir, fileName), {force: true});
	}
}

/** Returns what the last daemon wrote, whether it is still running or not; `null` without a valid file. */
export function readDaemonFile(dataDir: string): DaemonFile | null {
	let content: unknown;
	try {
		content = JSON.parse(readFileWithOwner(join(dataDir, fileName), maxBytes).content.toString());
	} catch {
		return null;
	}

	const {pid, http, admin, https, redirect, inbound, submission, version, roles} = Object(content) as Record<
		string,
		unknown
	>;
	return Number.isSafeInteger(pid) && (pid as number) > 0 && typeof version === 'string'
		? {
				pid: pid as number,
				http: textOrNull(http),
				admin: textOrNull(admin),
				https: textOrNull(https),
				redirect: textOrNull(redirect),
				inbound: textOrNull(inbound),
				submission: textOrNull(submission),
				version,
				roles: Array.isArray(roles) ? roles.filter(role => typeof role === 'string') : [],
			}
		: null;
}

/**
 * Returns the daemon of this folder if its process exists. After `kill -9` another process may have its number, so a
 * refused connection to `http` still means that no daemon is running.
 */
export function liveDaemon(dataDir: string): DaemonFile | null {
	const file = readDaemonFile(dataDir);
	return file && isAlive(file.pid) ? file : null;
}

/** Whether a process with this number exists on this machine. */
export function isAlive(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		// EPERM means that the process exists and belongs to another user.
		return (error as NodeJS.ErrnoException).code === 'EPERM';
	}
}

function textOrNull(value: unknown): string | null {
	return typeof value === 'string' ? value : null;
}

const bootFileName = 'boot';

/** Returns the boot id of the last daemon on this data folder that claimed messages, or `null` if there is none. */
export function readBoot(dataDir: string): string | null {
	try {
		const boot = readFileSync(join(dataDir, bootFileName), 'utf8').trim();
		return isId('req', boot) ? boot : null;
	} catch {
		// Without the id, the claims of a dead daemon are released after a while, like those of another machine.
		return null;
	}
}

/** Replaces the file atomically: a crash leaves the old one or the new one. */
export function writeBoot(dataDir: string, boot: string): void {
	const draft = join(dataDir, `${bootFileName}.new`);
	writeFileSync(draft, `${boot}\n`, {mode: 0o600});
	renameSync(draft, join(dataDir, bootFileName));
}
