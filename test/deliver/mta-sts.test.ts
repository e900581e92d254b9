import test from 'ava';
import type {MtaSts, Terms} from '../../src/mail/route.ts';
import {issueCertificate, makeCertificate} from '../helpers/certificate.ts';
import {plainTerms, startLab, testTimeouts} from '../helpers/delivery-lab.ts';

const authority = makeCertificate('authority');
const good = issueCertificate(authority, ['mx0.example.test', 'mx1.example.test']);
const otherName = issueCertificate(authority, ['elsewhere.test']);
const expired = issueCertificate(authority, ['mx0.example.test'], {days: -1});
const unknown = makeCertificate('mx0.example.test');
const ca = authority.cert;

const enforce = (...mx: string[]): Terms => withPolicy({mode: 'enforce', mx});
const testing = (...mx: string[]): Terms => withPolicy({mode: 'testing', mx});

function withPolicy(mtaSts: MtaSts): Terms {
	return {...plainTerms, mtaSts};
}

test('enforce: delivers over TLS with a certificate that is valid for the MX name', async t => {
	const lab = await startLab(t, [{tls: good}], {ca});
	const {outcome, attempts} = await lab.deliver({terms: enforce('*.example.test')});
	t.is(outcome.kind, 'delivered');
	t.regex(attempts[0]?.tls ?? '', /^TLSv1\.3 TLS_\w+ verified \(MTA-STS\)$/);
	t.deepEqual(attempts[0]?.tlsResult, {policy: 'sts', result: 'success'});
	t.is(lab.hosts[0]?.connections[0]?.serverName, 'mx0.example.test');
});

for (const [what, tls, result, reason] of [
	[
		'for another name',
		otherName,
		'certificate-host-mismatch',
		/^MTA-STS: the certificate is not for mx0\.example\.test$/,
	],
	['that has expired', expired, 'certificate-expired', /^MTA-STS: the certificate of mx0\.example\.test has expired/],
	[
		'of an unknown authority',
		unknown,
		'certificate-not-trusted',
		/^MTA-STS: no authority that we trust vouches for .*: self-signed certificate$/,
	],
] as const) {
	test(`enforce: a certificate ${what} defers after one connection, and nothing is sent`, async t => {
		const lab = await startLab(t, [{tls}], {ca});
		const {outcome, attempts} = await lab.deliver({terms: enforce('mx0.example.test')});
		t.like(outcome, {kind: 'deferred', category: 'policy'});
		t.like(attempts, {length: 1, 0: {phase: 'starttls', tls: null, tlsResult: {policy: 'sts', result}}});
		t.regex(attempts[0]?.reply ?? '', reason);
		t.is(lab.hosts[0]?.connections.length, 1);
		t.false(lab.hosts[0]?.connections[0]?.commands.some(line => line.startsWith('MAIL')));
	});
}

test('enforce: defers if STARTTLS is not offered, refused or stripped', async t => {
	const offersNone = await startLab(t, [{}], {ca});
	const refuses = await startLab(t, [{tls: good, starttls: '454 4.7.0 TLS not available'}], {ca});
	const strips = await startLab(t, [{tls: good, ehlo: '250-mx0.example.test\n250 XXXXXXXA'}], {ca});
	for (const lab of [offersNone, refuses, strips]) {
		const {outcome, attempts} = await lab.deliver({terms: enforce('*.example.test')});
		t.like(outcome, {kind: 'deferred', category: 'policy'});
		t.like(attempts, {length: 1, 0: {tlsResult: {policy: 'sts', result: 'starttls-not-supported'}}});
		t.is(lab.hosts[0]?.count(), 0);
		t.false(lab.hosts[0]?.connections[0]?.commands.some(line => line.startsWith('MAIL')));
	}
});

for (const [brokenTls, starttls] of [
	['garbage', testTimeouts.starttls],
	['drop', testTimeouts.starttls],
	['silent', 1000],
] as const) {
	test(`enforce: defers after a failed handshake (${brokenTls}) and never falls back to plain text`, async t => {
		const lab = await startLab(t, [{brokenTls}], {ca, timeouts: {...testTimeouts, starttls}});
		for (let n = 0; n < 2; n++) {
			const {outcome, attempts} = await lab.deliver({terms: enforce('*.example.test')});
			t.like(outcome, {kind: 'deferred', category: 'network'});
			t.true(attempts.every(({phase}) => phase === 'starttls'));
		}

		t.false(lab.hosts[0]?.connections.some(({commands}) => commands.some(line => line.startsWith('MAIL'))));
	});
}

test('enforce: does not use plain text for an address whose TLS failed before the policy applied', async t => {
	const lab = await startLab(t, [{brokenTls: 'drop'}], {ca});
	t.is((await lab.deliver()).outcome.kind, 'delivered');
	t.is((await lab.deliver({terms: enforce('*.example.test')})).outcome.kind, 'deferred');
	t.is(lab.hosts[0]?.count(), 1);
});

