import test from 'ava';
import fc from 'fast-check';
import {compileCheck} from '../../src/resources/validate.ts';
import {sendBody} from '../../src/send/schema.ts';
import {conforms} from '../helpers/conforms.ts';

const check = compileCheck(sendBody);
const good = {from: 'hello@example.com', to: 'user@example.org', templateId: 'tpl_1'};
const attachment = {filename: 'a.pdf', contentType: 'application/pdf', content: 'YQ=='};
const base64 = (bytes: number) => Buffer.alloc(bytes).toString('base64');
const nested = (depth: number): object => (depth === 1 ? {} : {a: nested(depth - 1)});
const keys = (count: number, value: unknown = 'v') =>
	Object.fromEntries(Array.from({length: count}, (_, index) => [`k${index}`, value]));
const addresses = (count: number) => Array.from({length: count}, (_, index) => `c${index}@example.org`);

const accepted: ReadonlyArray<[title: string, fields: object]> = [
	['only what is required', {}],
	['a UTF-8 recipient', {to: 'josé@münchen.de'}],
	['templateId and unsubscribeGroup of any form', {templateId: '\0\ud800', unsubscribeGroup: 'no such/code'}],
	['data of any JSON', {data: {a: [1, null, true, 'x', {b: {}}], '': ''}}],
	['16 levels of data', {data: nested(16)}],
	['256 KiB of data', {data: {a: 'x'.repeat(256 * 1024 - 8)}}],
	['25 cc', {cc: addresses(25)}],
	['no cc', {cc: []}],
	['50 metadata', {metadata: keys(50)}],
	['a metadata value of 500 characters', {metadata: {a: '💌'.repeat(500)}}],
	['a metadata key of 40 characters', {metadata: {['💌'.repeat(40)]: ''}}],
	['metadata with names of Object.prototype', {metadata: {constructor: 'a', toString: 'b', hasOwnProperty: 'c'}}],
	['3 attachments', {attachments: [attachment, attachment, attachment]}],
	['an attachment of 1 MiB', {attachments: [{...attachment, content: base64(1_048_576)}]}],
	['an empty attachment', {attachments: [{...attachment, content: ''}]}],
	['a filename of 255 characters', {attachments: [{...attachment, filename: '💌'.repeat(255)}]}],
	['10 tags of 64 characters', {tags: Array.from({length: 10}, () => '💌'.repeat(64))}],
	['tracking', {tracking: {opens: false, clicks: true}}],
	['tracking with only opens set', {tracking: {opens: false, clicks: null}}],
	['locales', {locale: 'zh-Hant-TW'}],
	['a locale in lower case', {locale: 'de-at'}],
	['UTC', {timezone: 'UTC'}],
	['a zone that Intl does not list', {timezone: 'Asia/Kolkata'}],
	['a zone without a region', {timezone: 'Japan'}],
	['an abbreviation', {timezone: 'EST'}],
	['a zone with three parts', {timezone: 'America/Argentina/Buenos_Aires'}],
	[
		'null for every optional field',
		{
			data: null,
			replyTo: null,
			cc: null,
			metadata: null,
			unsubscribeGroup: null,
			locale: null,
			timezone: null,
			attachments: null,
			tags: null,
			tracking: null,
		},
	],
];
for (const [title, fields] of accepted) {
	test(`accepts ${title}`, t => {
		t.deepEqual(check({...good, ...fields}), []);
	});
}

