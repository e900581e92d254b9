import {chown, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {idOf} from './chroot.ts';
import {type Receiver, type ReceiverOptions, storedIn} from './receiver.ts';
import {runOpenSmtpd} from './run-opensmtpd.ts';

/**
 * Starts a private OpenSMTPD on a free port of 127.0.0.1 and waits until it greets: a server without PIPELINING and
 * SMTPUTF8. It ends with the test. Null where it cannot run.
 */
export async function startOpenSmtpd(t: ExecutionContext, options: ReceiverOptions): Promise<Receiver | null> {
	const {hostname, domain, users} = options;
	const smtpd = await runOpenSmtpd(t, {
		hostname,
		configuration: port => configuration(options, port),
		async prepare(root) {
			const [mail, vmail] = [join(root.folder, 'srv/mail'), idOf(root, 'vmail')];
			await mkdir(mail);
			await chown(mail, vmail, vmail);
			await writeFile(join(root.folder, 'srv/users'), users.map(user => `${user}@${domain} vmail\n`).join(''));
		},
	});
	return smtpd && {hostname, port: smtpd.port, log: smtpd.log, ...storedIn(smtpd.outside('srv/mail'))};
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
