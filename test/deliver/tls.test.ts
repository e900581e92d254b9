import {once} from 'node:events';
import type {AddressInfo} from 'node:net';
import {createServer} from 'node:tls';
import test from 'ava';
import type {TlsResult} from '../../src/mail/outcome.ts';
import type {Relay} from '../../src/net/relay-url.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {plainTerms, startLab, testTimeouts} from '../helpers/delivery-lab.ts';
import type {Answer, FakeMxOptions, Script} from '../helpers/fake-mx.ts';
import {waitFor} from '../helpers/wait.ts';

const tls = makeCertificate('mx0.example.test', 'localhost', '127.0.0.1');
const otherName = makeCertificate('elsewhere.test');

test('uses STARTTLS if it is offered, even with an unverified certificate', async t => {
	const lab = await startLab(t, [{tls}]);
	const {outcome, attempts} = await lab.deliver();
	t.is(outcome.kind, 'delivered');
	t.regex(attempts[0]?.tls ?? '', /^TLSv1\.3 TLS_\w+ unverified$/);
	const [connection] = lab.hosts[0]?.connections ?? [];
	t.true(connection?.tls);
	t.deepEqual(
		connection?.commands.slice(0, 4).map(line => line.slice(0, 9)),
		['EHLO out.', 'STARTTLS', 'EHLO out.', 'MAIL FROM'],
	);
});

test('verifies a certificate of a trusted authority', async t => {
	const lab = await startLab(t, [{tls}], {ca: tls.cert});
	t.regex((await lab.deliver()).attempts[0]?.tls ?? '', / verified$/);
	const other = await startLab(t, [{tls: otherName}], {ca: otherName.cert});
	t.regex((await other.deliver()).attempts[0]?.tls ?? '', / unverified$/);
});

for (const [brokenTls, starttls] of [
	['drop', testTimeouts.starttls],
	['silent', 2000],
] as const) {
	test(`handshake failure (${brokenTls}) → smaller ClientHello, then plain text, at the same address`, async t => {
		const lab = await startLab(t, [{brokenTls}, {}], {timeouts: {...testTimeouts, starttls}});
		const {outcome, attempts} = await lab.deliver();
		t.is(outcome.kind, 'delivered');
		t.like(attempts, {
			length: 3,
			0: {phase: 'starttls', tls: null, code: null, tlsResult: noPolicy('validation-failure')},
			1: {phase: 'starttls', tls: null, code: null, tlsResult: noPolicy('validation-failure')},
			2: {phase: 'dot', tls: null},
		});
		t.is(attempts[2]?.tlsResult, undefined);
		t.is(lab.hosts[0]?.connections.length, 3);
		t.is(lab.hosts[1]?.connections.length, 0);
	});
}

test('reply to the handshake that is not TLS → plain text on a new connection to the same address', async t => {
	const lab = await startLab(t, [{brokenTls: 'garbage'}, {}]);
	const {outcome, attempts} = await lab.deliver();
	t.is(outcome.kind, 'delivered');
	t.like(attempts, {length: 2, 0: {phase: 'starttls', tls: null, code: null}, 1: {phase: 'dot', tls: null}});
	t.is(attempts[0]?.reply, 'TLS: wrong version number');
	t.is(lab.hosts[0]?.connections.length, 2);
	t.is(lab.hosts[1]?.connections.length, 0);
});

const threeDays = 3 * 86_400_000;

/** A lab with one mail server and a clock that can be moved forward. */
async function memoryLab(t: Parameters<typeof startLab>[0], host: FakeMxOptions) {
	let passed = 0;
	const clock = {now: () => Date.now() + passed, monotonic: () => performance.now() + passed};
	// No session is used again.
	const lab = await startLab(t, [host], {clock, idleMs: 0});
	return {
		async deliver() {
			const {outcome, attempts} = await lab.deliver();
			const none = () => {
				const {busy, idle} = lab.deliverer.count();
				return busy + idle === 0;
			};
			await waitFor('the session has ended', none);
			return {kind: outcome.kind, attempts, phases: attempts.map(({phase}) => phase)};
		},
		commands: () => lab.hosts[0]?.connections.map(({commands}) => commands) ?? [],
		pass(ms: number) {
			passed += ms;
		},
	};
}

