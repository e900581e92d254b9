import test from 'ava';
import type {Relay} from '../../src/net/relay-url.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {plainTerms, startLab} from '../helpers/delivery-lab.ts';
import {type FakeMx, type FakeMxOptions, startFakeMx} from '../helpers/fake-mx.ts';

type Context = Parameters<typeof startLab>[0];

const tls = makeCertificate('localhost');
const login = {user: 'app', password: 'pässword'};
const plain = {secure: false, tls: 'none', user: null, password: null} as const;

async function start(
	t: Context,
	hosts: readonly FakeMxOptions[],
	{acceptMeans = 'sent', ...relay}: Partial<Relay> & {acceptMeans?: 'sent' | 'delivered'} = {},
): Promise<{hosts: FakeMx[]; deliver: Awaited<ReturnType<typeof startLab>>['deliver']}> {
	const started: FakeMx[] = [];
	const relays: Relay[] = [];
	for (const options of hosts) {
		const mx = await startFakeMx(t, options);
		started.push(mx);
		relays.push({host: '127.0.0.1', port: mx.port, ...plain, ...relay});
	}

	const lab = await startLab(t, [], {terms: {nextHop: {kind: 'relay', relays, acceptMeans}}});
	return {hosts: started, deliver: lab.deliver};
}

test('reports an accepted message as relayed, or as delivered if so configured, without an MX lookup', async t => {
	const sent = await start(t, [{extensions: ['DSN']}]);
	t.deepEqual((await sent.deliver()).outcome, {kind: 'relayed'});
	t.regex(sent.hosts[0]?.connections[0]?.commands[2] ?? '', / NOTIFY=SUCCESS,FAILURE /);
	const delivered = await start(t, [{extensions: ['DSN']}], {acceptMeans: 'delivered'});
	t.deepEqual((await delivered.deliver({destination: 'no-such.invalid'})).outcome, {kind: 'delivered'});
	t.regex(delivered.hosts[0]?.connections[0]?.commands[2] ?? '', / NOTIFY=FAILURE /);
});

test('uses several relays in order', async t => {
	const {hosts, deliver} = await start(t, [{greeting: '421 busy'}, {}]);
	const {outcome, attempts} = await deliver();
	t.is(outcome.kind, 'relayed');
	t.is(attempts.length, 2);
	t.is(hosts[1]?.received.length, 1);
});

const configuration: ReadonlyArray<readonly [name: string, script: FakeMxOptions]> = [
	['greeting 554', {greeting: '554 5.7.1 who are you'}],
	['530 to MAIL', {mail: '530 5.7.0 Authentication required'}],
	['454 to MAIL', {mail: '454 4.7.0 Temporary authentication failure'}],
	['530 to RCPT', {rcpt: '530 5.5.1 Authentication required'}],
	['454 to RCPT', {rcpt: '454 4.7.0 Temporary authentication failure'}],
	['550 5.7.0 auth to RCPT', {rcpt: '550 5.7.0 auth required'}],
	['550 5.7.0 about the login to MAIL', {mail: '550 5.7.0 Please log in first'}],
];
for (const [name, script] of configuration) {
	test(`defers with category config, and does not bounce, on ${name}`, async t => {
		const {deliver} = await start(t, [script]);
		const {outcome, attempts} = await deliver();
		t.like(outcome, {kind: 'deferred', category: 'config'});
		t.is(attempts[0]?.loginRefused ?? false, name !== 'greeting 554');
	});
}

test('classifies refusals of the recipient as usual', async t => {
	const {deliver} = await start(t, [{rcpt: '550 5.1.1 no such user'}]);
	t.like((await deliver()).outcome, {kind: 'bounced', category: 'unknown_user', suppresses: true});
	const sender = await start(t, [{mail: '550 5.7.1 not your domain'}]);
	t.like((await sender.deliver()).outcome, {kind: 'bounced', category: 'sender', suppresses: false});
});

test('authenticates with PLAIN over TLS', async t => {
	const {hosts, deliver} = await start(t, [{tls, extensions: ['STARTTLS', 'AUTH PLAIN LOGIN']}], {
		tls: 'unverified',
		...login,
	});
	t.is((await deliver()).outcome.kind, 'relayed');
	const commands = hosts[0]?.connections[0]?.commands ?? [];
	const [, encoded = ''] = /^AUTH PLAIN (.*)$/.exec(commands[3] ?? '') ?? [];
	t.is(Buffer.from(encoded, 'base64').toString(), '\0app\0pässword');
});

