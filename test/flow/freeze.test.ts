import {randomBytes} from 'node:crypto';
import test from 'ava';
import {eventsOf} from '../helpers/daemon.ts';
import {startDeaf} from '../helpers/deaf.ts';
import type {Answer, FakeConnection, FakeMxOptions, Script} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

const stepMs = 1000;
const deadlineMs = 2500;
const never: Answer = {do: 'never'};
/** Twice; then the host is well. */
const frozen: Script = [never, never];

/** One byte at a time of a reply that has no end, twice. */
function drip(): Script {
	let left = 2;
	return (_line: string, connection: FakeConnection) => {
		if (left === 0) {
			return undefined;
		}
		left -= 1;
		const bytes = '250-wait a little more\r\n'.repeat(50);
		let sent = 0;
		const timer = setInterval(() => connection.say(bytes.slice(sent, ++sent)), 50);
		setTimeout(() => clearInterval(timer), 2 * stepMs);
		return {bytes: ''};
	};
}

/** Takes half of the time that each step has, twice through. */
function tarpit(): FakeMxOptions {
	let patience = 2 * 5;
	const slow =
		(reply: string): Script =>
		(_line, connection) => {
			if (patience === 0) {
				return undefined;
			}
			patience -= 1;
			setTimeout(() => connection.say(`${reply}\r\n`), stepMs * 0.6);
			return {bytes: ''};
		};
	return {
		extensions: [],
		greeting: slow('220 hello'),
		ehlo: slow('250 hello'),
		mail: slow('250 ok'),
		rcpt: slow('250 ok'),
		data: slow('354 go on'),
	};
}

const lockStep: FakeMxOptions = {extensions: ['8BITMIME']};

/** What freezes where, and what our log says of it. */
const hosts: Record<string, readonly [script: FakeMxOptions, reply: RegExp]> = {
	greeting: [{greeting: frozen}, /^the reply took longer than 1000 ms/],
	ehlo: [{ehlo: frozen}, /^the reply took/],
	mail: [{mail: frozen}, /^the reply took/],
	rcpt: [{rcpt: frozen}, /^the reply took/],
	data: [{data: frozen}, /^the reply took/],
	dot: [{dot: frozen}, /^possible duplicate, no answer to the data: the reply took/],
	'mail-lock-step': [{...lockStep, mail: frozen}, /^the reply took/],
	'rcpt-lock-step': [{...lockStep, rcpt: frozen}, /^the reply took/],
	'data-lock-step': [{...lockStep, data: frozen}, /^the reply took/],
	'dot-lock-step': [{...lockStep, dot: frozen}, /^possible duplicate/],
	window: [{body: [{do: 'freeze'}, {do: 'freeze'}]}, /^(taking a part of the data|possible duplicate.*the reply) took/],
	'drip-greeting': [{greeting: drip()}, /^the reply took/],
	'drip-ehlo': [{ehlo: drip()}, /^the reply took/],
	'drip-mail': [{...lockStep, mail: drip()}, /^the reply took/],
	'drip-rcpt': [{...lockStep, rcpt: drip()}, /^the reply took/],
	'drip-data': [{data: drip()}, /^the reply took/],
	'drip-dot': [{dot: drip()}, /^possible duplicate/],
	tarpit: [tarpit(), /^the attempt took longer than 2500 ms/],
};

test('whatever freezes, the mail comes due again by the schedule, and others do not wait for it', async t => {
	t.timeout(90_000);
	const deaf = loopbackAddress();
	const {program, host, port} = await startMailHosts(
		t,
		{
			'mx.healthy.example': {},
			...Object.fromEntries(Object.entries(hosts).map(([name, [script]]) => [`mx.${name}.example`, script])),
			// A handshake that hangs gets plain text on another connection, in the same try.
			'mx.starttls.example': {extensions: ['STARTTLS'], starttls: [never]},
			'mx.handshake.example': {brokenTls: 'silent'},
			'mx.rset.example': {rcpt: ['550 5.1.1 no such user'], rset: [never], extensions: []},
			'mx.quit.example': {quit: never},
		},
		{'deaf.example': {mx: [[10, 'mx.deaf.example']]}, 'mx.deaf.example': {a: [deaf]}},
		{
			MAILCTL_SMTP_TIMEOUTS: [
				'connect',
				'greeting',
				'ehlo',
				'starttls',
				'mail',
				'rcpt',
				'data',
				'block',
				'dot',
				'rset',
				'quit',
			]
				.map(step => `${step}=${stepMs}ms`)
				.join(),
			MAILCTL_ATTEMPT_DEADLINE: `${deadlineMs}ms`,
			MAILCTL_RETRY_SCHEDULE: '300ms*',
		},
	);
	await startDeaf(t, deaf, port);
	const daemon = await program.serve();
	const {send, until, status, show} = await clientOf(program, daemon);
	const large = {
		filename: 'a.bin',
		contentType: 'application/octet-stream',
		content: randomBytes(2 ** 20).toString('base64'),
	};

	const names = Object.keys(hosts);
	const ids = await Promise.all(
		names.map(name => send(`user@${name}.example`, name === 'window' ? {attachments: [large, large, large]} : {})),
	);
	const [unheard, refused, quitting, ...plain] = (await Promise.all(
		['deaf', 'rset', 'quit', 'starttls', 'handshake'].map(name => send(`user@${name}.example`)),
	)) as [string, string, string, ...string[]];

	// All of them hang now.
	await waitFor('all were connected to', () => names.every(name => host(`mx.${name}.example`).connections.length > 0));
	await until(await send('user@healthy.example'), 'delivered', 5000);

	await Promise.all([...ids, ...plain].map(id => until(id, 'delivered', 40_000)));
	const deferrals = await eventsOf(program, 'deferred');
	for (const [name, [, reply]] of Object.entries(hosts)) {
		const own = deferrals.filter(({recipient}) => recipient === `user@${name}.example`);
		t.deepEqual(
			own.slice(0, 2).map(({attempt}) => attempt),
			[1, 2],
			name,
		);
		for (const record of own.slice(0, 2)) {
			t.regex(String(record.reply), reply, name);
		}
	}

	// That it may have arrived before is told with its delivery.
	const dotted = await show(ids[names.indexOf('dot')] ?? '');
	t.like(dotted.events.find(({type}) => type === 'delivered')?.detail, {possible_duplicate: true, attempt: 3});
	const asked = await show(ids[names.indexOf('rcpt')] ?? '');
	t.false('possible_duplicate' in (asked.events.find(({type}) => type === 'delivered')?.detail ?? {}));

	// A refusal stands although RSET hangs, and the next mail gets a new session.
	await until(refused, 'bounced');
	await until(await send('other@rset.example'), 'delivered');
	await until(quitting, 'delivered');

	await waitFor('it is tried again although nobody answers the SYN', async () => {
		const {recipients} = await show(unheard);
		const attempts = recipients[0]?.attempts ?? [];
		return attempts.length > 1 && attempts.every(({phase, code}) => phase === 'connect' && code === null);
	});
	t.is(await status(unheard), 'queued');

	// The session that does not answer QUIT is no reason to stay.
	t.is(await daemon.stop(), 0);
	t.like((await eventsOf(program, 'stopped')).at(-1), {drained: true});
});
