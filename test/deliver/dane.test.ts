import test from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import type {TlsaRecord} from '../../src/net/dns.ts';
import {createSecureResolver} from '../../src/net/secure-resolver.ts';
import {issueCertificate, makeCertificate} from '../helpers/certificate.ts';
import {plainTerms, startLab} from '../helpers/delivery-lab.ts';
import {type DnsFault, type DnsRecords, startFakeDns} from '../helpers/fake-dns.ts';
import {type FakeMxOptions, startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {recordOf} from '../helpers/tlsa-record.ts';

const authority = makeCertificate('authority');
const own = makeCertificate('some.name.test');
const issued = issueCertificate(authority, ['mx0.example.test']);
const unusable: TlsaRecord = {...recordOf(own, 3, 1, 1), usage: 1};

type Setup = {
	readonly host: FakeMxOptions;
	/** Of `_port._tcp.mx0.example.test`. */
	readonly tlsa: DnsRecords | DnsFault | undefined;
	readonly domain?: Partial<DnsRecords>;
	readonly addresses?: Partial<DnsRecords>;
	readonly second?: FakeMxOptions;
};

/** A lab with a validating resolver. Every record is signed unless stated otherwise. */
async function daneLab(t: Parameters<typeof startLab>[0], {host, tlsa, domain = {}, addresses = {}, second}: Setup) {
	const mx = await startFakeMx(t, {host: loopbackAddress(), ...host});
	const other =
		second === undefined ? null : await startFakeMx(t, {host: loopbackAddress(), port: mx.port, ...second});
	const hosts: Array<readonly [number, string]> = [[10, 'mx0.example.test']];
	if (other !== null) {
		hosts.push([20, 'mx1.example.test']);
	}

	const zone = {
		'example.test': {mx: hosts, signed: true, ...domain},
		'mx0.example.test': {a: [mx.host], signed: true, ...addresses},
		...(other === null ? {} : {'mx1.example.test': {a: [other.host], signed: true}}),
		...(tlsa === undefined ? {} : {[`_${mx.port}._tcp.mx0.example.test`]: tlsa}),
	};
	const dns = await startFakeDns(t, zone);
	const lab = await startLab(t, [{host: mx.host, port: 0}], {
		mode: {kind: 'hosts', port: mx.port},
		zone,
		secureResolver: createSecureResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock}),
	});
	return {mx, other, dns, deliver: lab.deliver};
}

const signed = (...tlsa: TlsaRecord[]): DnsRecords => ({tlsa, signed: true});

test('accepts a certificate that matches a DANE-EE record, whatever its name', async t => {
	for (const matching of [1, 2]) {
		const {deliver} = await daneLab(t, {host: {tls: own}, tlsa: signed(recordOf(own, 3, 1, matching))});
		const {outcome, attempts} = await deliver();
		t.is(outcome.kind, 'delivered');
		t.regex(attempts[0]?.tls ?? '', /^TLSv1\.3 TLS_\w+ verified \(DANE\)$/);
		t.deepEqual(attempts[0]?.tlsResult, {policy: 'tlsa', result: 'success'});
	}
});

test('accepts a certificate for the MX name issued by a DANE-TA anchor, but not one for another name', async t => {
	const anchor = signed(recordOf(authority, 2, 0, 1));
	const good = await daneLab(t, {host: {tls: issued}, tlsa: anchor});
	t.regex((await good.deliver()).attempts[0]?.tls ?? '', / verified \(DANE\)$/);
	const elsewhere = issueCertificate(authority, ['elsewhere.test']);
	const bad = await daneLab(t, {host: {tls: elsewhere}, tlsa: anchor});
	const {outcome, attempts} = await bad.deliver();
	t.like(outcome, {kind: 'deferred', category: 'policy'});
	t.deepEqual(attempts[0]?.tlsResult, {policy: 'tlsa', result: 'certificate-host-mismatch'});
});

test('defers, and sends nothing in plain text, if no record matches the certificate', async t => {
	const {mx, deliver} = await daneLab(t, {host: {tls: issued}, tlsa: signed(recordOf(own, 3, 1, 1), unusable)});
	const {outcome, attempts} = await deliver();
	t.like(outcome, {kind: 'deferred', category: 'policy', reason: 'DANE: no TLSA record matches the certificate'});
	t.like(attempts, {length: 1, 0: {phase: 'starttls', tlsResult: {policy: 'tlsa', result: 'tlsa-invalid'}}});
	t.is(mx.count(), 0);
	t.false(mx.connections.some(({commands}) => commands.some(line => line.startsWith('MAIL'))));
});

test('defers if there are records but the server does not offer STARTTLS', async t => {
	const {mx, deliver} = await daneLab(t, {host: {}, tlsa: signed(recordOf(own, 3, 1, 1))});
	t.like((await deliver()).outcome, {
		kind: 'deferred',
		category: 'policy',
		reason: 'DANE: the server does not offer TLS',
	});
	t.is(mx.count(), 0);
});

test('requires TLS with any certificate if no record is usable', async t => {
	const {deliver} = await daneLab(t, {host: {tls: own}, tlsa: signed(unusable)});
	const {outcome, attempts} = await deliver();
	t.is(outcome.kind, 'delivered');
	t.regex(attempts[0]?.tls ?? '', / unverified \(DANE\)$/);
	const plain = await daneLab(t, {host: {}, tlsa: signed(unusable)});
	t.is((await plain.deliver()).outcome.kind, 'deferred');
	t.is(plain.mx.count(), 0);
});

