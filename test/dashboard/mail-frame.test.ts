import test from 'ava';
import fc from 'fast-check';
import {findLinks} from '../../src/compose/links/rewrite.ts';
import {inspectMail} from '../../src/dashboard/look.ts';
import {mailContent} from '../../src/dashboard/mail-frame.ts';
import {seenMail} from '../../src/dashboard/seen-mail.ts';
import {headersContent, previewContent, sourceContent, textContent} from '../../src/resources/messages/mail-page.ts';
import type {StoredMessage} from '../../src/store/messages.ts';
import {evilMail} from '../helpers/evil-mails.ts';
import {hostileMails} from '../helpers/hostile-mails.ts';
import {unmatchedBounce} from '../helpers/unmatched-bounce.ts';

const framed = (mail: string) => String(mailContent(mail, false).body);

const tokens = [
	'<',
	'</',
	'>',
	'/',
	' ',
	'\n',
	'\f',
	'\0',
	'=',
	'"',
	"'",
	'&#x61;',
	'<!--',
	'-->',
	'<style>',
	'</style>',
	'<svg>',
];
const words = 'a A area link LiNK base iframe object href HREF http-equiv x https://h.example/'.split(' ');
const markup = fc
	.array(fc.constantFrom(...tokens, ...words, '<a href=https://h.example/', '<link rel=preconnect '), {maxLength: 40})
	.map(parts => parts.join(''));

test('disables links and removes references to other pages in any HTML of a message', t => {
	fc.assert(
		fc.property(markup, mail => {
			const html = framed(mail);
			const {hrefs} = findLinks(html, {marked: true});
			t.deepEqual(
				hrefs.map(({start, end}) => html.slice(start, end)).filter(href => href !== '#_'),
				[],
			);
			t.notRegex(html, /<\/?(?:link|base|i?frame|object)[\s/>]/i);
			t.notRegex(html, /(?<!x-)http-equiv/i);
		}),
		{numRuns: 1000},
	);
});

test('embeds images attached to a message, but no other files', t => {
	const mail = (type: string) =>
		seenMail(
			Buffer.from(
				[
					'Content-Type: multipart/related; boundary=b',
					'',
					'--b',
					'Content-Type: text/html',
					'',
					'<img src="cid:logo%40shop">',
					'--b',
					`Content-Type: ${type}`,
					'Content-ID: <logo@shop>',
					'Content-Transfer-Encoding: base64',
					'',
					'aGVsbG8=',
					'--b--',
					'',
				].join('\r\n'),
			),
		);
	const shown = (type: string) => String(mail(type).html?.framed);
	t.is(shown('image/png').trim(), '<img src="data:image/png;base64,aGVsbG8=">');
	for (const type of ['image/svg+xml', 'text/html', 'image/png"onerror']) {
		t.is(shown(type).trim(), '<img src="cid:logo%40shop">', type);
	}
});

test('renders the pages of a message from any bytes', t => {
	const message = {id: 'msg_00000000000000000000000000'} as StoredMessage;
	fc.assert(
		fc.property(evilMail, bytes => {
			const shown = {message, query: new URLSearchParams()};
			const looked = {...shown, mail: {...seenMail(bytes), isCaptured: true}};
			for (const contentOf of [previewContent, textContent, headersContent]) {
				t.notRegex(contentOf(looked).markup, /<script|<b>/i);
			}
			t.notRegex(sourceContent({...shown, mail: {raw: bytes, isCaptured: true}}).markup, /<script|<b>/i);
		}),
		{numRuns: 300},
	);
	t.pass();
});

test('scans long runs of spaces only once for remote images', t => {
	const asks = (html: string) =>
		seenMail(Buffer.from(`Content-Type: text/html\r\n\r\n${html}`)).html?.hasRemoteImages;
	const blanks = ' '.repeat(1_000_000);
	for (const begin of ['<img src=', '<p style="background:url(', "<img srcset = '"]) {
		t.false(asks(`${begin}${blanks}x`));
		t.true(asks(`${begin}${blanks}//images.example/x.png`));
	}
});

test('keeps no more of a large message than its pages show', t => {
	// Twice as much as may be kept of the text, and a hundred times as much of all else.
	const size = 2 * 1024 * 1024;
	for (const {name, build} of hostileMails) {
		const mail = build().subarray(0, size);
		for (const raw of [mail, Buffer.concat([Buffer.from('Content-Type: text/html\r\n\r\n'), mail])]) {
			const {fields, text, html, files} = seenMail(raw);
			t.true(fields.length <= 1000 && files.length <= 201, name);
			t.true((text ?? '').length <= 1024 * 1024, name);
			t.true((html?.links.length ?? 0) <= 200 && (html?.links ?? []).every(link => link.length <= 2001), name);
		}
	}
	const linked = seenMail(
		Buffer.from(`Content-Type: text/html\r\n\r\n<a href="https://a.example/${'x'.repeat(3000)}">`),
	);
	const mail = {...linked, isCaptured: true};
	const message = {id: 'msg_00000000000000000000000000'} as StoredMessage;
	const {markup} = previewContent({message, mail, query: new URLSearchParams()});
	t.regex(markup, /<li><bdi>https:\/\/a\.example\/x+…<\/bdi>/, 'a link that is cut leads nowhere');
});

test('no message exhausts the memory of its parser thread, which would end the process', async t => {
	const size = 10 * 1024 * 1024;
	const html = 'Content-Type: text/html\r\n';
	for (const [header, filling] of [
		[html, '<a '],
		[html, '<a href=//>'],
		[html, '<a href=# href='],
		[html, 'cid:x '],
		[html, 'http-equiv'],
		[`${html}Content-Transfer-Encoding: quoted-printable\r\n`, '=3D'],
		['Content-Type: application/x\r\nContent-Transfer-Encoding: quoted-printable\r\n', '=\n'],
		['Content-Type: text/plain; charset=gb18030\r\nContent-Transfer-Encoding: base64\r\n', 'gTCB\n'],
	] as const) {
		const raw = Buffer.alloc(size, filling);
		raw.write(`${header}\r\n`);
		t.true((await inspectMail('w', 'mail', {raw})).ok, filling);
		t.true((await inspectMail('w', 'file', {raw, index: 0})).ok, filling);
		t.true((await inspectMail('w', 'report', {raw, rules: []})).ok, filling);
	}
});

test('parses a message with its files and reports in a thread', async t => {
	const raw = Buffer.from(
		'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<a href="https://a.example/">\r\n--b\r\nContent-Type: application/x; name=a.bin\r\n\r\nhello\r\n--b--\r\n',
	);
	const mail = await inspectMail('w', 'mail', {raw});
	t.like(mail, {ok: true, seen: {html: {links: ['https://a.example/']}, files: [{name: 'a.bin', octets: 5}]}});
	const file = await inspectMail('w', 'file', {raw, index: 0});
	t.is(
		file.ok &&
			Buffer.from(file.seen?.content ?? [])
				.toString()
				.trim(),
		'hello',
	);
	t.deepEqual(await inspectMail('w', 'file', {raw, index: 1}), {ok: true, seen: null});
	const returned = unmatchedBounce('gone@dest.example');
	const report = await inspectMail('w', 'report', {raw: Buffer.from(returned), rules: []});
	t.like(report, {ok: true, seen: {kind: 'dsn', reports: [{recipient: 'gone@dest.example', rule: null}]}});
});
