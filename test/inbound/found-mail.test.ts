import test from 'ava';
import fc from 'fast-check';
import {foundMail, maxMailBytes, wireForm} from '../../src/inbound/mail-files.ts';

const wire = (text: string) => wireForm(Buffer.from(text, 'latin1')).toString('latin1');

test('converts line endings to CRLF', t => {
	t.is(wire('Subject: a\n\none\ntwo\n'), 'Subject: a\r\n\r\none\r\ntwo\r\n');
	t.is(wire('Subject: a\r\n\r\none\r\n'), 'Subject: a\r\n\r\none\r\n');
	t.is(wire('Subject: a\r\n\none\r\n'), 'Subject: a\r\n\r\none\r\n');
	t.is(wire('Subject: a\r\n\r\none'), 'Subject: a\r\n\r\none\r\n');
	t.is(wire('a\rb\n'), 'a\rb\r\n');
	t.is(wire(''), '');
});

test('converts any bytes to a form without a bare LF that does not change when converted again', t => {
	fc.assert(
		fc.property(fc.array(fc.constantFrom('\r', '\n', '\r\n', 'a', 'é')), parts => {
			const bytes = wireForm(Buffer.from(parts.join(''), 'latin1'));
			t.deepEqual(wireForm(bytes), bytes);
			t.notRegex(bytes.toString('latin1'), /(^|[^\r])\n/);
			t.is(bytes.toString('latin1').replace(/[\r\n]/g, ''), parts.join('').replace(/[\r\n]/g, ''));
		}),
	);
});

test('keeps only the beginning of a message that is too large', t => {
	const large = foundMail('mbox', Buffer.alloc(maxMailBytes, 'x'), maxMailBytes + 1);
	t.true(large.isCut);
	t.is(large.raw.length, 1024 * 1024 + 2);
	const largest = foundMail('mbox', Buffer.alloc(maxMailBytes, 'x'), maxMailBytes);
	t.false(largest.isCut);
});

test('takes the envelope sender from Return-Path, but only in the header', t => {
	const sender = (text: string) => foundMail('maildir', Buffer.from(text), text.length).mailFrom;
	t.is(sender('Return-Path: <>\nSubject: a\n\nb\n'), '');
	t.is(sender('Received: x\nreturn-path: <a@b.example>\n\nb\n'), 'a@b.example');
	t.is(sender('Subject: a\n\nReturn-Path: <a@b.example>\n'), null);
	t.is(sender(''), null);
});
