import {isIP} from 'node:net';
import {parseTime} from '../kit/time.ts';
import {defaultReputationLimits, type ReputationLevel, type ReputationLimits} from '../mail/reputation.ts';
import {defaultTarget, type WarmUp} from '../queue/pace/choose-route.ts';
import {
	allowed,
	boolean,
	bounceMailbox,
	choice,
	count,
	dnsServer,
	domain,
	duration,
	list,
	listenOrOff,
	mailAddress,
	maskPassword,
	maskPasswords,
	optional,
	optionalList,
	type Parser,
	path,
	relays,
	retrySchedule,
	setting,
	size,
	smtpRelays,
	smtpTimeouts,
	sourceAddress,
	timerDuration,
	value,
} from './parsers.ts';

/** Outbound delivery: routes, worker threads, attempts, TLS. */
export const delivery = {
	hostname: setting(
		'MAILCTL_HOSTNAME',
		// A machine's name may be an invalid domain. With `localhost`, direct delivery is refused until a name is set.
		{from: ({hostname}) => (domain(hostname, '').ok ? hostname : 'localhost'), description: "the machine's"},
		domain,
		'Name given in EHLO; its address should resolve back to it.',
	),
	delivery: setting(
		'MAILCTL_DELIVERY',
		'capture',
		choice(['capture', 'mx', 'relay']),
		'`capture` writes .eml files and delivers nothing, `mx` delivers to the recipients’ mail servers, `relay` to a relay (smarthost).',
	),
	relays: optionalList(
		'MAILCTL_RELAY_URL',
		'–',
		relays,
		'`smtp://[user:password@]host[:port][?tls=required|opportunistic|unverified|none]` or `smtps://…`, user and password percent-encoded; several, separated by commas, are tried in order. The default port is 587 with a password, else 25; for smtps, 465. `tls` defaults to `required` (verified) with a password, else `opportunistic`; a password is sent unencrypted only with `tls=none` to loopback. If SMTP is blocked, use HTTPS: `ses://KEY:SECRET@REGION`, `mailgun+https://KEY@HOST/DOMAIN`, `postmark+https://TOKEN@HOST`.',
		{mask: maskPasswords},
	),
	alertRelays: optionalList(
		'MAILCTL_ALERT_SMTP_URL',
		'the relay, else direct',
		smtpRelays,
		'Relay for alert messages, which bypass the queue: `smtp://…` or `smtps://…`, as in MAILCTL_RELAY_URL. If unset, the SMTP URLs of MAILCTL_RELAY_URL are used, else the mail servers of the address.',
		{mask: maskPasswords},
	),
	relayAcceptMeans: setting(
		'MAILCTL_RELAY_ACCEPT_MEANS',
		'sent',
		choice(['sent', 'delivered']),
		'Status of a message that the relay accepted; `delivered` treats its 250 as final.',
	),
	dnsServers: optionalList(
		'MAILCTL_DNS_SERVERS',
		"the system's",
		list(dnsServer),
		'`ip[:port]` list of resolvers for MX, TLSA, TXT and webhook host lookups.',
	),
	mxPort: setting(
		'MAILCTL_MX_PORT',
		'25',
		count(1, 65_535),
		'Port of the recipients’ mail servers; change it only in a lab.',
	),
	ipv6: setting(
		'MAILCTL_IPV6',
		'true',
		boolean,
		'Whether mail may be sent over IPv6; this also requires a public IPv6 address with a name in DNS.',
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
		'HTTPS port of MTA-STS policies; change it only in a lab.',
	),
	dane: setting(
		'MAILCTL_DANE',
		'false',
		boolean,
		'Obey TLSA records (RFC 7672); requires a validating resolver in MAILCTL_DNS_SERVERS.',
	),
	renderers: setting(
		'MAILCTL_MAKERS',
		{from: ({cpus}) => String(cpus), description: 'number of cores'},
		count(1, 256),
		'Worker threads that render, compose and sign.',
	),
	senders: setting('MAILCTL_SENDERS', '1', count(1, 64), 'Worker threads that hold SMTP sessions.'),
	maxSessions: setting(
		'MAILCTL_MAX_SESSIONS',
		'64',
		count(1, 10_000),
		'Maximum number of concurrent outbound SMTP sessions of this process.',
	),
	destinationsFile: optional(
		'MAILCTL_DESTINATIONS_FILE',
		'`config/destinations.json`, as shipped',
		path,
		'JSON file with the pacing per MX suffix or domain, merged over the shipped one (docs/reference/pacing.md); SIGHUP rereads it.',
		{live: true},
	),
	retrySchedule: setting(
		'MAILCTL_RETRY_SCHEDULE',
		'1m,5m,10m,20m,40m,90m,3h,4h*',
		retrySchedule,
		'Delays after the 1st, 2nd … failed attempt, ±10 %. A trailing `*` repeats the last delay until the queue lifetime; without it, the recipient fails when the list is exhausted.',
		{live: true},
	),
	queueLifetime: setting(
		'MAILCTL_QUEUE_LIFETIME',
		'4d',
		duration(1),
		'How long delivery to a recipient is attempted after acceptance; a workspace may have its own limit.',
		{live: true},
	),
	attemptDeadline: setting(
		'MAILCTL_ATTEMPT_DEADLINE',
		'20m',
		timerDuration(1),
		'Time limit of a whole attempt, across all mail servers.',
	),
	smtpTimeouts: setting(
		'MAILCTL_SMTP_TIMEOUTS',
		'connect=30s,greeting=5m,ehlo=5m,starttls=60s,mail=5m,rcpt=5m,data=2m,block=3m,dot=10m,rset=20s,quit=5s',
		smtpTimeouts,
		'Time limits for the steps of an SMTP session; any subset may be set.',
	),
};

