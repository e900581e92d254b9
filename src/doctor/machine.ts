import {createSocket} from 'node:dgram';
import {existsSync, readFileSync, statSync} from 'node:fs';
import {isIP, isIPv6} from 'node:net';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {ConfigError} from '../config/config-error.ts';
import type {Settings} from '../config/settings.ts';
import {type Clock, noticeableSkewMs} from '../kit/clock.ts';
import {dayMs} from '../kit/time.ts';
import type {Resolver} from '../net/dns.ts';
import type {DaemonFile} from '../store/data-folder/daemon-file.ts';
import {firstKeysFile, freeBytes, openDataDir} from '../store/data-folder/data-dir.ts';
import {schemaState, tooOldHint} from '../store/engine/migrate.ts';
import {type WriteAheadLog, walSizeLimit} from '../store/engine/sqlite.ts';
import {openStore, type Store} from '../store/store.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';

const minNode = [20, 19] as const;
const megabyte = 1024 * 1024;
/** Free space below this multiple of MAILCTL_MIN_FREE_DISK is a warning. */
const warningFactor = 4;
/** Connections in addition to the SMTP sessions: HTTP clients, webhooks, store, DNS. */
const otherFiles = 512;

/** Checks that mailctl supports this version of Node. */
export function nodeCheck(version = process.versions.node): Check {
	return {
		name: 'node',
		why: 'mailctl is tested on Node 20.19 and later; older versions lack features that it uses.',
		async run() {
			const [major = 0, minor = 0] = version.split('.').map(Number);
			const isTooOld = major < minNode[0] || (major === minNode[0] && minor < minNode[1]);
			return [isTooOld ? fail(`Node ${version}`, 'install Node 20.19 or later') : ok(`Node ${version}`)];
		},
	};
}

/** Checks the free space for the store by the rule that the daemon applies. */
export function diskCheck(dataDir: string, readMinFree: () => number): Check {
	return {
		name: 'disk',
		why: 'Below MAILCTL_MIN_FREE_DISK no mail is accepted: sends get 503, and the listener replies 452.',
		async run() {
			let folder = dataDir;
			while (!existsSync(folder) && dirname(folder) !== folder) {
				folder = dirname(folder);
			}
			const free = await freeBytes(folder);
			const min = readMinFree();
			const megabytes = Math.floor(free / megabyte).toLocaleString('en');
			const detail = `${megabytes} MB are free at ${folder}`;
			const fix = 'free some space, shorten MAILCTL_RETENTION_DAYS or move MAILCTL_DATA_DIR';
			return [free < min ? fail(detail, fix) : free < min * warningFactor ? warn(detail, fix) : ok(detail)];
		},
	};
}

/** The daemon itself has about 50 files open; below this limit, few remain for clients and sessions. */
export const minOpenFiles = 128;

/** Returns how many files, including sockets, this process may open, or `null` if the system does not report it. */
export function readOpenFileLimit(limits = '/proc/self/limits'): number | null {
	const text = existsSync(limits) ? readFileSync(limits, 'utf8') : '';
	const [, soft] = /^Max open files\s+(\d+|unlimited)/m.exec(text) ?? [];
	return soft === undefined ? null : soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
}

export const neededOpenFiles = (maxSessions: number): number => maxSessions + otherFiles;

/** Returns the advice for raising the limit of open files. */
export const openFilesFix = (needed: number): string =>
	`raise it: ulimit -n ${needed}, LimitNOFILE=${needed} under systemd`;

export function openFilesCheck(maxSessions: number, limits = '/proc/self/limits'): Check {
	return {
		name: 'open-files',
		why: 'Each SMTP session and each HTTP client is an open file; at the limit connections fail.',
		async run(): Promise<CheckResult[]> {
			const needed = neededOpenFiles(maxSessions);
			const limit = readOpenFileLimit(limits);
			if (limit === null) {
				return [ok('this system does not report the limit')];
			}
			const detail = `limit of open files: ${limit === Number.POSITIVE_INFINITY ? 'none' : limit}; needed: ${needed}`;
			return [limit >= needed ? ok(detail) : warn(detail, openFilesFix(needed))];
		},
	};
}

