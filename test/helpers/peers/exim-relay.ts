import type {ExecutionContext} from 'ava';
import {giveUpAfter, type Relaying, type RelayOptions, warnAfter} from './relay.ts';
import {runExim} from './run-exim.ts';

/** A private Exim that relays one domain. Null where it cannot run. */
export async function startEximRelay(t: ExecutionContext, options: RelayOptions): Promise<Relaying | null> {
	const {hostname} = options;
	return await runExim(t, {hostname, configuration: port => configuration(options, port), args: ['-q1s']});
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
# By default Exim says nothing of delays to a sender whose mail is Auto-Submitted.
delay_warning_condition = yes
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
