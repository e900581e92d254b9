import test from 'ava';
import fc from 'fast-check';
import {readLetter} from '../../../src/inbound/reports/letter.ts';
import {evilMail} from '../../helpers/evil-mails.ts';
import {programs, withFile} from '../../helpers/replies.ts';

const parts = (count: number) =>
	`Subject: parts\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\r\n\r\nx\r\n'.repeat(count)}--b--\r\n`;
const deep = Array.from(
	{length: 40},
	(_, n) => `Content-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}\r\n`,
).join('');

test('reads the text of a message and the message IDs it replies to', async t => {
	const reply = {from: 'ada@example.net', to: 'shop@in.example', messageId: '<m1@shop.example>', said: 'Thank you!'};
	for (const [name, write] of Object.entries(programs)) {
		const letter = await readLetter(Buffer.from(write(reply)), []);
		t.like(letter, {from: {address: 'ada@example.net'}, automatic: false, fault: null, cut: false}, name);
		t.true(letter.repliedTo.includes('<m1@shop.example>'), name);
		t.regex(letter.text ?? '', /^Thank you!/, name);
		t.deepEqual(letter.addressees, ['shop@in.example'], name);
	}
	const letter = await readLetter(Buffer.from(withFile(reply)), []);
	t.is(letter.text, null);
	t.deepEqual(
		letter.files.map(({name, type, size}) => [name, type, size]),
		[['../../etc/pass wd.svg', 'image/png', 21]],
	);
});

test('skips message IDs with control characters, which PostgreSQL does not accept in text', async t => {
	for (const name of ['In-Reply-To', 'References']) {
		const {repliedTo} = await readLetter(
			Buffer.from(`${name}: <a\0b@x.example> <c@\x7fy> <ok@x.example>\r\n\r\n.`),
			[],
		);
		t.true(repliedTo.includes('<ok@x.example>'), name);
		t.notRegex(repliedTo.join(''), /\p{Cc}/u);
	}
});

test('returns no text for a message without a body', async t => {
	t.is((await readLetter(Buffer.from('Subject: x\r\n\r\n'), [])).text, null);
});

test('removes line breaks from names and header fields', async t => {
	const word = (text: string) => `=?utf-8?Q?${text}?=`;
	const letter = await readLetter(
		Buffer.from(
			`From: ${word('Ada=00=0D=0AX')} <ada@example.net>\r\nSubject: ${word('a=0D=0ABcc:_b=00')}\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename="${word('a=0D=0Ab')}"\r\n\r\nx\r\n--b--\r\n`,
		),
		[],
	);
	t.deepEqual(
		[letter.from?.name, letter.subject, letter.files.map(({name}) => name)],
		['Ada X', 'a Bcc: b ', ['a b']],
	);
	t.notRegex(JSON.stringify(letter.headers), /\\[rnu]/);
});

test('distinguishes an automatic message from a personal one', async t => {
	for (const field of ['Auto-Submitted: auto-replied', 'Precedence: bulk', 'List-Id: <a.b>', 'X-Autoreply: yes']) {
		t.true((await readLetter(Buffer.from(`${field}\r\nSubject: x\r\n\r\n.`), [])).automatic, field);
	}
	for (const field of [
		'Auto-Submitted: no',
		'X-Auto-Response-Suppress: All',
		'From: Ada <my-mailer-daemon@x.example>',
		'From: Ada <my+mailer-daemons@x.example>',
	]) {
		t.false((await readLetter(Buffer.from(`${field}\r\nSubject: x\r\n\r\n.`), [])).automatic, field);
	}
	// People attach the message they received, and ask about it.
	for (const type of ['message/delivery-status', 'message/disposition-notification', 'message/feedback-report']) {
		const parts = `--b\r\n\r\nWhat is this?\r\n--b\r\nContent-Type: ${type}\r\n\r\nReporting-MTA: dns; x\r\n--b--`;
		const mail = `From: ada@x.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${parts}\r\n`;
		t.false((await readLetter(Buffer.from(mail), [])).automatic, type);
	}
});

test('treats a report as automatic, whatever the envelope sender is', async t => {
	const part = (type: string) => `--b\r\nContent-Type: ${type}\r\n\r\nx\r\n`;
	const whole = 'multipart/report; boundary=c\r\n\r\n--c\r\nContent-Type: text/plain\r\n\r\nx\r\n--c--';
	for (const mail of [
		`Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n${part('text/plain')}--b--`,
		`Content-Type: Multipart/Report; boundary="lost"\r\n\r\nx`,
		`Content-Type: multipart/mixed; boundary=b\r\n\r\n${part(whole)}${part('text/plain')}--b--`,
		'Content-Type: message/disposition-notification\r\n\r\nDisposition: automatic-action/MDN-sent-automatically; displayed',
		'Content-Type: message/global-delivery-status\r\n\r\nReporting-MTA: dns; mx.example',
		'From: Mail Delivery System <MAILER-DAEMON@mx.example>\r\n\r\nx',
		'From: mailer-daemon@mx.example (Mail Delivery Subsystem)\r\n\r\nx',
		'From: MAILER-DAEMON\r\n\r\nx',
		'From: =?us-ascii?Q?MAILER-DAEMON?= <x@mx.example>\r\n\r\nx',
		'From: mailer-daemon+x@mx.example\r\n\r\nx',
		'From: Mailer Daemon <x@mx.example>\r\n\r\nx',
		'From: =?utf-8?q?Mailer_Daemon?= <x@mx.example>\r\n\r\nx',
	]) {
		t.true((await readLetter(Buffer.from(`Subject: x\r\n${mail}\r\n`), [])).automatic, mail);
	}
});

