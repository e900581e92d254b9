import {cidr, listen, listenOrWordOff} from '../addresses.ts';
import {rateLimit} from '../delivery-values.ts';
import {choice, count, duration, keys256, list, path, size, token, value, wordSet} from '../parsers.ts';
import {optional, optionalList, setting} from '../setting.ts';
import {databaseUrl, hidden, maskPassword, publicUrl} from '../urls.ts';

/** The process: where it keeps its data, listens, logs, and how long it keeps what. */
export const server = {
	dataDir: setting(
		'MAILCTL_DATA_DIR',
		'./data',
		path,
		'Folder of `mailctl.db` (SQLite), `secrets.json` (mode 0600: token and encryption keys), `captured/` and `daemon.json`.',
	),
	minFreeDisk: setting(
		'MAILCTL_MIN_FREE_DISK',
		'256MiB',
		size(),
		'Free space of the data folder below which no new mail is accepted (docs/guide/operating.md); `0` is no limit.',
		{live: true},
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
		keys256,
		'Base64 of 32 bytes, from which tokens and encryption of secrets come; required with PostgreSQL, not used with SQLite (`secrets.json`). Several, with commas: the first seals and signs, all of them open (`mailctl secrets rotate`). A key that is not the store’s ends the start.',
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
		'Where the API, hosted pages, `/healthz` and `/readyz` are served; port 0 lets the system choose.',
	),
	adminListen: optional(
		'MAILCTL_ADMIN_LISTEN',
		'the HTTP listener where that is loopback, else `127.0.0.1:8126`',
		listenOrWordOff,
		'Where `/metrics`, `/docs` and `/openapi.json` are served; elsewhere they answer 404. The same address as MAILCTL_HTTP_LISTEN: one listener serves all. `off`: nowhere.',
	),
	metricsToken: optional(
		'MAILCTL_METRICS_TOKEN',
		'–',
		token,
		'Bearer token that `/metrics` then wants; it is then served on the HTTP listener too.',
		{mask: hidden},
	),
	publicUrl: optional(
		'MAILCTL_PUBLIC_URL',
		'`http://<MAILCTL_HTTP_LISTEN>`; of `0.0.0.0` and `::` MAILCTL_HOSTNAME if it has a dot, else `127.0.0.1`',
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
	authFailures: setting(
		'MAILCTL_AUTH_FAILURES',
		'20/60',
		rateLimit,
		'Requests with a wrong key per window in seconds, of one client address (an IPv6 /64 is one); further ones are answered 429 instead of 401. A valid key always passes. `0` is no limit.',
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
		'Messages, their content and events older than this many days are removed, the audit trail after at least 365; `0` keeps them.',
		{live: true},
	),
	sweepInterval: setting(
		'MAILCTL_SWEEP_INTERVAL',
		'60s',
		duration(1),
		'How often old messages, expired keys and caches are swept.',
		{live: true},
	),
	drainDelay: setting(
		'MAILCTL_DRAIN_DELAY',
		'0s',
		duration(),
		'How long after SIGTERM everything goes on while `/readyz` answers 503, so that a load balancer looks elsewhere first.',
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
	workspace: optional(
		'MAILCTL_WORKSPACE',
		'the one of `mailctl workspace use`, else the only one',
		value,
		'Workspace of commands that name none, its name or id; the daemon does not use it.',
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
