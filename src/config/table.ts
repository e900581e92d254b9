import {delivery, reports, sources} from './mail-settings.ts';
import {
	acmeDirectory,
	boolean,
	choice,
	cidr,
	count,
	databaseUrl,
	duration,
	externalAccount,
	hidden,
	issuer,
	keys256,
	list,
	listen,
	listenOrOff,
	listenOrWordOff,
	listensOrOff,
	mailAddress,
	maskPassword,
	optional,
	optionalList,
	path,
	publicUrl,
	rateLimit,
	type Setting,
	setting,
	size,
	standIn,
	timerDuration,
	token,
	value,
	webhookConcurrency,
	wordSet,
} from './parsers.ts';

// src/config declares each setting once (here, in mail-settings.ts and parsers.ts) and reads, checks and freezes all of
// them (settings.ts, rules.ts). The pages, `mailctl config` and the example file come from the same table. It relies on
// nothing but files and the environment, and is the only folder that reads process.env. It never opens the store or the
// network, and never reports just the first of several problems.

/** The process: its data, listeners, logs and retention. */
const server = {
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
		'`postgres://user:password@host/database`, for more than one machine; requires MAILCTL_SECRET_KEY, the same on each node.',
		{mask: maskPassword},
	),
	secretKey: optional(
		'MAILCTL_SECRET_KEY',
		'–',
		keys256,
		'Key that signs tokens and encrypts secrets, 32 bytes in base64; required with PostgreSQL, unused with SQLite (`secrets.json`). Of several, separated by commas, the first encrypts and signs and all of them decrypt (`mailctl secrets rotate`). The daemon does not start if the key is not the store’s.',
		{mask: hidden},
	),
	secretKeyFile: optional(
		'MAILCTL_SECRET_KEY_FILE',
		'–',
		path,
		'File that contains the value of MAILCTL_SECRET_KEY.',
	),
	roles: setting(
		'MAILCTL_ROLES',
		'api,deliver,webhook,inbound',
		wordSet(['api', 'deliver', 'webhook', 'inbound']),
		'Which parts this process runs, if several nodes share a PostgreSQL database.',
	),
	httpListen: setting(
		'MAILCTL_HTTP_LISTEN',
		'127.0.0.1:8125',
		listen,
		'Address of the API, hosted pages, `/healthz` and `/readyz`; with port 0 the system chooses one.',
	),
	httpsListen: setting(
		'MAILCTL_HTTPS_LISTEN',
		'off',
		listenOrOff,
		'Address, such as `0.0.0.0:443`, where the same is served over TLS 1.2 and 1.3 without a proxy; requires MAILCTL_ACME=true.',
	),
	httpRedirectListen: setting(
		'MAILCTL_HTTP_REDIRECT_LISTEN',
		'off',
		listenOrOff,
		'Address, such as `0.0.0.0:80`, where plain HTTP is redirected to https and HTTP-01 challenges of a CA are answered.',
	),
	adminListen: optional(
		'MAILCTL_ADMIN_LISTEN',
		'the HTTP listener if that is loopback, else `127.0.0.1:8126`',
		listenOrWordOff,
		'Address of `/metrics`, `/docs` and `/openapi.json`, which return 404 elsewhere. With the address of MAILCTL_HTTP_LISTEN, one listener serves everything; `off` disables them.',
	),
	metricsToken: optional(
		'MAILCTL_METRICS_TOKEN',
		'–',
		token,
		'Bearer token that `/metrics` requires; if set, `/metrics` is also served on the HTTP listener.',
		{mask: hidden},
	),
	publicUrl: optional(
		'MAILCTL_PUBLIC_URL',
		'`http://<MAILCTL_HTTP_LISTEN>`; for `0.0.0.0` and `::`, MAILCTL_HOSTNAME if it has a dot, else `127.0.0.1`',
		publicUrl,
		'Base URL of the links in messages: the address at which recipients reach this server.',
	),
	trustProxy: optionalList(
		'MAILCTL_TRUST_PROXY',
		'–',
		list(cidr),
		'CIDR list of proxies whose X-Forwarded-For header is trusted.',
	),
	rateLimit: setting(
		'MAILCTL_RATE_LIMIT',
		'6000/60',
		rateLimit,
		'Sends per key and window, as `sends/seconds`; `0` is no limit. A key can have its own limit.',
		{live: true},
	),
	authFailures: setting(
		'MAILCTL_AUTH_FAILURES',
		'20/60',
		rateLimit,
		'Requests with an invalid key per client address (or IPv6 /64) and window, as `requests/seconds`; further ones get 429 instead of 401. A valid key is never limited. `0` is no limit.',
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
		'Days after which messages, their content and events are removed; the audit trail is retained for at least 365. `0` keeps everything.',
		{live: true},
	),
	sweepInterval: setting(
		'MAILCTL_SWEEP_INTERVAL',
		'60s',
		duration(1),
		'How often old messages, expired keys and cache entries are removed.',
		{live: true},
	),
	drainDelay: setting(
		'MAILCTL_DRAIN_DELAY',
		'0s',
		timerDuration(),
		'How long the service continues after SIGTERM while `/readyz` returns 503, so that a load balancer can take it out of use.',
		{live: true},
	),
	drainLimit: setting(
		'MAILCTL_DRAIN_LIMIT',
		'30s',
		timerDuration(),
		'How long open sessions may take to finish after SIGTERM.',
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
		'set by `mailctl workspace use`, else the only workspace',
		value,
		'Default workspace of commands, by name or id; the daemon does not use it.',
	),
	logLevel: setting(
		'MAILCTL_LOG_LEVEL',
		'info',
		choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal']),
		'Lowest severity that is logged; mail events are `info`.',
		{live: true},
	),
	logFormat: setting(
		'MAILCTL_LOG_FORMAT',
		{from: ({isTerminal}) => (isTerminal ? 'pretty' : 'json'), description: '`json` (`pretty` on a terminal)'},
		choice(['json', 'pretty']),
		'One JSON object per line, or human-readable lines.',
	),
};

