import test, {type ExecutionContext} from 'ava';
import type {AttemptResult, Outcome, Phase} from '../../src/mail/outcome.ts';
import {startLab} from '../helpers/delivery-lab.ts';
import type {Answer, FakeMxOptions, Script} from '../helpers/fake-mx.ts';
import {waitFor} from '../helpers/wait.ts';

const variants: Record<string, readonly string[]> = {
	pipelining: ['PIPELINING', 'SIZE 1000000'],
	'lock-step': ['SIZE 1000000'],
};

type Expected = {
	readonly kind: Outcome['kind'];
	readonly category?: string;
	readonly suppresses?: boolean;
	readonly phase?: Phase;
	readonly code?: number | null;
	readonly enhanced?: string;
	readonly reason?: RegExp;
};

function matches(t: ExecutionContext, {outcome, attempts}: AttemptResult, expected: Expected): void {
	const {reason, phase, code, enhanced, ...rest} = expected;
	const last = attempts.at(-1);
	t.like(outcome, rest, JSON.stringify({outcome, attempts}));
	if (phase !== undefined) {
		t.is(last?.phase, phase);
	}

	if (code !== undefined) {
		t.is(last?.code, code);
	}

	if (enhanced !== undefined) {
		t.is(last?.enhanced, enhanced);
	}

	if (reason !== undefined) {
		t.regex('reason' in outcome ? outcome.reason : '', reason);
	}
}

type Row = readonly [name: string, script: FakeMxOptions, expected: Expected];

const drop: Answer = {do: 'drop'};
/** Replies and closes the connection. */
const closing =
	(text: string): Script =>
	(_line, connection) => {
		connection.say(text);
		return drop;
	};

/** Failures that move on to the next mail server, and defer if there is none. */
const nextHost: readonly Row[] = [
	['greeting 554', {greeting: '554 5.7.1 go away'}, {kind: 'deferred', phase: 'greeting', code: 554}],
	['greeting 521', {greeting: '521 no mail here'}, {kind: 'deferred', category: 'network', phase: 'greeting'}],
	['greeting 450', {greeting: '450 4.3.2 busy'}, {kind: 'deferred', category: 'system', phase: 'greeting'}],
	['greeting 421', {greeting: '421 4.3.2 busy'}, {kind: 'deferred', phase: 'greeting', code: 421}],
	[
		'closed without a greeting',
		{greeting: drop},
		{kind: 'deferred', category: 'network', phase: 'greeting', code: null},
	],
	['reset without a greeting', {greeting: {do: 'reset'}}, {kind: 'deferred', category: 'network'}],
	[
		'a greeting that is not SMTP',
		{greeting: closing('HTTP/1.1 400 Bad Request\r\n\r\n')},
		{kind: 'deferred', category: 'network', phase: 'greeting'},
	],
	[
		'EHLO and HELO refused',
		{ehlo: '502 5.5.1 no', helo: '550 5.7.1 no'},
		{kind: 'deferred', phase: 'ehlo', code: 550},
	],
	['421 to EHLO', {ehlo: '421 4.7.0 no'}, {kind: 'deferred', phase: 'ehlo', code: 421}],
	['220 to EHLO', {ehlo: '220 hello again'}, {kind: 'deferred', category: 'network', phase: 'ehlo', code: 220}],
	['421 to MAIL', {mail: '421 4.7.0 too much'}, {kind: 'deferred', category: 'rate', phase: 'mail'}],
	['451 to MAIL', {mail: '451 4.3.0 later'}, {kind: 'deferred', phase: 'mail', code: 451}],
	['closed at MAIL', {mail: drop}, {kind: 'deferred', category: 'network', phase: 'mail'}],
	['450 to RCPT', {rcpt: '450 4.2.0 greylisted, try again'}, {kind: 'deferred', category: 'greylist', phase: 'rcpt'}],
	['421 to RCPT', {rcpt: '421 4.3.2 closing'}, {kind: 'deferred', category: 'system', phase: 'rcpt'}],
	[
		'452 too many recipients',
		{rcpt: '452 4.5.3 too many recipients'},
		{kind: 'deferred', category: 'rate', phase: 'rcpt'},
	],
	['552 too many recipients', {rcpt: '552 too many recipients'}, {kind: 'deferred', category: 'rate', phase: 'rcpt'}],
	['550 5.5.3', {rcpt: '550 5.5.3 too many'}, {kind: 'deferred', category: 'rate', phase: 'rcpt'}],
	[
		'450 with the text of an unknown user',
		{rcpt: '450 4.1.1 user unknown'},
		{kind: 'deferred', category: 'undetermined', phase: 'rcpt'},
	],
	['closed at RCPT', {rcpt: drop}, {kind: 'deferred', category: 'network', phase: 'rcpt'}],
	['451 to DATA', {data: '451 4.3.0 later'}, {kind: 'deferred', phase: 'data', code: 451}],
	[
		'250 to DATA instead of 354',
		{data: '250 2.0.0 ok'},
		{kind: 'deferred', category: 'protocol', phase: 'data', code: 250},
	],
	['354 to RCPT', {rcpt: '354 go on'}, {kind: 'deferred', category: 'protocol', phase: 'rcpt', code: 354}],
	['451 4.7.1 try again later', {rcpt: '451 4.7.1 please try again later'}, {kind: 'deferred', category: 'greylist'}],
	[
		'451 try again',
		{rcpt: '451 temporary failure, please try again later'},
		{kind: 'deferred', category: 'greylist'},
	],
	['closed at DATA', {data: drop}, {kind: 'deferred', category: 'network', phase: 'data'}],
	['452 to the dot', {dot: '452 4.3.1 full'}, {kind: 'deferred', category: 'system', phase: 'dot'}],
	['421 to the dot', {dot: '421 4.3.0 dying'}, {kind: 'deferred', phase: 'dot', code: 421}],
];

