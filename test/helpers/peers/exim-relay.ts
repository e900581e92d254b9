import {chown, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, peerLog, privateRoot, startInside, untilGreets} from './chroot.ts';
import {giveUpAfter, type Relaying, type RelayOptions, warnAfter} from './relay.ts';

/** A private Exim that relays one domain. Null where it cannot run. */
export async function startEximRelay(t: ExecutionContext, options: RelayOptions): Promise<Relaying | null> {
	const shared = await findPeer(t, 'exim4');
	if (!shared) {
		return null;
	}

	// Exim gives its privileges up for a configuration that does not lie in its own place.
	const root = await privateRoot(t, shared);
	const port = await freePort();
	const log = peerLog(t, options.hostname, join(root.folder, 'srv/log/mainlog'));
	const exim = root.ids.get('Debian-exim') ?? Number.NaN;
	for (const folder of ['srv/log', 'srv/spool']) {
		await mkdir(join(root.folder, folder), {recursive: true});
		await chown(join(root.folder, folder), exim, exim);
	}
	await writeFile(join(root.folder, 'etc/exim4/exim4.conf'), configuration(options, port), {mode: 0o644});
	const daemon = startInside(t, root, '/usr/sbin/exim4', ['-bdf', '-q1s'], join(root.folder, 'srv/log/output'));
	await untilGreets(options.hostname, daemon, port, log);
	return {port, log};
}

function configuration(options: RelayOptions, port: number): string {
	const {hostname, domain, lastPort, returnPathDomain, inboundPort, dsn} = options;
	return `primary_hostname = ${hostname}
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port}
pid_file_path = /srv/spool/exim.pid
spool_directory = /srv/spool
log_file_path = /srv/log/%slog
smtp_accept_queue_per_connection = 0
queue_run_max = 5
host_lookup =
rfc1413_query_timeout = 0s
tls_advertise_hosts =
dsn_advertise_hosts = ${dsn ? '*' : ''}
delay_warning = ${warnAfter}s
acl_smtp_rcpt = check_rcpt
acl_smtp_data = accept

begin acl
check_rcpt:
  # It could ask no DNS for the keys.
  warn control = dkim_disable_verify
  require message = relay not permitted
          domains = ${domain}
  accept

begin routers
last:
  driver = manualroute
  domains = ${domain}
  route_list = * 127.0.0.1
  self = send
  transport = last

home:
  driver = manualroute
  domains = ${returnPathDomain}
  route_list = * 127.0.0.1
  self = send
  transport = home

begin transports
last:
  driver = smtp
  port = ${lastPort}
  allow_localhost

home:
  driver = smtp
  port = ${inboundPort}
  allow_localhost

begin retry
* * F,${giveUpAfter}s,1s
`;
}
