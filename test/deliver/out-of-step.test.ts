import test from 'ava';
import {startLab, testDelivery, testTimeouts} from '../helpers/delivery-lab.ts';
import type {Answer, FakeConnection, FakeMxOptions, Step} from '../helpers/fake-mx.ts';

// Mail servers whose replies do not match the commands: no message is lost, sent twice or bounced because of them.

const pipelining = ['PIPELINING'];
const bytes = (text: string): Answer => ({bytes: text});

const unasked: ReadonlyArray<readonly [what: string, script: FakeMxOptions]> = [
	['354 and 250 in one packet', {data: bytes('354 go\r\n250 queued\r\n')}],
	['354 and 550 in one packet', {data: bytes('354 go\r\n550 no\r\n')}],
	['550 with the greeting', {greeting: bytes('220 hello\r\n550 no\r\n')}],
	['550 with the reply to EHLO', {ehlo: bytes('250 fake.test\r\n550 5.1.1 no such user\r\n')}],
	['two replies to MAIL, the second 550', {mail: bytes('250 ok\r\n550 5.1.1 no such user\r\n')}],
	['two replies to MAIL, the first 550', {mail: bytes('550 no\r\n250 ok\r\n')}],
	['two replies to RCPT, the second 550', {rcpt: bytes('250 ok\r\n550 no\r\n')}],
];
for (const [what, script] of unasked) {
	for (const extensions of [pipelining, []]) {
		test(`defers on ${what} (${extensions[0] ?? 'lock-step'})`, async t => {
			const lab = await startLab(t, [{extensions, ...script}]);
			const {outcome} = await lab.deliver();
			t.is(outcome.kind, 'deferred', JSON.stringify(outcome));
			t.is(lab.hosts[0]?.received.length, 0);
		});
	}
}

for (const step of ['mail', 'rcpt', 'data', 'dot'] as const) {
	for (const extensions of [pipelining, []]) {
		test(`defers on 550 just before the reply to ${step} (${extensions[0] ?? 'lock-step'})`, async t => {
			const early = (_: string, connection: FakeConnection) => {
				connection.say('550 5.1.1 no such user\r\n');
				return undefined;
			};
			const lab = await startLab(t, [{extensions, [step]: early}]);
			t.is((await lab.deliver()).outcome.kind, 'deferred');
			t.is(lab.hosts[0]?.received.length, step === 'dot' ? 1 : 0);
		});
	}
}

for (const extensions of [pipelining, []]) {
	test(`treats a refusal split into two replies as one (${extensions[0] ?? 'lock-step'})`, async t => {
		const twice = (code: number) => (_: string, connection: FakeConnection) => {
			connection.say(`${code} no such user\r\n`);
			return `${code} ask our page`;
		};
		const kinds: string[] = [];
		for (const script of [{rcpt: twice(550)}, {rcpt: twice(450)}, {dot: twice(554)}, {mail: twice(550)}]) {
			const lab = await startLab(t, [{extensions, ...script}]);
			const {outcome, attempts} = await lab.deliver();
			kinds.push(`${outcome.kind} ${attempts.at(-1)?.code}`);
		}

		t.deepEqual(kinds, ['bounced 550', 'deferred 450', 'bounced 554', 'bounced 550']);
	});
}

test('does not take a 250 in the middle of a large message for the reply to its final dot', async t => {
	const data = Buffer.from(`Subject: big\r\n\r\n${'x'.repeat(70)}\r\n`.repeat(20_000));
	for (const [said, kind] of [
		['250 queued', 'deferred'],
		['550 5.3.4 too big', 'bounced'],
	] as const) {
		const lab = await startLab(t, [{body: {bytes: `${said}\r\n`}}]);
		t.is((await lab.deliver({data})).outcome.kind, kind);
	}
});

test('does not take a second 354 for the reply to the final dot', async t => {
	const lab = await startLab(t, [
		{
			dot(_, connection) {
				connection.say('354 go\r\n');
				return undefined;
			},
		},
	]);
	t.is((await lab.deliver()).attempts[0]?.phase, 'dot');
	t.is(lab.hosts[0]?.received.length, 1);
});

test('defers on 221 after the final dot', async t => {
	const lab = await startLab(t, [{dot: '221 bye'}]);
	t.like((await lab.deliver()).outcome, {kind: 'deferred', category: 'network'});
});

test('counts as delivered if 250 comes twice after the final dot', async t => {
	const lab = await startLab(t, [
		{
			dot(_, connection) {
				connection.say('250 queued\r\n');
				return undefined;
			},
		},
	]);
	t.is((await lab.deliver()).outcome.kind, 'delivered');
	t.is(lab.hosts[0]?.received.length, 1);
});

const steps: readonly Step[] = ['greeting', 'ehlo', 'mail', 'rcpt', 'data', 'dot'];
const strays: Readonly<Record<string, string>> = {
	'an empty line': '',
	'a word': 'a word',
	'a code behind a space': ' 250 OK',
	'a code and a tab': '250\tOK',
	'a NUL': '\0',
	'a code of 1xx': '150 wait',
	'a thousand lines': 'wait\r\n'.repeat(1000),
	'a line of 100,000 octets': 'x'.repeat(100_000),
};
for (const [what, junk] of Object.entries(strays)) {
	test(`ignores ${what} before the reply, in every phase`, async t => {
		for (const step of steps) {
			const say = (_: string, connection: FakeConnection) => {
				connection.say(`${junk}\r\n`);
				return undefined;
			};
			const lab = await startLab(t, [{extensions: [], [step]: say}]);
			t.is((await lab.deliver()).outcome.kind, 'delivered', step);
			t.is(lab.hosts[0]?.received.length, 1, step);
		}
	});
}

