import {chmodSync, chownSync, mkdirSync, mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import test from 'ava';
import {linkBase, listenUrl, localUrl} from '../../src/config/derive.ts';
import {loadSettings, reloadSettings, showSettings} from '../../src/config/settings.ts';
import {smtpTimeoutDefaults} from '../../src/net/smtp-timeouts.ts';
import {conforms} from '../helpers/conforms.ts';

function folder(file?: string, mode = 0o600): string {
	const path = mkdtempSync(join(tmpdir(), 'mailctl-settings-'));
	if (file !== undefined) {
		writeFileSync(join(path, '.env'), file);
		chmodSync(join(path, '.env'), mode);
	}

	return path;
}

function load(env: Record<string, string> = {}, input: Partial<Parameters<typeof loadSettings>[0]> = {}) {
	return loadSettings({env, cwd: '/nonexistent', hostname: 'mail.example.com', cpus: 4, ...input});
}

function loaded(...input: Parameters<typeof load>) {
	const result = load(...input);
	if (!result.ok) {
		throw new Error(result.problems.join('\n'));
	}

	return result;
}

function problems(...input: Parameters<typeof load>): string {
	const result = load(...input);
	return result.ok ? '' : result.problems.join('\n');
}

test('uses the defaults if nothing is set', t => {
	conforms(t, 'limits.webhook-backoff');
	const {settings, sources} = loaded();
	t.like(settings, {
		dataDir: '/nonexistent/data',
		httpListen: {host: '127.0.0.1', port: 8125},
		hostname: 'mail.example.com',
		delivery: 'capture',
		inboundListen: null,
		renderers: 4,
		retentionDays: 90,
		webhookBackoff: 60_000,
		logFormat: 'json',
		maxSessions: 64,
	});
	t.deepEqual(settings.relays, []);
	t.deepEqual(settings.retrySchedule, {
		waits: [60_000, 300_000, 600_000, 1_200_000, 2_400_000, 5_400_000, 10_800_000, 14_400_000],
		repeatLast: true,
	});
	t.deepEqual(settings.smtpTimeouts, smtpTimeoutDefaults);
	t.deepEqual(new Set(Object.values(sources)), new Set(['default']));
	t.is(loaded({}, {isTerminal: true}).settings.logFormat, 'pretty');
});

test('the environment overrides .env, which overrides the defaults', t => {
	const cwd = folder('MAILCTL_SENDERS=2\nMAILCTL_MX_PORT=2525\nMAILCTL_DATA_DIR="var # data" # comment\nOTHER=x\n');
	const {settings, sources} = loaded({MAILCTL_SENDERS: '3'}, {cwd});
	t.like(settings, {senders: 3, mxPort: 2525, dataDir: join(cwd, 'var # data')});
	t.like(sources, {senders: 'environment', mxPort: '.env', renderers: 'default'});
});

test('treats an empty value as unset', t => {
	const cwd = folder('MAILCTL_SENDERS=2\nMAILCTL_RELAY_URL=\n');
	const {settings, sources} = loaded({MAILCTL_SENDERS: ' ', MAILCTL_MX_PORT: ''}, {cwd});
	t.like(settings, {senders: 1, mxPort: 25});
	t.is(sources.senders, 'default');
});

test('reads --env-file instead of .env and requires it to exist', t => {
	const cwd = folder('MAILCTL_SENDERS=2\n');
	writeFileSync(join(cwd, 'lab.env'), 'MAILCTL_MX_PORT=2525\n');
	t.like(loaded({}, {cwd, envFile: 'lab.env'}).settings, {senders: 1, mxPort: 2525});
	t.regex(problems({}, {cwd, envFile: 'none.env'}), /none\.env does not exist/);
	t.regex(problems({}, {cwd, envFile: '.'}), /cannot be read/);
});

test('reading a file does not change the environment', t => {
	const env = {MAILCTL_SENDERS: '3'};
	loaded(env, {cwd: folder('MAILCTL_MX_PORT=2525\n')});
	t.deepEqual(env, {MAILCTL_SENDERS: '3'});
});

test('requires a file with a password to be private to its owner', t => {
	const secret = 'MAILCTL_RELAY_URL=smtp://u:hunter2@mail.example\n';
	t.regex(problems({}, {cwd: folder(secret, 0o644)}), /^\.env holds a password or key.*chmod 600 \.env$/);
	t.is(problems({}, {cwd: folder(secret)}), '');
	t.is(problems({}, {cwd: folder('MAILCTL_RELAY_URL=smtp://mail.example\n', 0o644)}), '');
});

if (process.getuid?.() === 0) {
	test('allows a file with a password to be group-readable only if root owns it', t => {
		const cwd = folder('MAILCTL_RELAY_URL=smtp://u:hunter2@mail.example\n', 0o640);
		t.is(problems({}, {cwd}), '');
		chownSync(join(cwd, '.env'), 1000, 1000);
		t.regex(problems({}, {cwd}), /chmod 600 \.env$/);
	});
}

test('freezes settings deeply', t => {
	const {settings} = loaded({MAILCTL_RELAY_URL: 'smtp://mail.example', MAILCTL_DNS_SERVERS: '192.0.2.1'});
	t.true(Object.isFrozen(settings));
	for (const value of [settings.httpListen, settings.relays, settings.relays[0], settings.retrySchedule.waits]) {
		t.true(Object.isFrozen(value));
	}
});

const derived: Array<[string, Record<string, string>, string, string]> = [
	['listener off', {MAILCTL_PUBLIC_URL: 'https://go.shop.example'}, 'mail.example.com', 'fbl@mail.example.com'],
	[
		'listener on',
		{MAILCTL_PUBLIC_URL: 'https://go.shop.example', MAILCTL_INBOUND_LISTEN: '0.0.0.0:25'},
		'bounces.go.shop.example',
		'fbl@bounces.go.shop.example',
	],
	[
		'listener on, link host is an address',
		{MAILCTL_INBOUND_LISTEN: '0.0.0.0:25'},
		'mail.example.com',
		'fbl@mail.example.com',
	],
	[
		'given',
		{MAILCTL_RETURN_PATH_DOMAIN: 'b.shop.example', MAILCTL_FEEDBACK_ADDRESS: 'arf@shop.example'},
		'b.shop.example',
		'arf@shop.example',
	],
];
for (const [name, env, returnPathDomain, feedbackAddress] of derived) {
	test(`derives the return path and feedback address: ${name}`, t => {
		t.like(loaded(env).settings, {returnPathDomain, feedbackAddress});
	});
}

test('falls back to localhost if the machine’s name is not a DNS name', t => {
	t.is(loaded({}, {hostname: 'my box'}).settings.hostname, 'localhost');
});

test('links start with the listen address unless a public URL is set', t => {
	t.is(listenUrl({host: '::1', port: 81}), 'http://[::1]:81');
	const settings = {publicUrl: null, httpListen: {host: '::1', port: 81}, hostname: 'mail.shop.example'};
	t.is(linkBase(settings), 'http://[::1]:81');
	t.is(linkBase(settings, 'http://[::1]:4711'), 'http://[::1]:4711');
	t.is(linkBase({...settings, publicUrl: 'https://go.example/mail'}, 'http://0.0.0.0:1'), 'https://go.example/mail');
});

for (const host of ['0.0.0.0', '::']) {
	test(`links use the machine’s full name or loopback instead of ${host}`, t => {
		const settings = {publicUrl: null, httpListen: {host, port: 80}, hostname: 'mail.shop.example'};
		t.is(linkBase(settings), 'http://mail.shop.example:80');
		t.is(linkBase({...settings, hostname: 'vm'}, listenUrl({host, port: 4711})), 'http://127.0.0.1:4711');
		t.is(localUrl(listenUrl({host, port: 4711})), 'http://127.0.0.1:4711');
	});
}

test('uses the listen address itself if it is specific', t => {
	t.is(localUrl('http://192.0.2.7:80'), 'http://192.0.2.7:80');
});

test('config show masks every secret and names its source', t => {
	const rows = showSettings(
		loaded({
			MAILCTL_DATABASE_URL: 'postgres://mailctl:hunter2@db.example/mail?sslpassword=hunter3',
			MAILCTL_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'),
			MAILCTL_RELAY_URL: 'smtp://u:hunter%404@a.example,smtps://u:hunter5@b.example',
			MAILCTL_BOUNCE_MAILBOX: 'imaps://u:hunt@er6@c.example/INBOX',
		}),
	);
	const shown = (name: string) => rows.find(row => row.name === name)?.value;
	t.is(shown('MAILCTL_DATABASE_URL'), 'postgres://mailctl:***@db.example/mail?sslpassword=***');
	t.is(shown('MAILCTL_SECRET_KEY'), '***');
	t.is(shown('MAILCTL_RELAY_URL'), 'smtp://u:***@a.example,smtps://u:***@b.example');
	t.is(shown('MAILCTL_BOUNCE_MAILBOX'), 'imaps://u:***@c.example/INBOX');
	t.is(shown('MAILCTL_PUBLIC_URL'), 'http://127.0.0.1:8125');
	t.is(shown('MAILCTL_RETURN_PATH_DOMAIN'), 'mail.example.com');
	t.is(shown('MAILCTL_CA_FILE'), null);
	t.deepEqual(rows.find(row => row.name === 'MAILCTL_SECRET_KEY')?.source, 'environment');
	t.notRegex(JSON.stringify(rows), /hunt/);
});

test('SIGHUP applies what can change and lists what needs a restart', t => {
	const running = loaded().settings;
	const fresh = loaded({MAILCTL_LOG_LEVEL: 'debug', MAILCTL_RATE_LIMIT: '0', MAILCTL_SENDERS: '2'}).settings;
	const {settings, changed, waiting} = reloadSettings(running, fresh);
	t.like(settings, {logLevel: 'debug', rateLimit: null, senders: 1});
	t.deepEqual([changed, waiting], [['MAILCTL_RATE_LIMIT', 'MAILCTL_LOG_LEVEL'], ['MAILCTL_SENDERS']]);
	t.true(Object.isFrozen(settings));
});

const adminListeners: Array<[string, Record<string, string>, unknown]> = [
	['shared with a loopback HTTP listener by default', {}, 'shared'],
	['shared on IPv6 too', {MAILCTL_HTTP_LISTEN: '[::1]:8125'}, 'shared'],
	[
		'separate if HTTP is reachable from outside',
		{MAILCTL_HTTP_LISTEN: '0.0.0.0:8125'},
		{host: '127.0.0.1', port: 8126},
	],
	[
		'shared if both have the same address',
		{MAILCTL_HTTP_LISTEN: '0.0.0.0:80', MAILCTL_ADMIN_LISTEN: '0.0.0.0:80'},
		'shared',
	],
	[
		'separate if the system chooses both ports',
		{MAILCTL_HTTP_LISTEN: '127.0.0.1:0', MAILCTL_ADMIN_LISTEN: '127.0.0.1:0'},
		{host: '127.0.0.1', port: 0},
	],
	['off', {MAILCTL_ADMIN_LISTEN: 'off'}, null],
];

for (const [name, env, adminListen] of adminListeners) {
	test(`configures the admin listener: ${name}`, t => {
		t.deepEqual(loaded(env).settings.adminListen, adminListen);
	});
}

test('uses the settings of the system’s daemon unless something else locates the store', t => {
	const systemFile = join(folder('MAILCTL_HOSTNAME=mx.example.com\n', 0o640), '.env');
	const {settings, sources} = loaded({MAILCTL_DELIVERY: 'mx'}, {systemFile});
	t.like(settings, {dataDir: '/var/lib/mailctl', hostname: 'mx.example.com', delivery: 'mx'});
	const relative = join(folder('MAILCTL_DATA_DIR=store'), '.env');
	t.is(loaded({}, {systemFile: relative}).settings.dataDir, '/var/lib/mailctl/store');
	t.like(sources, {dataDir: systemFile, hostname: systemFile, delivery: 'environment'});

	const own = folder('MAILCTL_HOSTNAME=mine.example.com\n');
	t.like(loaded({}, {systemFile, cwd: own}).settings, {dataDir: '/var/lib/mailctl', hostname: 'mine.example.com'});
	const placed = folder('MAILCTL_DATA_DIR=store\n');
	t.like(loaded({}, {systemFile, cwd: placed}).settings, {
		dataDir: join(placed, 'store'),
		hostname: 'mail.example.com',
	});
	t.is(loaded({MAILCTL_DATA_DIR: '/srv'}, {systemFile}).settings.hostname, 'mail.example.com');
	t.is(loaded({}, {systemFile, cwd: own, envFile: '.env'}).settings.dataDir, join(own, 'data'));
	t.is(loaded({}, {systemFile: join(own, 'none')}).sources.dataDir, 'default');

	const used = folder();
	mkdirSync(join(used, 'data'));
	writeFileSync(join(used, 'data/mailctl.db'), '');
	t.is(loaded({}, {systemFile, cwd: used}).settings.dataDir, join(used, 'data'));
});
