import {chown, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, idOf, instanceFolder, peerLog, startInside, untilGreets} from './chroot.ts';
import {type Receiver, storedIn} from './receiver.ts';

export type DovecotOptions = {
	readonly hostname: string;
	/** Whole addresses. */
	readonly users: readonly string[];
	/** Addresses whose mailbox is full. */
	readonly full?: readonly string[];
};

/**
 * Starts a private Dovecot that takes mail by LMTP on a free port of 127.0.0.1, as the store behind another server, and
 * waits until it greets. It ends with the test. Null where it cannot run.
 */
export async function startDovecot(t: ExecutionContext, options: DovecotOptions): Promise<Receiver | null> {
	const root = await findPeer(t, 'dovecot');
	if (!root) {
		return null;
	}

	const {outside, inside} = await instanceFolder(t, root);
	const port = await freePort();
	const log = peerLog(t, options.hostname, join(outside, 'dovecot.log'));
	const vmail = idOf(root, 'vmail');
	for (const folder of ['mail', 'full', 'full/cur', 'full/new', 'full/tmp', 'home']) {
		await mkdir(join(outside, folder));
		await chown(join(outside, folder), vmail, vmail);
	}

	await writeFile(join(outside, 'full/cur/1.M1P1.old,S=1000,W=1000:2,S'), `Subject: x\n\n${'x'.repeat(987)}\n`);
	await writeFile(join(outside, 'users'), userTable(options, vmail, inside));
	await writeFile(join(outside, 'dovecot.conf'), configuration(options.hostname, inside, port));
	const daemon = startInside(t, root, '/usr/sbin/dovecot', ['-F', '-c', `${inside}/dovecot.conf`]);
	await untilGreets(options.hostname, daemon, port, log);
	return {hostname: options.hostname, port, log, ...storedIn(join(outside, 'mail'))};
}

function userTable({users, full = []}: DovecotOptions, vmail: number, inside: string): string {
	const line = (user: string, maildir: string, quota: string) =>
		`${user}::${vmail}:${vmail}::${inside}/home::userdb_mail=maildir:${inside}/${maildir} userdb_quota_rule=*:bytes=${quota}\n`;
	return [...users.map(user => line(user, 'mail', '10G')), ...full.map(user => line(user, 'full', '1'))].join('');
}

function configuration(hostname: string, inside: string, port: number): string {
	return `protocols = lmtp
hostname = ${hostname}
postmaster_address = postmaster@${hostname}
base_dir = ${inside}/run
state_dir = ${inside}/state
log_path = ${inside}/dovecot.log
default_internal_user = dovecot
default_internal_group = dovecot
default_login_user = dovenull
ssl = no
first_valid_uid = 900
mail_plugins = quota
lmtp_rcpt_check_quota = yes
lmtp_save_to_detail_mailbox = no
recipient_delimiter =
# Empty: an address may hold any character.
auth_username_chars =
passdb {
  driver = passwd-file
  args = username_format=%u ${inside}/users
}
userdb {
  driver = passwd-file
  args = username_format=%u ${inside}/users
}
plugin {
  quota = maildir:User quota
}
service lmtp {
  inet_listener lmtp {
    address = 127.0.0.1
    port = ${port}
  }
}
`;
}
