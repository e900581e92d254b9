import test from 'ava';
import fc from 'fast-check';
import {mailContent} from '../../src/dashboard/mail-frame.ts';
import {headersContent, previewContent, sourceContent, textContent} from '../../src/dashboard/messages/content.ts';
import {shownMail} from '../../src/dashboard/messages/mail.ts';
import {findLinks} from '../../src/links/find-links.ts';
import type {StoredMessage} from '../../src/store/messages.ts';
import {evilMail} from '../helpers/evil-mails.ts';

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
const words = [
	'a',
	'A',
	'area',
	'link',
	'LiNK',
	'base',
	'iframe',
	'object',
	'href',
	'HREF',
	'http-equiv',
	'x',
	'https://h.example/',
];
const markup = fc
	.array(fc.constantFrom(...tokens, ...words, '<a href=https://h.example/', '<link rel=preconnect '), {maxLength: 40})
	.map(parts => parts.join(''));

test('whatever a mail’s html is, its links lead nowhere and it names no other page', t => {
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

test('an image that the mail brings along is in it; another file is not', t => {
	const mail = (type: string) =>
		shownMail(
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
			true,
		);
	const shown = (type: string) => {
		const {html, files} = mail(type);
		return String(mailContent(html ?? '', false, files).body);
	};
	t.is(shown('image/png').trim(), '<img src="data:image/png;base64,aGVsbG8=">');
	for (const type of ['image/svg+xml', 'text/html', 'image/png"onerror']) {
		t.is(shown(type).trim(), '<img src="cid:logo%40shop">', type);
	}
});

test('whatever bytes a mail is, its pages can be made', t => {
	const message = {id: 'msg_00000000000000000000000000'} as StoredMessage;
	fc.assert(
		fc.property(evilMail, bytes => {
			const looked = {message, mail: shownMail(bytes, true), query: new URLSearchParams()};
			for (const contentOf of [previewContent, textContent, headersContent, sourceContent]) {
				t.notRegex(contentOf(looked).markup, /<script|<b>/i);
			}
		}),
		{numRuns: 300},
	);
	t.pass();
});

test('a run of blanks of any length is looked through once for remote images', t => {
	const show = (html: string) => {
		const mail = {...shownMail(Buffer.from('Content-Type: text/html\r\n\r\n'), false), html};
		const message = {id: 'msg_00000000000000000000000000'} as StoredMessage;
		return previewContent({message, mail, query: new URLSearchParams()}).markup;
	};
	const blanks = ' '.repeat(1_000_000);
	for (const begin of ['<img src=', '<p style="background:url(', "<img srcset = '"]) {
		t.notRegex(show(`${begin}${blanks}x`), /remote images/);
		t.regex(show(`${begin}${blanks}//images.example/x.png`), /remote images/);
	}
});
