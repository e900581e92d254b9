import {Buffer} from 'node:buffer';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import type {AcceptInbound} from '../../src/inbound/accept-inbound.ts';
import type {AddresseeVerdict} from '../../src/inbound/addressee.ts';
import {InboundListener, type InboundListenerOptions, type ReceivedMail} from '../../src/inbound/inbound-listener.ts';
import {precedence} from '../../src/mail/report.ts';
import {Allowances} from '../../src/net/allowances.ts';
import {anyChar} from '../helpers/any-char.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

type Coming = Parameters<AcceptInbound>[0];
type Amount = ConstructorParameters<typeof Allowances>[0]['each'];

const ours: AddresseeVerdict = {ok: true, role: 'return_path', address: 'b1@bounces.test', recipient: null};

function judge(address: string): Promise<AddresseeVerdict> {
	return Promise.resolve(
		/@bounces\.test$/i.test(address)
			? {...ours, address: address.toLowerCase()}
			: {ok: false, reason: 'foreign', code: 550, text: '5.7.1 Relaying denied'},
	);
}

function allowing(each: Amount): Allowances {
	return new Allowances({each, untilRead: () => Promise.resolve(), clock: {monotonic: () => 0}});
}

async function listening(
	t: ExecutionContext,
	options: Partial<InboundListenerOptions> = {},
	storeFailed: (error: unknown) => void = () => undefined,
) {
	const mails: Coming[] = [];
	const received: ReceivedMail[] = [];
	const refused: string[] = [];
	const listener = new InboundListener({
		hostname: 'mail.test',
		ourNames: ['mail.test'],
		tls: null,
		judge,
		allowances: allowing({mails: 1000, bytes: 200 * 1024 ** 2}),
		async acceptMessage(mail) {
			mails.push({...mail, raw: Buffer.from(mail.raw)});
			return {id: 'f'.repeat(64), isNew: true};
		},
		observer: {
			inboundTaken: mail => received.push(mail),
			inboundRefused: reason => refused.push(reason),
			storeFailed,
		},
		hasDisk: () => true,
		...options,
	});
	const {port} = await listener.listen({host: '127.0.0.1', port: 0});
	t.teardown(() => listener.close());
	return {listener, port, mails, received, refused};
}

/** A session that has sent EHLO and MAIL. */
async function begun(t: ExecutionContext, port: number) {
	const talk = await talkTo(t, port);
	await talk.reply();
	await talk.say('EHLO peer.test');
	await talk.say('MAIL FROM:<>');
	return talk;
}

test('refuses MAIL with 452 while disk space is low, and accepts it again afterwards', async t => {
	let hasDisk = false;
	const {port, mails, refused} = await listening(t, {hasDisk: () => hasDisk});
	const talk = await talkTo(t, port);
	await talk.reply();
	await talk.say('EHLO peer.test');
	t.is(await talk.say('MAIL FROM:<>'), '452 4.3.1 Too little space on the disk, try again later');
	t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^503 /);
	t.deepEqual(refused, ['no_disk']);
	hasDisk = true;
	t.is(await talk.say('MAIL FROM:<>'), '250 2.1.0 Accepted');
	await talk.say('RCPT TO:<b1@bounces.test>');
	await talk.data('x');
	t.is(mails.length, 1);
});

test('stores a report with its envelope, byte for byte, before it replies', async t => {
	const {port, mails, received} = await listening(t);
	const talk = await talkTo(t, port);
	t.is(await talk.reply(), '220 mail.test ESMTP mailctl');
	t.is(
		await talk.say('EHLO peer.test'),
		'250-mail.test 250-PIPELINING 250-8BITMIME 250-SMTPUTF8 250-ENHANCEDSTATUSCODES 250 SIZE 10485760',
	);
	t.is(await talk.say('MAIL FROM:<Mailer@peer.test> BODY=8BITMIME'), '250 2.1.0 Accepted');
	t.is(await talk.say('RCPT TO:<B1@Bounces.test>'), '250 2.1.5 Accepted');
	const mail = Buffer.from('Subject: x\r\n\r\n.dot\r\n..dots\r\nbare\nlf\rcr \xff\x00\r\n', 'latin1');
	t.is(await talk.data(mail), `250 2.6.0 Stored as ${'f'.repeat(16)}`);
	t.deepEqual(mails, [
		{
			...{raw: mail, source: 'smtp', mailFrom: 'Mailer@peer.test', rcptTo: ['b1@bounces.test']},
			...{client: '127.0.0.1', helo: 'peer.test', turn: {precedence: precedence.unproven, turn: 'return_path'}},
		},
	]);
	t.is(received[0]?.tls, null);
	t.deepEqual(received[0]?.roles, ['return_path']);

	t.is(await talk.say('MAIL FROM:<>'), '250 2.1.0 Accepted');
	await talk.say('RCPT TO:<b2@bounces.test>');
	await talk.data('x');
	t.is(mails[1]?.mailFrom, '');
	t.deepEqual(mails[1]?.rcptTo, ['b2@bounces.test']);
	t.is(await talk.say('QUIT'), '221 2.0.0 Bye');
});

