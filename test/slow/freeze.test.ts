import {randomBytes} from 'node:crypto';
import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {eventsOf} from '../helpers/daemon.ts';
import {startDeaf} from '../helpers/deaf.ts';
import type {Answer, FakeConnection, FakeMxOptions, Script} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {type Client, clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

const stepMs = 2000;
const deadlineMs = 5000;
/** Once before the daemon is killed, then twice within its limits. */
const times = 3;
/** A mail server silent after the reply to MAIL is retried once without pipelining in the same attempt. */
const timesGrouped = 5;
/** Freezes this many times, then works. */
function freezing(how: (line: string, connection: FakeConnection) => Answer, left = times): Script {
	return (line, connection) => (left-- > 0 ? how(line, connection) : undefined);
}

const never: Answer = {do: 'never'};
const silent = (left?: number): Script => freezing(() => never, left);

/** Sends an endless reply one byte at a time. */
function drip(): Script {
	return freezing((_line, connection) => {
		const bytes = '250-wait a little more\r\n'.repeat(50);
		let sent = 0;
		const timer = setInterval(() => connection.say(bytes.slice(sent, ++sent)), 50);
		setTimeout(() => clearInterval(timer), 2 * stepMs);
		return {bytes: ''};
	});
}

/** Uses more than half of the timeout of each step, twice over. */
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

/** The mail servers, where each freezes, and the log entry expected for it. */
const hosts: Record<string, readonly [script: FakeMxOptions, reply: RegExp]> = {
	greeting: [{greeting: silent()}, /^the reply took longer than 2000 ms/],
	ehlo: [{ehlo: silent()}, /^the reply took/],
	mail: [{mail: silent()}, /^the reply took/],
	rcpt: [{rcpt: silent(timesGrouped)}, /^the reply took/],
	data: [{data: silent()}, /^the reply took/],
	dot: [{dot: silent()}, /^possible duplicate, no reply to the data: the reply took/],
	'mail-lock-step': [{...lockStep, mail: silent()}, /^the reply took/],
	'rcpt-lock-step': [{...lockStep, rcpt: silent()}, /^the reply took/],
	'data-lock-step': [{...lockStep, data: silent()}, /^the reply took/],
	'dot-lock-step': [{...lockStep, dot: silent()}, /^possible duplicate/],
	window: [
		{body: freezing(() => ({do: 'freeze'}))},
		/^(accepting a part of the data|possible duplicate.*the reply) took/,
	],
	'drip-greeting': [{greeting: drip()}, /^the reply took/],
	'drip-ehlo': [{ehlo: drip()}, /^the reply took/],
	'drip-mail': [{...lockStep, mail: drip()}, /^the reply took/],
	'drip-rcpt': [{...lockStep, rcpt: drip()}, /^the reply took/],
	'drip-data': [{data: drip()}, /^the reply took/],
	'drip-dot': [{dot: drip()}, /^possible duplicate/],
	tarpit: [tarpit(), /^the attempt took longer than 5000 ms/],
};

/** Timeouts of the second daemon; the first has the defaults, in minutes. */
const limits = {
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
};

test('a message is retried on schedule whatever freezes, and does not delay others', async t => {
	const deaf = loopbackAddress();
	const {program, host, port} = await startMailHosts(
		t,
		{
			'mx.healthy.example': {},
			...Object.fromEntries(Object.entries(hosts).map(([name, [script]]) => [`mx.${name}.example`, script])),
			// A handshake that hangs gets plain text on another connection, in the same try.
			'mx.starttls.example': {extensions: ['STARTTLS'], starttls: [never]},
			'mx.handshake.example': {brokenTls: 'silent'},
			'mx.rset.example': {rcpt: ['550 5.1.1 no such user'], rset: [never]},
			'mx.quit.example': {quit: never},
		},
		{'deaf.example': {mx: [[10, 'mx.deaf.example']]}, 'mx.deaf.example': {a: [deaf]}},
		{
			MAILCTL_RETRY_SCHEDULE: '300ms*',
			MAILCTL_DESTINATIONS_FILE: 'destinations.json',
		},
	);
	// However often they fail, no host is left alone.
	const patient = {patient: {domains: ['example'], failures: 1000}};
	await writeFile(join(program.folder, 'destinations.json'), JSON.stringify(patient));
	await startDeaf(t, deaf, port);
	const large = {
		filename: 'a.bin',
		contentType: 'application/octet-stream',
		content: randomBytes(2 ** 20).toString('base64'),
	};
	const names = Object.keys(hosts);
	const sendAll = async ({send}: Client, some: readonly string[]) =>
		await Promise.all(
			some.map(name =>
				send(`user@${name}.example`, name === 'window' ? {attachments: [large, large, large]} : {}),
			),
		);

	// While minutes have not passed they hang, all of them at once.
	const first = await program.serve();
	const before = await clientOf(program, first);
	const silentNames = names.filter(name => name !== 'tarpit');
	const ids = await sendAll(before, silentNames);
	await waitFor('all hang', () => silentNames.every(name => host(`mx.${name}.example`).open() === 1));
	await before.until(await before.send('user@healthy.example'), 'delivered');
	t.false((await Promise.all(ids.map(before.status))).includes('delivered'));
	await first.kill();

	const daemon = await program.serve(limits);
	const client = await clientOf(program, daemon);
	const {send, until, status, show} = client;
	ids.push(...(await sendAll(client, ['tarpit'])));
	const idOf = (name: string) => ids[[...silentNames, 'tarpit'].indexOf(name)] ?? '';
	const [unheard, refused, quitting, ...plain] = (await sendAll(client, [
		'deaf',
		'rset',
		'quit',
		'starttls',
		'handshake',
	])) as [string, string, string, ...string[]];

	await Promise.all([...ids, ...plain].map(id => until(id, 'delivered')));
	const deferrals = await eventsOf(program, 'deferred');
	const deferralsOf = (name: string) => deferrals.filter(({recipient}) => recipient === `user@${name}.example`);
	for (const [name, [, reply]] of Object.entries(hosts)) {
		const own = deferralsOf(name);
		t.true(own.length >= 2, name);
		t.deepEqual(
			own.map(({attempt}) => attempt),
			own.map((_, n) => n + 1),
			name,
		);
		// A machine that stalls may let another step of the session run out of time too.
		t.true(
			own.some(record => reply.test(String(record.reply))),
			`${name}: ${own.map(record => record.reply).join('\n')}`,
		);
	}

	// That it may have arrived before is told with its delivery.
	const deliveryOf = async (name: string) =>
		(await show(idOf(name))).events.find(({type}) => type === 'delivered')?.detail ?? {};
	t.like(await deliveryOf('dot'), {possible_duplicate: true, attempt: deferralsOf('dot').length + 1});
	t.true((await deliveryOf('rcpt')).possible_duplicate, 'a daemon died with it');
	t.is(
		'possible_duplicate' in (await deliveryOf('tarpit')),
		deferralsOf('tarpit').some(({reply}) => String(reply).startsWith('possible duplicate')),
	);

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
