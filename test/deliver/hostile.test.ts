import test from 'ava';
import fc from 'fast-check';
import type {SmtpTimeouts} from '../../src/net/smtp-timeouts.ts';
import {anyChar} from '../helpers/any-char.ts';
import {startLab, testTimeouts} from '../helpers/delivery-lab.ts';
import type {Answer, FakeMxOptions, Step} from '../helpers/fake-mx.ts';

const never: Answer = {do: 'never'};
const big = Buffer.from(`Subject: big\r\n\r\n${`${'x'.repeat(70)}\r\n`.repeat(300_000)}`);

const frozen: ReadonlyArray<readonly [step: string, timeout: keyof SmtpTimeouts, script: FakeMxOptions]> = [
	['greeting', 'greeting', {greeting: never}],
	['ehlo', 'ehlo', {ehlo: never}],
	['starttls', 'starttls', {starttls: never, extensions: ['STARTTLS'], mail: '451 no'}],
	['mail', 'mail', {mail: never}],
	['rcpt', 'rcpt', {rcpt: never}],
	['data', 'data', {data: never}],
	['dot', 'dot', {dot: never}],
];
for (const [phase, timeout, script] of frozen) {
	for (const extensions of [['PIPELINING'], []]) {
		test(`times out on a mail server that freezes at ${phase} (${extensions[0] ?? 'lock-step'})`, async t => {
			const timeouts = {...testTimeouts, [timeout]: 100};
			const lab = await startLab(t, [{extensions, ...script}], {timeouts});
			const {outcome, attempts} = await lab.deliver();
			t.is(outcome.kind, 'deferred');
			t.is(attempts[0]?.phase, phase as never);
			t.regex(attempts[0]?.reply ?? '', /took longer than 100 ms/);
			t.is('waitMs' in outcome, phase === 'dot');
		});
	}
}

test('times out on a mail server that stops reading the data', async t => {
	const lab = await startLab(t, [{extensions: [], body: never}], {timeouts: {...testTimeouts, block: 100, dot: 100}});
	t.like((await lab.deliver({data: big})).outcome, {kind: 'deferred', category: 'network'});
});

test('times out on a mail server that trickles its reply', async t => {
	const lab = await startLab(
		t,
		[
			{
				greeting(_, connection) {
					const timer = setInterval(() => connection.say('220-wait\r\n'), 10);
					t.teardown(() => clearInterval(timer));
					return {bytes: ''};
				},
			},
		],
		{timeouts: {...testTimeouts, greeting: 150}},
	);
	t.regex((await lab.deliver()).attempts[0]?.reply ?? '', /took longer than 150 ms/);
});

test('stops at the deadline of the attempt, whatever the timeouts of its steps', async t => {
	const lab = await startLab(t, [{rcpt: never}, {}], {attemptDeadlineMs: 2000});
	const {outcome, attempts} = await lab.deliver();
	t.like(outcome, {kind: 'deferred', category: 'network', reason: 'the attempt took longer than 2000 ms'});
	t.is(attempts.length, 1);
	t.is(lab.hosts[1]?.connections.length, 0);
});

/** Enough for a message to reach the step under test, even on a busy machine. */
const expiresMs = 10_000;

test('stops waiting for a stuck mail server when the message expires', async t => {
	const lab = await startLab(t, [{rcpt: never}, {}]);
	const {outcome, attempts} = await lab.deliver({endsAt: Date.now() + expiresMs, expires: true});
	t.like(outcome, {kind: 'deferred', reason: 'the message expired before the mail server accepted it'});
	t.is(attempts.length, 1);
	t.is(lab.hosts[1]?.connections.length, 0, 'no other host is asked');
});

test('waits for the reply to the data even if the message expires meanwhile', async t => {
	const lab = await startLab(t, [
		{
			dot(_, connection) {
				// Sent after the message has expired.
				setTimeout(() => connection.say('250 ok\r\n'), expiresMs);
				return {bytes: ''};
			},
		},
	]);
	t.is((await lab.deliver({endsAt: Date.now() + expiresMs, expires: true})).outcome.kind, 'delivered');
});

test('aborts a reply that does not end', async t => {
	for (const bytes of ['220-x\r\n'.repeat(160_000), 'x'.repeat(1_100_000), `220 ${'x'.repeat(1_100_000)}`]) {
		const lab = await startLab(t, [{greeting: {bytes}}]);
		const reply = 'the server sent a reply that does not end';
		t.like((await lab.deliver()).attempts[0], {phase: 'greeting', code: null, reply});
	}
});

const dirty = '\u001b[31mno\u0007\u0000\u202e such user';
const dirtyWords: ReadonlyArray<readonly [where: string, script: FakeMxOptions]> = [
	['in a reply', {rcpt: `550 5.1.1 ${dirty}`}],
	['in an unexpected reply', {greeting: {bytes: `220 hello\r\n250 ${dirty}\r\n`}}],
	['in a line without a code', {greeting: {bytes: `${dirty}\r\n550 ${dirty}\r\n`}}],
];
for (const [where, script] of dirtyWords) {
	test(`strips control characters ${where}`, async t => {
		const lab = await startLab(t, [script]);
		const {outcome, attempts} = await lab.deliver();
		const said = [...attempts.map(({reply}) => reply), 'reason' in outcome ? (outcome.reason ?? '') : ''];
		t.true(attempts.length > 0);
		t.false(/[\u0000-\u0009\u000b-\u001f\u202e]/.test(said.join('\n')), JSON.stringify(said));
	});
}

const steps: readonly Step[] = ['greeting', 'ehlo', 'helo', 'starttls', 'mail', 'rcpt', 'data', 'dot', 'rset', 'quit'];

test('reaches an outcome in time, whatever bytes the server sends at any step', async t => {
	const timeouts = Object.fromEntries(Object.keys(testTimeouts).map(name => [name, 60])) as SmtpTimeouts;
	const reply = fc.oneof(
		fc.uint8Array({maxLength: 200}).map(bytes => Buffer.from(bytes)),
		fc.string({unit: anyChar, maxLength: 60}),
		fc
			.record({
				code: fc.integer({min: 0, max: 999}),
				text: fc.string({maxLength: 30}),
				hyphen: fc.constantFrom(' ', '-', ''),
			})
			.map(({code, text, hyphen}) => `${code}${hyphen}${text}\r\n`),
		fc.constantFrom('250 ok\r\n250 ok\r\n', '354 go\r\n', '220 go\r\n', '421 bye\r\n', '250-x\r\n', '\r\n', ''),
	);
	await fc.assert(
		fc.asyncProperty(fc.constantFrom(...steps), reply, fc.boolean(), async (step, bytes, pipelining) => {
			const extensions = [...(pipelining ? ['PIPELINING'] : []), ...(step === 'starttls' ? ['STARTTLS'] : [])];
			const lab = await startLab({teardown: () => undefined}, [{extensions, [step]: {bytes}}], {
				timeouts,
				attemptDeadlineMs: 60_000,
			});
			try {
				const {outcome, attempts} = await lab.deliver();
				t.true(['delivered', 'deferred', 'bounced'].includes(outcome.kind));
				t.true(attempts.length > 0 && attempts.every(({reply}) => reply.length <= 1024));
			} finally {
				await lab.deliverer.close();
				await lab.hosts[0]?.close();
				await lab.dns.close();
			}
		}),
		{numRuns: 150},
	);
});