/** Certificates that a CA issues. */
const certificates = {
	acme: setting(
		'MAILCTL_ACME',
		'false',
		boolean,
		'Get and renew certificates by ACME (RFC 8555): for MAILCTL_HOSTNAME, the host of MAILCTL_PUBLIC_URL, and the link host and `mta-sts.` of verified domains if they point to this machine (docs/guide/certificates.md).',
	),
	acmeEmail: optional(
		'MAILCTL_ACME_EMAIL',
		'–',
		mailAddress,
		'Contact address for the CA; some CAs require one. A change is sent to the CA when the daemon starts.',
	),
	acmeDirectory: setting(
		'MAILCTL_ACME_DIRECTORY',
		'https://acme-v02.api.letsencrypt.org/directory',
		acmeDirectory,
		'URL of the CA’s ACME directory. After a change, the next start orders all certificates from the new CA.',
	),
	acmeEab: optional(
		'MAILCTL_ACME_EAB',
		'–',
		externalAccount,
		'External account binding, `KID:HMACKEY`, for a CA that requires a customer account, such as ZeroSSL.',
		{mask: hidden},
	),
	acmeCaFile: optional(
		'MAILCTL_ACME_CA_FILE',
		'–',
		path,
		'For a lab: PEM file with an extra CA for connections to MAILCTL_ACME_DIRECTORY.',
	),
};

/** The dashboard, and signing in with an OpenID Connect provider. */
const dashboard = {
	dashboard: setting(
		'MAILCTL_DASHBOARD',
		'true',
		boolean,
		'Serve the dashboard on MAILCTL_ADMIN_LISTEN; if `false`, its pages return 404.',
	),
	oidcIssuer: optional(
		'MAILCTL_OIDC_ISSUER',
		'–',
		issuer,
		'OpenID Connect provider for signing in, such as `https://login.example.com` (docs/guide/users.md).',
	),
	oidcClientId: optional(
		'MAILCTL_OIDC_CLIENT_ID',
		'–',
		token,
		'Client id of this program at the provider of MAILCTL_OIDC_ISSUER.',
	),
	oidcClientSecret: optional(
		'MAILCTL_OIDC_CLIENT_SECRET',
		'none, for a public client',
		token,
		'Client secret for MAILCTL_OIDC_CLIENT_ID.',
		{mask: hidden},
	),
};

/** Messages from programs that can only use SMTP. */
const submission = {
	submissionListen: setting(
		'MAILCTL_SUBMISSION_LISTEN',
		'off',
		listensOrOff,
		'Addresses where programs submit messages by SMTP, such as `127.0.0.1:2525` (loopback needs no TLS) or `0.0.0.0:587,0.0.0.0:465`. Port 465 uses TLS from the first octet, all others STARTTLS. Served by the role `api` (docs/guide/submission.md).',
	),
	submissionTlsCert: optional(
		'MAILCTL_SUBMISSION_TLS_CERT',
		'–',
		path,
		'PEM file with the certificate chain of MAILCTL_SUBMISSION_LISTEN; except on loopback, it or MAILCTL_ACME is required. SIGHUP rereads it.',
	),
	submissionTlsKey: optional(
		'MAILCTL_SUBMISSION_TLS_KEY',
		'–',
		path,
		'PEM file with the private key of MAILCTL_SUBMISSION_TLS_CERT.',
	),
};

