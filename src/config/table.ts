import {cidr, dnsServer, listen, listenOrOff, sourceAddress} from './addresses.ts';
import {rateLimit, retrySchedule, smtpTimeouts, webhookConcurrency} from './delivery-values.ts';
import {hidden, maskPassword, maskPasswords} from './mask.ts';
import {boolean, choice, count, domain, duration, key256, list, mailAddress, path, wordSet} from './parsers.ts';
import {reputationLimits, senderId} from './reputation-value.ts';
import {optional, optionalList, type Setting, setting} from './setting.ts';
import {sourcePool, warmUp} from './source-values.ts';
import {bounceMailbox, databaseUrl, publicUrl, relays} from './urls.ts';

const second = 1000;

/** Every setting, in the order of the pages; the keys are the names in the code. */
export const table = {
	dataDir: setting(
		'MAILCTL_DATA_DIR',
		'./data',
		path,
		'Folder of `mailctl.db` (SQLite), `secrets.json` (mode 0600: token and encryption keys), `captured/` and `daemon.json`.',
	),
	databaseUrl: optional(
		'MAILCTL_DATABASE_URL',
		'SQLite in the data folder',
		databaseUrl,
		'`postgres://user:password@host/database`, for more than one machine; needs MAILCTL_SECRET_KEY, the same on each node.',
		{mask: maskPassword},
	),
	httpListen: setting(
		'MAILCTL_HTTP_LISTEN',
		'127.0.0.1:8125',
		listen,
		'Where the API, hosted pages, `/healthz`, `/readyz` and `/metrics` are served; port 0 lets the system choose.',
	),
	publicUrl: optional(
		'MAILCTL_PUBLIC_URL',
		'`http://<MAILCTL_HTTP_LISTEN>`',
		publicUrl,
		'Base of the links in mail, as recipients reach this server.',
	),
	hostname: setting(
		'MAILCTL_HOSTNAME',
		// A machine may have a name that is none in DNS; `localhost` then makes direct delivery ask for a better one.
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
	inboundListen: setting(
		'MAILCTL_INBOUND_LISTEN',
		'off',
		listenOrOff,
		'SMTP listener for bounces and feedback, such as `0.0.0.0:25`.',
	),
	returnPathDomain: optional(
		'MAILCTL_RETURN_PATH_DOMAIN',
		'`bounces.` + host of MAILCTL_PUBLIC_URL with the listener on, else MAILCTL_HOSTNAME',
		domain,
		'Domain of the signed return paths; a sender domain may have its own.',
	),
	feedbackAddress: optional(
		'MAILCTL_FEEDBACK_ADDRESS',
		'`fbl@` + return-path domain',
		mailAddress,
		'Address at which feedback reports (ARF) arrive.',
	),
	feedbackReporters: optionalList(
		'MAILCTL_FEEDBACK_REPORTERS',
		'–',
		list(domain),
		'Domains whose feedback reports count without a token of ours, by the address that they name: those whose DKIM signature they bear (`d=`), such as `arf.mail.yahoo.com`.',
	),
	bounceMailbox: optional(
		'MAILCTL_BOUNCE_MAILBOX',
		'–',
		bounceMailbox,
		'`imaps://user:password@host/INBOX`, `imap://…?tls=starttls|none` or `maildir:/path`: polled for bounces.',
		{mask: maskPassword},
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
	webhookAllowCidrs: optionalList(
		'MAILCTL_WEBHOOK_ALLOW_CIDRS',
		'–',
		list(cidr),
		'For a lab: non-public ranges that webhooks may reach.',
	),
	webhookCaFile: optional(
		'MAILCTL_WEBHOOK_CA_FILE',
		'–',
		path,
		'PEM file with an extra CA for webhook endpoints, besides MAILCTL_CA_FILE.',
	),
	makers: setting(
		'MAILCTL_MAKERS',
		{from: ({cpus}) => String(cpus), shown: 'number of cores'},
		count(1, 256),
		'Worker threads that render, compose and sign.',
	),
	senders: setting('MAILCTL_SENDERS', '1', count(1, 64), 'Worker threads that hold SMTP sessions.'),
	roles: setting(
		'MAILCTL_ROLES',
		'api,deliver,webhook,inbound',
		wordSet(['api', 'deliver', 'webhook', 'inbound']),
		'Which parts this process runs (PostgreSQL: several nodes).',
	),
	rateLimit: setting(
		'MAILCTL_RATE_LIMIT',
		'6000/60',
		rateLimit,
		'Sends per window in seconds, per key; `0` is no limit; a key can have its own.',
		{live: true},
	),
	retentionDays: setting(
		'MAILCTL_RETENTION_DAYS',
		'90',
		count(0, 36_500),
		'Messages, their content and events older than this many days are removed; `0` keeps them.',
		{live: true},
	),
	logLevel: setting(
		'MAILCTL_LOG_LEVEL',
		'info',
		choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal']),
		'Least severity that is logged; mail events are `info`.',
		{live: true},
	),
	logFormat: setting(
		'MAILCTL_LOG_FORMAT',
		{from: ({terminal}) => (terminal ? 'pretty' : 'json'), shown: '`json` (`pretty` on a terminal)'},
		choice(['json', 'pretty']),
		'One JSON object a line, or lines for people.',
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
	maxSessions: setting('MAILCTL_MAX_SESSIONS', '64', count(1, 10_000), 'Outbound SMTP sessions at once, this process.'),
	destinationsFile: optional(
		'MAILCTL_DESTINATIONS_FILE',
		'`config/destinations.json`, as shipped',
		path,
		'JSON file with the pacing per MX suffix or domain, merged over the shipped one (docs/pacing.md); SIGHUP reads it anew.',
		{live: true},
	),
	bounceRulesFile: optional(
		'MAILCTL_BOUNCE_RULES_FILE',
		'`config/bounce-rules.json`, as shipped',
		path,
		'JSON file with rules by which refusals are read, before the shipped ones (docs/bounces.md); SIGHUP reads it anew.',
		{live: true},
	),
	webhookBackoff: setting(
		'MAILCTL_WEBHOOK_BACKOFF',
		'60s',
		duration(1),
		'Wait after the end of a failed webhook attempt.',
	),
	webhookTimeout: setting(
		'MAILCTL_WEBHOOK_TIMEOUT',
		'15s',
		duration(1),
		'One webhook attempt in all; connecting may take a third of it, at most 5 s.',
	),
	webhookConcurrency: setting(
		'MAILCTL_WEBHOOK_CONCURRENCY',
		'4/256',
		webhookConcurrency,
		'Webhook attempts in flight per endpoint (one after a failure) / in all.',
	),
	tokenLifetime: setting(
		'MAILCTL_TOKEN_LIFETIME',
		'400d',
		duration(second),
		'How long unsubscribe and tracking links work.',
	),
	idempotencyRetention: setting(
		'MAILCTL_IDEMPOTENCY_RETENTION',
		'24h',
		duration(1),
		'How long an Idempotency-Key is remembered.',
		{live: true},
	),
	drainLimit: setting(
		'MAILCTL_DRAIN_LIMIT',
		'30s',
		duration(),
		'How long after SIGTERM sessions in flight may take to end.',
		{live: true},
	),
	secretKey: optional(
		'MAILCTL_SECRET_KEY',
		'–',
		key256,
		'Base64 of 32 bytes, from which tokens and encryption of secrets come; required with PostgreSQL, not used with SQLite (`secrets.json`).',
		{mask: hidden},
	),
	secretKeyFile: optional('MAILCTL_SECRET_KEY_FILE', '–', path, 'File with what MAILCTL_SECRET_KEY would hold.'),
	caFile: optional(
		'MAILCTL_CA_FILE',
		'–',
		path,
		'PEM file with an extra CA for every TLS client (relay, MTA-STS, IMAP, webhooks).',
	),
	inboundTlsCert: optional(
		'MAILCTL_INBOUND_TLS_CERT',
		'–',
		path,
		'PEM file with the certificate chain of the SMTP listener; without it no STARTTLS is offered.',
	),
	inboundTlsKey: optional(
		'MAILCTL_INBOUND_TLS_KEY',
		'–',
		path,
		'PEM file with the private key of MAILCTL_INBOUND_TLS_CERT.',
	),
	bounceMailboxInterval: setting(
		'MAILCTL_BOUNCE_MAILBOX_INTERVAL',
		'5m',
		duration(second),
		'How often the bounce mailbox is polled; IDLE besides.',
	),
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
		'Names for some of MAILCTL_SOURCE_ADDRESSES, `otp=192.0.2.1+2001:db8::1,bulk=192.0.2.2`; a workspace sends from its pool, without one from all.',
	),
	warmUps: optionalList(
		'MAILCTL_WARM_UP',
		'–',
		list(warmUp),
		'Addresses of MAILCTL_SOURCE_ADDRESSES that are new, and the UTC day they begin: `192.0.2.1=2026-11-01[/target]`. Each sends a little more every day to each provider (docs/pacing.md), what is over goes to MAILCTL_RELAY_URL, or waits.',
	),
	reputation: setting(
		'MAILCTL_REPUTATION',
		'warn=5%/0.1%,pause=10%/0.5%',
		reputationLimits,
		'Shares of hard bounces/complaints, over 24 hours and 7 days, from which on a workspace is warned of and paused (docs/reputation.md); `off` judges nobody.',
		{live: true},
	),
	senderId: optional(
		'MAILCTL_SENDER_ID',
		'made from the return-path domain',
		senderId,
		'SenderId of the Feedback-ID field, by which Gmail counts complaints: 5 to 15 letters and digits, the same for good.',
	),
	cfbl: setting(
		'MAILCTL_CFBL',
		'false',
		boolean,
		'Ask for complaints in each mail (CFBL-Address, RFC 9477) where MAILCTL_FEEDBACK_ADDRESS, or with the listener the sender’s return path, is at the sender’s domain or under it.',
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
	trustProxy: optionalList(
		'MAILCTL_TRUST_PROXY',
		'–',
		list(cidr),
		'CIDR list of proxies whose X-Forwarded-For is believed.',
	),
	sweepInterval: setting(
		'MAILCTL_SWEEP_INTERVAL',
		'60s',
		duration(1),
		'How often old messages, expired keys and caches are swept.',
		{live: true},
	),
};

export type Table = typeof table;
export type SettingKey = keyof Table;
/** The table's values by key, before the derived defaults. */
export type TableValues = {readonly [K in SettingKey]: Table[K] extends Setting<infer T> ? T : never};
export const settingKeys = Object.keys(table) as SettingKey[];
