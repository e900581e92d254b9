import {appendFile, open, rename, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {
	isFromLine,
	isMbox,
	type MboxPosition,
	MboxSplitter,
	mailsOfMbox,
	startOf,
} from '../../src/inbound/mail-files.ts';
import {temporaryFolder} from '../helpers/databases.ts';

const whole = 1024 * 1024;

function splitAll(mbox: Buffer, pieces: readonly number[] = [], longest = whole) {
	const splitter = new MboxSplitter(longest);
	const mails = [];
	let at = 0;
	for (const piece of pieces) {
		mails.push(...splitter.push(mbox.subarray(at, at + piece)));
		at += piece;
	}
	return [...mails, ...splitter.push(mbox.subarray(at)), ...splitter.end()];
}

const texts = (mbox: string, longest = whole) =>
	splitAll(Buffer.from(mbox, 'latin1'), [], longest).map(({bytes}) => bytes.toString('latin1'));

const from = 'From MAILER-DAEMON Fri Nov 20 10:00:00 2026\n';

for (const line of [
	'From MAILER-DAEMON Fri Nov 20 10:00:00 2026',
	'From a@b.example  Fri Nov  6 10:00:00 2026',
	'From - Mon Jan 01 00:00:00 2024',
	'From a@b.example Mon Jan  1 00:00 2024',
	'From a@b.example Mon Jan  1 00:00:00 CEST 2024',
	'From a@b.example Mon Jan  1 00:00:00 2024 +0100',
	'From 1234567890@xxx Mon Jan 01 00:00:00 +0000 2024',
	'From a@b.example Mon, 1 Jan 2024 00:00:00 +0000',
	'From "a b"@c.example Mon Jan  1 00:00:00 2024',
	'From Mon Jan  1 00:00:00 2024',
]) {
	test(`begins a message: ${line}`, t => {
		t.true(isFromLine(line));
	});
}

for (const line of [
	'From now on',
	'From Monday on, mail to this address is refused',
	'From: MAILER-DAEMON Fri Nov 20 10:00:00 2026',
	'>From a@b.example Fri Nov 20 10:00:00 2026',
	'From a@b.example',
	`From ${'a'.repeat(2000)} Fri Nov 20 10:00:00 2026`,
]) {
	test(`does not begin a message: ${line.slice(0, 60)}`, t => {
		t.false(isFromLine(line));
	});
}

test('splits at From lines and removes the empty line before them', t => {
	t.deepEqual(texts(`${from}Subject: a\n\none\n\n${from}Subject: b\n\ntwo\n\n`), [
		'Subject: a\n\none\n',
		'Subject: b\n\ntwo\n',
	]);
});

test('splits without an empty line, and with CRLF line endings', t => {
	t.deepEqual(texts(`${from}Subject: a\n\none\n${from}Subject: b\n\ntwo`), [
		'Subject: a\n\none\n',
		'Subject: b\n\ntwo',
	]);
	const crlf = (text: string) => text.replaceAll('\n', '\r\n');
	t.deepEqual(texts(crlf(`${from}Subject: a\n\none\n\n${from}Subject: b\n\ntwo\n\n`)), [
		crlf('Subject: a\n\none\n'),
		crlf('Subject: b\n\ntwo\n'),
	]);
});

test('does not split at a sentence that begins with From', t => {
	t.deepEqual(texts(`${from}Subject: a\n\nFrom now on:\nFrom Monday on.\n`), [
		'Subject: a\n\nFrom now on:\nFrom Monday on.\n',
	]);
});

test('removes one level of quoting, of mboxo and mboxrd', t => {
	t.deepEqual(texts(`${from}Subject: a\n\n>From x\n>>From y\n> From z\n`), [
		'Subject: a\n\nFrom x\n>From y\n> From z\n',
	]);
});

test('ignores Content-Length', t => {
	const mails = texts(`${from}Subject: a\nContent-Length: 100000\n\none\n\n${from}Subject: b\n\ntwo\n`);
	t.is(mails.length, 2);
});

test('returns the offset and the From line of each message', t => {
	const mbox = Buffer.from(`${from}Subject: a\n\none\n\n${from}Subject: b\n\ntwo\n`);
	const mails = splitAll(mbox);
	t.deepEqual(
		mails.map(({offset}) => mbox.toString('latin1', offset, offset + from.length)),
		[from, from],
	);
	t.deepEqual(
		mails.map(({line}) => line),
		[from.trim(), from.trim()],
	);
});

test('keeps a message only up to the limit, and counts the remaining bytes', t => {
	const mbox = Buffer.from(`${from}${'x'.repeat(5000)}\n\n${from}Subject: b\n`);
	const [large, small] = splitAll(mbox, [100, 100, 1000], 200);
	t.is(large?.bytes.length, 200);
	t.is(large?.size, 5002);
	t.is(small?.bytes.toString(), 'Subject: b\n');
});

test('reads no message from empty lines or an empty file', t => {
	t.deepEqual(texts(''), []);
	t.deepEqual(texts(`\n\n${from}\n\n`), []);
	t.deepEqual(texts(`${from}${from}Subject: a\n`), ['Subject: a\n']);
});

// Lines with a meaning in an mbox, and any others.
const lines = fc.oneof(
	fc.constantFrom(
		'',
		'From ',
		from.trim(),
		`>${from.trim()}`,
		`>>${from.trim()}`,
		'From x',
		'\r',
		'>From ',
		'Subject: x',
	),
	fc.string({unit: 'binary-ascii', maxLength: 40}).map(text => text.replaceAll('\n', ' ')),
);
const mails = fc
	.array(lines, {maxLength: 12})
	.map(list => Buffer.from(`Subject: x\n${list.map(line => `${line}\n`).join('')}`, 'latin1'));
const pieces = fc.array(fc.integer({min: 0, max: 60}), {maxLength: 20});

function written(mail: Buffer): string {
	return `${from}${mail.toString('latin1').replace(/^(>*From )/gm, '>$1')}\n`;
}

test('restores any messages written as mboxrd, in whatever pieces the file is read', t => {
	fc.assert(
		fc.property(fc.array(mails, {maxLength: 6}), pieces, (all, sizes) => {
			// A bare CR begins a line only for the writer above.
			const sound = all.map(mail => Buffer.from(mail.toString('latin1').replaceAll('\r', ' '), 'latin1'));
			const read = splitAll(Buffer.from(sound.map(written).join(''), 'latin1'), sizes);
			t.deepEqual(
				read.map(({bytes}) => bytes.toString('latin1')),
				sound.map(mail => mail.toString('latin1')),
			);
		}),
	);
});

test('reads any bytes completely and once, in whatever pieces they arrive', t => {
	const bytes = fc.array(
		fc.oneof(
			lines.map(line => Buffer.from(`${line}\n`, 'latin1')),
			fc.uint8Array({maxLength: 40}),
		),
		{
			maxLength: 20,
		},
	);
	fc.assert(
		fc.property(bytes, pieces, (parts, sizes) => {
			const mbox = Buffer.concat(parts);
			const read = splitAll(mbox, sizes);
			t.deepEqual(read, splitAll(mbox));
			t.true(read.reduce((sum, {size}) => sum + size, 0) <= mbox.length);
			t.true(read.every(({bytes: kept, size}) => kept.length <= size));
		}),
		{numRuns: 500},
	);
});

const entry = (subject: string, sender = 'MAILER-DAEMON') =>
	`From ${sender} Fri Nov 20 10:00:00 2026\nSubject: ${subject}\n\nIt could not be delivered.\n\n`;

/** Reads from the position, as `mailctl bounce ingest` does. */
async function read(file: string, position: MboxPosition | null) {
	const handle = await open(file);
	const subjects: string[] = [];
	let last = position;
	try {
		for await (const {found, position: at} of mailsOfMbox(
			handle,
			await startOf(handle, position),
			() => undefined,
		)) {
			subjects.push(/^Subject: (.*)\r$/m.exec(found.raw.toString())?.[1] ?? '');
			last = at;
		}
	} finally {
		await handle.close();
	}
	return {subjects, position: last};
}

async function newMbox(t: ExecutionContext, content: string): Promise<string> {
	const file = path.join(await temporaryFolder(t), 'mbox');
	await writeFile(file, content);
	return file;
}

test('resumes an mbox at its last message, which is read once more', async t => {
	const file = await newMbox(t, entry('one') + entry('two', 'b@x.example'));
	const first = await read(file, null);
	t.deepEqual(first.subjects, ['one', 'two']);
	t.deepEqual((await read(file, first.position)).subjects, ['two']);
	await appendFile(file, entry('three'));
	const second = await read(file, first.position);
	t.deepEqual(second.subjects, ['two', 'three']);
	t.deepEqual((await read(file, second.position)).subjects, ['three']);
});

test('reads a half-written message completely the next time', async t => {
	const whole = entry('two');
	const file = await newMbox(t, entry('one') + whole.slice(0, -30));
	const {position} = await read(file, null);
	await appendFile(file, whole.slice(-30) + entry('three'));
	t.deepEqual((await read(file, position)).subjects, ['two', 'three']);
});

test('reads a truncated, replaced or rewritten file from its beginning', async t => {
	const file = await newMbox(t, entry('one') + entry('two', 'b@x.example'));
	const {position} = await read(file, null);
	await writeFile(file, entry('new'));
	t.deepEqual((await read(file, position)).subjects, ['new']);
	await writeFile(file, entry('other') + entry('mails', 'c@x.example') + entry('here'));
	t.deepEqual((await read(file, position)).subjects, ['other', 'mails', 'here']);

	await writeFile(`${file}.next`, entry('one') + entry('two', 'b@x.example'));
	await rename(`${file}.next`, file);
	t.deepEqual((await read(file, position)).subjects, ['one', 'two']);
});

test('recognizes an mbox by a From line at its beginning', async t => {
	const isOne = async (content: string) => {
		const handle = await open(await newMbox(t, content));
		return await isMbox(handle).finally(() => handle.close());
	};
	t.true(await isOne(entry('one')));
	t.true(await isOne(entry('one').replaceAll('\n', '\r\n')));
	t.false(await isOne('Subject: a\n\nFrom a@b.example Fri Nov 20 10:00:00 2026\n'));
	t.false(await isOne('From here to there\n'));
	t.false(await isOne(''));
});