test('refuses to relay, however the address is disguised', async t => {
	const {port, mails, refused} = await listening(t);
	const talk = await begun(t, port);
	for (const address of ['x@other.test', '@r.test:u@other.test', 'u@[127.0.0.1]', 'u@[IPv6:::1]']) {
		t.is(await talk.say(`RCPT TO:<${address}>`), '550 5.7.1 Relaying denied', address);
	}
	for (const address of ['"a@bounces.test"@other.test', 'a@other.test@bounces.test', 'a b@bounces.test', '']) {
		t.regex(await talk.say(`RCPT TO:<${address}>`), /^5\d\d /, address);
	}
	t.regex(await talk.say('DATA'), /^503 /);
	t.deepEqual(mails, []);
	t.deepEqual(refused, ['foreign', 'foreign', 'foreign', 'foreign']);
});

test('counts each repetition of a recipient toward the limit', async t => {
	const {port, mails} = await listening(t);
	const talk = await begun(t, port);
	const replies: string[] = [];
	for (let n = 0; n < 22; n++) {
		replies.push((await talk.say('RCPT TO:<b1@bounces.test>')).slice(0, 9));
	}
	t.deepEqual(replies, [...new Array(20).fill('250 2.1.5'), ...new Array(2).fill('452 4.5.3')]);
	t.regex(await talk.data('x'), /^250 /);
	t.deepEqual(mails[0]?.rcptTo, ['b1@bounces.test']);
	await talk.say('MAIL FROM:<>');
	t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^250 /);
});

test('accepts twenty of a hundred recipients', async t => {
	const {port, mails} = await listening(t);
	const talk = await begun(t, port);
	talk.send(Array.from({length: 100}, (_, n) => `RCPT TO:<b${n}@bounces.test>\r\n`).join(''));
	const replies: string[] = [];
	for (let n = 0; n < 100; n++) {
		replies.push((await talk.reply()).slice(0, 9));
	}
	t.deepEqual(replies, [...new Array(20).fill('250 2.1.5'), ...new Array(80).fill('452 4.5.3')]);
	t.regex(await talk.data('x'), /^250 /);
	t.is(mails[0]?.rcptTo.length, 20);
});

test('ends a session after twenty errors, like Postfix; an accepted message resets the count', async t => {
	const {port, mails} = await listening(t);
	const talk = await begun(t, port);
	const errors = async (count: number) => {
		for (let n = 0; n < count; n++) {
			t.regex(await talk.say(n % 2 === 0 ? `RCPT TO:<b${n}@other.test>` : 'MAIL FROM:<a@b.test>'), /^5\d\d /);
		}
	};
	await errors(19);
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data('x'), /^250 /);
	await talk.say('MAIL FROM:<>');
	await errors(20);
	t.is(await talk.reply(), '421 4.7.0 Too many errors');
	t.is(await talk.reply(), 'closed');
	t.is(mails.length, 1);
});

test('ignores pipelined commands after too many errors end a session', async t => {
	const {port, mails} = await listening(t, {limits: {errors: 3}});
	const talk = await begun(t, port);
	talk.send(`${'RCPT TO:<x@other.test>\r\n'.repeat(3)}RCPT TO:<b1@bounces.test>\r\nDATA\r\nx\r\n.\r\n`);
	for (let n = 0; n < 3; n++) {
		t.regex(await talk.reply(), /^550 /);
	}
	t.regex(await talk.reply(), /^421 /);
	t.is(await talk.reply(), 'closed');
	t.deepEqual(mails, []);
});