/** Failures that are final at once, even if there are other mail servers. */
const final: readonly Row[] = [
	[
		'550 to MAIL',
		{mail: '550 5.1.1 no such user'},
		{kind: 'bounced', category: 'sender', suppresses: false, phase: 'mail', code: 550},
	],
	[
		'550 5.1.1 to RCPT',
		{rcpt: '550 5.1.1 no such user'},
		{kind: 'bounced', category: 'unknown_user', suppresses: true, phase: 'rcpt', code: 550},
	],
	[
		'550 5.7.1 to RCPT',
		{rcpt: '550 5.7.1 blocked using zen.spamhaus.org'},
		{kind: 'bounced', category: 'block', suppresses: false},
	],
	[
		'552 5.2.2 to RCPT',
		{rcpt: '552 5.2.2 mailbox full'},
		{kind: 'bounced', category: 'mailbox_full', suppresses: false},
	],
	['a bare 550 to RCPT', {rcpt: '550 no'}, {kind: 'bounced', category: 'undetermined', suppresses: false}],
	[
		'a refusal of several lines',
		{rcpt: '550 5.1.1 no such user\n5.1.1 see\n5.1.1 our page'},
		{kind: 'bounced', category: 'unknown_user', reason: /our page/},
	],
	['554 to DATA', {data: '554 5.7.1 no'}, {kind: 'bounced', category: 'policy', suppresses: false, phase: 'data'}],
	[
		'a bare 554 to the dot',
		{dot: '554 no'},
		{kind: 'bounced', category: 'spam_content', suppresses: false, phase: 'dot', code: 554},
	],
	[
		'550 5.1.1 to the dot',
		{dot: '550 5.1.1 user unknown'},
		{kind: 'bounced', category: 'unknown_user', suppresses: true, phase: 'dot'},
	],
	[
		'an enhanced code in a later line',
		{rcpt: '550 Requested action not taken\n4.2.2 no\n5.1.1 no such user'},
		{kind: 'bounced', category: 'unknown_user', enhanced: '5.1.1'},
	],
	[
		'503 twice',
		{mail: '503 5.5.1 bad sequence'},
		{kind: 'bounced', category: 'protocol', suppresses: false, code: 503},
	],
	[
		'501 to RCPT twice',
		{rcpt: '501 5.5.4 syntax'},
		{kind: 'bounced', category: 'protocol', suppresses: false, code: 501},
	],
	[
		'closed after the dot',
		{dot: drop},
		{kind: 'deferred', category: 'network', phase: 'dot', code: null, reason: /possible duplicate/},
	],
	[
		'reset after the dot',
		{dot: {do: 'reset'}},
		{kind: 'deferred', category: 'network', phase: 'dot', reason: /possible duplicate/},
	],
	[
		'nonsense after the dot',
		{dot: closing('xyz\r\n')},
		{kind: 'deferred', category: 'network', phase: 'dot', reason: /possible duplicate/},
	],
];

