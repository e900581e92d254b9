import test from 'ava';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {accepted, codeOf, fieldsOf, readMessage, send} from './resources.ts';

const service = serviceOf(test, {workspaces: {main: []}});
const times = <T>(count: number, make: (n: number) => T): T[] => Array.from({length: count}, (_, n) => make(n));
const fileOf = (fields: object) => ({
	filename: 'a.bin',
	contentType: 'application/octet-stream',
	content: 'YQ==',
	...fields,
});
const metadataOf = (count: number) => Object.fromEntries(times(count, n => [`key${n}`, 'v']));
const base64Of = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64');
const dataOfDepth = (depth: number): object => (depth === 1 ? {} : {d: dataOfDepth(depth - 1)});
const dataOfSize = (bytes: number) => ({d: 'x'.repeat(bytes - '{"d":""}'.length)});

type Case = readonly [ids: readonly string[], fits: object, over: object, field: string];

const cases: Readonly<Record<string, Case>> = {
	'25 copies': [
		['limits.cc', 'send.cc'],
		{cc: times(25, n => `copy${n}@simulator.test`)},
		{cc: times(26, n => `copy${n}@simulator.test`)},
		'cc',
	],
	'50 metadata keys': [['limits.metadata-keys'], {metadata: metadataOf(50)}, {metadata: metadataOf(51)}, 'metadata'],
	'500 characters of a metadata value': [
		['limits.metadata-value'],
		{metadata: {k: 'ü'.repeat(500)}},
		{metadata: {k: 'ü'.repeat(501)}},
		'metadata.k',
	],
	'3 attachments': [
		['limits.attachments', 'send.attachments'],
		{attachments: times(3, () => fileOf({}))},
		{attachments: times(4, () => fileOf({}))},
		'attachments',
	],
	'255 characters of a filename': [
		['limits.filename', 'attachment.filename'],
		{attachments: [fileOf({filename: 'ü'.repeat(255)})]},
		{attachments: [fileOf({filename: 'ü'.repeat(256)})]},
		'attachments[0].filename',
	],
	'1 MiB an attachment': [
		['limits.attachment-size', 'attachment.content'],
		{attachments: times(3, () => fileOf({content: base64Of(2 ** 20)}))},
		{attachments: [fileOf({}), fileOf({content: base64Of(2 ** 20 + 1)})]},
		'attachments[1].content',
	],
	'256 KiB of data': [['send.data'], {data: dataOfSize(256 * 1024)}, {data: dataOfSize(256 * 1024 + 1)}, 'data'],
	'data 16 deep': [['send.data'], {data: dataOfDepth(16)}, {data: dataOfDepth(17)}, 'data'],
	'10 tags': [['message.tags'], {tags: times(10, n => `t${n}`)}, {tags: times(11, n => `t${n}`)}, 'tags'],
	'64 characters of a tag': [['message.tags'], {tags: ['t'.repeat(64)]}, {tags: ['t'.repeat(65)]}, 'tags[0]'],
	'40 characters of a metadata key': [
		['limits.metadata-keys'],
		{metadata: {['k'.repeat(40)]: 'v'}},
		{metadata: {['k'.repeat(41)]: 'v'}},
		'metadata',
	],
	'254 octets of an address': [
		['send.to'],
		{to: `${'l'.repeat(64)}@${'d'.repeat(63)}.${'d'.repeat(63)}.${'d'.repeat(56)}.test`},
		{to: `${'l'.repeat(64)}@${'d'.repeat(63)}.${'d'.repeat(63)}.${'d'.repeat(57)}.test`},
		'to',
	],
};

for (const [title, [ids, fits, over, field]] of Object.entries(cases)) {
	test(`${title}, and one more`, async t => {
		conforms(t, ...ids);
		const {main} = service().workspaces as {main: Workspace};
		const read = await readMessage(main.live, await accepted(main, fits));
		t.is(read.cc.length, (fits as {cc?: string[]}).cc?.length ?? 0);
		const answer = await send(main, over);
		t.deepEqual([answer.status, codeOf(answer), fieldsOf(answer)], [422, 'validation_failed', [field]]);
	});
}

test('a flood of items costs one violation', async t => {
	conforms(t, 'limits.cc', 'errors.violations');
	const {main} = service().workspaces as {main: Workspace};
	for (const [items, field] of [
		[49_000, 'cc'],
		[700_000, 'body'],
	] as const) {
		const answer = await send(main, {cc: times(items, n => n)});
		t.deepEqual([answer.status, fieldsOf(answer)], [422, [field]]);
		t.true(answer.text.length < 1000);
	}
});

test('no path separators in a filename', async t => {
	conforms(t, 'limits.filename');
	const {main} = service().workspaces as {main: Workspace};
	for (const filename of ['a/b', 'a\\b', '/etc/passwd', '..', '.', 'a\u0000b', 'a\nb', '']) {
		const answer = await send(main, {attachments: [fileOf({filename})]});
		t.deepEqual(fieldsOf(answer), ['attachments[0].filename'], JSON.stringify(filename));
	}
	t.is((await send(main, {attachments: [fileOf({filename: '..a'})]})).status, 202);
});

test('64 characters of a topic code, and one more', async t => {
	conforms(t, 'limits.topic-code', 'topic.code');
	const {main} = service().workspaces as {main: Workspace};
	const add = (code: string) => main.live.post('/v1/unsubscribe-groups', {code, name: 'Limit'});
	t.is((await add(`-_${'Z9'.repeat(31)}`)).status, 201);
	const answer = await add('a'.repeat(65));
	t.deepEqual([answer.status, fieldsOf(answer)], [422, ['code']]);
});