const smuggled = 'MAIL FROM:<x@y.test>\r\nRCPT TO:<b2@bounces.test>\r\nDATA\r\nSubject: smuggled\r\n\r\nx';
for (const [name, end] of Object.entries({
	'LF . CRLF': '\n.\r\n',
	'LF . LF': '\n.\n',
	'CRLF . LF': '\r\n.\n',
	'CR . CR': '\r.\r',
	'CR . CRLF': '\r.\r\n',
	'LF . CR': '\n.\r',
	'CRLF . CR': '\r\n.\r',
	'CRLF NUL . CRLF': '\r\n\0.\r\n',
	'CRLF . NUL CRLF': '\r\n.\0\r\n',
	'CRLF . . CRLF': '\r\n..\r\n',
})) {
	test(`prevents smuggling of a second message by ${name}`, async t => {
		const {port, mails} = await listening(t);
		const talk = await begun(t, port);
		await talk.say('RCPT TO:<b1@bounces.test>');
		await talk.say('DATA');
		talk.send(`Subject: one\r\n\r\nfirst${end}`);
		// In a segment of its own, too: where a message ends must not depend on how it was split.
		talk.send(`${smuggled}`);
		t.regex(await talk.say('\r\n.'), /^250 /);
		t.regex(await talk.say('QUIT'), /^221/);
		t.is(mails.length, 1);
		t.deepEqual(mails[0]?.rcptTo, ['b1@bounces.test']);
		t.true(mails[0]?.raw.includes('smuggled'));
	});
}

test('replies 451 and continues the session if the store fails', async t => {
	let failing = true;
	const errors: unknown[] = [];
	const {port, refused} = await listening(
		t,
		{
			acceptMessage: async () => {
				if (failing) {
					throw new Error('disk full');
				}
				return {id: 'a'.repeat(64), isNew: true};
			},
		},
		error => errors.push(error),
	);
	const talk = await begun(t, port);
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.is(await talk.data('x'), '451 4.3.0 The message cannot be stored now, try again later');
	failing = false;
	await talk.say('MAIL FROM:<>');
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data('x'), /^250 2\.6\.0/);
	t.is(errors.length, 1);
	t.deepEqual(refused, ['store']);
});

test('replies 451 if the addressee cannot be checked', async t => {
	const {port} = await listening(t, {judge: () => Promise.reject(new Error('locked'))});
	const talk = await begun(t, port);
	t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^451 4\.3\.0/);
});

test('rejects a message that is too large, declared or not, and accepts the next one', async t => {
	const {port, mails, refused} = await listening(t, {limits: {mailBytes: 100_000}});
	const talk = await begun(t, port);
	await talk.say('RSET');
	t.regex(await talk.say('MAIL FROM:<> SIZE=100001'), /^552 5\.3\.4/);
	await talk.say('MAIL FROM:<>');
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data(Buffer.alloc(100_001, 'x')), /^552 5\.3\.4/);
	await talk.say('MAIL FROM:<>');
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data(Buffer.alloc(99_000, 'x')), /^250/);
	t.deepEqual(
		mails.map(({raw}) => raw.length),
		[99_002],
	);
	t.deepEqual(refused, ['too_large']);
});

test('limits the memory used by large messages without refusing small ones', async t => {
	const {port, mails, refused} = await listening(t, {limits: {heldBytes: 1024 * 1024}});
	const [large, small] = [await begun(t, port), await begun(t, port)];
	await large.say('RCPT TO:<b1@bounces.test>');
	t.regex(await large.data(Buffer.alloc(3 * 1024 * 1024, 'x')), /^452 4\.3\.1/);
	await small.say('RCPT TO:<b1@bounces.test>');
	t.regex(await small.data(Buffer.alloc(200_000, 'x')), /^250/);
	await large.say('MAIL FROM:<>');
	await large.say('RCPT TO:<b1@bounces.test>');
	t.regex(await large.data(Buffer.alloc(1_000_000, 'x')), /^250/);
	t.deepEqual(
		mails.map(({raw}) => raw.length),
		[200_002, 1_000_002],
	);
	t.deepEqual(refused, ['no_room']);
});