for (const [variant, extensions] of Object.entries(variants)) {
	for (const [name, script, expected] of nextHost) {
		// A reply that does not fit may belong to another command of the pipeline.
		const tries = variant === 'pipelining' && expected.category === 'protocol' ? 2 : 1;
		test.serial(`${variant}: ${name} → deferred if no mail server is left`, async t => {
			const lab = await startLab(t, [{extensions, ...script}]);
			const result = await lab.deliver();
			matches(t, result, expected);
			t.is(result.attempts.length, tries);
			t.is(lab.hosts[0]?.received.length, 0);
		});

		test.serial(`${variant}: ${name} → next mail server`, async t => {
			const lab = await startLab(t, [{extensions, ...script}, {extensions}]);
			const result = await lab.deliver();
			t.is(result.outcome.kind, 'delivered');
			t.deepEqual(
				result.attempts.map(({host}) => host),
				[...Array.from({length: tries}, () => 'mx0.example.test'), 'mx1.example.test'],
			);
			t.is(result.attempts[0]?.phase, expected.phase ?? result.attempts[0]?.phase);
			t.is(lab.hosts[1]?.received.length, 1);
		});
	}

	for (const [name, script, expected] of final) {
		test.serial(`${variant}: ${name} → final`, async t => {
			const lab = await startLab(t, [{extensions, ...script}, {extensions}]);
			const result = await lab.deliver();
			matches(t, result, expected);
			t.is(lab.hosts[1]?.connections.length, 0);
			t.is(lab.hosts[0]?.received.length, 0);
		});
	}

	test.serial(`${variant}: delivers the message byte for byte`, async t => {
		const lab = await startLab(t, [{extensions}]);
		const data = Buffer.from('Subject: dots\r\n\r\n.\r\n..\r\n.a\r\nb.\r\n.\r\n');
		const {outcome, attempts, sentAt} = await lab.deliver({data});
		t.deepEqual(outcome, {kind: 'delivered'});
		t.like(attempts, {
			length: 1,
			0: {
				host: 'mx0.example.test',
				ip: lab.hosts[0]?.host,
				tls: null,
				phase: 'dot',
				code: 250,
				enhanced: '2.0.0',
			},
		});
		t.truthy(sentAt);
		t.like(lab.hosts[0]?.received[0], {from: 'bounce@mail.test', to: ['user@example.test']});
		t.deepEqual(lab.hosts[0]?.received[0]?.data, data);
	});

	test.serial(`${variant}: delivers a message of several megabytes`, async t => {
		const lab = await startLab(t, [{extensions: extensions.map(keyword => keyword.replace('1000000', '0'))}]);
		const data = Buffer.from(`Subject: large\r\n\r\n${'.line of some length\r\n'.repeat(200_000)}`);
		t.is((await lab.deliver({data})).outcome.kind, 'delivered');
		t.true(lab.hosts[0]?.received[0]?.data.equals(data));
	});

	test.serial(`${variant}: MAIL with parameters rejected → HELO without parameters on a new connection`, async t => {
		const script: FakeMxOptions = {
			extensions: [...extensions, 'DSN'],
			mail: (line: string) => (/^MAIL FROM:<[^>]*>$/.test(line) ? undefined : '501 5.5.4 what?'),
		};
		const lab = await startLab(t, [script]);
		const {outcome, attempts} = await lab.deliver();
		t.is(outcome.kind, 'delivered');
		t.is(attempts.length, 2);
		t.deepEqual(lab.hosts[0]?.connections[1]?.commands.slice(0, 4), [
			'HELO out.mail.test',
			'MAIL FROM:<bounce@mail.test>',
			'RCPT TO:<user@example.test>',
			'DATA',
		]);
	});

	test.serial(`${variant}: EHLO refused → HELO`, async t => {
		const lab = await startLab(t, [{extensions, ehlo: '500 5.5.1 what?'}]);
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		t.deepEqual(lab.hosts[0]?.connections[0]?.commands.slice(0, 3), [
			'EHLO out.mail.test',
			'HELO out.mail.test',
			'MAIL FROM:<bounce@mail.test>',
		]);
	});

	test.serial(`${variant}: closed at EHLO → HELO on a new connection`, async t => {
		const lab = await startLab(t, [{extensions, ehlo: drop}]);
		const {outcome, attempts} = await lab.deliver();
		t.is(outcome.kind, 'delivered');
		t.deepEqual(
			attempts.map(({phase}) => phase),
			['ehlo', 'dot'],
		);
		t.is(lab.hosts[0]?.connections[1]?.commands[0], 'HELO out.mail.test');
	});

	test.serial(`${variant}: closed at EHLO and at HELO → next mail server`, async t => {
		const lab = await startLab(t, [{extensions, ehlo: drop, helo: drop}, {}]);
		const {outcome, attempts} = await lab.deliver();
		t.is(outcome.kind, 'delivered');
		t.deepEqual(
			attempts.map(({host, phase}) => [host, phase]),
			[
				['mx0.example.test', 'ehlo'],
				['mx0.example.test', 'ehlo'],
				['mx1.example.test', 'dot'],
			],
		);
	});

	test.serial(`${variant}: closed at EHLO if TLS or SMTPUTF8 is required → no HELO`, async t => {
		for (const [terms, envelope] of [
			[{tls: 'required'}, {}],
			[{}, {envelope: {from: 'b@mail.test', to: 'jürgen@example.test', smtputf8: true}}],
		] as const) {
			const lab = await startLab(t, [{extensions, ehlo: drop}], {terms});
			t.like(await lab.deliver(envelope), {
				outcome: {kind: 'deferred', category: 'network'},
				attempts: {length: 1},
			});
		}
	});

	test.serial(`${variant}: larger than the SIZE limit of a mail server → the next one`, async t => {
		const lab = await startLab(t, [{extensions: ['SIZE 20']}, {extensions}]);
		const {outcome, attempts} = await lab.deliver();
		t.is(outcome.kind, 'delivered');
		t.like(attempts[0], {phase: 'ehlo', enhanced: '5.3.4', code: null});
		t.false(lab.hosts[0]?.connections[0]?.commands.some(line => line.startsWith('MAIL')));
	});

	test.serial(`${variant}: larger than every SIZE limit → bounced, not suppressed`, async t => {
		const lab = await startLab(t, [{extensions: ['SIZE 20']}, {extensions: ['SIZE 10']}]);
		matches(t, await lab.deliver(), {kind: 'bounced', category: 'too_big', suppresses: false, reason: /^5\.3\.4 /});
	});

	test.serial(`${variant}: larger than one SIZE limit, the other server unreachable → deferred`, async t => {
		const lab = await startLab(t, [{extensions: ['SIZE 20']}, {greeting: drop}]);
		matches(t, await lab.deliver(), {kind: 'deferred', category: 'network'});
	});

	test.serial(`${variant}: mail servers without a required extension do not count as sessions`, async t => {
		const lab = await startLab(t, [{extensions}, {extensions: ['SIZE 20']}, {extensions: ['SMTPUTF8']}]);
		const envelope = {from: 'b@mail.test', to: 'jürgen@example.test', smtputf8: true};
		const {outcome, attempts} = await lab.deliver({envelope});
		t.is(outcome.kind, 'delivered');
		t.deepEqual(
			attempts.map(({enhanced}) => enhanced),
			['5.6.7', '5.6.7', '2.0.0'],
		);
	});

	test.serial(`${variant}: SMTPUTF8 missing on one mail server, the other unreachable → deferred`, async t => {
		const lab = await startLab(t, [{extensions}, {greeting: drop}]);
		const envelope = {from: 'b@mail.test', to: 'jürgen@example.test', smtputf8: true};
		matches(t, await lab.deliver({envelope}), {kind: 'deferred', category: 'network'});
	});

	test.serial(`${variant}: SMTPUTF8 missing for a UTF-8 address → bounced with 5.6.7, nothing sent`, async t => {
		const lab = await startLab(t, [{extensions}, {extensions}]);
		const envelope = {from: 'b@mail.test', to: 'jürgen@example.test', smtputf8: true};
		const result = await lab.deliver({envelope});
		matches(t, result, {kind: 'bounced', category: 'protocol', suppresses: false, reason: /^5\.6\.7 /});
		t.is(result.attempts[0]?.enhanced, '5.6.7');
		await lab.deliverer.close();
		t.deepEqual(lab.hosts[0]?.connections[0]?.commands, ['EHLO out.mail.test', 'QUIT']);
	});

	test.serial(`${variant}: uses SMTPUTF8 if it is offered`, async t => {
		const lab = await startLab(t, [{extensions: [...extensions, 'SMTPUTF8', 'DSN']}]);
		const envelope = {from: 'b@mail.test', to: 'jürgen@example.test', smtputf8: true};
		t.is((await lab.deliver({envelope})).outcome.kind, 'delivered');
		const commands = lab.hosts[0]?.connections[0]?.commands ?? [];
		t.regex(commands[1] ?? '', / SMTPUTF8 /);
		t.is(commands[2], 'RCPT TO:<jürgen@example.test> NOTIFY=FAILURE ORCPT=utf-8;jürgen@example.test');
	});

	test.serial(`${variant}: 354 after a refused recipient → empty message, session still usable`, async t => {
		const lab = await startLab(t, [{extensions, rcpt: ['250 ok', '550 5.1.1 no such user'], data: '354 go on'}], {
			limit: 1,
		});
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		t.is((await lab.deliver()).outcome.kind, 'bounced');
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		t.is(lab.hosts[0]?.connections.length, 1);
		t.is(lab.hosts[0]?.received.at(-1)?.to.length, 1);
	});

	test.serial(`${variant}: sends RSET after a refusal, but not after a delivery`, async t => {
		const lab = await startLab(t, [{extensions, rcpt: ['250 ok', '550 5.1.1 no such user', '250 ok']}], {limit: 1});
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		t.is((await lab.deliver()).outcome.kind, 'bounced');
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		const commands = lab.hosts[0]?.connections[0]?.commands.map(line => line.slice(0, 4));
		t.is(lab.hosts[0]?.connections.length, 1);
		t.deepEqual(commands, [
			'EHLO',
			'MAIL',
			'RCPT',
			'DATA',
			'MAIL',
			'RCPT',
			...(variant === 'pipelining' ? ['DATA'] : []),
			'RSET',
			'MAIL',
			'RCPT',
			'DATA',
		]);
	});

	test.serial(`${variant}: 421 in the middle of a transaction → new session for the next message`, async t => {
		const scripts: FakeMxOptions[] = [{rcpt: ['421 4.3.2 going down']}];
		if (variant === 'pipelining') {
			scripts.push({rcpt: ['550 5.1.1 no'], data: ['421 4.3.2 going down']});
		}

		for (const script of scripts) {
			const lab = await startLab(t, [{extensions, ...script}], {limit: 1});
			t.not((await lab.deliver()).outcome.kind, 'delivered');
			t.is((await lab.deliver()).outcome.kind, 'delivered');
			t.is(lab.hosts[0]?.connections.length, 2);
			t.false(lab.hosts[0]?.connections[0]?.commands.includes('RSET'));
		}
	});

	test.serial(`${variant}: accepts replies byte by byte and in several lines`, async t => {
		const drip: FakeMxOptions = {
			extensions,
			greeting(_, connection) {
				const text = '220-fake.test\r\n220-says\r\n220 hello\r\n';
				let sent = 0;
				const timer = setInterval(() => {
					connection.say(text.slice(sent, sent + 1));
					sent += 1;
					if (sent === text.length) {
						clearInterval(timer);
					}
				}, 1);
				return {bytes: ''};
			},
			rcpt: '250-2.1.5 fine\nand fine\nand fine',
		};
		const lab = await startLab(t, [drip]);
		t.is((await lab.deliver()).outcome.kind, 'delivered');
	});

	test.serial(`${variant}: an idle session closed by the server does not count as a failed attempt`, async t => {
		const lab = await startLab(t, [{extensions, mail: ['250 ok', '421 4.4.2 idle too long']}], {limit: 1});
		t.is((await lab.deliver()).outcome.kind, 'delivered');
		const second = await lab.deliver();
		t.is(second.outcome.kind, 'delivered');
		t.is(second.attempts.length, 1);
		t.is(lab.hosts[0]?.connections.length, 2);
	});
}