const refused: ReadonlyArray<[title: string, fields: object, field: string, message: RegExp, sentence?: string]> = [
	['no from', {from: undefined}, 'from', /is required/],
	['a null to', {to: null}, 'to', /is required/, 'send.to'],
	['an empty templateId', {templateId: ''}, 'templateId', /must not be empty/],
	['a number for a string', {to: 5}, 'to', /must be a string/],
	['an array for a string', {to: ['a@example.com']}, 'to', /must be a string/],
	['a display name', {from: 'Shop <hello@example.com>'}, 'from', /bare address/],
	['a UTF-8 local part in from', {from: 'josé@example.com'}, 'from', /ASCII/],
	[
		'a UTF-8 local part in from that is good in to',
		{from: 'zoë@example.com', to: 'zoë@example.com'},
		'from',
		/ASCII/,
	],
	['a UTF-8 local part in replyTo', {replyTo: 'josé@example.com'}, 'replyTo', /ASCII/],
	['a UTF-8 local part in cc', {cc: ['a@example.com', 'josé@example.com']}, 'cc[1]', /ASCII/],
	['26 cc', {cc: addresses(26)}, 'cc', /at most 25 items/, 'limits.cc'],
	['700,000 cc', {cc: Array.from({length: 700_000}, () => 1)}, 'cc', /at most 25 items/],
	['a null in cc', {cc: [null]}, 'cc[0]', /must be a string/],
	['a cc that is not an array', {cc: 'a@example.com'}, 'cc', /must be an array/],
	['an unknown field', {attachements: []}, 'attachements', /not a known field/],
	['an unknown null', {replyto: null}, 'replyto', /not a known field/],
	['data that is an array', {data: []}, 'data', /must be an object/],
	['data that is text', {data: '{}'}, 'data', /must be an object/],
	['17 levels of data', {data: nested(17)}, 'data', /16 levels/],
	['more than 256 KiB of data', {data: {a: 'x'.repeat(256 * 1024 - 7)}}, 'data', /256 KiB/],
	['NUL in data', {data: {a: ['\0']}}, 'data', /NUL/],
	['NUL in a name of data', {data: {'a\0': 1}}, 'data', /NUL/],
	['a lone surrogate in data', {data: {a: {b: '\ud800'}}}, 'data', /Unicode/],
	['infinity in data', {data: JSON.parse('{"a":1e999}')}, 'data', /finite/],
	['51 metadata', {metadata: keys(51)}, 'metadata', /at most 50 keys/, 'limits.metadata-keys'],
	[
		'a metadata value of 501 characters',
		{metadata: {order_id: '💌'.repeat(501)}},
		'metadata.order_id',
		/500 characters/,
		'limits.metadata-value',
	],
	['a metadata value that is a number', {metadata: {order_id: 1}}, 'metadata.order_id', /must be a string/],
	['a metadata key that looks like an index', {metadata: {'0': 1}}, 'metadata.0', /must be a string/],
	['a metadata key with a slash', {metadata: {'a/b~c': 1}}, 'metadata.a/b~c', /must be a string/],
	['a metadata key of 41 characters', {metadata: {['💌'.repeat(41)]: ''}}, 'metadata', /1 to 40 characters/],
	['an empty metadata key', {metadata: {'': ''}}, 'metadata', /1 to 40 characters/],
	['NUL in metadata', {metadata: {a: '\0'}}, 'metadata.a', /NUL/],
	['NUL in a metadata key', {metadata: {'\0': 'a'}}, 'metadata', /NUL/],
	['an empty unsubscribeGroup', {unsubscribeGroup: ''}, 'unsubscribeGroup', /must not be empty/],
	[
		'4 attachments',
		{attachments: [attachment, attachment, attachment, attachment]},
		'attachments',
		/at most 3 items/,
		'limits.attachments',
	],
	[
		'an attachment without content',
		{attachments: [{...attachment, content: null}]},
		'attachments[0].content',
		/is required/,
	],
	['an attachment with a cid', {attachments: [{...attachment, cid: 'a'}]}, 'attachments[0].cid', /not a known field/],
	[
		'1 MiB and a byte',
		{attachments: [attachment, {...attachment, content: base64(1_048_577)}]},
		'attachments[1].content',
		/1,048,576 bytes/,
		'limits.attachment-size',
	],
	[
		'a filename of 256 characters',
		{attachments: [{...attachment, filename: 'a'.repeat(256)}]},
		'attachments[0].filename',
		/255 characters/,
	],
	[
		'5 MB of filename',
		{attachments: [{...attachment, filename: 'a'.repeat(5_000_000)}]},
		'attachments[0].filename',
		/255 characters/,
	],
	['11 tags', {tags: Array.from({length: 11}, () => 'a')}, 'tags', /at most 10 items/],
	['an empty tag', {tags: ['a', '']}, 'tags[1]', /must not be empty/],
	['a tag of 65 characters', {tags: ['a'.repeat(65)]}, 'tags[0]', /64 characters/],
	['NUL in a tag', {tags: ['\0']}, 'tags[0]', /NUL/],
	['tracking with text', {tracking: {opens: 'false'}}, 'tracking.opens', /true or false/],
	['unknown tracking', {tracking: {open: false}}, 'tracking.open', /not a known field/],
	['a locale with an underscore', {locale: 'de_AT'}, 'locale', /BCP-47/],
	['a megabyte of locale', {locale: 'a-'.repeat(500_000)}, 'locale', /BCP-47/],
	['an unknown zone', {timezone: 'Europe/Atlantis'}, 'timezone', /IANA/],
	['an offset', {timezone: '+02:00'}, 'timezone', /IANA/],
	['an abbreviation that Intl does not know', {timezone: 'CEST'}, 'timezone', /IANA/],
	['SystemV', {timezone: 'SystemV/EST5'}, 'timezone', /IANA/],
];
for (const [title, fields, field, message, ...sentences] of refused) {
	test(`refuses ${title}`, t => {
		conforms(t, ...sentences.flatMap(sentence => sentence ?? []));
		const violations = check({...good, ...fields});
		t.deepEqual(
			violations.map(violation => violation.field),
			[field],
		);
		t.regex(violations[0]?.message ?? '', message);
	});
}