test('refuses an eleventh concurrent session of a client', async t => {
	const {port, refused, listener} = await listening(t);
	const talks = [];
	for (let n = 0; n < 10; n++) {
		const talk = await talkTo(t, port);
		t.regex(await talk.reply(), /^220/);
		talks.push(talk);
	}
	const late = await talkTo(t, port);
	t.is(await late.reply(), '421 mail.test has too many sessions from your address, try again later');
	t.is(await late.reply(), 'closed');
	t.deepEqual(refused, ['too_many_sessions']);

	t.regex((await talks[0]?.say('QUIT')) ?? '', /^221/);
	talks[0]?.end();
	await waitFor('the place is free', () => listener.sessions() === 9);
	t.regex(await (await talkTo(t, port)).reply(), /^220/);
});

/**
 * Sends repeatedly, each time after reading what has arrived: writing to a closed connection would lose the last reply.
 */
function drip(t: ExecutionContext, send: () => void): void {
	const timer = setInterval(setImmediate, 20, send);
	t.teardown(() => clearInterval(timer));
}

test('ends a session that is silent or too slow', async t => {
	const {port} = await listening(t, {limits: {idleMs: 100}});
	const silent = await talkTo(t, port);
	t.regex(await silent.reply(), /^220/);
	t.regex(await silent.reply(), /^421/);

	const {port: other} = await listening(t, {limits: {sessionMs: 10_000}});
	const dripping = await begun(t, other);
	drip(t, () => dripping.send('N'));
	t.is(await dripping.reply(), '421 4.4.2 The session took too long');
});

test('ends a slow transfer of a message when the session reaches its time limit', async t => {
	const {port, mails} = await listening(t, {limits: {sessionMs: 10_000}});
	const talk = await begun(t, port);
	await talk.say('RCPT TO:<b1@bounces.test>');
	await talk.say('DATA');
	drip(t, () => talk.send('x'));
	t.is(await talk.reply(), '421 4.4.2 The session took too long');
	t.deepEqual(mails, []);
});

test('survives any input, accepts only mail for us and serves the next client', async t => {
	const {port, mails} = await listening(t, {limits: {perClient: 1000, errors: 5}});
	const line = fc.oneof(
		fc.constantFrom(
			'EHLO a',
			'HELO a',
			'MAIL FROM:<>',
			'MAIL FROM:<a@b.test> SIZE=10',
			'DATA',
			'.',
			'RSET',
			'NOOP',
		),
		fc.constantFrom(
			'RCPT TO:<b@bounces.test>',
			'RCPT TO:<x@other.test>',
			'RCPT TO:<postmaster>',
			'QUIT',
			'BDAT 5 LAST',
		),
		fc.string({unit: anyChar, maxLength: 200}),
		fc.constant('x'.repeat(20_000)),
		fc.constant('MAIL FROM:<>\r\nRCPT TO:<b@bounces.test>\r\nDATA\r\nhello\r\n.'),
	);
	const end = fc.constantFrom('\r\n', '\n', '\r', '');
	await fc.assert(
		fc.asyncProperty(fc.array(fc.tuple(line, end), {maxLength: 40}), async script => {
			const talk = await talkTo(t, port);
			talk.send(`EHLO peer.test\r\n${script.flat().join('')}\r\n.\r\nQUIT\r\n`);
			talk.end();
			await waitFor('the session is over', talk.ended);
			return mails.every(({rcptTo}) => rcptTo.join() === 'b@bounces.test');
		}),
		{numRuns: 150},
	);
	t.true(mails.length > 0);
	const talk = await begun(t, port);
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data('x'), /^250 2\.6\.0/);
});

test('stores nothing if a client disconnects in the middle of a message', async t => {
	const {port, mails, listener} = await listening(t);
	const talk = await begun(t, port);
	await talk.say('RCPT TO:<b1@bounces.test>');
	await talk.say('DATA');
	talk.send('Subject: half\r\n\r\n');
	talk.end();
	await waitFor('the session is over', () => listener.sessions() === 0);
	t.deepEqual(mails, []);
});