test('authenticates with LOGIN if nothing else is offered', async t => {
	const script = {
		tls,
		extensions: ['STARTTLS', 'AUTH=LOGIN'],
		auth: '334 VXNlcm5hbWU6',
		credentials: ['334 UGFzc3dvcmQ6'],
	};
	const {hosts, deliver} = await start(t, [script], {tls: 'unverified', ...login});
	t.is((await deliver()).outcome.kind, 'relayed');
	const commands = hosts[0]?.connections[0]?.commands ?? [];
	t.deepEqual(
		commands.slice(3, 6).map((line, n) => (n === 0 ? line : Buffer.from(line, 'base64').toString())),
		['AUTH LOGIN', 'app', 'pässword'],
	);
});

test('defers, and sends nothing, if the password is refused', async t => {
	for (const reply of ['535 5.7.8 no', '454 4.7.0 later', '534 5.7.9 weak', '538 5.7.11 encrypt']) {
		const {hosts, deliver} = await start(t, [{extensions: ['AUTH PLAIN'], auth: reply}], {...login});
		const {outcome, attempts} = await deliver();
		t.like(outcome, {kind: 'deferred', category: 'config'});
		t.is(attempts[0]?.phase, 'auth');
		t.false(JSON.stringify({outcome, attempts}).includes('ssword'));
		t.is(hosts[0]?.received.length, 0);
	}
});

for (const mechanism of ['PLAIN', 'LOGIN']) {
	test(`masks credentials that the server echoes in its reply (${mechanism})`, async t => {
		const secret = {user: 'the-user', password: 'a pässword of some length'};
		const sent: string[] = [];
		const echo = (line: string) => {
			const [said = ''] = line.split(' ').slice(-1);
			sent.push(said);
			const read = Buffer.from(said, 'base64').toString().replaceAll('\0', ' ');
			return `535 5.7.8 I do not know "${line}"\n5.7.8 that is ${read}, ${said.slice(0, -9)}...${said.slice(-9)}`;
		};
		const prompts: string[] = ['334 VXNlcm5hbWU6', '334 UGFzc3dvcmQ6'];
		const {deliver} = await start(
			t,
			[
				{
					extensions: [`AUTH ${mechanism}`],
					auth: mechanism === 'PLAIN' ? echo : (prompts.shift() ?? ''),
					credentials: line => prompts.shift() ?? echo(line),
				},
			],
			secret,
		);
		const {outcome, attempts} = await deliver();
		t.like(outcome, {kind: 'deferred', category: 'config'});
		t.like(attempts[0], {phase: 'auth', code: 535, enhanced: '5.7.8'});
		t.regex(attempts[0]?.reply ?? '', /I do not know "[^"]*\*{4}"\n5\.7\.8 that is .*\*{4}, \*{4}\.{3}\*{4}$/);
		const told = JSON.stringify({outcome, attempts});
		t.is(sent.length, 1);
		for (const one of [sent[0]?.slice(0, 8), sent[0]?.slice(-9), 'ssword']) {
			t.false(told.includes(one ?? ''), told);
		}
	});
}

test('leaves replies after the login unchanged', async t => {
	const {deliver} = await start(t, [{extensions: ['AUTH PLAIN'], rcpt: '550 5.1.1 no such user'}], {
		user: '1',
		password: '1',
	});
	const {attempts} = await deliver();
	t.like(attempts[0], {code: 550, enhanced: '5.1.1', reply: '5.1.1 no such user'});
});

test('defers if the server offers no supported authentication mechanism', async t => {
	const {deliver} = await start(t, [{extensions: ['AUTH GSSAPI']}], {...login});
	const {outcome, attempts} = await deliver();
	t.like(outcome, {kind: 'deferred', category: 'config'});
	t.like(attempts[0], {phase: 'auth', code: null, enhanced: '5.7.4'});
});

test('never sends the password in plain text, however TLS fails', async t => {
	for (const script of [{}, {brokenTls: 'drop'}, {tls, starttls: '454 no'}] as const) {
		const options = {
			...script,
			extensions: ['AUTH PLAIN LOGIN', ...('brokenTls' in script || 'tls' in script ? ['STARTTLS'] : [])],
		};
		const {hosts, deliver} = await start(t, [options], {tls: 'opportunistic', ...login});
		t.like((await deliver()).outcome, {kind: 'deferred', category: 'config'});
		t.false(hosts[0]?.connections.some(({commands}) => commands.some(line => line.startsWith('AUTH'))));
	}
});

test('skips a relay without an address, and defers with category config if none is left', async t => {
	const mx = await startFakeMx(t);
	const gone = {...plain, host: 'gone.test', port: 25};
	const there = {...plain, host: 'there.test', port: mx.port};
	const lookUp = async (host: string) => {
		if (host === 'gone.test') {
			throw Object.assign(new Error('not found'), {code: 'ENOTFOUND'});
		}

		return ['127.0.0.1'];
	};

	const both = await startLab(t, [], {
		terms: {nextHop: {kind: 'relay', relays: [gone, there], acceptMeans: 'sent'}},
		lookUp,
	});
	t.is((await both.deliver()).outcome.kind, 'relayed');
	const none = await startLab(t, [], {
		terms: {nextHop: {kind: 'relay', relays: [gone], acceptMeans: 'sent'}},
		lookUp,
	});
	const {outcome, attempts} = await none.deliver();
	t.like(outcome, {kind: 'deferred', category: 'config'});
	t.like(attempts, {length: 1, 0: {phase: 'route', host: null}});
});