/** A named group of source addresses. */
type SourcePool = {readonly name: string; readonly addresses: readonly string[]};

/** Words that have another meaning in place of a pool's name. */
const reservedNames = ['none', 'default'];

/** `name=ip+ip`. */
const sourcePool: Parser<SourcePool> = text => {
	const [name = '', list = '', ...rest] = text.split('=');
	const addresses = list.split('+');
	const isName = /^[a-z0-9][a-z0-9_-]{0,31}$/.test(name) && !reservedNames.includes(name);
	return isName && rest.length === 0 && addresses.every(address => isIP(address) !== 0)
		? value({name, addresses: [...new Set(addresses)]})
		: allowed('use name=ip+ip, with a name of lowercase letters, digits, - and _');
};

/** `ip=2026-11-01` or `ip=2026-11-01/target`. */
const warmUp: Parser<WarmUp> = text => {
	const [, address = '', start = '', digits] = /^([^=]*)=(\d{4}-\d\d-\d\d)(?:\/(\d{1,9}))?$/.exec(text) ?? [];
	const target = digits === undefined ? defaultTarget : Number(digits);
	return isIP(address) !== 0 && parseTime(start) !== undefined && target > 0
		? value({address, start, target})
		: allowed('use ip=date or ip=date/target, such as 192.0.2.1=2026-11-01/20000');
};

/** The addresses that mail is sent from. */
export const sources = {
	sourceAddresses: optionalList(
		'MAILCTL_SOURCE_ADDRESSES',
		'–',
		list(sourceAddress),
		'`ip[=ehlo.name]` list of addresses for outgoing connections.',
	),
	sourcePools: optionalList(
		'MAILCTL_SOURCE_POOLS',
		'–',
		list(sourcePool),
		'Named groups of MAILCTL_SOURCE_ADDRESSES, `otp=192.0.2.1+2001:db8::1,bulk=192.0.2.2`; a workspace sends from its pool, or from all addresses if it has none.',
	),
	warmUps: optionalList(
		'MAILCTL_WARM_UP',
		'–',
		list(warmUp),
		'New addresses of MAILCTL_SOURCE_ADDRESSES and the UTC day they start: `192.0.2.1=2026-11-01[/target]`. Each sends a little more to each provider every day (docs/reference/pacing.md); messages beyond that go to MAILCTL_RELAY_URL, or wait.',
	),
	blocklistsFile: optional(
		'MAILCTL_BLOCKLISTS_FILE',
		'`config/blocklists.json`, as shipped',
		path,
		'JSON file with the blocklists that are queried every hour, merged over the shipped ones (docs/guide/deliverability.md).',
	),
};

/** What the listener accepts from a client in an hour. */
type InboundAllowance = {readonly mails: number; readonly bytes: number};

/** `1000/200MiB`: the number of messages, and their total size. */
const inboundAllowance: Parser<InboundAllowance> = (text, cwd) => {
	const [mails, bytes, ...rest] = text.split('/');
	const messages = count(1, 1_000_000_000)(mails ?? '', cwd);
	const octets = size(1)(bytes ?? '', cwd);
	return messages.ok && octets.ok && rest.length === 0
		? value({mails: messages.value, bytes: octets.value})
		: allowed('use messages/size such as 1000/200MiB, neither of them 0');
};

const reputationForms =
	'use warn=5%/0.1%,pause=10%/0.5% (bounces/complaints), either or both, with warn not above pause, or off';

/** `warn=5%/0.1%,pause=10%/0.5%`, or one of them; `off` is `null`. */
const reputationLimits: Parser<ReputationLimits | null> = text => {
	if (text === 'off') {
		return value(null);
	}
	const limits: Record<keyof ReputationLimits, ReputationLevel> = {...defaultReputationLimits};
	for (const part of text.split(',')) {
		const [, name, bounces, complaints] = /^(warn|pause)=([\d.]+)%\/([\d.]+)%$/.exec(part.trim()) ?? [];
		const level = {bounces: parseShare(bounces), complaints: parseShare(complaints)};
		if (name === undefined || Number.isNaN(level.bounces + level.complaints)) {
			return allowed(reputationForms);
		}
		limits[name as keyof ReputationLimits] = level;
	}
	const {warn, pause} = limits;
	return warn.bounces <= pause.bounces && warn.complaints <= pause.complaints
		? value(limits)
		: allowed(reputationForms);
};

