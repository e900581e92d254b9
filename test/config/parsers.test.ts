import test from 'ava';
import fc from 'fast-check';
import {
	boolean,
	bounceMailbox,
	choice,
	cidr,
	count,
	databaseUrl,
	dnsServer,
	domain,
	duration,
	key256,
	list,
	listen,
	listenOrOff,
	mailAddress,
	type Parser,
	path,
	publicUrl,
	rateLimit,
	retrySchedule,
	smtpTimeouts,
	sourceAddress,
	webhookConcurrency,
	wordSet,
} from '../../src/config/parsers.ts';
import {settingKeys, table} from '../../src/config/table.ts';
import {anyChar} from '../helpers/any-char.ts';

const imap = {
	kind: 'imap',
	host: 'mail.example',
	port: 993,
	tls: 'implicit',
	user: 'u',
	password: 'p',
	folder: 'INBOX',
};

// Each row is a text and the expected value; `undefined` means that it is refused.
const cases: Record<string, {parser: Parser<unknown>; rows: Array<[string, unknown]>}> = {
	boolean: {
		parser: boolean,
		rows: [
			['true', true],
			['false', false],
			['True', undefined],
			['1', undefined],
		],
	},
	choice: {
		parser: choice(['json', 'pretty']),
		rows: [
			['json', 'json'],
			['JSON', undefined],
			['toString', undefined],
		],
	},
	count: {
		parser: count(1, 256),
		rows: [
			['1', 1],
			['256', 256],
			['0', undefined],
			['257', undefined],
			['1e1', undefined],
			['0x10', undefined],
			['-1', undefined],
			['1.5', undefined],
			['９', undefined],
		],
	},
	duration: {
		parser: duration(),
		rows: [
			['0', 0],
			['90', 90_000],
			['500ms', 500],
			['90s', 90_000],
			['5m', 300_000],
			['4h', 14_400_000],
			['4d', 345_600_000],
			['3650d', 315_360_000_000],
			['3651d', undefined],
			['1.5h', undefined],
			['-5s', undefined],
			['5 m', undefined],
			['5M', undefined],
			['1w', undefined],
		],
	},
	'duration, not 0': {
		parser: duration(1),
		rows: [
			['0', undefined],
			['0ms', undefined],
			['1ms', 1],
		],
	},
	list: {
		parser: list(count(1, 9)),
		rows: [
			['1, 2,3', [1, 2, 3]],
			['1,', undefined],
			[',1', undefined],
			['', undefined],
		],
	},
	wordSet: {
		parser: wordSet(['api', 'deliver']),
		rows: [
			['deliver,api,deliver', ['deliver', 'api']],
			['api,smtp', undefined],
		],
	},
	reputationLimits: {
		parser: table.reputation.parse,
		rows: [
			['off', null],
			[
				'warn=4%/0.08%, pause=8%/0.3%',
				{warn: {bounces: 0.04, complaints: 0.0008}, pause: {bounces: 0.08, complaints: 0.003}},
			],
			['pause=100%/1%', {warn: {bounces: 0.05, complaints: 0.001}, pause: {bounces: 1, complaints: 0.01}}],
			['warn=11%/0.1%', undefined],
			['pause=10%/0.05%', undefined],
			['warn=0%/0.1%', undefined],
			['pause=101%/1%', undefined],
			['pause=10%', undefined],
			['pause=10/1', undefined],
			['pause=10%/1%/1%', undefined],
			['stop=10%/1%', undefined],
			['', undefined],
		],
	},
	senderId: {
		parser: table.senderId.parse,
		rows: [
			['shop1', 'shop1'],
			['a'.repeat(15), 'a'.repeat(15)],
			['shop', undefined],
			['a'.repeat(16), undefined],
			['shop:1', undefined],
			['shöp1', undefined],
		],
	},
	path: {
		parser: path,
		rows: [
			['data', '/srv/data'],
			['/var/lib/mailctl/', '/var/lib/mailctl'],
			['a\0b', undefined],
		],
	},
	domain: {
		parser: domain,
		rows: [
			['Mail.Example.COM', 'mail.example.com'],
			['bücher.example', 'xn--bcher-kva.example'],
			['box', 'box'],
			['my_box', undefined],
			['192.0.2.1', undefined],
			['mail..example', undefined],
			['mail.example.', undefined],
			['-a.example', undefined],
			[`${'a'.repeat(64)}.example`, undefined],
		],
	},
	mailAddress: {
		parser: mailAddress,
		rows: [
			['fbl+a@Mail.Example', 'fbl+a@mail.example'],
			['fbl', undefined],
			['@mail.example', undefined],
			['a b@mail.example', undefined],
			['a..b@mail.example', undefined],
			['a@b@mail.example', undefined],
			['a@mail.example\r\nRCPT', undefined],
		],
	},
	key256: {
		parser: key256,
		rows: [
			[Buffer.alloc(32, 7).toString('base64'), new Uint8Array(32).fill(7)],
			[Buffer.alloc(32, 7).toString('base64').slice(0, -1), new Uint8Array(32).fill(7)],
			[Buffer.alloc(31, 7).toString('base64'), undefined],
			[Buffer.alloc(33, 7).toString('base64'), undefined],
			[`${Buffer.alloc(32, 7).toString('base64')}\n`, undefined],
			['!'.repeat(44), undefined],
		],
	},
	listen: {
		parser: listen,
		rows: [
			['127.0.0.1:8125', {host: '127.0.0.1', port: 8125}],
			['[::1]:25', {host: '::1', port: 25}],
			['localhost:0', {host: 'localhost', port: 0}],
			['8125', {host: '127.0.0.1', port: 8125}],
			['127.0.0.1', undefined],
			['127.0.0.1:65536', undefined],
			[':8125', undefined],
			['::1:25', undefined],
			['[127.0.0.1]:25', undefined],
			['host:port', undefined],
			['off', undefined],
		],
	},
	listenOrOff: {
		parser: listenOrOff,
		rows: [
			['off', null],
			['0.0.0.0:25', {host: '0.0.0.0', port: 25}],
			['on', undefined],
		],
	},
	dnsServer: {
		parser: dnsServer,
		rows: [
			['192.0.2.1', '192.0.2.1:53'],
			['127.0.0.1:5353', '127.0.0.1:5353'],
			['::1', '[::1]:53'],
			['[::1]:5353', '[::1]:5353'],
			['[::1]', undefined],
			['fe80::1%eth0', undefined],
			['192.0.2.1:0', undefined],
			['dns.example', undefined],
		],
	},
	cidr: {
		parser: cidr,
		rows: [
			['10.1.2.3/8', '10.0.0.0/8'],
			['192.0.2.1', '192.0.2.1/32'],
			['::1', '::1/128'],
			['fd00::1/8', 'fd00::/8'],
			['0.0.0.0/0', '0.0.0.0/0'],
			['10.0.0.0/33', undefined],
			['10.0.0.0/', undefined],
			['10.0.0.0/8/8', undefined],
			['10/8', undefined],
			['localhost', undefined],
		],
	},
	sourceAddress: {
		parser: sourceAddress,
		rows: [
			['192.0.2.7', {ip: '192.0.2.7', ehlo: null}],
			['::1=Out.Example', {ip: '::1', ehlo: 'out.example'}],
			['192.0.2.7=', undefined],
			['192.0.2.7=a=b', undefined],
			['out.example', undefined],
		],
	},
	retrySchedule: {
		parser: retrySchedule,
		rows: [
			['1m,5m,4h*', {waits: [60_000, 300_000, 14_400_000], repeatLast: true}],
			['100ms, 200ms', {waits: [100, 200], repeatLast: false}],
			['1', {waits: [1000], repeatLast: false}],
			['*', undefined],
			['1m**', undefined],
			['1m*,5m', undefined],
			['0', undefined],
		],
	},
	rateLimit: {
		parser: rateLimit,
		rows: [
			['6000/60', {requests: 6000, windowMs: 60_000}],
			['0', null],
			['0/60', undefined],
			['60/0', undefined],
			['6000', undefined],
			['1/2/3', undefined],
		],
	},
	webhookConcurrency: {
		parser: webhookConcurrency,
		rows: [
			['4/256', {perEndpoint: 4, total: 256}],
			['8/4', undefined],
			['4', undefined],
		],
	},
	publicUrl: {
		parser: publicUrl,
		rows: [
			['https://Mail.Example/', 'https://mail.example'],
			['http://127.0.0.1:8125', 'http://127.0.0.1:8125'],
			['https://example.com/mail/', 'https://example.com/mail'],
			['https://u:p@example.com', undefined],
			['https://example.com/?a=b', undefined],
			['ftp://example.com', undefined],
			['javascript:alert(1)', undefined],
			['example.com', undefined],
		],
	},
	databaseUrl: {
		parser: databaseUrl,
		rows: [
			['postgres://u:p@h:5432/d', 'postgres://u:p@h:5432/d'],
			['postgresql:///d?host=/run/postgresql', 'postgresql:///d?host=/run/postgresql'],
			['mysql://h/d', undefined],
			['postgres://h:99999/d', undefined],
		],
	},
	bounceMailbox: {
		parser: bounceMailbox,
		rows: [
			['imaps://u:p@mail.example/INBOX', imap],
			['imaps://u:p@mail.example', imap],
			['imap://u:p@mail.example/', {...imap, port: 143, tls: 'starttls'}],
			[
				'imap://u:p@[::1]:1143/Bounces%20in?tls=none',
				{...imap, host: '::1', port: 1143, tls: 'none', folder: 'Bounces in'},
			],
			['imaps://u%40x:p%3A@mail.example', {...imap, user: 'u@x', password: 'p:'}],
			['maildir:Maildir', {kind: 'maildir', path: '/srv/Maildir'}],
			['imaps://u:p@mail.example?tls=none', undefined],
			['imap://u:p@mail.example?tls=toString', undefined],
			['imaps://mail.example', undefined],
			['imaps://u:p@mail.example/a%0d%0ab', undefined],
			['imaps://u:%ff@mail.example', undefined],
			['maildir:', undefined],
		],
	},
};