/** Services that send messages for this installation. */
const providers = {
	providerHosts: optionalList(
		'MAILCTL_PROVIDER_HOSTS',
		'the providers’ own',
		list(standIn),
		'For a lab: `name=host:port` list of hosts that replace a provider’s API (`ses`, `postmark`, …) or the host of SNS certificates (`sns`). Their certificates are not verified.',
	),
};

/** Posting events to endpoints. */
const webhooks = {
	webhookBackoff: setting('MAILCTL_WEBHOOK_BACKOFF', '60s', duration(1), 'Delay after a failed webhook attempt.'),
	webhookTimeout: setting(
		'MAILCTL_WEBHOOK_TIMEOUT',
		'15s',
		timerDuration(1),
		'Time limit of a webhook attempt; connecting may take a third of it, at most 5 s.',
	),
	webhookConcurrency: setting(
		'MAILCTL_WEBHOOK_CONCURRENCY',
		'4/256',
		webhookConcurrency,
		'Concurrent webhook attempts, as `per-endpoint/total`; an endpoint gets one at a time after a failure.',
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
		'PEM file with an extra CA for webhook endpoints, in addition to MAILCTL_CA_FILE.',
	),
};

/** Every setting, in the order of the pages, by its name in the code. */
export const table = {
	...server,
	...certificates,
	...dashboard,
	...submission,
	...delivery,
	...sources,
	...reports,
	...providers,
	...webhooks,
};

/** The settings by topic, as the pages show them. */
export const topics: ReadonlyArray<{readonly title: string; readonly keys: readonly SettingKey[]}> = [
	topic('The process', server),
	topic('Certificates', certificates),
	topic('Dashboard', dashboard),
	topic('Submission', submission),
	topic('Delivery', delivery),
	topic('Source addresses', sources),
	topic('Bounces and reports', reports),
	topic('Providers', providers),
	topic('Webhooks', webhooks),
];

type Table = typeof table;
export type SettingKey = keyof Table;
/** The table's values by key, before the derived defaults. */
export type TableValues = {readonly [K in SettingKey]: Table[K] extends Setting<infer T> ? T : never};
export const settingKeys = Object.keys(table) as SettingKey[];

function topic<Key extends SettingKey>(title: string, settings: Readonly<Record<Key, unknown>>) {
	return {title, keys: Object.keys(settings) as Key[]};
}

const machine = {hostname: '', cpus: 1, isTerminal: false};

/** Returns the text of docs/reference/settings.md. */
export function settingsPage(): string {
	const sections = topics.map(
		({title, keys}) => `## ${title}

| name | default | meaning | SIGHUP |
|---|---|---|---|
${keys.map(row).join('\n')}`,
	);
	return `# Settings

Settings are environment variables. They can also be in a file: \`.env\` in the working directory, or the one named by
\`--env-file\`. The environment takes precedence over the file, and an empty value counts as unset. All problems are
reported at once, including unknown \`MAILCTL_…\` names. A file with a password or key must be readable only by its owner.
\`mailctl config show\` prints the effective values and their sources; \`mailctl config check\` exits with 0 or 78.

Durations are seconds or have a unit: \`500ms 90s 5m 4h 4d\`. Lists are separated by commas. Booleans are \`true\` or
\`false\`. Settings marked in the SIGHUP column take effect in a running daemon on that signal; the others need a restart.

${sections.join('\n\n')}

This page is generated from the code: \`npm run build && node dist/src/cli/tree/write-docs.js\`.
`;
}

/** Returns the text of config/mailctl.env.example: every setting, commented out, at its default. */
export function exampleFile(): string {
	const sections = topics.map(({title, keys}) => `# --- ${title}\n\n${keys.map(entry).join('\n\n')}`);
	return `# Settings of mailctl, at their defaults. Copy this file to .env, or name it with --env-file, and chmod 600 it if it will
# hold a password. docs/reference/settings.md lists the same settings in tables.

${sections.join('\n\n')}
`;
}

function row(key: SettingKey): string {
	const {name, shownFallback, about, live} = table[key];
	return `| ${name} | ${cell(shownFallback)} | ${cell(about)} | ${live ? 'yes' : ''} |`;
}

function entry(key: SettingKey): string {
	const {name, about, shownFallback, fallback}: Setting<unknown> = table[key];
	// A default that depends on the machine or on other settings is described, not written as a value.
	const fixed = shownFallback === `\`${fallback(machine)}\`` ? fallback(machine) : undefined;
	const described = fixed === undefined && shownFallback !== '–' ? ` Default: ${plain(shownFallback)}.` : '';
	return `# ${plain(about)}${described}\n#${name}=${fixed ?? ''}`;
}

function plain(markdown: string): string {
	return markdown.replaceAll('`', '');
}

function cell(markdown: string): string {
	return markdown.replaceAll('|', '\\|');
}