test('enforce: skips a mail server that the policy does not list', async t => {
	const lab = await startLab(t, [{tls: good}, {tls: good}], {ca});
	const {outcome, attempts} = await lab.deliver({terms: enforce('mx1.example.test')});
	t.is(outcome.kind, 'delivered');
	t.like(attempts, {length: 1, 0: {host: 'mx1.example.test'}});
	t.is(lab.hosts[0]?.connections.length, 0);
});

test('enforce: defers if the policy lists none of the mail servers', async t => {
	const lab = await startLab(t, [{tls: good}, {tls: good}], {ca});
	const {outcome, attempts} = await lab.deliver({terms: enforce('*.mx.example.test', 'example.test')});
	t.like(outcome, {
		kind: 'deferred',
		category: 'policy',
		reason: '4.7.5 the MTA-STS policy of example.test does not list the mail server mx0.example.test',
	});
	t.like(attempts, {length: 1, 0: {phase: 'route', tlsResult: {policy: 'sts', result: 'validation-failure'}}});
	t.true(lab.hosts.every(({connections}) => connections.length === 0));
});

test('enforce: unlisted mail servers do not crowd out a listed one', async t => {
	const lab = await startLab(t, [{tls: good}], {
		ca,
		zone: {
			'example.test': {mx: [[1, 'forged.test'] as const, [10, 'mx0.example.test'] as const]},
			'forged.test': {a: ['127.9.9.1', '127.9.9.2', '127.9.9.3', '127.9.9.4', '127.9.9.5', '127.9.9.6']},
		},
	});
	t.is((await lab.deliver({terms: enforce('mx0.example.test')})).outcome.kind, 'delivered');
});

test('enforce: uses the next mail server if the first one fails', async t => {
	const lab = await startLab(t, [{tls: otherName}, {tls: good}], {ca});
	const {outcome, attempts} = await lab.deliver({terms: enforce('*.example.test')});
	t.is(outcome.kind, 'delivered');
	t.like(attempts, {length: 2, 1: {host: 'mx1.example.test'}});
});

test('testing: delivers and records the failure that enforce would have caused', async t => {
	for (const [options, names, result] of [
		[{tls: good}, ['*.example.test'], 'success'],
		[{tls: otherName}, ['*.example.test'], 'certificate-host-mismatch'],
		[{tls: good}, ['other.test'], 'validation-failure'],
		[{}, ['*.example.test'], 'starttls-not-supported'],
		[{brokenTls: 'garbage'}, ['*.example.test'], 'validation-failure'],
	] as const) {
		const lab = await startLab(t, [options], {ca});
		const {outcome, attempts} = await lab.deliver({terms: testing(...names)});
		t.is(outcome.kind, 'delivered');
		t.deepEqual(attempts[0]?.tlsResult, {policy: 'sts', result});
	}
});

test('testing: the attempt shows the policy’s mode', async t => {
	const lab = await startLab(t, [{tls: otherName}], {ca});
	t.regex(
		(await lab.deliver({terms: testing('*.example.test')})).attempts[0]?.tls ?? '',
		/ unverified \(MTA-STS testing\)$/,
	);
});

test('reuses a session under a policy only if it was opened under that policy', async t => {
	const lab = await startLab(t, [{tls: good}], {ca, limit: 2});
	await lab.deliver();
	const {attempts} = await lab.deliver({terms: enforce('*.example.test')});
	t.regex(attempts[0]?.tls ?? '', / verified \(MTA-STS\)$/);
	t.is(lab.hosts[0]?.connections.length, 2);
	const again = await lab.deliver({terms: enforce('*.example.test')});
	t.is(again.outcome.kind, 'delivered');
	t.is(again.attempts[0]?.tlsResult, undefined, 'a session used again is not counted again');
	t.is(lab.hosts[0]?.connections.length, 2);
	const relaxed = await lab.deliver({terms: testing('*.example.test')});
	t.regex(relaxed.attempts[0]?.tls ?? '', / verified \(MTA-STS testing\)$/);
});

test('TLS required by the operator: with a verified or with any certificate', async t => {
	const terms = (tls: Terms['tls']): Terms => ({...plainTerms, tls});
	const verified = await startLab(t, [{tls: good}], {ca});
	t.regex((await verified.deliver({terms: terms('required')})).attempts[0]?.tls ?? '', / verified$/);
	const any = await startLab(t, [{tls: otherName}], {ca});
	t.regex((await any.deliver({terms: terms('unverified')})).attempts[0]?.tls ?? '', / unverified$/);
	t.like((await any.deliver({terms: terms('required')})).outcome, {kind: 'deferred', category: 'policy'});
	t.is(any.hosts[0]?.count(), 1);
	for (const tls of ['required', 'unverified'] as const) {
		const plain = await startLab(t, [{}], {ca});
		const {outcome, attempts} = await plain.deliver({terms: terms(tls)});
		t.like(outcome, {kind: 'deferred', category: 'policy', reason: 'the server does not offer TLS'});
		t.deepEqual(attempts[0]?.tlsResult, {policy: 'no-policy-found', result: 'starttls-not-supported'});
		t.is(plain.hosts[0]?.count(), 0);
	}
});
