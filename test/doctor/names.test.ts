import {createSocket} from 'node:dgram';
import {once} from 'node:events';
import test, {type ExecutionContext} from 'ava';
import type {Check} from '../../src/doctor/finding.ts';
import {clockCheck} from '../../src/doctor/machine.ts';
import {
	ehloSpfCheck,
	hostnameCheck,
	publicInterfaceAddresses,
	resolverCheck,
	reverseDnsCheck,
} from '../../src/doctor/outbound.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {reverseName} from '../../src/net/host-name.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';

async function resolverFor(t: ExecutionContext, zone: Zone) {
	const dns = await startFakeDns(t, zone);
	return createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock});
}

/** Returns each finding as `status: detail`. */
async function told(check: Check): Promise<string[]> {
	return (await check.run()).map(({status, detail}) => `${status}: ${detail}`);
}

test('lists the public addresses of interfaces, without internal ones', t => {
	const one = (address: string, internal = false) => ({
		...{address, internal, netmask: '', mac: '', cidr: null},
		...(address.includes(':') ? {family: 'IPv6' as const, scopeid: 0} : {family: 'IPv4' as const}),
	});
	const interfaces = {lo: [one('127.0.0.1', true)], eth0: [one('10.0.0.5'), one('93.184.215.14'), one('fe80::1')]};
	t.deepEqual(publicInterfaceAddresses(interfaces), ['93.184.215.14']);
});

test('requires the EHLO name to exist in DNS', async t => {
	const resolver = await resolverFor(t, {'mail.example.test': {a: ['192.0.2.1'], aaaa: ['2001:db8::1']}});
	t.deepEqual(await told(hostnameCheck('mail.example.test', resolver)), [
		'ok: mail.example.test is 192.0.2.1, 2001:db8::1',
	]);
	t.deepEqual(await told(hostnameCheck('gone.example.test', resolver)), [
		'fail: gone.example.test has no address in DNS',
	]);
	t.deepEqual(await told(hostnameCheck('box', resolver)), ['fail: box is not a fully qualified name']);
	t.deepEqual(await told(hostnameCheck('box', null)), ['fail: box is not a fully qualified name']);
	t.regex((await told(hostnameCheck('gone.example.test', null)))[0] ?? '', /^ok: gone\.example\.test; not looked up/);
});

test('requires reverse DNS from the address to the EHLO name and back', async t => {
	const resolver = await resolverFor(t, {
		'mail.example.test': {a: ['192.0.2.1'], aaaa: ['2001:db8::1']},
		'1.2.0.192.in-addr.arpa': {ptr: ['Mail.Example.test']},
		[reverseName('2001:db8::1')]: {ptr: ['mail.example.test']},
		'2.2.0.192.in-addr.arpa': {ptr: ['host-2.provider.test']},
		'host-2.provider.test': {a: ['192.0.2.2']},
		'3.2.0.192.in-addr.arpa': {ptr: ['mail.example.test']},
		'5.2.0.192.in-addr.arpa': 'servfail',
	});
	const own = (address: string) => [{address, hostname: 'mail.example.test'}];
	const look = async (address: string) => await told(reverseDnsCheck(own(address), resolver));
	t.deepEqual(await look('192.0.2.1'), ['ok: 192.0.2.1 is mail.example.test, both ways']);
	t.deepEqual(await look('2001:db8::1'), ['ok: 2001:db8::1 is mail.example.test, both ways']);
	t.deepEqual(await look('192.0.2.2'), [
		'warn: 192.0.2.2 is host-2.provider.test, but the EHLO name is mail.example.test',
	]);
	t.deepEqual(await look('192.0.2.3'), [
		'fail: 192.0.2.3 has the name mail.example.test, which does not resolve back to it',
	]);
	t.deepEqual(await look('192.0.2.4'), ['fail: 192.0.2.4 has no name (PTR)']);
	t.regex((await look('192.0.2.5'))[0] ?? '', /^warn: the name of 192\.0\.2\.5 could not be looked up/);
	t.deepEqual(await told(reverseDnsCheck([], resolver)), ['warn: the public address of this machine is unknown']);
});

test('checks SPF of the EHLO name, and that DNS responds at all', async t => {
	const resolver = await resolverFor(t, {
		'mail.example.test': {txt: ['other', 'v=spf1 a -all']},
		'bare.example.test': {txt: ['v=spf10 a']},
		'big.test': {mx: [[10, 'mx.big.test']]},
	});
	t.deepEqual(await told(ehloSpfCheck('mail.example.test', resolver)), ['ok: mail.example.test: v=spf1 a -all']);
	t.deepEqual(await told(ehloSpfCheck('bare.example.test', resolver)), ['warn: bare.example.test has no SPF record']);
	t.deepEqual(await told(resolverCheck('big.test', resolver)), ['ok: big.test has MX mx.big.test']);
	t.deepEqual(await told(resolverCheck('none.test', resolver)), [
		'fail: DNS returned no MX for none.test (nxdomain)',
	]);
});

test('compares the clock with a time server', async t => {
	const server = createSocket('udp4');
	server.bind(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => server.close());
	let aheadMs = 0;
	server.on('message', (question, {port, address}) => {
		t.is(question[0], 0x23);
		const reply = Buffer.alloc(48);
		reply[0] = 0x24;
		const ms = systemClock.now() + aheadMs;
		reply.writeUInt32BE(Math.floor(ms / 1000) + 2_208_988_800, 40);
		reply.writeUInt32BE(Math.floor(((ms % 1000) / 1000) * 2 ** 32), 44);
		server.send(reply, port, address);
	});
	const resolver = await resolverFor(t, {'time.test': {a: ['127.0.0.1']}});
	const check = clockCheck({clock: systemClock, resolver, server: {host: 'time.test', port: server.address().port}});
	t.regex((await told(check))[0] ?? '', /^ok: [0-4]\.\d s /);
	aheadMs = 30_000;
	t.regex((await told(check))[0] ?? '', /^warn: (2[5-9]|30)\.\d s behind time\.test$/);
	aheadMs = -3_600_000;
	t.regex((await told(check))[0] ?? '', /^fail: 360\d\.\d s ahead of time\.test$/);
	const nowhere = clockCheck({clock: systemClock, resolver, server: {host: 'gone.test', port: 123}});
	t.deepEqual(await told(nowhere), ['warn: unknown: the time server gone.test was not found in DNS']);
});
