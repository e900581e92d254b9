import test from 'ava';
import {postmarkMail} from '../../../src/inbound/providers/postmark-mail.ts';

const mail = (...lines: string[]) => Buffer.from(`${lines.join('\r\n')}\r\n`);

test('passes subject, bodies, attachments and header fields of a message to Postmark', t => {
	const data = mail(
		...['X-PM-Metadata-mailctl-ref: r123', 'X-PM-Message-Stream: news', 'DKIM-Signature: v=1; b=abc'],
		...[
			'From: =?utf-8?q?J=C3=BCrgen?= <j@shop.example>',
			'To: Ann <ann@a.example>, bob@b.example',
			'Cc: c@c.example',
		],
		...[
			'Subject: =?utf-8?b?R3LDvMOfZQ==?=',
			'Message-ID: <1@shop.example>',
			'Date: Thu, 26 Nov 2026 20:00:00 +0000',
		],
		...['Reply-To: help@shop.example', 'List-Unsubscribe: <https://shop.example/u>,', ' <mailto:u@shop.example>'],
		...['MIME-Version: 1.0', 'Content-Type: multipart/mixed; boundary=m', ''],
		...['--m', 'Content-Type: multipart/alternative; boundary=a', ''],
		...[
			'--a',
			'Content-Type: text/plain; charset=utf-8',
			'Content-Transfer-Encoding: quoted-printable',
			'',
			'Gr=C3=BC=C3=9Fe',
			'',
		],
		...['--a', 'Content-Type: text/html; charset=utf-8', 'Content-Transfer-Encoding: base64', ''],
		...[Buffer.from('<p>Grüße <img src="cid:logo@x"></p>').toString('base64'), '--a--'],
		...['--m', 'Content-Type: image/png', 'Content-ID: <logo@x>', 'Content-Disposition: inline; filename=logo.png'],
		...['Content-Transfer-Encoding: base64', '', 'iVBORw0KGgo=', ''],
		...['--m', 'Content-Type: text/plain; name="=?utf-8?q?=C3=BC.txt?="'],
		...["Content-Disposition: attachment; filename*0*=utf-8''%C3%BC;", ' filename*1=.txt', '', 'notes', '--m--'],
	);
	const {Attachments, ...rest} = postmarkMail(data, 'bob@b.example') as {Attachments: Array<Record<string, string>>};
	t.deepEqual(rest as object, {
		From: 'Jürgen <j@shop.example>',
		To: 'bob@b.example',
		ReplyTo: 'help@shop.example',
		Subject: 'Grüße',
		HtmlBody: '<p>Grüße <img src="cid:logo@x"></p>',
		TextBody: 'Grüße\n',
		MessageStream: 'news',
		Headers: [
			{Name: 'Message-Id', Value: '<1@shop.example>'},
			{Name: 'List-Unsubscribe', Value: '<https://shop.example/u>, <mailto:u@shop.example>'},
			{Name: 'X-PM-KeepID', Value: 'true'},
		],
		Metadata: {'mailctl-ref': 'r123'},
	});
	t.like(Attachments[0], {
		Name: 'logo.png',
		ContentType: 'image/png',
		ContentID: 'cid:logo@x',
		Content: 'iVBORw0KGgo=',
	});
	t.like(Attachments[1], {Name: 'ü.txt', ContentType: 'text/plain'});
	t.regex(Buffer.from(Attachments[1]?.Content ?? '', 'base64').toString(), /^notes/);
	t.is(Attachments.length, 2);
});

test('converts a single-part message and omits empty fields', t => {
	t.deepEqual(
		postmarkMail(
			mail('From: a@x.example', 'Subject: hi', 'Content-Type: text/html', '', '<p>hi</p>'),
			'b@x.example',
		),
		{
			...{From: 'a@x.example', To: 'b@x.example', Subject: 'hi', HtmlBody: '<p>hi</p>\n'},
			...{Headers: [{Name: 'X-PM-KeepID', Value: 'true'}], Metadata: {}, Attachments: []},
		},
	);
});

test('keeps an encoded name with a comma as one name', t => {
	const name = `=?UTF-8?B?${Buffer.from('Größe, "Hilfe"').toString('base64')}?=`;
	const data = mail(`From: ${name}`, ' <a@x.example>', `Reply-To: ${name} <b@x.example>`, '', 'hi');
	t.like(postmarkMail(data, 'c@x.example'), {
		From: '"Größe, \\"Hilfe\\"" <a@x.example>',
		ReplyTo: '"Größe, \\"Hilfe\\"" <b@x.example>',
	});
});

test('rejects a message that would lose parts', t => {
	const parts = Array.from({length: 250}, () => ['--m', 'Content-Type: image/png', '', 'x']).flat();
	const data = mail('From: a@x.example', 'Content-Type: multipart/mixed; boundary=m', '', ...parts, '--m--');
	t.regex(String(postmarkMail(data, 'b@x.example')), /parts/);
});
