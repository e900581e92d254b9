import {copyFile, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, peerLog, privateRoot, startInside, untilGreets} from './chroot.ts';
import {writeCertificate} from './receiver.ts';
import {giveUpAfter, type Relaying, type RelayOptions, warnAfter} from './relay.ts';

/** A private OpenSMTPD that relays one domain. Null where it cannot run. */
export async function startOpenSmtpdRelay(t: ExecutionContext, options: RelayOptions): Promise<Relaying | null> {
	const shared = await findPeer(t, 'opensmtpd');
	if (!shared) {
		return null;
	}

	// Queue and control socket have fixed places.
	const root = await privateRoot(t, shared);
	const port = await freePort();
	const inside = (path: string) => join(root.folder, path);
	const log = peerLog(t, options.hostname, inside('srv/smtpd.log'));
	await mkdir(inside('srv'), {recursive: true});
	await mkdir(inside('var/run'), {recursive: true});
	// It wants authorities, though none of its connections uses TLS.
	await writeCertificate(inside('srv/tls'), options.hostname);
	await mkdir(inside('etc/ssl/certs'), {recursive: true});
	await copyFile(inside('srv/tls/cert.pem'), inside('etc/ssl/certs/ca-certificates.crt'));
	await writeFile(inside('srv/smtpd.conf'), configuration(options, port));
	const daemon = startInside(t, root, '/usr/sbin/smtpd', ['-d', '-f', '/srv/smtpd.conf'], inside('srv/smtpd.log'));
	await untilGreets(options.hostname, daemon, port, log);
	return {port, log};
}

function configuration(options: RelayOptions, port: number): string {
	const {hostname, domain, lastPort, returnPathDomain, inboundPort, dsn} = options;
	return `queue ttl ${giveUpAfter}s
bounce warn-interval ${warnAfter}s
listen on 127.0.0.1 port ${port} ${dsn ? '' : 'no-dsn '}hostname "${hostname}"
action "last" relay host smtp://127.0.0.1:${lastPort}
action "home" relay host smtp://127.0.0.1:${inboundPort}
match from any for domain "${domain}" action "last"
match from any for domain "${returnPathDomain}" action "home"
`;
}
