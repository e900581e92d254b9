import {cidr, listen} from '../addresses.ts';
import {rateLimit} from '../delivery-values.ts';
import {hidden, maskPassword} from '../mask.ts';
import {choice, count, duration, key256, list, path, wordSet} from '../parsers.ts';
import {optional, optionalList, setting} from '../setting.ts';
import {databaseUrl, publicUrl} from '../urls.ts';

/** The process: where it keeps its data, listens, logs, and how long it keeps what. */
export const server = {
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
	secretKey: optional(
		'MAILCTL_SECRET_KEY',
		'–',
		key256,
		'Base64 of 32 bytes, from which tokens and encryption of secrets come; required with PostgreSQL, not used with SQLite (`secrets.json`).',
		{mask: hidden},
	),
	secretKeyFile: optional('MAILCTL_SECRET_KEY_FILE', '–', path, 'File with what MAILCTL_SECRET_KEY would hold.'),
	roles: setting(
		'MAILCTL_ROLES',
		'api,deliver,webhook,inbound',
		wordSet(['api', 'deliver', 'webhook', 'inbound']),
		'Which parts this process runs (PostgreSQL: several nodes).',
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
	trustProxy: optionalList(
		'MAILCTL_TRUST_PROXY',
		'–',
		list(cidr),
		'CIDR list of proxies whose X-Forwarded-For is believed.',
	),
	rateLimit: setting(
		'MAILCTL_RATE_LIMIT',
		'6000/60',
		rateLimit,
		'Sends per window in seconds, per key; `0` is no limit; a key can have its own.',
		{live: true},
	),
	idempotencyRetention: setting(
		'MAILCTL_IDEMPOTENCY_RETENTION',
		'24h',
		duration(1),
		'How long an Idempotency-Key is remembered.',
		{live: true},
	),
	retentionDays: setting(
		'MAILCTL_RETENTION_DAYS',
		'90',
		count(0, 36_500),
		'Messages, their content and events older than this many days are removed; `0` keeps them.',
		{live: true},
	),
	sweepInterval: setting(
		'MAILCTL_SWEEP_INTERVAL',
		'60s',
		duration(1),
		'How often old messages, expired keys and caches are swept.',
		{live: true},
	),
	drainLimit: setting(
		'MAILCTL_DRAIN_LIMIT',
		'30s',
		duration(),
		'How long after SIGTERM sessions in flight may take to end.',
		{live: true},
	),
	caFile: optional(
		'MAILCTL_CA_FILE',
		'–',
		path,
		'PEM file with an extra CA for every TLS client (relay, MTA-STS, IMAP, webhooks).',
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
};
