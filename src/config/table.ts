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

/** The process: where it keeps its data, listens, logs, and how long it keeps what. */
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
	httpsListen: setting(
		'MAILCTL_HTTPS_LISTEN',
		'off',
		listenOrOff,
		'Where the same is served over TLS 1.2 and 1.3, without a proxy, such as `0.0.0.0:443`; needs MAILCTL_ACME=true.',
	),
	httpRedirectListen: setting(
		'MAILCTL_HTTP_REDIRECT_LISTEN',
		'off',
		listenOrOff,
		'Where plain HTTP is redirected to https, and where a CA finds the proof of a name (HTTP-01), such as `0.0.0.0:80`.',
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
		timerDuration(),
		'How long after SIGTERM everything goes on while `/readyz` answers 503, so that a load balancer looks elsewhere first.',
		{live: true},
	),
	drainLimit: setting(
		'MAILCTL_DRAIN_LIMIT',
		'30s',
		timerDuration(),
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

/** Certificates issued by a CA. */
const certificates = {
	acme: setting(
		'MAILCTL_ACME',
		'false',
		boolean,
		'Get certificates from a CA and renew them (RFC 8555), for MAILCTL_HOSTNAME, the host of MAILCTL_PUBLIC_URL, and of verified domains the link host and `mta-sts.` if they lead here (docs/guide/certificates.md).',
	),
	acmeEmail: optional(
		'MAILCTL_ACME_EMAIL',
		'–',
		mailAddress,
		'Address by which the CA reaches the operator; some CAs want one. The CA is told of a change when the daemon starts.',
	),
	acmeDirectory: setting(
		'MAILCTL_ACME_DIRECTORY',
		'https://acme-v02.api.letsencrypt.org/directory',
		acmeDirectory,
		'The CA: the URL of its ACME directory. After a change the next start orders all certificates from the new CA.',
	),
	acmeEab: optional(
		'MAILCTL_ACME_EAB',
		'–',
		externalAccount,
		'`KID:HMACKEY` for a CA that binds its accounts to those of its customers, such as ZeroSSL.',
		{mask: hidden},
	),
	acmeCaFile: optional(
		'MAILCTL_ACME_CA_FILE',
		'–',
		path,
		'For a lab: PEM file with an extra CA for connections to MAILCTL_ACME_DIRECTORY.',
	),
};

/** The pages for people, and how they log in other than by passkey and password. */
const dashboard = {
	dashboard: setting(
		'MAILCTL_DASHBOARD',
		'true',
		boolean,
		'Serve the dashboard on MAILCTL_ADMIN_LISTEN; `false`: its pages answer 404.',
	),
	oidcIssuer: optional(
		'MAILCTL_OIDC_ISSUER',
		'–',
		issuer,
		'OpenID Connect provider by which users log in too, such as `https://login.example.com` (docs/guide/users.md).',
	),
	oidcClientId: optional(
		'MAILCTL_OIDC_CLIENT_ID',
		'–',
		token,
		'What the provider of MAILCTL_OIDC_ISSUER calls this program.',
	),
	oidcClientSecret: optional(
		'MAILCTL_OIDC_CLIENT_SECRET',
		'none, for a public client',
		token,
		'The secret that goes with MAILCTL_OIDC_CLIENT_ID.',
		{mask: hidden},
	),
};

/** Mail from programs that can only use SMTP. */
const submission = {
	submissionListen: setting(
		'MAILCTL_SUBMISSION_LISTEN',
		'off',
		listensOrOff,
		'Where programs submit mail by SMTP, such as `127.0.0.1:2525` (no TLS needed on loopback) or `0.0.0.0:587,0.0.0.0:465`; port 465 speaks TLS from the first octet, all others STARTTLS. The role `api` serves it (docs/guide/submission.md).',
	),
	submissionTlsCert: optional(
		'MAILCTL_SUBMISSION_TLS_CERT',
		'–',
		path,
		'PEM file with the certificate chain of MAILCTL_SUBMISSION_LISTEN; only loopback goes without it or MAILCTL_ACME. SIGHUP reads it again.',
	),
	submissionTlsKey: optional(
		'MAILCTL_SUBMISSION_TLS_KEY',
		'–',
		path,
		'PEM file with the private key of MAILCTL_SUBMISSION_TLS_CERT.',
	),
};

/** Services that send mail for this installation. */
const providers = {
	providerHosts: optionalList(
		'MAILCTL_PROVIDER_HOSTS',
		'the providers’ own',
		list(standIn),
		'For a lab: `name=host:port`, several with commas: hosts that stand in for a provider’s API (`ses`, `postmark`, …) and for the host of SNS certificates (`sns`). Their certificates are not verified.',
	),
};

/** How events are posted to endpoints. */
const webhooks = {
	webhookBackoff: setting(
		'MAILCTL_WEBHOOK_BACKOFF',
		'60s',
		duration(1),
		'Wait after the end of a failed webhook attempt.',
	),
	webhookTimeout: setting(
		'MAILCTL_WEBHOOK_TIMEOUT',
		'15s',
		timerDuration(1),
		'One webhook attempt in all; connecting may take a third of it, at most 5 s.',
	),
	webhookConcurrency: setting(
		'MAILCTL_WEBHOOK_CONCURRENCY',
		'4/256',
		webhookConcurrency,
		'Webhook attempts in flight per endpoint (one after a failure) / in all.',
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
};

/** Every setting, in the order of the pages; the keys are the names in the code. */
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

/** The settings by what they are about, as the pages show them. */
export const topics: ReadonlyArray<{readonly title: string; readonly keys: readonly SettingKey[]}> = [
	topic('The process', server),
	topic('Certificates', certificates),
	topic('Dashboard', dashboard),
	topic('Submission', submission),
	topic('Delivery', delivery),
	topic('Sources', sources),
	topic('What comes back', reports),
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

const machine = {hostname: '', cpus: 1, terminal: false};

/** docs/reference/settings.md. */
export function settingsPage(): string {
	const sections = topics.map(
		({title, keys}) => `## ${title}

| name | default | meaning | SIGHUP |
|---|---|---|---|
${keys.map(row).join('\n')}`,
	);
	return `# Settings

Environment variables. They may also stand in a file: \`.env\` in the working directory, or the one named by \`--env-file\`.
The environment wins over the file; an empty value is the same as none. Every problem is reported at once, and an unknown
\`MAILCTL_…\` name is one. A file that holds a password or key may be readable by its owner only. \`mailctl config show\`
prints what holds and where it comes from, \`mailctl config check\` exits 0 or 78.

Durations: a plain number is seconds, else \`500ms 90s 5m 4h 4d\`. Lists: commas. Booleans: \`true|false\`.
Settings marked under SIGHUP change in a running daemon when it gets that signal; the others need a restart.

${sections.join('\n\n')}

This page is made from the code: \`npm run build && node dist/src/cli/tree/write-docs.js\`.
`;
}

/** config/mailctl.env.example: every setting, commented out, at its default. */
export function exampleFile(): string {
	const sections = topics.map(({title, keys}) => `# --- ${title}\n\n${keys.map(entry).join('\n\n')}`);
	return `# Settings of mailctl, at their defaults. Copy this file to .env, or name it with --env-file, and chmod 600 it if it is to
# hold a password. docs/reference/settings.md is the same in tables.

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
