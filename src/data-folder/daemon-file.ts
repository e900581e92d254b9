import {readFileSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {readGuarded} from '../kit/regular-file.ts';
import {isId} from '../mail/ids.ts';

/**
 * `daemon.json` in the data folder: how the CLI and scripts find the running daemon, also when it listens on port 0.
 */
export type DaemonFile = {
	readonly pid: number;
	/** `http://127.0.0.1:8125`, null: this daemon serves no HTTP. */
	readonly http: string | null;
	/** Where `/metrics` and `/docs` are, `http://127.0.0.1:8126`; null: nowhere. */
	readonly admin: string | null;
	/** `0.0.0.0:443`; null: this daemon serves no https by itself. */
	readonly https: string | null;
	/** `0.0.0.0:80`; null: it redirects nothing. */
	readonly redirect: string | null;
	/** `0.0.0.0:25`, null: no listener. */
	readonly inbound: string | null;
	/** `127.0.0.1:2525`, several between commas; null: no submission. */
	readonly submission: string | null;
	readonly version: string;
	/** What it does: MAILCTL_ROLES. */
	readonly roles: readonly string[];
};

const fileName = 'daemon.json';
const maxBytes = 16 * 1024;

/** A reader sees the old file or the new one, never half of it. */
export function writeDaemonFile(dataDir: string, content: DaemonFile): void {
	const draft = join(dataDir, `${fileName}.${content.pid}`);
	writeFileSync(draft, `${JSON.stringify(content)}\n`, {mode: 0o600});
	renameSync(draft, join(dataDir, fileName));
}

/** Removes the file if it is still that of `pid`, not that of a later daemon. */
export function removeDaemonFile(dataDir: string, pid: number): void {
	if (readDaemonFile(dataDir)?.pid === pid) {
		rmSync(join(dataDir, fileName), {force: true});
	}
}

/** What the last daemon wrote, whether it lives or not; null: no file, or none that we wrote. */
export function readDaemonFile(dataDir: string): DaemonFile | null {
	let content: unknown;
	try {
		content = JSON.parse(readGuarded(join(dataDir, fileName), maxBytes).content.toString());
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
 * The daemon of this folder, if its process exists. After `kill -9` another process may have got the number, so a
 * refused connection to `http` still means that no daemon runs.
 */
export function liveDaemon(dataDir: string): DaemonFile | null {
	const file = readDaemonFile(dataDir);
	return file && isAlive(file.pid) ? file : null;
}

/** Whether a process of this machine has the number. */
export function isAlive(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		// EPERM: it exists and belongs to another user.
		return (error as NodeJS.ErrnoException).code === 'EPERM';
	}
}

function textOrNull(value: unknown): string | null {
	return typeof value === 'string' ? value : null;
}

const bootFileName = 'boot';

/** The boot id of the last daemon on this data folder that claimed mail; null: none has, or the file cannot be read. */
export function readBoot(dataDir: string): string | null {
	try {
		const boot = readFileSync(join(dataDir, bootFileName), 'utf8').trim();
		return isId('req', boot) ? boot : null;
	} catch {
		// Without it the claims of a dead daemon end after its silence, as those of another machine's.
		return null;
	}
}

/** Replaces the file as a whole: a crash leaves the old one or the new one. */
export function writeBoot(dataDir: string, boot: string): void {
	const draft = join(dataDir, `${bootFileName}.new`);
	writeFileSync(draft, `${boot}\n`, {mode: 0o600});
	renameSync(draft, join(dataDir, bootFileName));
}