test('reads a first line `From : x` as the author', async t => {
	for (const line of ['From : ada@x.example', 'From \t : ada@x.example', 'from  : ada@x.example']) {
		const {from, isAmbiguous} = await readLetter(Buffer.from(`${line}\r\nSubject: x\r\n\r\n.`), []);
		t.is(from?.address, 'ada@x.example', line);
		t.false(isAmbiguous);
		const two = await readLetter(Buffer.from(`${line}\r\nFrom: eve@y.example\r\nSubject: x\r\n\r\n.`), []);
		t.true(two.isAmbiguous, line);
	}
	const ofMbox = 'From ada@x.example Fri Nov 27 10:00:00 2026\r\nFrom: eve@y.example\r\n\r\n.';
	t.like(await readLetter(Buffer.from(ofMbox), []), {from: {address: 'eve@y.example'}, isAmbiguous: false});
});

test('treats several authors as ambiguous, since no single domain can authenticate them', async t => {
	for (const from of ['From: a@x.example, b@y.example', 'From: a@x.example\r\nFrom: b@y.example']) {
		t.true((await readLetter(Buffer.from(`${from}\r\nSubject: x\r\n\r\n.`), [])).isAmbiguous, from);
	}
});

test('indexes every address of the header, even if the message is broken', async t => {
	const many = Array.from({length: 900}, (_, n) => `Person ${n} <p${n}@dest.example>`).join(',\r\n ');
	const header = `From: "a" <a@x.example>, b@y.example\r\nSender: s@x.example\r\nReply-To: r@x.example\r\nTo: t@dest.example\r\nCc: ${many}\r\n`;
	for (const rest of ['\r\n.', 'Content-Type: multipart/mixed\r\n\r\nHello', `${'X-A: b\r\n'.repeat(2000)}\r\n.`]) {
		const {senders, addressees} = await readLetter(Buffer.from(header + rest), []);
		t.deepEqual(senders, ['a@x.example', 'b@y.example', 's@x.example', 'r@x.example']);
		t.is(addressees.length, 901);
		t.is(addressees.at(-1), 'p899@dest.example');
	}
});

test('truncates text at a character boundary', async t => {
	const pairs = `x${'😀'.repeat(140_000)}`;
	const letter = await readLetter(
		Buffer.from(`From: "${pairs.slice(0, 601)}" <a@x.example>\r\nSubject: ${pairs.slice(0, 2001)}\r\n\r\n${pairs}`),
		[],
	);
	for (const [text, length] of [
		[letter.text, 262_143],
		[letter.subject, 997],
		[letter.from?.name, 255],
	] as const) {
		t.is(text?.length, length);
		t.regex(text ?? '', /^x\p{So}+$/u);
	}
});

test('preserves a domain as it was written', async t => {
	for (const address of ['a@xn--pple-43d.com', 'a@аpple.com', 'a@Shop.example']) {
		t.is(
			(await readLetter(Buffer.from(`From: ${address}\r\nSubject: x\r\n\r\n.`), [])).from?.address.toLowerCase(),
			address.toLowerCase(),
		);
	}
});

test('returns only an error and the header of a message over the limits, and does not parse the rest', async t => {
	for (const [mail, fault] of [
		[parts(1000), 'too many parts'],
		[deep, 'parts are nested too deeply'],
		['Subject: x\r\nContent-Type: multipart/mixed\r\n\r\nHello', 'a multipart without parts'],
		[`${'X-A: b\r\n'.repeat(2000)}Subject: x\r\n\r\n.`, 'too many header fields'],
		[`Subject: x\r\nX-A: ${'a'.repeat(300_000)}\r\n\r\n.`, 'a header is too long'],
	] as const) {
		const letter = await readLetter(Buffer.from(mail), []);
		t.like(letter, {fault, text: null, files: []});
	}
	const long = await readLetter(Buffer.from(`Subject: ok\r\n\r\n${'word '.repeat(100_000)}`), []);
	t.like(long, {cut: true, subject: 'ok', fault: null});
	t.is(long.text?.length, 262_144);
});

test('reads any bytes as a message that can be stored as JSON', async t => {
	t.timeout(120_000);
	await fc.assert(
		fc.asyncProperty(
			fc.oneof(
				evilMail,
				fc.uint8Array({maxLength: 2000}).map(bytes => Buffer.from(bytes)),
			),
			async raw => {
				const {files, ...letter} = await readLetter(Buffer.from(raw as Uint8Array), []);
				const json = JSON.stringify(letter);
				t.deepEqual(JSON.parse(json), letter);
				t.true(letter.headers.length <= 200 && letter.repliedTo.length <= 50 && files.length <= 200);
				t.true(letter.subject.length <= 998 && (letter.text ?? '').length <= 262_144);
			},
		),
		{numRuns: 300},
	);
});
