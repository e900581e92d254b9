import {type ChildProcess, execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {closeSync, existsSync, openSync} from 'node:fs';
import {chmod, mkdtemp, readFile, rm} from 'node:fs/promises';
import {connect} from 'node:net';
import {basename, join, relative} from 'node:path';
import process from 'node:process';
import {setTimeout as delay} from 'node:timers/promises';
import {promisify} from 'node:util';
import type {ExecutionContext} from 'ava';
import {notRunHere} from '../not-run-here.ts';
import {waitFor} from '../wait.ts';

/** A foreign mail server, unpacked by `scripts/debian-peers.sh`, and the accounts in its folder. */
export type PeerRoot = {
	readonly folder: string;
	readonly ids: ReadonlyMap<string, number>;
};

/**
 * The folder of an unpacked peer, or null where it cannot run. The reason is then logged as `not run here: …`; where
 * CI is set the test fails, because there it must run.
 */
export async function findPeer(t: ExecutionContext, name: string): Promise<PeerRoot | null> {
	const folder = join('.peers', name);
	if (process.getuid?.() !== 0) {
		return notRunHere(t, 'only root may run a mail server in a chroot');
	}

	if (!existsSync(join(folder, '.unpacked'))) {
		return notRunHere(t, `${folder} is missing, scripts/debian-peers.sh ${name} fetches it`);
	}

	const accounts = (await readFile(join(folder, 'etc/passwd'), 'utf8')).trim().split('\n');
	return {folder, ids: new Map(accounts.map(line => [line.split(':')[0] ?? '', Number(line.split(':')[2])]))};
}

/** The number of an account of the peer; NaN, which no call takes, where it has none. */
export function idOf(root: PeerRoot, account: string): number {
	return root.ids.get(account) ?? Number.NaN;
}

/** A folder in the chroot for one instance, removed after the test: its path from here, and from inside. */
export async function instanceFolder(t: ExecutionContext, root: PeerRoot): Promise<{outside: string; inside: string}> {
	const outside = relative(process.cwd(), await mkdtemp(join(root.folder, 'tmp/test-')));
	t.teardown(() => rm(outside, {recursive: true, force: true, maxRetries: 10}));
	await chmod(outside, 0o755);
	return {outside, inside: `/tmp/${basename(outside)}`};
}

/**
 * The peer's folder once more, as hard links, removed after the test: for servers whose files have fixed places. What
 * is in it already must be replaced, not written to.
 */
export async function privateRoot(t: ExecutionContext, root: PeerRoot): Promise<PeerRoot> {
	const parent = relative(process.cwd(), await mkdtemp(`${root.folder}-test-`));
	t.teardown(() => rm(parent, {recursive: true, force: true, maxRetries: 10}));
	const folder = join(parent, 'root');
	await promisify(execFile)('cp', ['-al', root.folder, folder]);
	return {...root, folder};
}

/** Runs one command of the peer's folder to its end. */
export async function runInside(root: PeerRoot, command: string, args: readonly string[]): Promise<string> {
	const {stdout} = await promisify(execFile)('chroot', [root.folder, command, ...args], {timeout: 120_000});
	return stdout;
}

/**
 * Starts a daemon of the peer's folder in the foreground, as the leader of a process group. After the test, also a
 * failed one, it gets SIGTERM and, with all that it started, SIGKILL. What it prints goes into the log file, if given.
 */
export function startInside(
	t: ExecutionContext,
	root: PeerRoot,
	command: string,
	args: readonly string[],
	logFile?: string,
): ChildProcess {
	const output = logFile === undefined ? 'ignore' : openSync(logFile, 'a');
	const child = spawn('chroot', [root.folder, command, ...args], {
		detached: true,
		env: {PATH: '/usr/sbin:/usr/bin:/sbin:/bin', TZ: 'UTC'},
		stdio: ['ignore', output, output],
	});
	if (typeof output === 'number') {
		closeSync(output);
	}

	const ended = once(child, 'exit');
	t.teardown(async () => {
		child.kill('SIGTERM');
		await Promise.race([ended, delay(10_000, undefined, {ref: false})]);
		signalGroup(child.pid, 'SIGKILL');
		await ended;
	});
	return child;
}

function signalGroup(leader: number | undefined, signal: NodeJS.Signals): void {
	try {
		process.kill(-(leader ?? Number.NaN), signal);
	} catch (error) {
		// ESRCH: nothing is left of the group.
		if ((error as NodeJS.ErrnoException).code !== 'ESRCH') {
			throw error;
		}
	}
}

/** Waits until a server answers as it should; throws with its log when it ends before. */
export async function untilUp(
	what: string,
	child: ChildProcess,
	isUp: () => Promise<boolean>,
	log: () => Promise<string>,
): Promise<void> {
	await waitFor(`${what} is up`, () => child.exitCode !== null || isUp());
	if (child.exitCode !== null) {
		throw new Error(`${what} did not start:\n${await log()}`);
	}
}

/** Waits until an SMTP or LMTP server greets; throws with its log when it ends before. */
export async function untilGreets(
	what: string,
	child: ChildProcess,
	port: number,
	log: () => Promise<string>,
): Promise<void> {
	await untilUp(what, child, () => greets(port, '220', 'QUIT\r\n'), log);
}

const shownLog = 2000;

/** Reads a peer's log; a failed test shows its end. */
export function peerLog(t: ExecutionContext, what: string, file: string): () => Promise<string> {
	const log = () => readFile(file, 'utf8').catch(() => '');
	t.teardown(async () => {
		if (!t.passed) {
			t.log(`${what}:\n${(await log()).slice(-shownLog)}`);
		}
	});
	return log;
}

/** Whether a server on this port of 127.0.0.1 greets with these words; it is then taken leave of. */
export async function greets(port: number, words: string, leave: string): Promise<boolean> {
	const socket = connect({port, host: '127.0.0.1', timeout: 20_000});
	socket.once('timeout', () => socket.destroy(new Error('no greeting')));
	try {
		const [greeting] = (await once(socket, 'data')) as [Buffer];
		const closed = once(socket, 'close');
		socket.resume().end(leave);
		await closed;
		return greeting.toString('latin1').startsWith(words);
	} catch {
		return false;
	} finally {
		socket.destroy();
	}
}