test('resolves a relay’s name with the operating system by default', async t => {
	const mx = await startFakeMx(t);
	const relay = {...plain, host: 'localhost', port: mx.port};
	const lab = await startLab(t, [], {terms: {nextHop: {kind: 'relay', relays: [relay], acceptMeans: 'sent'}}});
	t.is((await lab.deliver()).outcome.kind, 'relayed');
});

const failures: ReadonlyArray<readonly [name: string, script: FakeMxOptions]> = [
	...configuration,
	['no greeting', {greeting: {do: 'drop'}}],
	['421 to EHLO', {ehlo: '421 4.3.2 going down'}],
	['a failed TLS handshake', {brokenTls: 'drop', extensions: ['STARTTLS']}],
	['no TLS', {}],
	['451 to MAIL', {mail: '451 4.3.0 try later'}],
	['421 to RCPT', {rcpt: '421 4.3.2 going down'}],
	['450 to RCPT', {rcpt: '450 4.2.1 try later'}],
	['452 to DATA', {data: '452 4.3.1 disk full'}],
	['451 after the dot', {dot: '451 4.3.0 try later'}],
	['a connection lost before the data', {data: {do: 'drop'}}],
];
for (const [name, script] of failures) {
	test(`uses the next relay after ${name}`, async t => {
		const needsTls = name.includes('TLS');
		const first = await startFakeMx(t, script);
		const second = await startFakeMx(t, needsTls ? {tls, extensions: ['STARTTLS']} : {});
		const relays = [first, second].map(({port}) => ({
			...plain,
			host: '127.0.0.1',
			port,
			...(needsTls ? {tls: 'unverified' as const} : {}),
		}));
		const lab = await startLab(t, [], {terms: {nextHop: {kind: 'relay', relays, acceptMeans: 'sent'}}});
		t.is((await lab.deliver()).outcome.kind, 'relayed');
		t.is(second.received.length, 1);
	});
}

test('uses the next relay if the password is refused', async t => {
	const first = await startFakeMx(t, {extensions: ['AUTH PLAIN'], auth: '535 5.7.8 no'});
	const second = await startFakeMx(t);
	const relays = [
		{...plain, ...login, host: '127.0.0.1', port: first.port},
		{...plain, host: '127.0.0.1', port: second.port},
	];
	const lab = await startLab(t, [], {terms: {nextHop: {kind: 'relay', relays, acceptMeans: 'sent'}}});
	t.is((await lab.deliver()).outcome.kind, 'relayed');
	t.is(first.received.length, 0);
});

test('contacts every relay in one attempt, however many there are and however many addresses one has', async t => {
	const busy = Array.from({length: 4}, () => startFakeMx(t, {mail: '451 4.3.0 try later'}));
	const hosts = [...(await Promise.all(busy)), await startFakeMx(t)];
	const many = await startFakeMx(t, {port: 0, greeting: '421 busy'});
	const lookUp = async (host: string) => (host === 'many.test' ? Array.from({length: 9}, () => '127.0.0.1') : []);
	const relays = [
		{...plain, host: 'many.test', port: many.port},
		...hosts.map(({port}) => ({...plain, host: '127.0.0.1', port})),
	];
	const lab = await startLab(t, [], {terms: {nextHop: {kind: 'relay', relays, acceptMeans: 'sent'}}, lookUp});
	const {outcome, attempts} = await lab.deliver();
	t.is(outcome.kind, 'relayed');
	t.is(attempts.length, 6);
	t.is(hosts.at(-1)?.received.length, 1);
});

test('sends each recipient’s message to the relay in its terms, on separate sessions', async t => {
	const [one, two] = [await startFakeMx(t), await startFakeMx(t)];
	const lab = await startLab(t, []);
	const through = (port: number) => ({
		...plainTerms,
		nextHop: {kind: 'relay', relays: [{...plain, host: '127.0.0.1', port}], acceptMeans: 'sent'} as const,
	});
	for (const port of [one.port, two.port, one.port, two.port]) {
		t.is((await lab.deliver({terms: through(port)})).outcome.kind, 'relayed');
	}

	t.deepEqual(
		[one, two].map(({received, connections}) => [received.length, connections.length]),
		[
			[2, 1],
			[2, 1],
		],
	);
});
