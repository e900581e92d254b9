import {chown, copyFile, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, peerLog, privateRoot, startInside, untilGreets} from './chroot.ts';
import {type Receiver, type ReceiverOptions, storedIn, writeCertificate} from './receiver.ts';

/**
 * Starts a private OpenSMTPD on a free port of 127.0.0.1 and waits until it greets: a server without PIPELINING and
 * SMTPUTF8. It ends with the test. Null where it cannot run.
 */
export async function startOpenSmtpd(t: ExecutionContext, options: ReceiverOptions): Promise<Receiver | null> {
	const shared = await findPeer(t, 'opensmtpd');
	if (!shared) {
		return null;
	}

	// Queue and control socket have fixed places.
	const root = await privateRoot(t, shared);
	const port = await freePort();
	const inside = (path: string) => join(root.folder, path);
	const log = peerLog(t, options.hostname, inside('srv/smtpd.log'));
	const vmail = root.ids.get('vmail') ?? Number.NaN;
	await mkdir(inside('srv/mail'), {recursive: true});
	await chown(inside('srv/mail'), vmail, vmail);
	await mkdir(inside('var/run'), {recursive: true});
	await writeCertificate(inside('srv/tls'), options.hostname);
	// It wants authorities, though it never asks for a client's certificate.
	await mkdir(inside('etc/ssl/certs'), {recursive: true});
	await copyFile(inside('srv/tls/cert.pem'), inside('etc/ssl/certs/ca-certificates.crt'));
	await writeFile(inside('srv/users'), options.users.map(user => `${user}@${options.domain} vmail\n`).join(''));
	await writeFile(inside('srv/smtpd.conf'), configuration(options, port));
	const daemon = startInside(t, root, '/usr/sbin/smtpd', ['-d', '-f', '/srv/smtpd.conf'], inside('srv/smtpd.log'));
	await untilGreets(options.hostname, daemon, port, log);
	return {hostname: options.hostname, port, log, ...storedIn(inside('srv/mail'))};
}

function configuration({hostname, domain, largest}: ReceiverOptions, port: number): string {
	return `pki own cert "/srv/tls/cert.pem"
pki own key "/srv/tls/key.pem"
table users file:/srv/users
smtp max-message-size ${largest ?? 50_000_000}
listen on 127.0.0.1 port ${port} tls pki own hostname "${hostname}"
action "store" maildir "/srv/mail" virtual <users>
match from any for domain "${domain}" action "store"
`;
}