test('offers STARTTLS with the certificate, renewed at runtime, and discards earlier commands', async t => {
	const [first, second] = [makeCertificate('mail.test'), makeCertificate('mail.test')];
	const tls = ({cert, key}: {cert: string; key: string}) => ({cert: Buffer.from(cert), key: Buffer.from(key)});
	const {listener, port, received} = await listening(t, {tls: tls(first)});
	const talk = await talkTo(t, port);
	await talk.reply();
	t.regex(await talk.say('EHLO peer.test'), /250-STARTTLS/);
	await talk.say('MAIL FROM:<>');
	t.regex(await talk.say('STARTTLS'), /^220/);
	const socket = await talk.secure({ca: first.cert, servername: 'mail.test'});
	t.true(socket.authorized);
	t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^503/);
	t.notRegex(await talk.say('EHLO peer.test'), /STARTTLS|AUTH/);
	await talk.say('MAIL FROM:<>');
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data('x'), /^250/);
	t.is(received[0]?.tls, 'TLSv1.3');

	listener.useTls(tls(second));
	const next = await talkTo(t, port);
	await next.reply();
	await next.say('EHLO peer.test');
	await next.say('STARTTLS');
	t.true((await next.secure({ca: second.cert, servername: 'mail.test'})).authorized);
});

test('discards commands sent after STARTTLS in the same packet', async t => {
	const {cert, key} = makeCertificate('mail.test');
	const {port, mails} = await listening(t, {tls: {cert: Buffer.from(cert), key: Buffer.from(key)}});
	const talk = await talkTo(t, port);
	await talk.reply();
	await talk.say('EHLO peer.test');
	talk.send('STARTTLS\r\nEHLO evil.test\r\nMAIL FROM:<>\r\nRCPT TO:<b1@bounces.test>\r\nDATA\r\nx\r\n.\r\n');
	t.regex(await talk.reply(), /^220/);
	await talk.secure({ca: cert, servername: 'mail.test'});
	t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^503 5\.5\.1 Error: send HELO/);
	t.deepEqual(mails, []);
});

test('offers no STARTTLS without a certificate, and never AUTH', async t => {
	const {port} = await listening(t);
	const talk = await talkTo(t, port);
	await talk.reply();
	t.notRegex(await talk.say('EHLO peer.test'), /STARTTLS|AUTH|XCLIENT|CHUNKING/);
	for (const command of ['STARTTLS', 'AUTH PLAIN AGEAYg==', 'XCLIENT ADDR=127.0.0.1', 'ETRN x', 'EXPN x']) {
		t.regex(await talk.say(command), /^50\d /, command);
	}
	t.regex(await talk.say('MAIL FROM:<>'), /^250/);
});

test('accepts and discards a message in a mail loop', async t => {
	const {port, mails, received} = await listening(t);
	const talk = await begun(t, port);
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data(`${'Received: from a by b\r\n'.repeat(26)}\r\nx\r\n`), /^250/);
	await talk.say('MAIL FROM:<>');
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data('X-Loop: <postmaster@mail.test>\r\n\r\nx\r\n'), /^250/);
	await talk.say('MAIL FROM:<>');
	await talk.say('RCPT TO:<b1@bounces.test>');
	t.regex(await talk.data(`X-Loop: other.test\r\n${'Received: a\r\n'.repeat(25)}\r\nReceived: b\r\n`), /^250/);
	t.is(mails.length, 1);
	t.deepEqual(
		received.map(({accepted}) => accepted === null),
		[true, true, false],
	);
});

test('on close, accepts a message in transfer and ends all other sessions', async t => {
	let stored = (): void => undefined;
	const isStored = new Promise<void>(resolve => {
		stored = resolve;
	});
	const {listener, port, received} = await listening(t, {
		async acceptMessage() {
			await isStored;
			return {id: 'e'.repeat(64), isNew: true};
		},
	});
	const [idle, sending] = [await begun(t, port), await begun(t, port)];
	await sending.say('RCPT TO:<b1@bounces.test>');
	await sending.say('DATA');
	sending.send('Subject: x\r\n');
	await waitFor('both sessions are there', () => listener.sessions() === 2);
	const closed = listener.close();
	t.regex(await idle.reply(), /^421 4\.3\.2/);
	sending.send('\r\nx\r\n.\r\n');
	stored();
	t.regex(await sending.reply(), /^250 2\.6\.0/);
	t.regex(await sending.reply(), /^421/);
	idle.end();
	sending.end();
	await closed;
	t.is(received.length, 1);
	await t.throwsAsync(talkTo(t, port));
});

