import {dnsServer} from '../addresses.ts';
import {retrySchedule, smtpTimeouts} from '../delivery-values.ts';
import {boolean, choice, count, domain, duration, list, path} from '../parsers.ts';
import {optional, optionalList, setting} from '../setting.ts';
import {maskPasswords, relays} from '../urls.ts';

/** How mail goes out: the route, the workers, the tries, TLS. */
export const delivery = {
	hostname: setting(
		'MAILCTL_HOSTNAME',
		// A machine's name may be unknown to DNS; `localhost` then makes direct delivery ask for a better one.
		{from: ({hostname}) => (domain(hostname, '').ok ? hostname : 'localhost'), shown: "the machine's"},
		domain,
		'Name given in EHLO; its address should resolve back to it.',
	),
	delivery: setting(
		'MAILCTL_DELIVERY',
		'capture',
		choice(['capture', 'mx', 'relay']),
		'`capture` writes .eml files and delivers nowhere, `mx` delivers to the recipients’ mail servers, `relay` to a smarthost.',
	),
	relays: optionalList(
		'MAILCTL_RELAY_URL',
		'–',
		relays,
		'`smtp://[user:password@]host[:port][?tls=required|opportunistic|unverified|none]` or `smtps://…`, user and password percent-encoded; several, between commas, are tried in order. Port: 587 with a password, else 25, smtps 465. `tls` is `required` (verified) with a password, else `opportunistic`; a password goes unencrypted only with `tls=none` to loopback.',
		{mask: maskPasswords},
	),
	relayAcceptMeans: setting(
		'MAILCTL_RELAY_ACCEPT_MEANS',
		'sent',
		choice(['sent', 'delivered']),
		'Status of a message that the smarthost took; `delivered` treats its 250 as final.',
	),
	dnsServers: optionalList(
		'MAILCTL_DNS_SERVERS',
		"the system's",
		list(dnsServer),
		'`ip[:port]` list for MX, TLSA, TXT and webhook host look-ups.',
	),
	mxPort: setting(
		'MAILCTL_MX_PORT',
		'25',
		count(1, 65_535),
		'Port of the recipients’ mail servers; another one is for a lab.',
	),
	ipv6: setting(
		'MAILCTL_IPV6',
		'true',
		boolean,
		'Whether mail may leave by IPv6; it does where this machine has a public IPv6 address with a name in DNS.',
	),
	allowPrivateMx: setting(
		'MAILCTL_ALLOW_PRIVATE_MX',
		'false',
		boolean,
		'For a lab: deliver to loopback and private addresses.',
	),
	mtaSts: setting('MAILCTL_MTA_STS', 'true', boolean, 'Obey the recipients’ MTA-STS policies (RFC 8461).'),
	mtaStsPort: setting(
		'MAILCTL_MTA_STS_PORT',
		'443',
		count(1, 65_535),
		'HTTPS port of MTA-STS policies; another one is for a lab.',
	),
	dane: setting(
		'MAILCTL_DANE',
		'false',
		boolean,
		'Obey TLSA records (RFC 7672); needs a validating resolver in MAILCTL_DNS_SERVERS.',
	),
	renderers: setting(
		'MAILCTL_MAKERS',
		{from: ({cpus}) => String(cpus), shown: 'number of cores'},
		count(1, 256),
		'Worker threads that render, compose and sign.',
	),
	senders: setting('MAILCTL_SENDERS', '1', count(1, 64), 'Worker threads that hold SMTP sessions.'),
	maxSessions: setting('MAILCTL_MAX_SESSIONS', '64', count(1, 10_000), 'Outbound SMTP sessions at once, this process.'),
	destinationsFile: optional(
		'MAILCTL_DESTINATIONS_FILE',
		'`config/destinations.json`, as shipped',
		path,
		'JSON file with the pacing per MX suffix or domain, merged over the shipped one (docs/reference/pacing.md); SIGHUP reads it again.',
		{live: true},
	),
	retrySchedule: setting(
		'MAILCTL_RETRY_SCHEDULE',
		'1m,5m,10m,20m,40m,90m,3h,4h*',
		retrySchedule,
		'Waits after the 1st, 2nd … failed try, ±10 %; a `*` at the end repeats the last wait until the queue lifetime, without it the recipient is given up when the list is used up.',
		{live: true},
	),
	queueLifetime: setting(
		'MAILCTL_QUEUE_LIFETIME',
		'4d',
		duration(1),
		'How long after acceptance a copy is still tried; a workspace may have its own.',
		{live: true},
	),
	attemptDeadline: setting(
		'MAILCTL_ATTEMPT_DEADLINE',
		'20m',
		duration(1),
		'Longest time of a whole attempt, all hosts.',
	),
	smtpTimeouts: setting(
		'MAILCTL_SMTP_TIMEOUTS',
		'connect=30s,greeting=5m,ehlo=5m,starttls=60s,mail=5m,rcpt=5m,data=2m,block=3m,dot=10m,rset=20s,quit=5s',
		smtpTimeouts,
		'Longest wait at each step of an SMTP session; any subset may be given.',
	),
};
