import {createSocket} from 'node:dgram';
import {once} from 'node:events';
import test from 'ava';
import * as dns from 'dns-packet';
import fc from 'fast-check';
import {createSecureResolver, readAnswer} from '../../src/net/secure-resolver.ts';
import {type DnsFault, startFakeDns, type Zone} from '../helpers/fake-dns.ts';

const record = {usage: 3, selector: 1, matching: 1, data: 'ab'.repeat(32)};

async function start(
	t: Parameters<typeof startFakeDns>[0],
	zone: Zone,
	servers: readonly string[] = [],
	timeoutMs = 60_000,
) {
	let passed = 0;
	const clock = {now: () => Date.now() + passed, monotonic: () => performance.now() + passed};
	const fake = await startFakeDns(t, zone);
	return {
		...createSecureResolver({servers: [...servers, fake.server], timeoutMs, tries: 1, clock}),
		fake,
		pass(ms: number) {
			passed += ms;
		},
	};
}

test('distinguishes records authenticated by DNSSEC from others', async t => {
	const {tlsa, mx, a, aaaa} = await start(t, {
		'_25._tcp.mx.example.test': {tlsa: [record], signed: true},
		'example.test': {mx: [[10, 'MX.Example.test']], signed: true},
		'mx.example.test': {a: ['192.0.2.1'], signed: true},
		'plain.test': {mx: [[10, 'mx.example.test']]},
	});
	const name = '_25._tcp.mx.example.test';
	t.deepEqual(await tlsa(name), {kind: 'found', isAuthentic: true, records: [record], canonicalName: name});
	t.like(await mx('example.test'), {kind: 'found', isAuthentic: true, records: ['mx.example.test']});
	t.like(await mx('plain.test'), {kind: 'found', isAuthentic: false, records: ['mx.example.test']});
	t.like(await a('mx.example.test'), {kind: 'found', isAuthentic: true, records: ['192.0.2.1']});
	t.like(await aaaa('mx.example.test'), {kind: 'nodata', isAuthentic: true});
	t.like(await tlsa('_25._tcp.gone.example.test'), {kind: 'nxdomain', isAuthentic: true});
	t.like(await tlsa('_25._tcp.plain.test'), {kind: 'nxdomain', isAuthentic: false});
});

test('follows aliases and does not trust a chain with an unsigned link', async t => {
	const {a} = await start(t, {
		'alias.test': {cname: 'mx.example.test', signed: true},
		'weak.test': {cname: 'mx.example.test'},
		'mx.example.test': {a: ['192.0.2.1'], signed: true},
	});
	t.like(await a('alias.test'), {isAuthentic: true, records: ['192.0.2.1'], canonicalName: 'mx.example.test'});
	t.like(await a('weak.test'), {isAuthentic: false, records: ['192.0.2.1']});
});

for (const [fault, code, timeoutMs] of [
	['servfail', 'ESERVFAIL', 60_000],
	['refused', 'EREFUSED', 60_000],
	['timeout', 'ETIMEOUT', 2000],
	['garbage', 'ETIMEOUT', 2000],
] as const satisfies ReadonlyArray<readonly [DnsFault, string, timeoutMs: number]>) {
	test(`fails without caching on a useless response: ${fault}`, async t => {
		const {tlsa, fake} = await start(t, {'example.test': fault}, [], timeoutMs);
		t.deepEqual(await tlsa('example.test'), {kind: 'failed', code});
		fake.zone['example.test'] = {tlsa: [record], signed: true};
		t.like(await tlsa('example.test'), {kind: 'found'}, 'it is not remembered');
	});
}

test('reads a response that is too large for a packet over TCP', async t => {
	const tlsaRecords = Array.from({length: 30}, (_, n) => ({...record, data: n.toString(16).padStart(64, '0')}));
	const {tlsa, mx} = await start(t, {
		'example.test': {tlsa: tlsaRecords, signed: true},
		'cut.test': 'truncated',
	});
	t.like(await tlsa('example.test'), {kind: 'found', isAuthentic: true, records: tlsaRecords});
	t.like(await mx('cut.test'), {kind: 'nodata'});
});

test('caches responses for their TTL and shares one query among concurrent lookups', async t => {
	const {tlsa, fake, pass} = await start(t, {'example.test': {tlsa: [record], signed: true, ttl: 120}});
	await Promise.all([tlsa('example.test'), tlsa('example.test')]);
	await tlsa('example.test');
	t.is(fake.queries.length, 1);
	pass(121_000);
	await tlsa('example.test');
	t.is(fake.queries.length, 2);
});

test('skips a server that does not respond', async t => {
	const dead = createSocket('udp4');
	dead.bind(0, '127.0.0.1');
	await once(dead, 'listening');
	t.teardown(() => dead.close());
	const silent = `127.0.0.1:${dead.address().port}`;
	const {tlsa} = await start(t, {'example.test': {tlsa: [record], signed: true}}, [silent, '[::1]:9'], 2000);
	t.like(await tlsa('example.test'), {kind: 'found', records: [record]});
});

const question = {id: 7, name: 'example.test', type: 'TLSA'} as const;
const good: dns.Packet = {
	type: 'response',
	id: 7,
	questions: [{type: 'TLSA', name: 'Example.Test'}],
	answers: [],
};

test('accepts only a response to the exact question', t => {
	t.like(readAnswer(dns.encode(good), question), {id: 7});
	for (const wrong of [
		{id: 8},
		{type: 'query'},
		{questions: [{type: 'TLSA', name: 'other.test'}]},
		{questions: [{type: 'A', name: 'example.test'}]},
		{questions: [{type: 'TLSA', name: 'example.test', class: 'CH'}]},
		{questions: []},
		{questions: [...(good.questions ?? []), ...(good.questions ?? [])]},
	] as const) {
		t.is(readAnswer(dns.encode({...good, ...wrong} as dns.Packet), question), null, JSON.stringify(wrong));
	}
});

test('reads any bytes as a response or none, without throwing', t => {
	const whole = dns.encode({
		...good,
		answers: [
			{
				type: 'TLSA',
				name: 'example.test',
				data: {usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(32)},
			},
		],
	});
	fc.assert(
		fc.property(fc.uint8Array({maxLength: 64}), fc.nat(whole.length), fc.nat(255), (bytes, at, value) => {
			t.is(readAnswer(Buffer.from(bytes), question), null);
			const changed = Buffer.from(whole);
			changed[at % changed.length] = value;
			t.notThrows(() => readAnswer(changed, question));
			t.notThrows(() => readAnswer(whole.subarray(0, at), question));
		}),
	);
});