test.serial('connection refused → next mail server, deferred if none is left', async t => {
	const zone = {'mx0.example.test': {a: ['127.0.0.254']}};
	const alone = await startLab(t, [{}], {zone});
	matches(t, await alone.deliver(), {
		kind: 'deferred',
		category: 'network',
		phase: 'connect',
		reason: /ECONNREFUSED/,
	});
	const lab = await startLab(t, [{}, {}], {zone});
	t.deepEqual((await lab.deliver()).outcome, {kind: 'delivered'});
});

test.serial('waits at least five minutes after a connection lost after the final dot', async t => {
	const lab = await startLab(t, [{dot: drop}]);
	t.like((await lab.deliver()).outcome, {kind: 'deferred', waitMs: 300_000});
});

test.serial('follows a wait stated in the reply, within limits', async t => {
	const lab = await startLab(t, [
		{rcpt: ['450 4.7.1 greylisted, try again in 300 seconds', '450 try again in 5 s', '450 wait 9 hours']},
	]);
	t.like((await lab.deliver()).outcome, {kind: 'deferred', waitMs: 300_000});
	t.like((await lab.deliver()).outcome, {kind: 'deferred', waitMs: 60_000});
	t.like((await lab.deliver()).outcome, {kind: 'deferred', waitMs: 3_600_000});
});

