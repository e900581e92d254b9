import {chmodSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import {checkDestinations, loadDestinations, parseDestinations} from '../../src/config/destinations-file.ts';
import type {PaceReaction} from '../../src/mail/route.ts';
import {findProvider, maxWaitOfAll, minLifetimeOf} from '../../src/queue/pace/choose-route.ts';
import {temporaryFolder} from '../helpers/databases.ts';

const settings = {destinationsFile: null, sourcePools: [], relays: []};
const known = {pools: [], hasRelay: false};
const shipped = loadDestinations(settings);

/** Returns the limits of a mail server in the format of the table. */
const table: ReadonlyArray<readonly [host: string, provider: string, connections: number, mails: number, tls: string]> =
	[
		['mx.shop.example', 'default', 5, 50, 'opportunistic'],
		['aspmx.l.google.com', 'google', 5, 50, 'required'],
		['aspmx2.googlemail.com', 'google', 5, 50, 'required'],
		['notgoogle.com', 'default', 5, 50, 'opportunistic'],
		['mta5.am0.yahoodns.net', 'yahoo', 10, 20, 'opportunistic'],
		['outlook-com.olc.protection.outlook.com', 'outlook', 5, 50, 'opportunistic'],
		['shop-example.mail.protection.outlook.com', 'office365', 5, 50, 'opportunistic'],
		['shop-example.o-v1.mx.microsoft', 'office365', 5, 50, 'opportunistic'],
		['mx01.mail.icloud.com', 'apple', 10, 5, 'opportunistic'],
		['mx1a1.comcast.net', 'comcast', 25, 1000, 'unverified'],
		['eu-smtp-inbound-1.mimecast.com', 'mimecast', 10, 100, 'opportunistic'],
		['smtp-in.orange.fr', 'orange', 2, 100, 'unverified'],
		['mx00.gmx.net', 'gmx', 4, 20, 'unverified'],
		['mx-ha03.web.de', 'gmx', 4, 20, 'unverified'],
		['mx3.qq.com', 'qq', 4, 8, 'unverified'],
		['163mx01.mxmail.netease.com', 'netease', 4, 7, 'unverified'],
		['mx03.t-online.de', 't-online', 5, 50, 'opportunistic'],
	];
for (const [host, provider, connections, mails, tls] of table) {
	test(`the shipped file assigns ${host} to ${provider}`, t => {
		const {name, pace, tls: mode} = findProvider(shipped, 'shop.example', [host, 'aspmx.l.google.com']);
		t.deepEqual([name, pace.connections, pace.mailsPerSession, mode], [provider, connections, mails, tls]);
		t.true(pace.startConnections <= pace.connections);
	});
}

test('the shipped file has limits for a relay', t => {
	t.like(shipped.smarthost, {connections: 20, startConnections: 10, mailsPerSession: 1000, perMinute: null});
});

const replies: ReadonlyArray<readonly [host: string, reply: string, kind: PaceReaction['kind'] | undefined]> = [
	['mx03.t-online.de', '554 IP=192.0.2.1 - A problem occurred. Ask your postmaster. (BL)', 'suspend'],
	['163mx01.mxmail.netease.com', '554 HL:IPB 163 smtp7', 'suspend'],
	['163mx01.mxmail.netease.com', '550 User not found', undefined],
	['mta5.am0.yahoodns.net', '421 4.7.0 [TS04] Messages from 192.0.2.1 temporarily deferred', 'suspend'],
	[
		'outlook-com.olc.protection.outlook.com',
		'550 5.7.1 Unfortunately, messages from [192.0.2.1] were not sent (S3150).',
		'suspend',
	],
	['x.mail.protection.outlook.com', '451 4.7.500 Server busy. Please try again later', 'slow'],
	['mx01.mail.icloud.com', '421 4.7.1 Messages temporarily deferred [HCM1]', 'suspend'],
	['mta5.am0.yahoodns.net', '421 4.7.0 [TS03] All messages from 192.0.2.1 will be deferred', 'slow'],
	['mx01.mail.icloud.com', '421 4.7.0 [TS03]', undefined],
];
for (const [host, reply, kind] of replies) {
	test(`the shipped reaction of ${host} matches ${reply.slice(0, 40)}`, t => {
		const {reactions} = findProvider(shipped, 'shop.example', [host]).pace;
		t.is(reactions.find(({text}) => text.test(reply))?.reaction.kind, kind);
	});
}

for (const host of [
	'mx03.t-online.de',
	'163mx01.mxmail.netease.com',
	'a.olc.protection.outlook.com',
	'a.mx.microsoft',
]) {
	test(`the shipped file has advice for senders blocked by ${host}`, t => {
		const [first] = findProvider(shipped, 'shop.example', [host]).pace.reactions;
		t.regex(first?.reaction.kind === 'suspend' ? (first.reaction.advice ?? '') : '', /^ask /);
	});
}

test('accepts advice only next to suspend', t => {
	const entry = (reaction: object) => ({d: {mx: ['d.test'], reactions: [{text: 'busy', ...reaction}]}});
	const advice = 'write to postmaster@d.test';
	const [read] = findProvider(parsed(entry({suspend: '2h', advice})), 'd.test', ['d.test']).pace.reactions;
	t.deepEqual(read?.reaction, {kind: 'suspend', forMs: 7_200_000, advice});
	for (const wrong of [
		{suspend: '2h', advice: ''},
		{suspend: '2h', advice: 7},
		{mailsPerSession: 2, advice},
	]) {
		const result = parseDestinations({default: {}}, entry(wrong), {pools: [], hasRelay: false});
		t.regex(
			result.ok ? '' : result.problems.join(),
			/^d\.reactions\[0\]\.advice: use a text of 1 to 300 characters/,
		);
	}
});

function parsed(own: unknown, base: unknown = {default: {connections: 5, startConnections: 2}}) {
	const result = parseDestinations(base, own, {pools: ['otp'], hasRelay: true});
	if (!result.ok) {
		throw new Error(result.problems.join('\n'));
	}

	return result.destinations;
}

test('merges the operator’s file into the shipped one, entry by entry and field by field', t => {
	const base = {
		default: {connections: 5, startConnections: 2, mailsPerSession: 50, perMinute: 100, failures: 3},
		google: {mx: ['.google.com'], connections: 5, tls: 'required'},
		qq: {mx: ['qq.com']},
	};
	const own = {
		default: {mailsPerSession: 30},
		google: {connections: 9, startConnections: 3, perMinute: null},
		qq: null,
		shop: {domains: ['shop.example'], connections: 1, route: 'mx', pool: 'otp'},
	};
	const file = parsed(own, base);
	t.like(findProvider(file, 'a.example', ['x.google.com']), {
		name: 'google',
		tls: 'required',
		pace: {connections: 9, startConnections: 3, mailsPerSession: 30, perMinute: null, failures: 3},
	});
	t.like(findProvider(file, 'a.example', ['mx1.qq.com']), {name: 'default', pace: {perMinute: 100}});
	t.like(findProvider(file, 'shop.example', ['x.google.com']), {
		name: 'shop',
		route: {kind: 'mx'},
		pool: 'otp',
		pace: {connections: 1, startConnections: 1, mailsPerSession: 30, perMinute: 100},
	});
});

test('the longest name wins, a domain beats an MX, and only the first MX counts', t => {
	const file = parsed({
		all: {mx: ['example']},
		host: {mx: ['.mx.example'], domains: ['x.test']},
		sub: {domains: ['Sub.x.test']},
	});
	const name = (domain: string, ...hosts: string[]) => findProvider(file, domain, hosts).name;
	t.is(name('d.test', 'a.mx.example', 'b.other.test'), 'host');
	t.is(name('d.test', 'mx.example'), 'host');
	t.is(name('d.test', 'amx.example'), 'all');
	t.is(name('d.test', 'b.other.test', 'a.mx.example'), 'default');
	t.is(name('a.sub.x.test', 'a.mx.example'), 'sub');
	t.is(name('y.x.test', 'amx.example'), 'host');
	t.is(name('d.test'), 'default');
	t.is(name('example'), 'all');
});

test('takes the retry rules from the entry, then from default, then from the settings', t => {
	t.deepEqual(findProvider(shipped, 'a.test', ['x.google.com']).retry, {schedule: null, lifetime: null});
	const file = parsed({
		default: {lifetime: '2d'},
		patient: {domains: ['patient.test'], retry: '1m, 4h*', lifetime: '500ms'},
		half: {mx: ['half.test'], retry: '90s'},
		other: {mx: ['other.test']},
	});
	const retry = (domain: string) => findProvider(file, domain, [domain]).retry;
	t.deepEqual(retry('patient.test'), {schedule: {waits: [60_000, 14_400_000], repeatLast: true}, lifetime: 500});
	t.deepEqual(retry('half.test'), {schedule: {waits: [90_000], repeatLast: false}, lifetime: 172_800_000});
	t.is(retry('other.test'), file.other.retry);
	const usual = {waits: [1000], repeatLast: true};
	t.is(maxWaitOfAll(file, usual), 14_400_000);
	t.is(maxWaitOfAll(shipped, usual), 1000);
	t.is(minLifetimeOf(file, 1000), 500);
	t.is(minLifetimeOf(shipped, 1000), 1000);
});

test('an entry’s own reactions take precedence over the default ones', t => {
	const suspend = (text: string, time: string) => ({text, suspend: time});
	const file = parsed({
		default: {reactions: [suspend('busy', '1h'), suspend('full', '3h')]},
		d: {mx: ['d.test'], reactions: [suspend('busy*now', '2h')]},
	});
	const {reactions} = findProvider(file, 'd.test', ['d.test']).pace;
	const first = (reply: string) => reactions.find(({text}) => text.test(reply))?.reaction;
	t.deepEqual(first('421 busy right now'), {kind: 'suspend', forMs: 7_200_000});
	t.deepEqual(first('421 busy'), {kind: 'suspend', forMs: 3_600_000});
	t.deepEqual(first('421 full'), {kind: 'suspend', forMs: 10_800_000});
});

test('reads a slowdown with its rate, duration and connections', t => {
	const slow = (more: object) => ({
		d: {mx: ['d.test'], reactions: [{text: 'slow down', slow: {perMinute: 2, for: '90m', ...more}}]},
	});
	const reaction = (own: object) => findProvider(parsed(own), 'd.test', ['d.test']).pace.reactions[0]?.reaction;
	t.deepEqual(reaction(slow({})), {kind: 'slow', perMinute: 2, connections: 1, forMs: 5_400_000});
	t.deepEqual(reaction(slow({connections: 3})), {kind: 'slow', perMinute: 2, connections: 3, forMs: 5_400_000});
});

test('accepts any file or reports its errors with their paths', t => {
	const fields = [
		'mx',
		'domains',
		'connections',
		'perMinute',
		'tls',
		'route',
		'pool',
		'reactions',
		'retry',
		'lifetime',
		'note',
		'__proto__',
		'x',
	];
	const value = fc.oneof(
		fc.jsonValue(),
		fc.constantFrom('smtp://a:b@c', ['d.test'], [{text: 'busy', suspend: '1h'}], 5),
	);
	const entry = fc.dictionary(fc.constantFrom(...fields), value);
	const name = fc.oneof(
		fc.constantFrom('default', 'smarthost', 'google', '$comment', '__proto__', 'constructor'),
		fc.string(),
	);
	fc.assert(
		fc.property(fc.oneof(fc.dictionary(name, fc.oneof(entry, fc.jsonValue())), fc.jsonValue()), own => {
			const result = parseDestinations({}, own, known);
			return result.ok || (result.problems.length > 0 && result.problems.every(fault => /^\S.*: \S/.test(fault)));
		}),
	);
	t.pass();
});

test('reads the file named in the settings and merges it into the shipped one', async t => {
	const file = path.join(await temporaryFolder(t), 'own.json');
	writeFileSync(file, '{"google": {"connections": 2}}');
	const read = checkDestinations({...settings, destinationsFile: file});
	t.true(read.ok && findProvider(read.destinations, 'a.test', ['x.google.com']).pace.connections === 2);
	t.true(read.ok && findProvider(read.destinations, 'a.test', ['x.icloud.com']).name === 'apple');
	writeFileSync(file, '{"d": {"mx": ["d.test"], "route": "smtp://app:hunter2@relay.example"}}');
	chmodSync(file, 0o640);
	const exposed = `holds a password or key and others can read it: run chmod 600 ${file}`;
	t.deepEqual(checkDestinations({...settings, destinationsFile: file}), {
		ok: false,
		problems: [`MAILCTL_DESTINATIONS_FILE="${file}" ${exposed}`],
	});
	chmodSync(file, 0o600);
	t.true(checkDestinations({...settings, destinationsFile: file}).ok);
	writeFileSync(file, '{"google": {"connections": "hunter2"');
	const broken = checkDestinations({...settings, destinationsFile: file});
	t.deepEqual(broken, {ok: false, problems: [`MAILCTL_DESTINATIONS_FILE="${file}" is not JSON: see line 1`]});
});