for (const [name, {parser, rows}] of Object.entries(cases)) {
	for (const [text, expected] of rows) {
		test(`${name}: ${JSON.stringify(text).slice(0, 60)}`, t => {
			const parsed = parser(text, '/srv');
			t.deepEqual(parsed.ok ? parsed.value : undefined, expected);
			t.true(parsed.ok || parsed.allowed.startsWith('use '));
		});
	}
}

test('smtpTimeouts changes only the steps it names', t => {
	const parsed = smtpTimeouts('connect=500ms,dot=1h', '');
	t.like(parsed, {ok: true, value: {connect: 500, dot: 3_600_000, greeting: 300_000, quit: 5000}});
	for (const text of ['connect', 'connect=', 'connect=0', 'connect=1=2', 'toString=1s', '__proto__=1s', '=1s']) {
		t.false(smtpTimeouts(text, '').ok, text);
	}
});

for (const key of settingKeys) {
	test(`accepts or refuses any text for ${table[key].name} without throwing`, t => {
		const near = fc.stringMatching(/^[a-z0-9:/@?=%.,*[\]-]{0,40}$/);
		fc.assert(
			fc.property(fc.oneof(fc.string({unit: anyChar}), near), text => {
				t.is(typeof table[key].parse(text, '/').ok, 'boolean');
			}),
		);
	});
}