/** Checks that the file with the keys of the first start is removed within a day. */
export function firstKeysCheck(dataDir: string, clock: Clock): Check {
	return {
		name: 'first-keys',
		why: 'Anyone who reads the file or a backup of the folder can send as the first workspace.',
		async run() {
			const file = join(dataDir, firstKeysFile);
			const isOld = existsSync(file) && clock.now() - statSync(file).mtimeMs > dayMs;
			return isOld
				? [warn(`${file} is older than a day`, 'copy the keys to a safe place and remove the file')]
				: [];
		},
	};
}

const responseLimitMs = 5000;

/** Checks that the daemon of this folder is ready, if one is running. */
export function daemonCheck(daemon: DaemonFile | null, version: string): Check {
	return {
		name: 'daemon',
		why: 'Mail is accepted and sent only while the daemon is running and can write to its store.',
		async run() {
			if (daemon === null) {
				return [ok('no daemon is running on this data folder; mailctl serve starts one')];
			}
			const description = `process ${daemon.pid}, version ${daemon.version}`;
			if (daemon.version !== version) {
				return [fail(`${description}, and this is ${version}`, 'restart the daemon')];
			}
			if (daemon.http === null) {
				return [ok(`${description}, without HTTP`)];
			}
			const status = await fetch(`${daemon.http}/readyz`, {signal: AbortSignal.timeout(responseLimitMs)}).then(
				response => response.status,
				() => null,
			);
			return [
				status === 200
					? ok(`${description}, ready at ${daemon.http}`)
					: fail(
							`${description} is not ready (${status ?? 'no response'} from ${daemon.http}/readyz)`,
							'read its log',
						),
			];
		},
	};
}

const clockFix = 'set the clock and keep it synchronized: install chrony or enable systemd-timesyncd';
const replyLimitMs = 5000;
/** A clock that is off by more than this causes a warning, or a failure. */
const warningMs = 5000;
const failureMs = 60_000;
/** Seconds from 1900, the epoch of NTP, to 1970. */
const epochOffset = 2_208_988_800;

export type TimeServer = {readonly host: string; readonly port: number};

/** Compares the machine's clock with a time server's (SNTP, RFC 5905 §14). */
export function clockCheck({clock, resolver, server}: {clock: Clock; resolver: Resolver; server: TimeServer}): Check {
	return {
		name: 'clock',
		why: 'Signatures, links and API responses carry the time; receivers distrust mail from the future or the past.',
		async run() {
			const skew = await clockSkew(clock, resolver, server);
			if (typeof skew === 'string') {
				return [warn(`unknown: ${skew}`, 'make sure that the clock is synchronized, for example by chrony')];
			}
			const detail = `${(Math.abs(skew) / 1000).toFixed(1)} s ${skew < 0 ? 'behind' : 'ahead of'} ${server.host}`;
			if (Math.abs(skew) > failureMs) {
				return [fail(detail, clockFix)];
			}
			return [Math.abs(skew) > warningMs ? warn(detail, clockFix) : ok(detail)];
		},
	};
}

/** Compares the machine's clock with the database's, which decides when mail is due. */
export function databaseClockCheck({skew}: Pick<Store, 'skew'>): Check {
	return {
		name: 'database-clock',
		why: 'All daemons of one PostgreSQL database use its clock; logs and TLS use the machine’s.',
		async run() {
			const ahead = skew();
			const detail = `the machine is ${(Math.abs(ahead) / 1000).toFixed(1)} s ${ahead < 0 ? 'behind' : 'ahead of'} PostgreSQL`;
			return [Math.abs(ahead) > noticeableSkewMs ? warn(detail, clockFix) : ok(detail)];
		},
	};
}

/** Returns how many milliseconds this machine's clock is ahead, or the reason why that is unknown. */
async function clockSkew(clock: Clock, resolver: Resolver, {host, port}: TimeServer): Promise<number | string> {
	const lookup = isIP(host) === 0 ? await resolver.a(host) : {kind: 'found' as const, records: [host]};
	const [address] = lookup.kind === 'found' ? lookup.records : [];
	if (address === undefined) {
		return `the time server ${host} was not found in DNS`;
	}
	const sentAt = clock.now();
	const reply = await queryTime(address, port);
	if (reply === null) {
		return `the time server ${host} did not respond`;
	}
	const receivedAt = clock.now();
	// Assumes that the server sent its reply midway through our wait, which is exact enough to judge seconds.
	return (sentAt + receivedAt) / 2 - transmitTime(reply);
}