const badContents = [
	'YQ',
	'YQ=',
	'YR==',
	'YQ==\n',
	' YQ==',
	'Y Q=',
	'YQ==YQ==',
	'_-8=',
	'====',
	'data:;base64,YQ==',
	'é',
];
for (const content of badContents) {
	test(`refuses ${JSON.stringify(content)} as base64`, t => {
		t.is(check({...good, attachments: [{...attachment, content}]})[0]?.field, 'attachments[0].content');
	});
}

const badFilenames = [
	'',
	'.',
	'..',
	'a/b',
	'..\\b',
	'a\0',
	'a\r\nBcc: x',
	'a\u0085',
	'a\u2028',
	'a\u202efdp.exe',
	'\ud800',
];
for (const [index, filename] of badFilenames.entries()) {
	test(`refuses invalid file name ${index}`, t => {
		conforms(t, 'limits.filename');
		t.is(check({...good, attachments: [{...attachment, filename}]})[0]?.field, 'attachments[0].filename');
	});
}

const badTypes = [
	'',
	'text',
	'text/',
	'/plain',
	'text/plain;',
	'text/plain; charset=',
	'text/plain; charset=a b',
	'text/plain; charset=utf-8; charset=utf-8',
	'text/plain; format=flowed',
	'text/plain; method=REQUEST',
	'application/pdf; charset=utf-8',
	'text/plain; charset=x\r\nX: y',
	'text /plain',
	'multipart/mixed',
	'Message/RFC822',
	'text/plain\r\nX: y',
	'a/b/c',
	`a/${'b'.repeat(200)}`,
];
for (const contentType of [
	'text/plain; charset=utf-8',
	'text/csv;charset="iso-8859-1"',
	'text/calendar; charset=UTF-8; method=REQUEST',
	'text/calendar; METHOD=CANCEL',
]) {
	test(`accepts media type ${JSON.stringify(contentType)}`, t => {
		t.deepEqual(check({...good, attachments: [{...attachment, contentType}]}), []);
	});
}

for (const contentType of badTypes) {
	test(`refuses media type ${JSON.stringify(contentType.slice(0, 40))}`, t => {
		t.is(check({...good, attachments: [{...attachment, contentType}]})[0]?.field, 'attachments[0].contentType');
	});
}

test('reports all errors at once, both sizes and contents, without repeating the input', t => {
	const secret = 'S3CRET';
	const violations = check({
		to: `${secret}@`,
		cc: addresses(26),
		templateId: 1,
		replyTo: secret,
		metadata: {a: 1, b: {secret}},
		tags: [secret.repeat(20)],
		attachments: [{filename: `/${secret}`, contentType: secret, content: `*${secret}`}],
		locale: `_${secret}`,
		timezone: secret,
		tracking: secret,
	});
	t.deepEqual(violations.map(violation => violation.field).sort(), [
		'attachments[0].content',
		'attachments[0].contentType',
		'attachments[0].filename',
		'cc',
		'from',
		'locale',
		'metadata.a',
		'metadata.b',
		'replyTo',
		'tags[0]',
		'templateId',
		'timezone',
		'to',
		'tracking',
	]);
	t.false(JSON.stringify(violations).includes(secret));
});

test('reports at most twenty errors', t => {
	t.is(check({...good, cc: Array.from({length: 25}, () => 1)}).length, 20);
	t.is(check({...good, ...keys(20)}).length, 20);
});

test('names a few unknown fields, but only reports that there are too many', t => {
	t.deepEqual(check({...good, ...keys(100_000)}), [{field: 'body', message: 'has too many unknown fields'}]);
	t.deepEqual(check({...good, attachments: [{...attachment, ...keys(1000)}]}), [
		{field: 'attachments[0]', message: 'has too many unknown fields'},
	]);
	t.is(check({...good, ['x'.repeat(100_000)]: 1})[0]?.field.length, 100);
});

for (const body of [[], [1], 'text', 5, true, null]) {
	test(`refuses ${JSON.stringify(body)} as a body: it must be an object`, t => {
		t.deepEqual(check(body), [{field: 'body', message: 'must be an object'}]);
	});
}

test('the check never throws, whatever the body', t => {
	const fields = Object.keys(sendBody.properties);
	const body = fc.oneof(
		fc.jsonValue(),
		fc.dictionary(fc.oneof(fc.constantFrom(...fields), fc.string()), fc.jsonValue({maxDepth: 4})),
	);
	fc.assert(
		fc.property(body, value => {
			for (const {field, message} of check(value)) {
				t.is(typeof field, 'string');
				t.regex(message, /^(?:must|is|has) /);
			}
		}),
		{numRuns: 2000},
	);
});