test.serial('stops after two sessions in which the message was offered', async t => {
	const lab = await startLab(t, [{rcpt: '450 no'}, {rcpt: '450 no'}, {}]);
	const {outcome, attempts} = await lab.deliver();
	t.is(outcome.kind, 'deferred');
	t.is(attempts.length, 2);
	t.is(lab.hosts[2]?.connections.length, 0);
});

test.serial('contacts at most five mail servers; unreachable ones do not count as sessions', async t => {
	const dead: FakeMxOptions = {greeting: drop};
	const five = await startLab(t, [dead, dead, dead, dead, {}]);
	t.is((await five.deliver()).outcome.kind, 'delivered');
	const six = await startLab(t, [dead, dead, dead, dead, dead, {}]);
	t.is((await six.deliver()).attempts.length, 5);
});

test.serial('sends DSN parameters and SIZE if they are offered', async t => {
	const lab = await startLab(t, [{extensions: ['DSN', 'SIZE', 'AUTH=LOGIN']}]);
	const envelope = {from: '', to: 'a+b=c@example.test', smtputf8: false};
	await lab.deliver({envelope, ref: 'r=1+2', data: Buffer.from('x\r\n')});
	const commands = lab.hosts[0]?.connections[0]?.commands ?? [];
	t.is(commands[1], 'MAIL FROM:<> SIZE=3 RET=HDRS ENVID=r+3D1+2B2');
	t.is(commands[2], 'RCPT TO:<a+b=c@example.test> NOTIFY=FAILURE ORCPT=rfc822;a+2Bb+3Dc@example.test');
});

