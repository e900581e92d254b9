import test from 'ava';
import type {Clues} from '../../../src/mail/report.ts';
import {mailOf, multipartOf, read} from '../../helpers/report-mails.ts';

const ref = `r${'0'.repeat(44)}`;
const header = [
	'Return-Path: <b123@bounce.shop.example>',
	'Received: from x by y (envelope-from <b456@bounce.shop.example>); Thu',
	`X-Mailctl-Ref: ${ref}`,
	'Message-ID: <m123@shop.example>',
	'List-Unsubscribe: <https://shop.example/unsubscribe?token=x>,',
	' <mailto:u123@bounce.shop.example?subject=unsubscribe>',
	'Subject: Sale',
].join('\n');

const status =
	'Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\nOriginal-Envelope-Id: r123+3Dx\n\nFinal-Recipient: rfc822; a@b.example\nAction: failed\n';
const cluesOf = (...parts: readonly string[]) => read(multipartOf({parts})).clues;

const fromReturned: Partial<Clues> = {
	refs: [ref],
	messageIds: ['m123@shop.example'],
	unsubscribeAddresses: ['u123@bounce.shop.example'],
};

for (const type of [
	'message/rfc822',
	'Text/RFC822-Headers',
	'text/rfc822-header',
	'message/global-headers',
	'message/global',
]) {
	test(`reads the returned message as ${type}`, t => {
		t.like(cluesOf(status, `Content-Type: ${type}\n\n${header}\n\nMessage-ID: <no@shop.example>\n`), {
			...fromReturned,
			envelopeIds: ['r123=x'],
			returnPaths: ['b123@bounce.shop.example', 'b456@bounce.shop.example'],
		});
	});
}

test('reads a returned message in base64', t => {
	const base64 = Buffer.from(`${header}\n\ntext`).toString('base64');
	t.like(
		cluesOf(status, `Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n${base64}\n`),
		fromReturned,
	);
});

for (const [name, quote] of [
	['as it is', ''],
	['quoted', '> '],
	['indented', '    '],
] as const) {
	test(`reads a returned header in plain text, ${name}`, t => {
		const text = `Sorry.\n\n--- The header of the original message follows.\n\n${header}`;
		const quoted = text.replace(/^/gm, quote);
		t.like(read(mailOf('Subject: failure notice', '', quoted)).clues, {
			...fromReturned,
			returnPaths: ['b123@bounce.shop.example'],
		});
	});
}

test('reads a returned header in HTML', t => {
	const html = `<p>Sorry.</p><pre>${header.replaceAll('<', '&lt;').replaceAll('>', '&gt;')}</pre>`;
	t.like(read(mailOf('Subject: failure notice', 'Content-Type: text/html', '', html)).clues, fromReturned);
});

test('reads the header fields of the report itself', t => {
	const raw = mailOf(
		'Return-Path: <>',
		'Delivered-To: b123@bounce.shop.example',
		'X-Original-To: b124@bounce.shop.example',
		'Received: from a by b for <b125@bounce.shop.example>; Thu, 29 Apr',
		'To: "Shop" <b126@bounce.shop.example>',
		'In-Reply-To: <m123@shop.example>',
		'References: <m1@shop.example> <m123@shop.example>',
		'',
		'text',
	);
	t.like(read(raw).clues, {
		addressees: [
			'b123@bounce.shop.example',
			'b124@bounce.shop.example',
			'b126@bounce.shop.example',
			'b125@bounce.shop.example',
		],
		messageIds: ['m123@shop.example', 'm1@shop.example'],
	});
});

test('reads the fields of a feedback report', t => {
	const fields =
		'Feedback-Type: abuse\nVersion: 1\nOriginal-Mail-From: <b123@bounce.shop.example>\nOriginal-Envelope-Id: r123\n';
	t.like(cluesOf(`Content-Type: message/feedback-report\n\n${fields}`), {
		returnPaths: ['b123@bounce.shop.example'],
		envelopeIds: ['r123'],
	});
});

test('reads the header fields that Amazon SES includes', t => {
	const mail = {
		headers: [{name: 'X-Mailctl-Ref', value: ref}, {name: 'Message-ID', value: '<m123@shop.example>'}, {name: 1}],
	};
	t.like(read(mailOf('Subject: x', '', JSON.stringify({notificationType: 'Bounce', mail}))).clues, {
		refs: [ref],
		messageIds: ['m123@shop.example'],
	});
});

test('keeps at most twenty values of each kind, and no overlong ones', t => {
	const many = Array.from({length: 100}, (_, i) => `Message-ID: <m${i}@x>`).join('\n');
	const {messageIds} = cluesOf(`Content-Type: text/rfc822-headers\n\nMessage-ID: <${'a'.repeat(2000)}@x>\n${many}\n`);
	t.is(messageIds.length, 20);
	t.is(messageIds[0], 'm0@x');
});

test('finds the RFC 9477 feedback token in the returned header or in the fields of the report', t => {
	const returned = `Content-Type: text/rfc822-headers\n\nCFBL-Address: fbl@shop.example; report=arf\nCFBL-Feedback-ID: ${ref}\n`;
	const feedback = (more: string) =>
		`Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nUser-Agent: x/1\nVersion: 1\n${more}`;
	t.deepEqual(cluesOf(feedback(''), returned).refs, [ref]);
	t.deepEqual(cluesOf(feedback(`CFBL-Feedback-ID: ${ref}\n`)).refs, [ref]);
});
