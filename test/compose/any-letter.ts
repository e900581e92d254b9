import fc from 'fast-check';
import type {RenderedMessage} from '../../src/compose/header-field.ts';
import {addedName, addedProblem} from '../../src/mail/added-header.ts';
import {anyChar} from '../helpers/any-char.ts';
import {receipt} from './letters.ts';

/** Any code point, but often those with a meaning in headers and MIME. */
export const texts = fc.oneof(
	fc.string({unit: anyChar, maxLength: 120}),
	fc.string({unit: 'grapheme', maxLength: 120}),
	fc
		.array(
			fc.constantFrom(
				'\r\nBcc: eve@evil.test',
				'\r\n\r\n<html>',
				'\n',
				'\r',
				'\0',
				'\u0085',
				'\u2028',
				'\u2029',
				'=?UTF-8?B?QQ==?=',
				'=?utf-8?Q?=0D=0ABcc:x?=',
				'"',
				'\\',
				';',
				'<',
				'>',
				',',
				'(',
				"'",
				'%41',
				'é',
				'😀',
				' ',
				'\t',
				'word',
				'cid:a.b@c',
				'x'.repeat(80),
				`--=_${receipt.ref}_a`,
			),
			{maxLength: 12},
		)
		.map(pieces => pieces.join('')),
);

const attachments = fc.array(
	fc.record({
		filename: texts,
		contentType: fc.oneof(fc.constantFrom('application/pdf', 'text/csv', 'image/png', 'text/html'), texts),
		content: fc.uint8Array({maxLength: 200}),
		contentId: fc.constantFrom(null, 'a.b@c', 'logo', '+-_'),
	}),
	{maxLength: 4},
);

const fields = fc.tuple(
	fc.oneof(
		fc.constantFrom(
			'In-Reply-To',
			'references',
			'Importance',
			'AUTO-SUBMITTED',
			'X-Entity-Ref-ID',
			'x-a',
			'X-Mailctl-Ref',
		),
		fc.constantFrom('From', 'Bcc', 'Subject', 'DKIM-Signature', 'Content-Type', 'X-A\r\nBcc', 'X-A: b\r\n\r\n'),
		texts.map(text => `X-${text}`),
	),
	fc.oneof(
		texts,
		fc.constantFrom(
			'high',
			'no',
			'auto-replied; a=b',
			'<1@a.example>',
			'<1@a.example> <2@[::1]>',
			`<${'x'.repeat(890)}@a>`,
		),
		fc.string({minLength: 900, maxLength: 998}),
	),
);

/** Header fields that a send may add: whatever passes its checks. */
const headers = fc
	.array(fields, {maxLength: 20})
	.map(all => all.filter(([name, value]) => addedProblem(name, value) === null))
	.map(all => new Map(all.map(([name, value]) => [name.toLowerCase(), [addedName(name) ?? name, value] as const])))
	.map(all => [...all.values()]);

/** Any letter that a send can create. */
export const anyLetter: fc.Arbitrary<RenderedMessage> = fc
	.record({
		subject: texts,
		html: fc.oneof(
			texts,
			texts.map(text => `${text}<img src="cid:a.b@c"><img src=cid:logo>`),
		),
		text: fc.option(texts),
		attachments,
		extras: fc.record({toName: texts, replyToName: texts, headers}),
	})
	.map(own => ({...receipt, ...own}));
