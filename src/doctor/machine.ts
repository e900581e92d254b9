import {existsSync, readFileSync, statSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import type {DaemonFile} from '../data-folder/daemon-file.ts';
import {firstKeysFile, freeBytes} from '../data-folder/data-dir.ts';
import type {Clock} from '../kit/clock.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

const oldestNode = [20, 19] as const;
const megabyte = 1024 * 1024;
/** A warning below this multiple of MAILCTL_MIN_FREE_DISK. */
const scarce = 4;
/** Connections in addition to the SMTP sessions: HTTP clients, webhooks, store, DNS. */
const otherFiles = 512;

/** Whether this Node is one that mailctl supports. */
export function nodeCheck(version = process.versions.node): Check {
	return {
		name: 'node',
		why: 'mailctl is tested on Node 20.19 and later; older ones lack what it uses.',
		async look() {
			const [major = 0, minor = 0] = version.split('.').map(Number);
			const old = major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1]);
			return [old ? fail(`Node ${version}`, 'install Node 20.19 or later') : ok(`Node ${version}`)];
		},
	};
}

/** Room for the store, as the daemon judges it. */
export function diskCheck(dataDir: string, least: number): Check {
	return {
		name: 'disk',
		why: 'Below MAILCTL_MIN_FREE_DISK no mail is accepted: sends are answered 503, and the listener says 452.',
		async look() {
			let folder = dataDir;
			while (!existsSync(folder) && dirname(folder) !== folder) {
				folder = dirname(folder);
			}
			const free = await freeBytes(folder);
			const megabytes = Math.floor(free / megabyte).toLocaleString('en');
			const detail = `${megabytes} MB are free at ${folder}`;
			const fix = 'free some space, shorten MAILCTL_RETENTION_DAYS or move MAILCTL_DATA_DIR';
			return [free < least ? fail(detail, fix) : free < least * scarce ? warn(detail, fix) : ok(detail)];
		},
	};
}

/** How many files, sockets among them, the process may open. */
export function openFilesCheck(maxSessions: number, limits = '/proc/self/limits'): Check {
	return {
		name: 'open-files',
		why: 'Each SMTP session and each HTTP client is an open file; at the limit connections fail.',
		async look(): Promise<Found[]> {
			const needed = maxSessions + otherFiles;
			const text = existsSync(limits) ? readFileSync(limits, 'utf8') : '';
			const [, soft] = /^Max open files\s+(\d+|unlimited)/m.exec(text) ?? [];
			if (soft === undefined) {
				return [ok('this system does not tell the limit')];
			}
			const detail = `at most ${soft} open files, ${needed} may be needed`;
			const enough = soft === 'unlimited' || Number(soft) >= needed;
			return [enough ? ok(detail) : warn(detail, `raise it: ulimit -n ${needed}, LimitNOFILE=${needed} under systemd`)];
		},
	};
}

const dayMs = 24 * 3_600_000;

/** Whether the keys of the first start still lie in their file when everybody has had time to copy them. */
export function firstKeysCheck(dataDir: string, clock: Clock): Check {
	return {
		name: 'first-keys',
		why: 'Anyone who reads the file or a backup of the folder can send as the first workspace.',
		async look() {
			const file = join(dataDir, firstKeysFile);
			const isOld = existsSync(file) && clock.now() - statSync(file).mtimeMs > dayMs;
			return isOld ? [warn(`${file} is older than a day`, 'copy the keys to a safe place and remove the file')] : [];
		},
	};
}

const answerMs = 5000;

/** Whether the daemon of this folder, if one runs, is ready. */
export function daemonCheck(daemon: DaemonFile | null, version: string): Check {
	return {
		name: 'daemon',
		why: 'Mail is taken and sent only while the daemon runs and its store can be written.',
		async look() {
			if (daemon === null) {
				return [ok('none runs on this data folder; mailctl serve starts one')];
			}
			const who = `process ${daemon.pid}, version ${daemon.version}`;
			if (daemon.version !== version) {
				return [fail(`${who}, and this is ${version}`, 'restart the daemon')];
			}
			if (daemon.http === null) {
				return [ok(`${who}, without HTTP`)];
			}
			const status = await fetch(`${daemon.http}/readyz`, {signal: AbortSignal.timeout(answerMs)}).then(
				answer => answer.status,
				() => null,
			);
			return [
				status === 200
					? ok(`${who}, ready at ${daemon.http}`)
					: fail(`${who} is not ready (${status ?? 'no answer'} from ${daemon.http}/readyz)`, 'read its log'),
			];
		},
	};
}
