import {Readable} from 'node:stream';
import test from 'ava';
import {mailsOfStream, maxMailBytes} from '../../src/inbound/mail-files.ts';

async function read(parts: readonly string[], single = false): Promise<string[]> {
	const mails: string[] = [];
	for await (const {raw} of mailsOfStream(Readable.from(parts.map(part => Buffer.from(part))), {isSingle: single})) {
		mails.push(raw.toString());
	}
	return mails;
}

const from = 'From MAILER-DAEMON Fri Nov 20 10:00:00 2026\n';

test('reads a single message in any number of pieces', async t => {
	t.deepEqual(await read(['Subj', 'ect: a\n', '\nb\n']), ['Subject: a\r\n\r\nb\r\n']);
	t.deepEqual(await read(['S']), ['S\r\n']);
});

test('splits an mbox into messages, but reads a single message for one recipient', async t => {
	const mbox = `${from}Subject: a\n\nb\n\n${from}Subject: c\n\nd\n`;
	t.deepEqual(await read([mbox]), ['Subject: a\r\n\r\nb\r\n', 'Subject: c\r\n\r\nd\r\n']);
	t.deepEqual(await read([mbox.slice(0, 20), mbox.slice(20)]), [
		'Subject: a\r\n\r\nb\r\n',
		'Subject: c\r\n\r\nd\r\n',
	]);
	const [one, ...others] = await read([mbox.slice(0, 20), mbox.slice(20)], true);
	t.is(one, mbox.slice(from.length).replaceAll('\n', '\r\n'));
	t.deepEqual(others, []);
});

test('reads no message from empty input', async t => {
	t.deepEqual(await read([]), []);
	t.deepEqual(await read([from], true), []);
});

test('keeps the beginning of a streamed message that is too large', async t => {
	const chunk = Buffer.alloc(1024 * 1024, 'x');
	const chunks = Readable.from(Array.from({length: maxMailBytes / chunk.length + 1}, () => chunk));
	const found = [];
	for await (const mail of mailsOfStream(chunks, {isSingle: true})) {
		found.push(mail);
	}
	t.is(found.length, 1);
	t.true(found[0]?.isCut);
	t.true((found[0]?.raw.length ?? 0) <= chunk.length + 2);
});
