import {chown, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, idOf, peerLog, privateRoot, startInside, untilGreets} from './chroot.ts';
import {writeCertificate} from './receiver.ts';

export type EximRun = {
	readonly hostname: string;
	/** Its file, for the port that it gets. It keeps its log in /srv/log and its queue in /srv/spool. */
	readonly configuration: (port: number) => string;
	/** Further options of its command line. */
	readonly args?: readonly string[];
	/** A folder for mail in /srv, of the user `vmail`. */
	readonly mail?: string;
	/** Whether it needs a certificate, in /srv/tls. */
	readonly tls?: boolean;
};

export type RunningExim = {
	/** On 127.0.0.1. */
	readonly port: number;
	readonly log: () => Promise<string>;
	/** The path from here of a path in its root. */
	readonly outside: (path: string) => string;
};

/** Starts a private Exim and waits until it greets. It ends with the test. Null where it cannot run. */
export async function runExim(t: ExecutionContext, run: EximRun): Promise<RunningExim | null> {
	const shared = await findPeer(t, 'exim4');
	if (!shared) {
		return null;
	}

	// Exim gives its privileges up for a configuration that does not lie in its own place.
	const root = await privateRoot(t, shared);
	const outside = (path: string) => join(root.folder, path);
	const port = await freePort();
	const log = peerLog(t, run.hostname, outside('srv/log/mainlog'));
	const exim = idOf(root, 'Debian-exim');
	const folders = [['srv/log', exim] as const, ['srv/spool', exim] as const];
	for (const [folder, owner] of run.mail ? [...folders, [run.mail, idOf(root, 'vmail')] as const] : folders) {
		await mkdir(outside(folder), {recursive: true});
		await chown(outside(folder), owner, owner);
	}
	if (run.tls) {
		await writeCertificate(outside('srv/tls'), run.hostname);
		await chown(outside('srv/tls/key.pem'), exim, 0);
	}
	await writeFile(outside('etc/exim4/exim4.conf'), run.configuration(port), {mode: 0o644});
	const args = ['-bdf', ...(run.args ?? [])];
	const daemon = startInside(t, root, '/usr/sbin/exim4', args, outside('srv/log/output'));
	await untilGreets(run.hostname, daemon, port, log);
	return {port, log, outside};
}
