import {chown, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, type PeerRoot, peerLog, privateRoot, startInside, untilGreets} from './chroot.ts';
import {type Receiver, type ReceiverOptions, storedIn, writeCertificate} from './receiver.ts';

export type EximOptions = ReceiverOptions & {
	/** Offer PIPELINING and CHUNKING (default). */
	readonly grouping?: boolean;
	/** Offer SMTPUTF8 (default). */
	readonly utf8?: boolean;
};

/**
 * Starts a private Exim on a free port of 127.0.0.1 and waits until it greets. Its recipients are verified as in
 * Exim's own example configuration. It ends with the test. Null where it cannot run.
 */
export async function startExim(t: ExecutionContext, options: EximOptions): Promise<Receiver | null> {
	const shared = await findPeer(t, 'exim4');
	if (!shared) {
		return null;
	}

	// Exim gives its privileges up for a configuration that does not lie in its own place.
	const root = await privateRoot(t, shared);
	const port = await freePort();
	const log = peerLog(t, options.hostname, join(root.folder, 'srv/log/mainlog'));
	await makeFolders(root);
	await writeCertificate(join(root.folder, 'srv/tls'), options.hostname);
	await chown(join(root.folder, 'srv/tls/key.pem'), idOf(root, 'Debian-exim'), 0);
	await writeFile(join(root.folder, 'etc/exim4/exim4.conf'), configuration(options, port), {mode: 0o644});
	const daemon = startInside(t, root, '/usr/sbin/exim4', ['-bdf'], join(root.folder, 'srv/log/output'));
	await untilGreets(options.hostname, daemon, port, log);
	return {hostname: options.hostname, port, log, ...storedIn(join(root.folder, 'srv/mail'))};
}

function idOf(root: PeerRoot, account: string): number {
	return root.ids.get(account) ?? Number.NaN;
}

async function makeFolders(root: PeerRoot): Promise<void> {
	await mkdir(join(root.folder, 'srv'), {recursive: true});
	for (const [folder, account] of [
		['log', 'Debian-exim'],
		['spool', 'Debian-exim'],
		['mail', 'vmail'],
	] as const) {
		const path = join(root.folder, 'srv', folder);
		await mkdir(path);
		await chown(path, idOf(root, account), idOf(root, account));
	}
}

function configuration({hostname, domain, users, largest, grouping = true, utf8 = true}: EximOptions, port: number) {
	const everyone = (wanted: boolean) => (wanted ? '*' : '');
	return `primary_hostname = ${hostname}
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port}
pid_file_path = /srv/spool/exim.pid
spool_directory = /srv/spool
log_file_path = /srv/log/%slog
log_selector = +smtp_protocol_error +tls_cipher +received_recipients
message_size_limit = ${largest ?? '50M'}
# Otherwise the messages after the tenth of a connection wait for a queue run.
smtp_accept_queue_per_connection = 0
smtp_accept_max = 100
host_lookup =
rfc1413_query_timeout = 0s
tls_advertise_hosts = *
tls_certificate = /srv/tls/cert.pem
tls_privatekey = /srv/tls/key.pem
pipelining_advertise_hosts = ${everyone(grouping)}
chunking_advertise_hosts = ${everyone(grouping)}
smtputf8_advertise_hosts = ${everyone(utf8)}
domainlist local_domains = ${domain}
acl_smtp_rcpt = check_rcpt
acl_smtp_data = accept

begin acl
check_rcpt:
  # It could ask no DNS for the keys.
  warn control = dkim_disable_verify
  require message = relay not permitted
          domains = +local_domains
  require verify = recipient
  accept

begin routers
mailbox:
  driver = accept
  domains = +local_domains
  local_parts = ${users.join(' : ')}
  transport = store

begin transports
store:
  driver = appendfile
  maildir_format
  directory = /srv/mail
  user = vmail
  group = vmail
  create_directory
  return_path_add
  envelope_to_add
  delivery_date_add
`;
}