test.serial('a refusal in the middle of the data bounces, an acceptance does not count as delivery', async t => {
	const big = Buffer.from(
		`Subject: big\r\n\r\n${'x'.repeat(70)}\r\n`.repeat(1).concat(`${'y'.repeat(70)}\r\n`.repeat(400_000)),
	);
	for (const [body, kind] of [
		['552 5.3.4 too much', 'bounced'],
		['250 2.0.0 fine', 'deferred'],
	] as const) {
		const lab = await startLab(t, [{extensions: ['PIPELINING'], body}]);
		t.is((await lab.deliver({data: big})).outcome.kind, kind);
	}
});

test.serial('rejects an envelope address that would break the SMTP command', async t => {
	const lab = await startLab(t, [{}]);
	for (const to of [
		'a@b.test>\r\nRCPT TO:<c@d.test',
		'a b@c.test',
		'a\u0000@c.test',
		'a@b\u00a0.test',
		'<a@b.test>',
		'',
		'ä@b.test',
	]) {
		const {outcome} = await lab.deliver({envelope: {from: 'b@mail.test', to, smtputf8: false}});
		t.deepEqual(outcome, {kind: 'errored', reason: 'bad_envelope'}, to);
	}

	t.deepEqual((await lab.deliver({envelope: {from: 'b@m.test\nDATA', to: 'a@b.test', smtputf8: true}})).outcome, {
		kind: 'errored',
		reason: 'bad_envelope',
	});
	t.is(lab.hosts[0]?.connections.length, 0);
});

