import test from 'ava';
import fc from 'fast-check';
import {fromSources, hostsName, mxHosts, smarthostName} from '../../../src/queue/pace/choose-route.ts';

const found = (...records: Array<[number, string]>) =>
	({kind: 'found', records: records.map(([priority, exchange]) => ({priority, exchange}))}) as const;

test('returns the mail servers in DNS in order of preference', t => {
	t.deepEqual(mxHosts('d.test', found([20, 'B.test.'], [10, 'c.test'], [10, 'a.test'], [30, 'a.test'])), [
		'a.test',
		'c.test',
		'b.test',
	]);
});

test('returns the domain itself for no MX, a null MX, an address or no response', t => {
	for (const answer of [
		{kind: 'nodata'},
		{kind: 'nxdomain'},
		{kind: 'failed', code: 'ETIMEOUT'},
		found([0, '']),
		found([10, '192.0.2.1']),
	] as const) {
		t.deepEqual(mxHosts('d.test', answer), ['d.test']);
	}
});

test('names a set of mail servers, with their common part written once', t => {
	const google = ['alt2.aspmx.l.google.com', 'aspmx.l.google.com', 'alt1.aspmx.l.google.com'];
	t.is(hostsName(google), '(alt1|alt2)?.aspmx.l.google.com');
	t.is(hostsName(['mx2.gmx.net', 'mx1.gmx.net', 'mx2.gmx.net']), '(mx1|mx2).gmx.net');
	t.is(hostsName(['mx.a.test', 'mx.b.test']), 'mx.a.test+mx.b.test');
	t.is(hostsName(['smtp.google.com']), 'smtp.google.com');
});

test('gives the same name in any order, and different sets different names', t => {
	const host = fc.array(fc.constantFrom('a', 'b', 'mx', 'test', 'com'), {minLength: 1, maxLength: 4});
	const set = fc.uniqueArray(
		host.map(labels => labels.join('.')),
		{minLength: 1, maxLength: 6},
	);
	fc.assert(
		fc.property(set, set, (one, other) => {
			const same = [...one].sort().join() === [...other].sort().join();
			return hostsName(one) === hostsName([...one].reverse()) && (hostsName(one) === hostsName(other)) === same;
		}),
	);
	t.pass();
});

test('shortens the names of long sets and keeps them distinct', t => {
	const hosts = (end: string) => Array.from({length: 20}, (_, n) => `${'x'.repeat(60)}${n}.${'y'.repeat(60)}.${end}`);
	t.true(hostsName(hosts('aa.test')).length < 200);
	t.not(hostsName([...hosts('aa.test'), 'z.test']), hostsName([...hosts('aa.test'), 'y.test']));
});

test('names relays without their passwords, and distinguishes source addresses', t => {
	const relay = {
		host: 'mail.example',
		port: 587,
		secure: false,
		tls: 'required',
		user: 'app',
		password: 'hunter2',
	} as const;
	const second = {...relay, host: '192.0.2.7', port: 25, user: null, password: null};
	t.is(smarthostName([relay, second]), 'smarthost app@mail.example:587+192.0.2.7:25');
	const sources = [
		{address: '192.0.2.1', hostname: null},
		{address: '2001:db8::1', hostname: 'six.example'},
	];
	t.is(fromSources('mx.example', sources), 'mx.example from 192.0.2.1+2001:db8::1');
	t.is(fromSources('mx.example', []), 'mx.example');
});

test('ignores an invalid host name, which could imitate another provider', t => {
	t.deepEqual(mxHosts('a.test', found([10, 'smarthost relay.example:587'])), ['a.test']);
	t.deepEqual(mxHosts('a.test', found([10, 'mx.one.example+mx.two.test'], [20, 'mx.a.test'])), ['mx.a.test']);
});