function queryTime(address: string, port: number): Promise<Buffer | null> {
	return new Promise(resolve => {
		const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
		const timer = setTimeout(() => end(null), replyLimitMs);
		const end = (reply: Buffer | null) => {
			clearTimeout(timer);
			socket.close();
			resolve(reply);
		};
		socket.once('error', () => end(null));
		socket.once('message', message => end(message.length >= 48 ? message : null));
		// Version 4, mode 3 (client request); the other fields may be zero.
		socket.connect(port, address, () => socket.send(Buffer.concat([Buffer.from([0x23]), Buffer.alloc(47)])));
	});
}

function transmitTime(packet: Buffer): number {
	const seconds = packet.readUInt32BE(40) - epochOffset;
	return seconds * 1000 + (packet.readUInt32BE(44) / 2 ** 32) * 1000;
}

/** The store, if it exists and has this version's schema. A missing one is not created. */
export type OpenedStore = {readonly store: Store | null; readonly findings: readonly CheckResult[]};

const storeWhy = 'The store holds every accepted message; the daemon does not start if it cannot trust its store.';

export function storeCheck({findings}: OpenedStore): Check {
	return {name: 'store', why: storeWhy, run: async () => [...findings]};
}

/** Checks whether a long read keeps SQLite's write-ahead log from being emptied. */
export function walCheck(wal: WriteAheadLog): Check {
	return {
		name: 'store-log',
		why: 'During a long read the write-ahead log only grows: it fills the disk and slows down reads.',
		async run() {
			const bytes = wal.bytes();
			const detail = `${wal.file} is ${Math.ceil(bytes / megabyte).toLocaleString('en')} MB`;
			const fix = `stop the reading process (listed by fuser -v ${wal.file}); the log is then emptied in seconds`;
			return [
				bytes > walSizeLimit
					? warn(`${detail}: a long read probably keeps it from being emptied`, fix)
					: ok(detail),
			];
		},
	};
}

/** Opens the store in the data folder or in PostgreSQL, without creating or migrating it. */
export async function openForDoctor(settings: Settings): Promise<OpenedStore> {
	const {dataDir, databaseUrl} = settings;
	const file = join(dataDir, 'mailctl.db');
	if (databaseUrl === null) {
		if (!existsSync(dataDir)) {
			return {store: null, findings: [ok(`${dataDir} does not exist yet; the first start creates it`)]};
		}
		try {
			openDataDir({dataDir});
		} catch (error) {
			return {store: null, findings: toResults(error)};
		}
		if (!existsSync(file)) {
			return {store: null, findings: [ok(`${file} does not exist yet; the first start creates it`)]};
		}
	}
	const where = databaseUrl === null ? file : 'the PostgreSQL database of MAILCTL_DATABASE_URL';
	try {
		const store = await openStore(databaseUrl === null ? {file} : {url: databaseUrl}, {isPatient: true});
		return await judgeStore(store, where);
	} catch (error) {
		const fix = databaseUrl === null ? 'restore it from a backup' : 'start it, or fix the URL';
		return {store: null, findings: [fail(`${where} cannot be read: ${(error as Error).message}`, fix)]};
	}
}

async function judgeStore(store: Store, where: string): Promise<OpenedStore> {
	const state = await schemaState(store.database);
	if (state === 'current') {
		return {store, findings: [ok(`${where} is up to date`)]};
	}
	await store.close();
	switch (state) {
		case 'empty':
			return {store: null, findings: [ok(`${where} is empty; the first start creates its tables`)]};
		case 'older':
			return {
				store: null,
				findings: [
					warn(`${where} was created by an older version`, 'restart the daemon, or run mailctl migrate'),
				],
			};
		case 'tooOld':
			return {store: null, findings: [fail(`${where} was created by a version that is too old`, tooOldHint)]};
		case 'newer':
			return {
				store: null,
				findings: [fail(`${where} was created by a newer version`, 'install that version again')],
			};
	}
}

/** Splits each problem of a ConfigError, which has the form `problem: fix`. */
function toResults(error: unknown): CheckResult[] {
	if (!(error instanceof ConfigError)) {
		throw error;
	}
	return error.problems.map(problem => {
		const colon = problem.lastIndexOf(': ');
		return fail(problem.slice(0, colon), problem.slice(colon + 2));
	});
}