test.serial('a body crafted for SMTP smuggling stays one message, even on a lax server', async t => {
	const tails = ['\n.\r\n', '\r\n.\n', '\n.\n', '\r.\r', '\r.\r\n', '\r\n.\r', '\r\n.\r\n', '\n\r\n.\r\n'];
	for (const lax of [false, true]) {
		const lab = await startLab(t, [{lax}]);
		for (const [n, tail] of tails.entries()) {
			const data = Buffer.from(
				`Subject: ${n}\r\n\r\nbody${tail}MAIL FROM:<evil@x.test>\r\nRCPT TO:<victim@x.test>\r\nDATA\r\nx\r\n`,
			);
			t.is((await lab.deliver({data})).outcome.kind, 'delivered');
			t.is(lab.hosts[0]?.received.length, n + 1, `${lax} ${JSON.stringify(tail)}`);
			t.deepEqual(lab.hosts[0]?.received[n]?.to, ['user@example.test']);
		}

		t.is(lab.hosts[0]?.connections[0]?.commands.filter(line => line.includes('evil')).length, 0);
	}
});

test.serial('a stop releases messages whose data is not yet sent and lets the others finish', async t => {
	const controller = new AbortController();
	const lab = await startLab(t, [{mail: line => (line.includes('frozen') ? {do: 'never'} : undefined)}]);
	const frozen = lab.deliver(
		{envelope: {from: 'frozen@mail.test', to: 'user@example.test', smtputf8: false}},
		controller.signal,
	);
	await waitFor(
		'MAIL was sent',
		() => lab.hosts[0]?.connections[0]?.commands.some(line => line.startsWith('MAIL')) === true,
	);
	controller.abort();
	t.deepEqual((await frozen).outcome, {kind: 'released'});
	t.deepEqual((await lab.deliver({}, controller.signal)).outcome, {kind: 'released'});

	const late = new AbortController();
	const stopNow = () => {
		late.abort();
		return undefined;
	};
	const finishing = await startLab(t, [{dot: stopNow}]);
	t.is((await finishing.deliver({}, late.signal)).outcome.kind, 'delivered');
});
