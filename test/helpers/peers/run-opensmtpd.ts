import {copyFile, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, type PeerRoot, peerLog, privateRoot, startInside, untilGreets} from './chroot.ts';
import {writeCertificate} from './receiver.ts';

export type OpenSmtpdRun = {
	readonly hostname: string;
	/** Its file, for the port that it gets. A certificate is in /srv/tls. */
	readonly configuration: (port: number) => string;
	/** Makes what else it needs in its root, before it starts. */
	readonly prepare?: (root: PeerRoot) => Promise<void>;
};

export type RunningOpenSmtpd = {
	/** On 127.0.0.1. */
	readonly port: number;
	readonly log: () => Promise<string>;
	/** The path from here of a path in its root. */
	readonly outside: (path: string) => string;
};

/** Starts a private OpenSMTPD and waits until it greets. It ends with the test. Null where it cannot run. */
export async function runOpenSmtpd(t: ExecutionContext, run: OpenSmtpdRun): Promise<RunningOpenSmtpd | null> {
	const shared = await findPeer(t, 'opensmtpd');
	if (!shared) {
		return null;
	}

	// Queue and control socket have fixed places.
	const root = await privateRoot(t, shared);
	const port = await freePort();
	const outside = (path: string) => join(root.folder, path);
	const log = peerLog(t, run.hostname, outside('srv/smtpd.log'));
	await mkdir(outside('srv'), {recursive: true});
	await mkdir(outside('var/run'), {recursive: true});
	await writeCertificate(outside('srv/tls'), run.hostname);
	// It wants authorities, though it asks nobody for a certificate.
	await mkdir(outside('etc/ssl/certs'), {recursive: true});
	await copyFile(outside('srv/tls/cert.pem'), outside('etc/ssl/certs/ca-certificates.crt'));
	await run.prepare?.(root);
	await writeFile(outside('srv/smtpd.conf'), run.configuration(port));
	const daemon = startInside(t, root, '/usr/sbin/smtpd', ['-d', '-f', '/srv/smtpd.conf'], outside('srv/smtpd.log'));
	await untilGreets(run.hostname, daemon, port, log);
	return {port, log, outside};
}