/** The sender's id in Feedback-ID, for which Gmail requires 5 to 15 characters. */
const senderId: Parser<string> = text =>
	/^[0-9A-Za-z]{5,15}$/.test(text) ? value(text) : allowed('use 5 to 15 letters and digits');

/** Parses a percentage above 0 and up to 100, with at most three decimals. */
function parseShare(percent = ''): number {
	const number = /^\d{1,3}(\.\d{1,3})?$/.test(percent) ? Number(percent) : Number.NaN;
	return number > 0 && number <= 100 ? number / 100 : Number.NaN;
}

const second = 1000;

/** Bounces, complaints, received mail and links, and how they affect a workspace. */
export const reports = {
	inboundListen: setting(
		'MAILCTL_INBOUND_LISTEN',
		'off',
		listenOrOff,
		'SMTP listener for bounces, feedback reports and mail to workspaces, such as `0.0.0.0:25`.',
	),
	inboundTlsCert: optional(
		'MAILCTL_INBOUND_TLS_CERT',
		'–',
		path,
		'PEM file with the certificate chain of the SMTP listener; without it and MAILCTL_ACME no STARTTLS is offered.',
	),
	inboundTlsKey: optional(
		'MAILCTL_INBOUND_TLS_KEY',
		'–',
		path,
		'PEM file with the private key of MAILCTL_INBOUND_TLS_CERT.',
	),
	inboundAllowance: setting(
		'MAILCTL_INBOUND_ALLOWANCE',
		'1000/200MiB',
		inboundAllowance,
		'Messages and octets per hour that the SMTP listener accepts without a valid token from one client (an IPv4 address or IPv6 /64), and ten times that in total (docs/guide/inbound.md).',
	),
	receivedRetentionDays: setting(
		'MAILCTL_RECEIVED_RETENTION_DAYS',
		'30',
		count(0, 36_500),
		'Days after which mail received for workspaces is removed, together with its webhook posts; `0` keeps it.',
		{live: true},
	),
	returnPathDomain: optional(
		'MAILCTL_RETURN_PATH_DOMAIN',
		'`bounces.` + host of MAILCTL_PUBLIC_URL if the listener is on, else MAILCTL_HOSTNAME',
		domain,
		'Domain of the signed return paths; a sending domain may have its own.',
	),
	feedbackAddress: optional(
		'MAILCTL_FEEDBACK_ADDRESS',
		'`fbl@` + return-path domain',
		mailAddress,
		'Address that receives feedback reports (ARF).',
	),
	feedbackReporters: optionalList(
		'MAILCTL_FEEDBACK_REPORTERS',
		'–',
		list(domain),
		'Domains whose feedback reports count without one of our tokens, for the address that they name. Such a report must carry a DKIM signature of the domain (`d=`), such as `arf.mail.yahoo.com`.',
	),
	bounceMailbox: optional(
		'MAILCTL_BOUNCE_MAILBOX',
		'–',
		bounceMailbox,
		'`imaps://user:password@host/INBOX`, `imap://…?tls=starttls|none` or `maildir:/path`: polled for bounces.',
		{mask: maskPassword},
	),
	bounceMailboxInterval: setting(
		'MAILCTL_BOUNCE_MAILBOX_INTERVAL',
		'5m',
		timerDuration(second),
		'How often the bounce mailbox is polled, in addition to IMAP IDLE.',
	),
	bounceRulesFile: optional(
		'MAILCTL_BOUNCE_RULES_FILE',
		'`config/bounce-rules.json`, as shipped',
		path,
		'JSON file with rules for classifying bounces, tried before the shipped ones (docs/reference/bounces.md); SIGHUP rereads it.',
		{live: true},
	),
	tokenLifetime: setting(
		'MAILCTL_TOKEN_LIFETIME',
		'400d',
		duration(second),
		'How long unsubscribe and tracking links are valid.',
	),
	reputation: setting(
		'MAILCTL_REPUTATION',
		'warn=5%/0.1%,pause=10%/0.5%',
		reputationLimits,
		'Rates of hard bounces/complaints, over 24 hours and 7 days, at which a workspace causes a warning or is paused (docs/reference/reputation.md); `off` disables both.',
		{live: true},
	),
	senderId: optional(
		'MAILCTL_SENDER_ID',
		'derived from the return-path domain',
		senderId,
		'SenderId in the Feedback-ID header field, by which Gmail counts complaints: 5 to 15 letters and digits. Do not change it later.',
	),
	tlsReports: setting(
		'MAILCTL_TLS_REPORTS',
		'false',
		boolean,
		'Send each domain that requests it (`_smtp._tls`) a daily report on TLS to its mail servers (RFC 8460), by the route of alert messages.',
	),
	cfbl: setting(
		'MAILCTL_CFBL',
		'false',
		boolean,
		'Request complaints in each message (CFBL-Address, RFC 9477) if MAILCTL_FEEDBACK_ADDRESS, or with the listener the sender’s return path, is at the sender’s domain or below it.',
	),
};
