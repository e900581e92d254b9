import test from 'ava';
import {startLab, testDelivery} from '../helpers/delivery-lab.ts';
import type {Answer, FakeConnection, FakeMxOptions, Step} from '../helpers/fake-mx.ts';

// Hosts whose replies do not fit the commands: no mail is lost, repeated or bounced for good because of them.

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
		test(`${what} (${extensions[0] ?? 'lock-step'}): the mail is tried again`, async t => {
			const lab = await startLab(t, [{extensions, ...script}]);
			const {outcome} = await lab.deliver();
			t.is(outcome.kind, 'deferred', JSON.stringify(outcome));
			t.is(lab.hosts[0]?.received.length, 0);
		});
	}
}

test('two replies to the dot: the host has the mail', async t => {
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
for (const junk of ['', 'a word', ' 250 OK', '250\tOK', '\0', '150 wait']) {
	test(`a line without a code, ${JSON.stringify(junk)}, before the reply is no reply, in every phase`, async t => {
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

for (const step of ['mail', 'rcpt'] as const) {
	for (const code of [450, 451, 452, 550]) {
		test(`a host that takes three mails a connection, then answers ${step} with ${code}, gets all`, async t => {
			const taken = new Map<object, number>();
			const lab = await startLab(t, [
				{
					extensions: pipelining,
					[step]: (_: string, connection: object) =>
						(taken.get(connection) ?? 0) >= 3 ? `${code} too many mails on this connection` : undefined,
					dot(_, connection) {
						taken.set(connection, (taken.get(connection) ?? 0) + 1);
						return undefined;
					},
				},
			]);
			const outcomes: string[] = [];
			for (let n = 0; n < 12; n++) {
				outcomes.push((await lab.deliver(testDelivery())).outcome.kind);
			}

			// At RCPT the first refusal may be about the recipient; the next one in a row shows that it is the session.
			const refused = outcomes.filter(kind => kind !== 'delivered').length;
			t.true(step === 'mail' ? refused === 0 : refused <= 3, `${outcomes}`);
		});
	}
}