const wrong = recordOf(makeCertificate('wrong'), 3, 1, 1);
const insecure: ReadonlyArray<readonly [string, Omit<Setup, 'host'>]> = [
	['the MX records', {tlsa: signed(wrong), domain: {signed: false}}],
	['the addresses', {tlsa: signed(wrong), addresses: {signed: false}}],
	['the TLSA records', {tlsa: {tlsa: [wrong]}}],
];
for (const [what, setup] of insecure) {
	test(`does not use DANE if ${what} are not signed with DNSSEC`, async t => {
		const {deliver} = await daneLab(t, {host: {tls: own}, ...setup});
		const {outcome, attempts} = await deliver();
		t.is(outcome.kind, 'delivered');
		t.regex(attempts[0]?.tls ?? '', / unverified$/);
		t.deepEqual(attempts[0]?.tlsResult, {policy: 'no-policy-found', result: 'success'});
	});
}

test('delivers without DANE, even in plain text, if there are no TLSA records', async t => {
	const {deliver} = await daneLab(t, {host: {}, tlsa: undefined});
	t.is((await deliver()).outcome.kind, 'delivered');
});

test('skips a mail server whose TLSA lookup fails, and defers if none is left', async t => {
	for (const fault of ['servfail', 'refused'] as const) {
		const {mx, deliver} = await daneLab(t, {host: {tls: own}, tlsa: fault});
		const {outcome, attempts} = await deliver();
		t.like(outcome, {kind: 'deferred', category: 'dns_temp'});
		t.like(attempts, {length: 1, 0: {phase: 'route', tlsResult: {policy: 'tlsa', result: 'dnssec-invalid'}}});
		t.is(mx.connections.length, 0);
	}

	const two = await daneLab(t, {host: {tls: own}, tlsa: 'servfail', second: {tls: own}});
	t.is((await two.deliver()).outcome.kind, 'delivered');
	t.is(two.mx.connections.length, 0);
	t.is(two.other?.count(), 1);
});

test('sends nothing to a mail server that the signed MX records do not list', async t => {
	const {mx, dns, deliver} = await daneLab(t, {host: {tls: own}, tlsa: undefined});
	dns.zone['example.test'] = {mx: [[10, 'other.example.test']], signed: true};
	const {outcome} = await deliver();
	t.like(outcome, {kind: 'deferred', category: 'dns_temp'});
	t.is(mx.connections.length, 0);
});

test('looks up TLSA records of the domain itself if it has no MX', async t => {
	const mx = await startFakeMx(t, {host: loopbackAddress(), tls: own});
	const zone = {
		'example.test': {a: [mx.host], signed: true},
		[`_${mx.port}._tcp.example.test`]: signed(recordOf(own, 3, 1, 1)),
	};
	const dns = await startFakeDns(t, zone);
	const lab = await startLab(t, [], {
		mode: {kind: 'hosts', port: mx.port},
		zone,
		secureResolver: createSecureResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock}),
	});
	t.regex((await lab.deliver()).attempts[0]?.tls ?? '', / verified \(DANE\)$/);
});

test('prefers the TLSA records of a CNAME target over those of the MX name, and sends the target as SNI', async t => {
	const mx = await startFakeMx(t, {host: loopbackAddress(), tls: own});
	const zone = {
		'example.test': {mx: [[10, 'mx0.example.test'] as const], signed: true},
		'mx0.example.test': {cname: 'target.test', signed: true},
		'target.test': {a: [mx.host], signed: true},
		[`_${mx.port}._tcp.target.test`]: signed(recordOf(own, 3, 1, 1)),
		[`_${mx.port}._tcp.mx0.example.test`]: signed(wrong),
	};
	const dns = await startFakeDns(t, zone);
	const lab = await startLab(t, [], {
		mode: {kind: 'hosts', port: mx.port},
		zone,
		secureResolver: createSecureResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock}),
	});
	t.regex((await lab.deliver()).attempts[0]?.tls ?? '', / verified \(DANE\)$/);
	t.is(mx.connections[0]?.serverName, 'target.test');
});

test('DANE takes precedence over MTA-STS, but the policy’s MX list still applies', async t => {
	const terms = (...mx: string[]) => ({...plainTerms, mtaSts: {mode: 'enforce', mx}}) as const;
	const certificates = [
		[own, 'delivered'],
		[issued, 'deferred'],
	] as const;
	for (const [tls, kind] of certificates) {
		const {deliver} = await daneLab(t, {host: {tls}, tlsa: signed(recordOf(own, 3, 1, 1))});
		t.is((await deliver({terms: terms('*.example.test')})).outcome.kind, kind);
		t.is((await deliver({terms: terms('elsewhere.test')})).outcome.kind, 'deferred');
	}

	// Records that cannot be used do not weaken the policy.
	const {deliver} = await daneLab(t, {host: {tls: own}, tlsa: signed(unusable)});
	t.is((await deliver({terms: terms('*.example.test')})).outcome.kind, 'deferred');
});