test('accepts overlong lines and replies and truncates them', async t => {
	for (const text of [`250 ${'x'.repeat(100_000)}\r\n`, `${'250-x\r\n'.repeat(2000)}250 x\r\n`]) {
		for (const step of ['ehlo', 'mail', 'dot']) {
			const lab = await startLab(t, [{extensions: [], [step]: {bytes: text}}]);
			t.is((await lab.deliver()).outcome.kind, 'delivered', step);
		}
	}
});

const refusals: readonly Answer[] = [
	'421 too many mails on this connection',
	'450 too many mails on this connection',
	'451 4.3.0 later',
	'452 4.5.3 too many',
	'550 too many mails on this connection',
	{do: 'drop'},
	{do: 'reset'},
];
for (const step of ['mail', 'rcpt', 'data', 'dot'] as const) {
	for (const refusal of refusals.filter(one => step !== 'dot' || typeof one === 'string')) {
		const said = typeof refusal === 'string' ? refusal : JSON.stringify(refusal);
		test(`delivers everything if ${said} to ${step} follows three messages on a connection`, async t => {
			const taken = new Map<object, number>();
			const limit = (_: string, connection: object) => ((taken.get(connection) ?? 0) >= 3 ? refusal : undefined);
			const lab = await startLab(t, [
				{
					extensions: pipelining,
					[step]: limit,
					dot(line, connection) {
						const answer = step === 'dot' ? limit(line, connection) : undefined;
						taken.set(connection, (taken.get(connection) ?? 0) + (answer === undefined ? 1 : 0));
						return answer;
					},
				},
			]);
			const outcomes: string[] = [];
			for (let n = 0; n < 12; n++) {
				outcomes.push((await lab.deliver(testDelivery())).outcome.kind);
			}

			// The first refusal after MAIL may concern the message, unless it mentions the connection.
			const refused = outcomes.filter(kind => kind !== 'delivered');
			t.true(refused.length <= (step === 'mail' || !/^45\d 4/.test(said) ? 0 : 3), `${outcomes}`);
			t.false(refused.includes('bounced'));
		});
	}
}

const protests: readonly Answer[] = [
	'554 SMTP synchronization error',
	'421 you talk too soon',
	'550 5.5.1 Protocol error',
	'503 5.5.1 bad sequence of commands',
	'501 improper use of pipelining',
	'550 no',
	'354 go',
	{bytes: '250 ok\r\n250 ok\r\n'},
];
for (const protest of protests) {
	const said = typeof protest === 'string' ? protest : JSON.stringify(protest);
	test(`switches to lock-step for this and later messages if pipelining causes ${said}`, async t => {
		const awaits = new Map<object, string>();
		const lab = await startLab(t, [
			{
				extensions: pipelining,
				// Its reply comes late, so that RCPT is there before it, or is not.
				mail(_, connection) {
					awaits.set(connection, 'reply');
					setImmediate(() => {
						awaits.delete(connection);
						connection.say('250 ok\r\n');
					});
					return {bytes: ''};
				},
				rcpt: (_, connection) => (awaits.has(connection) ? protest : undefined),
			},
		]);
		const {outcome, attempts} = await lab.deliver();
		t.is(outcome.kind, 'delivered', JSON.stringify(attempts));
		t.is((await lab.deliver()).attempts.length, 1);
		t.is(lab.hosts[0]?.connections.length, 2);
	});
}

test('switches to lock-step if the server discards what was pipelined after MAIL', async t => {
	// Short for the reply that never comes. The one to the next RCPT may take its time.
	const limits = [300];
	const lab = await startLab(t, [{extensions: pipelining, rcpt: [{do: 'never'}]}], {
		timeouts: {
			...testTimeouts,
			get rcpt() {
				return limits.shift() ?? testTimeouts.rcpt;
			},
		},
	});
	t.is((await lab.deliver()).outcome.kind, 'delivered');
	t.deepEqual(lab.hosts[0]?.connections[0]?.commands.slice(1), [
		'MAIL FROM:<bounce@mail.test>',
		'RCPT TO:<user@example.test>',
	]);
});

test('bounces on 550 5.5.0 to RCPT without a second session', async t => {
	const rcpt = '550 5.5.0 Requested action not taken: mailbox unavailable';
	const lab = await startLab(t, [{extensions: pipelining, rcpt}]);
	const {outcome, attempts} = await lab.deliver();
	t.like(outcome, {kind: 'bounced', category: 'unknown_user'});
	t.is(attempts.length, 1);
	t.is(lab.hosts[0]?.connections.length, 1);
});

test('does not trust a refusal followed by the start of another reply', async t => {
	const lab = await startLab(t, [{extensions: [], rcpt: {bytes: '550 5.1.1 no such user\r\n250-'}}]);
	t.is((await lab.deliver()).outcome.kind, 'deferred');
});

test('uses lock-step from the third attempt, whatever the earlier errors', async t => {
	const grouped = new Map<object, boolean>();
	const lab = await startLab(t, [
		{
			extensions: pipelining,
			mail(_, connection) {
				grouped.set(connection, true);
				setImmediate(() => {
					grouped.delete(connection);
					connection.say('250 ok\r\n');
				});
				return {bytes: ''};
			},
			rcpt: (_, connection) => (grouped.has(connection) ? '421 4.3.2 closing' : undefined),
		},
	]);
	const kinds: string[] = [];
	for (const attempt of [1, 2, 3]) {
		kinds.push((await lab.deliver({attempt})).outcome.kind);
	}

	t.deepEqual(kinds, ['deferred', 'deferred', 'delivered']);
});