test('limits the total number of sessions', async t => {
	const {port, refused} = await listening(t, {limits: {clients: 2, perClient: 100}});
	const talks = [await talkTo(t, port), await talkTo(t, port)];
	for (const talk of talks) {
		t.regex(await talk.reply(), /^220/);
	}
	t.regex(await (await talkTo(t, port)).reply(), /^421/);
	t.deepEqual(refused, ['too_many_sessions']);
});

const kib = 1024;

test('refuses RCPT for an hour once a client is over its limit of messages', async t => {
	const {port, mails, refused} = await listening(t, {allowances: allowing({mails: 1, bytes: 1000 * kib})});
	const talk = await begun(t, port);
	// Up to ten messages to addresses with a valid token may wait to be read.
	for (let n = 0; n < 10; n++) {
		t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^250/);
		t.regex(await talk.data(`${n}`), /^250/);
		await talk.say('MAIL FROM:<>');
	}
	t.is(
		await talk.say('RCPT TO:<b1@bounces.test>'),
		'450 4.7.1 Too much mail from you for this address, try again in an hour',
	);
	t.regex(await talk.say('DATA'), /^503/);
	t.is(mails.length, 10);
	t.deepEqual(refused, ['too_many']);
});

test('counts bytes as they arrive, across parallel sessions, except those of refused messages', async t => {
	const {port, mails} = await listening(t, {allowances: allowing({mails: 100, bytes: 30 * kib})});
	const [one, other] = [await begun(t, port), await begun(t, port)];
	await one.say('RSET');
	await one.say(`MAIL FROM:<> SIZE=${301 * kib}`);
	t.regex(await one.say('RCPT TO:<b1@bounces.test>'), /^450 4\.7\.1/, 'announced');
	await one.say('RSET');
	await one.say('MAIL FROM:<> SIZE=1');
	for (const talk of [one, other]) {
		t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^250/);
		t.regex(await talk.say('DATA'), /^354/);
	}
	const half = Buffer.alloc(200 * kib, 'x\r\n');
	one.send(half);
	t.regex(await one.say('\r\n.'), /^250 2\.6\.0/);
	other.send(half);
	t.regex(await other.say('\r\n.'), /^450 4\.7\.1/);
	t.is(mails.length, 1);

	await one.say('MAIL FROM:<>');
	await one.say('RCPT TO:<b1@bounces.test>');
	t.regex(await one.data(Buffer.alloc(90 * kib, 'x\r\n')), /^250/, 'the refused one took nothing');
});

test('does not count duplicate or discarded messages', async t => {
	const {port, mails, listener} = await listening(t, {
		allowances: allowing({mails: 1, bytes: 1000 * kib}),
		acceptMessage: () => Promise.resolve({id: 'f'.repeat(64), isNew: false}),
		limits: {mailBytes: 100 * kib},
	});
	for (let n = 0; n < 20; n++) {
		const talk = await begun(t, port);
		t.regex(await talk.say('RCPT TO:<b1@bounces.test>'), /^250/);
		if (n % 4 === 0) {
			t.regex(await talk.data('again'), /^250/);
		} else if (n % 4 === 1) {
			t.regex(await talk.data(Buffer.alloc(101 * kib, 'x')), /^552/);
		} else if (n % 4 === 2) {
			t.regex(await talk.data('X-Loop: mail.test\r\n\r\nx'), /^250/);
		} else {
			await talk.say('DATA');
			talk.send('half a mail');
		}
		talk.end();
		await waitFor('the session is over', () => listener.sessions() === 0);
	}
	t.deepEqual(mails, []);
});

/** The library passes on a command although its session has ended. */
class LateListener extends InboundListener {
	late(): Promise<Error | null | undefined> {
		return new Promise(resolve => {
			this.respond({id: 'over'}, resolve, async () => {
				throw new Error('there is no session to check');
			});
		});
	}
}

test('replies 421 to a command after its session has ended, without checking anything', async t => {
	const listener = new LateListener({
		...{
			hostname: 'mail.test',
			ourNames: [],
			tls: null,
			judge,
			acceptMessage: () => t.fail() as never,
			hasDisk: () => true,
		},
		allowances: allowing({mails: 1, bytes: 1}),
		observer: {inboundTaken: () => t.fail(), inboundRefused: () => t.fail(), storeFailed: () => t.fail()},
	});
	t.like(await listener.late(), {responseCode: 421, message: '4.4.2 The session is over'});
});
