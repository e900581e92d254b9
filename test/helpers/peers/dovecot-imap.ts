import type {ChildProcess} from 'node:child_process';
import {once} from 'node:events';
import {chown, mkdir, readdir, rename, rm, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import process from 'node:process';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, greets, idOf, instanceFolder, peerLog, startInside, untilUp} from './chroot.ts';
import {writeCertificate} from './receiver.ts';

/** A private Dovecot with the mailbox of one user. */
export type ImapServer = {
	/** With STARTTLS. */
	readonly port: number;
	/** TLS from the first byte. */
	readonly securePort: number;
	readonly user: string;
	readonly password: string;
	/** The certificate for `127.0.0.1`, its own authority: a PEM file. */
	readonly caFile: string;
	/** Puts a mail into the mailbox, as a delivery agent does. */
	readonly deliver: (mail: string | Buffer) => Promise<void>;
	/** The names of the mails' files with their flags, and so whatever a client changed. */
	readonly files: () => Promise<string[]>;
	readonly stop: () => Promise<void>;
	readonly start: () => Promise<void>;
	/** While it is stopped: makes it number all mails anew, with another UIDVALIDITY. */
	readonly renumber: () => Promise<void>;
	readonly log: () => Promise<string>;
};

const user = 'bounces@shop.example';
const password = 'right: / @ % password';

/**
 * Starts a private Dovecot that offers IMAP on free ports of 127.0.0.1 and waits until it greets. It ends with the
 * test. Null where it cannot run.
 */
export async function startImapServer(t: ExecutionContext): Promise<ImapServer | null> {
	const root = await findPeer(t, 'dovecot');
	if (!root) {
		return null;
	}
	const {outside, inside} = await instanceFolder(t, root);
	const [port, securePort] = [await freePort(), await freePort()];
	const log = peerLog(t, 'dovecot', join(outside, 'dovecot.log'));
	const vmail = idOf(root, 'vmail');
	const mail = join(outside, 'mail');
	for (const folder of ['mail', 'mail/cur', 'mail/new', 'mail/tmp', 'home']) {
		await mkdir(join(outside, folder));
		await chown(join(outside, folder), vmail, vmail);
	}
	await writeCertificate(join(outside, 'tls'), '127.0.0.1');
	await writeFile(
		join(outside, 'users'),
		`${user}:{PLAIN.HEX}${Buffer.from(password).toString('hex')}:${vmail}:${vmail}::${inside}/home::\n`,
	);
	await writeFile(join(outside, 'dovecot.conf'), configuration(inside, port, securePort));

	let daemon: ChildProcess;
	async function start(): Promise<void> {
		daemon = startInside(t, root as NonNullable<typeof root>, '/usr/sbin/dovecot', [
			'-F',
			'-c',
			`${inside}/dovecot.conf`,
		]);
		await untilUp('Dovecot', daemon, () => greets(port, '* OK', 'a LOGOUT\r\n'), log);
	}
	await start();

	let delivered = 0;
	return {
		port,
		securePort,
		user,
		password,
		caFile: join(process.cwd(), outside, 'tls/cert.pem'),
		async deliver(bytes) {
			const name = `${Date.now()}.M${delivered++}P${process.pid}.test`;
			await writeFile(join(mail, 'tmp', name), bytes);
			await chown(join(mail, 'tmp', name), vmail, vmail);
			await rename(join(mail, 'tmp', name), join(mail, 'new', name));
		},
		async files() {
			const parts = await Promise.all(['new', 'cur'].map(part => readdir(join(mail, part))));
			return parts.flat().sort();
		},
		async stop() {
			const ended = once(daemon, 'exit');
			daemon.kill('SIGTERM');
			await ended;
		},
		start,
		async renumber() {
			for (const name of await readdir(mail)) {
				if (name.startsWith('dovecot')) {
					await rm(join(mail, name));
				}
			}
		},
		log,
	};
}

function configuration(inside: string, port: number, securePort: number): string {
	return `protocols = imap
hostname = store.mail.example
base_dir = ${inside}/run
state_dir = ${inside}/state
log_path = ${inside}/dovecot.log
default_internal_user = dovecot
default_internal_group = dovecot
default_login_user = dovenull
ssl = yes
ssl_cert = <${inside}/tls/cert.pem
ssl_key = <${inside}/tls/key.pem
first_valid_uid = 900
mail_location = maildir:${inside}/mail
# Else it waits for two seconds and more.
auth_failure_delay = 0
passdb {
  driver = passwd-file
  args = username_format=%u ${inside}/users
}
userdb {
  driver = passwd-file
  args = username_format=%u ${inside}/users
}
service imap-login {
  inet_listener imap {
    address = 127.0.0.1
    port = ${port}
  }
  inet_listener imaps {
    address = 127.0.0.1
    port = ${securePort}
    ssl = yes
  }
}
`;
}