test('uses plain text at once for 3 days for an address whose TLS is broken', async t => {
	const {deliver, commands, pass} = await memoryLab(t, {brokenTls: 'drop'});
	t.deepEqual((await deliver()).phases, ['starttls', 'starttls', 'dot']);
	t.deepEqual((await deliver()).phases, ['dot']);
	pass(threeDays - 60_000);
	t.deepEqual((await deliver()).phases, ['dot']);
	t.false(commands().at(-1)?.includes('STARTTLS'));
	pass(61_000);
	t.deepEqual((await deliver()).phases, ['starttls', 'starttls', 'dot']);
	t.deepEqual((await deliver()).phases, ['dot']);
});

test('remembers a mail server that only accepts a small ClientHello', async t => {
	const {deliver} = await memoryLab(t, {tls, maxHelloLength: 300});
	const first = await deliver();
	t.deepEqual(first.phases, ['starttls', 'dot']);
	t.regex(first.attempts[1]?.tls ?? '', /^TLSv1\.2 /);
	t.deepEqual(first.attempts[1]?.tlsResult, noPolicy('success'));
	const second = await deliver();
	t.deepEqual(second.phases, ['dot']);
	t.regex(second.attempts[0]?.tls ?? '', /^TLSv1\.2 /);
});

test('prefers TLS 1.0 to plain text', async t => {
	const old = {minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0'} as const;
	const {deliver} = await memoryLab(t, {tls: {...tls, ...old}});
	t.regex((await deliver()).attempts[1]?.tls ?? '', /^TLSv1 .* unverified$/);
});

test('required TLS may use a small ClientHello, but no version older than 1.2', async t => {
	const terms = {...plainTerms, tls: 'unverified'} as const;
	const small = await startLab(t, [{tls, maxHelloLength: 300}]);
	t.regex((await small.deliver({terms})).attempts[1]?.tls ?? '', /^TLSv1\.2 /);
	const old = {minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0'} as const;
	const lab = await startLab(t, [{tls: {...tls, ...old}}]);
	t.is((await lab.deliver({terms})).outcome.kind, 'deferred');
	t.is(lab.hosts[0]?.count(), 0);
});

test('retries TLS at an address remembered as broken if the server insists on it', async t => {
	let insists = false;
	const {deliver} = await memoryLab(t, {
		brokenTls: 'garbage',
		mail: () => (insists ? '530 5.7.0 Must issue a STARTTLS command first' : undefined),
	});
	t.deepEqual((await deliver()).phases, ['starttls', 'dot']);
	insists = true;
	t.deepEqual((await deliver()).phases, ['mail']);
	t.is((await deliver()).phases[0], 'starttls');
});

test('looks for STARTTLS again in each session if a server did not offer it', async t => {
	const {deliver, commands} = await memoryLab(t, {
		mail: line => (line.includes('SIZE') ? '555 5.5.4 what?' : undefined),
	});
	t.deepEqual((await deliver()).phases, ['mail', 'dot']);
	await deliver();
	t.true(commands().at(2)?.[0]?.startsWith('EHLO'));
});

test('STARTTLS refused → plain text on the same connection', async t => {
	const lab = await startLab(t, [{tls, starttls: '454 4.7.0 TLS not available'}]);
	t.is((await lab.deliver()).outcome.kind, 'delivered');
	t.is(lab.hosts[0]?.connections.length, 1);
});

test('does not trust text that the server sends before the handshake', async t => {
	const lab = await startLab(t, [{tls, starttls: {bytes: '220 go\r\n250-fake.test\r\n250 PIPELINING\r\n'}}, {}]);
	const {attempts} = await lab.deliver();
	t.like(attempts[0], {phase: 'starttls', code: null});
});

test('defers with category policy on 530 after a failed handshake', async t => {
	const lab = await startLab(t, [{brokenTls: 'drop', mail: '530 5.7.0 Must issue a STARTTLS command first'}]);
	t.like((await lab.deliver()).outcome, {kind: 'deferred', category: 'policy'});
});

const insist = '530 5.7.0 Must issue a STARTTLS command first';
/** Replies with this only in plain text. */
const inPlainText =
	(answer: Answer): Script =>
	(_line, {tls: isSecure}) =>
		isSecure ? undefined : answer;
const withinTls =
	(answer: Answer): Script =>
	(_line, {tls: isSecure}) =>
		isSecure ? answer : undefined;

const demands: ReadonlyArray<readonly [name: string, host: FakeMxOptions]> = [
	['530 at MAIL', {mail: inPlainText(insist)}],
	['530 without pipelining', {mail: inPlainText(insist), extensions: ['STARTTLS']}],
	['530 at RCPT', {rcpt: inPlainText(insist)}],
	['550 5.7.10 at MAIL', {mail: inPlainText('550 5.7.10 Encryption needed')}],
	['550 5.7.10 in other words at RCPT', {rcpt: inPlainText('550 5.7.10 nicht ohne')}],
	['554 5.7.1 at MAIL', {mail: inPlainText('554 5.7.1 Sender rejected: this server wants encryption')}],
	['554 5.7.1 at RCPT', {rcpt: inPlainText('554 5.7.1 <user@example.test>: Session encryption is required')}],
	['550 5.7.29 at the dot', {dot: inPlainText('550-5.7.29 This message was not sent over a TLS connection')}],
	['503 at MAIL', {mail: inPlainText('503 5.5.1 STARTTLS first')}],
	['521 at DATA', {data: inPlainText('521 use a secure connection')}],
	['550 at MAIL in another language', {mail: inPlainText('550 Nur verschlüsselte Verbindungen werden akzeptiert')}],
	['550 5.7.3 at MAIL', {mail: inPlainText('550 5.7.3 STARTTLS is required to send mail')}],
	['554 at RCPT', {rcpt: inPlainText('554 Cleartext sessions are refused, use TLSv1.2')}],
	[
		'555 to MAIL with SIZE, and 530 without',
		{mail: (line, {tls: isSecure}) => (isSecure ? undefined : line.includes('SIZE') ? '555 5.5.4 what?' : insist)},
	],
];
for (const [name, host] of demands) {
	test(`defers on 454 to STARTTLS, then ${name}, and starts TLS in the next attempt`, async t => {
		let isBroken = true;
		const lab = await startLab(t, [
			{tls, ...host, starttls: () => (isBroken ? '454 4.7.0 TLS not available' : undefined)},
		]);
		t.like((await lab.deliver()).outcome, {kind: 'deferred', category: 'policy'});
		isBroken = false;
		t.is((await lab.deliver({attempt: 2})).outcome.kind, 'delivered');
	});

	test(`uses the next mail server, or defers, on a broken handshake, then ${name}`, async t => {
		const lab = await startLab(t, [{brokenTls: 'garbage', ...host}]);
		t.like((await lab.deliver()).outcome, {kind: 'deferred', category: 'policy'});
		const two = await startLab(t, [{brokenTls: 'garbage', ...host}, {}]);
		t.is((await two.deliver()).outcome.kind, 'delivered');
	});
}

test('bounces on a refusal unrelated to TLS after a failed STARTTLS', async t => {
	for (const rcpt of [
		'550 5.1.1 <tls@example.test>: no such user',
		'550 tls@example.test: no such user',
		'550 5.7.1 blocked using zen.spamhaus.org',
		'554 5.7.1 encrypted attachments are not allowed',
		'550 subscription expired',
		'550 see the description of our rules',
	]) {
		const lab = await startLab(t, [{tls, starttls: '454 4.7.0 TLS not available', rcpt}]);
		t.is((await lab.deliver()).outcome.kind, 'bounced', rcpt);
	}
});

test('bounces if a server demands TLS without offering it', async t => {
	const lab = await startLab(t, [{mail: insist}]);
	t.is((await lab.deliver()).outcome.kind, 'bounced');
});

test('does not reuse a session that is in plain text because STARTTLS failed', async t => {
	for (const host of [{tls, starttls: ['454 4.7.0 TLS not available']}, {brokenTls: 'garbage'}] as const) {
		const lab = await startLab(t, [host], {limit: 1});
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		const connections = lab.hosts[0]?.connections ?? [];
		t.deepEqual(
			connections.map(({commands}) => commands.filter(line => line.startsWith('MAIL')).length),
			'tls' in host ? [1, 1] : [0, 1, 1],
		);
		t.is(connections.at(-1)?.tls, 'tls' in host);
	}
});

const afterwards: ReadonlyArray<readonly [name: string, host: FakeMxOptions]> = [
	['requires a client certificate', {wantsCertificate: true}],
	['requires a client certificate with TLS 1.2 only', {wantsCertificate: true, tls: {...tls, maxVersion: 'TLSv1.2'}}],
	['closes at the second EHLO', {ehlo: withinTls({do: 'drop'})}],
	['resets at the second EHLO', {ehlo: withinTls({do: 'reset'})}],
	['stalls at the second EHLO', {ehlo: withinTls({do: 'never'})}],
	['is silent and reads nothing after the handshake', {ehlo: withinTls({do: 'freeze'})}],
	[
		'replies to the second EHLO with something other than SMTP',
		{ehlo: withinTls({bytes: 'HTTP/1.1 400 Bad Request\r\n'.repeat(100)})},
	],
	['greets again within TLS', {ehlo: withinTls('220 fake.test ESMTP')}],
	['replies 220 with more text in the same packet', {starttls: {bytes: '220 go\r\n454 4.7.0 oh no\r\n'}}],
	['refuses EHLO and HELO within TLS', {ehlo: withinTls('554 5.7.0 no'), helo: withinTls('554 5.7.0 certificate?')}],
	[
		'replies 421 to STARTTLS and closes',
		{
			starttls: (_line, connection) => {
				connection.say('421 4.7.0 no\r\n');
				return {do: 'drop'};
			},
		},
	],
	['closes at STARTTLS', {starttls: {do: 'drop'}}],
	['replies 250 to STARTTLS', {starttls: '250 go'}],
	['closes at MAIL after a refused STARTTLS', {starttls: ['454 4.7.0 no'], mail: [{do: 'drop'}]}],
	['replies 421 to MAIL after a refused STARTTLS', {starttls: ['454 4.7.0 no'], mail: ['421 4.7.0 bye']}],
];
for (const [name, host] of afterwards) {
	test(`opportunistic TLS falls back to plain text on a new connection if a server ${name}`, async t => {
		const timeouts = {...testTimeouts, starttls: 2000};
		const lab = await startLab(t, [{tls, ...host}, {}], {timeouts});
		const {outcome, attempts} = await lab.deliver();
		t.is(outcome.kind, 'delivered', JSON.stringify(attempts));
		t.is(attempts.at(-1)?.tls, null);
		t.is(lab.hosts[0]?.count(), 1);
		t.is(lab.hosts[1]?.connections.length, 0);
	});

	test(`required TLS sends nothing to a server that ${name}`, async t => {
		const timeouts = {...testTimeouts, starttls: 2000, ehlo: 2000};
		const lab = await startLab(t, [{tls, ...host}], {timeouts, terms: {tls: 'unverified'}});
		const {outcome} = await lab.deliver();
		t.is(outcome.kind, 'deferred');
		t.is(lab.hosts[0]?.count(), 0);
	});
}

test('does not fall back to plain text if a server is busy within TLS', async t => {
	for (const said of ['450 4.7.1 no', '421 4.3.2 bye']) {
		const lab = await startLab(t, [{tls, ehlo: withinTls(said), helo: withinTls(said)}]);
		t.is((await lab.deliver()).outcome.kind, 'deferred');
		t.is(lab.hosts[0]?.count(), 0);
	}
});

test('defers with category config if a relay with implicit TLS requires a client certificate', async t => {
	const server = createServer({...tls, requestCert: true});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => void server.close());
	const {port} = server.address() as AddressInfo;
	const {deliver} = await relayLab(t, {tls: 'unverified', secure: true, port}, {});
	const {outcome, attempts} = await deliver();
	t.like(outcome, {kind: 'deferred', category: 'config'});
	t.true(attempts.every(({phase}) => phase === 'starttls'));
});

test('MAIL with parameters rejected within TLS → TLS again, then HELO', async t => {
	const lab = await startLab(t, [{tls, mail: line => (line.includes('SIZE') ? '555 5.5.4 what?' : undefined)}]);
	const {outcome, attempts} = await lab.deliver();
	t.is(outcome.kind, 'delivered');
	t.regex(attempts[1]?.tls ?? '', /^TLS/);
	t.deepEqual(
		lab.hosts[0]?.connections[1]?.commands.slice(0, 4).map(line => line.slice(0, 5)),
		['EHLO ', 'START', 'HELO ', 'MAIL '],
	);
});

const plain = {host: 'localhost', secure: false, tls: 'none', user: null, password: null} as const;
function noPolicy(result: TlsResult['result']): TlsResult {
	return {policy: 'no-policy-found', result};
}

/** A lab with one relay, named `localhost`. */
async function relayLab(t: Parameters<typeof startLab>[0], relay: Partial<Relay>, host: FakeMxOptions, ca?: string) {
	const probe = await startLab(t, [{host: '127.0.0.1', ...host}]);
	const port = probe.hosts[0]?.port ?? 0;
	const lab = await startLab(t, [], {
		terms: {nextHop: {kind: 'relay', relays: [{...plain, port, ...relay}], acceptMeans: 'delivered'}},
		lookUp: async () => ['127.0.0.1'],
		...(ca === undefined ? {} : {ca}),
	});
	return {mx: probe.hosts[0], deliver: lab.deliver};
}

test('relay, tls=required: an unverified certificate defers, without plain text', async t => {
	const {mx, deliver} = await relayLab(t, {tls: 'required'}, {tls});
	const {outcome, attempts} = await deliver();
	t.like(outcome, {kind: 'deferred', category: 'config'});
	t.like(attempts, {length: 1, 0: {phase: 'starttls'}});
	t.is(mx?.connections.length, 1);
	t.is(mx?.received.length, 0);
});

test('relay, tls=required: a certificate for another name defers', async t => {
	const {deliver} = await relayLab(t, {tls: 'required'}, {tls: otherName}, otherName.cert);
	t.like((await deliver()).outcome, {kind: 'deferred', category: 'config'});
});

test('relay, tls=required: delivers with a certificate that matches the name or the address', async t => {
	for (const host of ['localhost', '127.0.0.1']) {
		const {deliver} = await relayLab(t, {host, tls: 'required'}, {tls}, tls.cert);
		const {outcome, attempts} = await deliver();
		t.is(outcome.kind, 'delivered');
		t.regex(attempts[0]?.tls ?? '', / verified$/);
	}
});

test('relay, tls=required and tls=unverified: defers if TLS is not offered', async t => {
	for (const mode of ['required', 'unverified'] as const) {
		const {mx, deliver} = await relayLab(t, {tls: mode}, {});
		t.like((await deliver()).outcome, {kind: 'deferred', category: 'config'});
		t.is(mx?.received.length, 0);
	}
});

test('relay, tls=unverified: delivers over TLS with any certificate', async t => {
	const {deliver} = await relayLab(t, {tls: 'unverified'}, {tls: otherName});
	t.regex((await deliver()).attempts[0]?.tls ?? '', / unverified$/);
});

test('relay, tls=none: uses plain text even if TLS is offered', async t => {
	const {mx, deliver} = await relayLab(t, {tls: 'none'}, {tls});
	t.is((await deliver()).outcome.kind, 'delivered');
	t.false(mx?.connections[0]?.commands.includes('STARTTLS'));
});

test('relay, smtps: uses TLS from the first byte', async t => {
	const verified = await relayLab(t, {tls: 'required', secure: true}, {tls, implicitTls: true}, tls.cert);
	const {outcome, attempts} = await verified.deliver();
	t.is(outcome.kind, 'delivered');
	t.regex(attempts[0]?.tls ?? '', / verified$/);
	const refused = await relayLab(t, {tls: 'required', secure: true}, {tls: otherName, implicitTls: true});
	t.like((await refused.deliver()).outcome, {kind: 'deferred', category: 'config'});
	t.is(refused.mx?.received.length, 0);
});

test('relay, smtps: defers if the port speaks plain text', async t => {
	const {deliver} = await relayLab(t, {tls: 'opportunistic', secure: true}, {});
	t.like((await deliver()).outcome, {kind: 'deferred', category: 'config'});
});
