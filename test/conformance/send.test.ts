import test from 'ava';
import {type AddressObject, type ParsedMail, simpleParser} from 'mailparser';
import {timeShape} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {
	type Accepted,
	accepted,
	codeOf,
	fieldsOf,
	idShape,
	readMessage,
	send,
	sendBody,
	type Topic,
	unknownId,
	untilStatus,
} from './resources.ts';

const service = serviceOf(test, {
	workspaces: {main: ['--locale', 'fr', '--timezone', 'Europe/Paris'], bare: []},
	templates: {
		greeting: {
			'template.json': '{"subject":"default {{ name }}","subjects":{"de":"deutsch","fr":"francais","en":"english"}}',
			'body.html': '<p>default</p>',
			'body.de.html': '<p>deutsch</p>',
			'body.fr.html': '<p>francais</p>',
			'body.en.html': '<p>english</p>',
		},
		formats: {
			'template.json': '{"subject":"formats"}',
			'body.html': '<p>{{ 1234.5 | format_currency: "EUR" }}!{{ at | format_date }}!{{ at | format_datetime }}!</p>',
			'body.txt': '{{ 1234.5 | format_currency: "EUR" }}!{{ at | format_date }}!{{ at | format_datetime }}!',
		},
	},
});
const late = {at: '2026-06-09T23:30:00Z'};

/** The mail as it was captured. */
async function mailOf(workspace: Workspace, id: string): Promise<ParsedMail> {
	await untilStatus(workspace.live, id, 'delivered');
	return await simpleParser(await service().program.cliBytes('message', 'raw', id, '--workspace', workspace.id), {
		skipTextToHtml: true,
		skipHtmlToText: true,
	});
}

function addresses(value: AddressObject | AddressObject[] | undefined): string[] {
	return [value ?? []].flat().flatMap(({value: each}) => each.map(({address}) => address ?? ''));
}

test('a send is answered with an id and accepted, and the message reads as it was sent', async t => {
	conforms(
		t,
		'messages.send.answer',
		'messages.send.request',
		'status.accepted',
		'messages.get.answer',
		'overview.ids',
	);
	conforms(t, 'message.id', 'message.status', 'message.to', 'message.from', 'message.reply_to', 'message.cc');
	conforms(t, 'message.attachments', 'message.subject', 'message.template_id', 'message.template_name');
	conforms(t, 'message.template_version', 'message.data', 'message.metadata', 'message.tags', 'message.created_at');
	conforms(t, 'message.updated_at', 'attachment.not-read-back', 'send.metadata', 'send.replyTo', 'send.cc');
	const {main} = service().workspaces as {main: Workspace};
	const content = Buffer.from('the secret of the file').toString('base64');
	const fields = {
		to: 'Whole@Simulator.test',
		data: {name: 'Zoë', nested: {list: [1, 'two', null, true], at: '2026-02-30'}},
		replyTo: 'Help@Shop.example',
		cc: ['one@simulator.test', 'two@simulator.test'],
		metadata: {order_id: '1042', 'any key': 'ü'},
		attachments: [{filename: 'note.txt', contentType: 'text/plain', content}],
		tags: ['receipt', 'march'],
	};
	const {status, body, headers} = await send<Accepted>(main, fields);
	t.is(status, 202);
	t.like(body, {status: 'accepted'});
	t.regex(body.id, idShape('msg'));
	t.true(headers.has('ratelimit-limit'));

	const message = await untilStatus(main.live, body.id, 'delivered');
	t.like(message, {
		id: body.id,
		to: fields.to,
		from: main.from,
		reply_to: fields.replyTo,
		subject: 'Hello Zoë',
		template_id: main.templates.plain as string,
		template_name: 'plain',
		template_version: 1,
	});
	t.deepEqual([...message.cc], fields.cc);
	t.deepEqual([...message.attachments], [{filename: 'note.txt', content_type: 'text/plain'}]);
	t.deepEqual(message.data, fields.data);
	t.deepEqual(message.metadata, fields.metadata);
	t.deepEqual([...message.tags], fields.tags);
	t.regex(message.created_at, timeShape);
	t.regex(message.updated_at, timeShape);
	t.true(message.updated_at >= message.created_at);

	const listed = await main.live.get(`/v1/messages?recipient=whole@simulator.test`);
	const events = await main.live.get(`/v1/messages/${body.id}/events`);
	for (const answer of [listed, events, await main.live.get(`/v1/messages/${body.id}`)]) {
		t.is(answer.status, 200);
		t.false(answer.text.includes(content));
	}
});

test('what is left out reads as empty, whether it was left out or null', async t => {
	conforms(
		t,
		'message.data',
		'message.metadata',
		'message.cc',
		'message.attachments',
		'message.tags',
		'message.reply_to',
	);
	const {main} = service().workspaces as {main: Workspace};
	const nulls = {
		...{data: null, replyTo: null, cc: null, metadata: null, unsubscribeGroup: null, locale: null, timezone: null},
		...{attachments: null, tags: null, tracking: null},
	};
	for (const fields of [{}, nulls, {locale: '', timezone: ''}]) {
		const message = await readMessage(main.live, await accepted(main, fields));
		t.like(message, {reply_to: null, template_name: 'plain'});
		t.deepEqual([message.cc, message.attachments, message.data, message.metadata, message.tags], [[], [], {}, {}, []]);
	}
});

test('required fields, the shape of every field, and fields that a send does not have', async t => {
	conforms(t, 'send.from', 'send.to', 'send.templateId', 'send.data', 'send.replyTo', 'send.cc', 'send.metadata');
	conforms(t, 'send.unsubscribeGroup', 'send.locale', 'send.timezone', 'send.attachments', 'attachment.filename');
	conforms(t, 'attachment.contentType', 'attachment.content', 'send.no-inline-content', 'errors.names-fields');
	conforms(t, 'errors.violations', 'messages.send.request', 'send.template-only');
	const {main} = service().workspaces as {main: Workspace};
	const file = {filename: 'a.txt', contentType: 'text/plain', content: 'YQ=='};
	const cases: ReadonlyArray<readonly [fields: object, violated: readonly string[]]> = [
		[{from: undefined}, ['from']],
		[{to: undefined}, ['to']],
		[{from: null, to: null}, ['from', 'to']],
		[{from: ''}, ['from']],
		[{to: 5}, ['to']],
		[{to: ['a@b.example']}, ['to']],
		[{to: 'a@b.example,c@d.example'}, ['to']],
		[{to: 'Name <a@b.example>'}, ['to']],
		[{to: 'nobody'}, ['to']],
		[{to: 'a@b'}, ['to']],
		[{to: 'a@b.123'}, ['to']],
		[{to: 'a@[127.0.0.1]'}, ['to']],
		[{to: '"a"@b.example'}, ['to']],
		[{to: 'a@b.example\r\nRCPT TO:<evil@x.test>'}, ['to']],
		[{to: 'a@b.example\u200b'}, ['to']],
		[{to: `${'a'.repeat(65)}@b.example`}, ['to']],
		[{from: 'Shop <shop@main.example>'}, ['from']],
		[{templateId: 5}, ['templateId']],
		[{data: []}, ['data']],
		[{data: 'name'}, ['data']],
		[{replyTo: 'nobody'}, ['replyTo']],
		[{replyTo: 'ü@b.example'}, ['replyTo']],
		[{cc: 'a@b.example'}, ['cc']],
		[{cc: ['a@b.example', 'no', 'c@d.example', 5]}, ['cc[1]', 'cc[3]']],
		[{metadata: {order_id: 5}}, ['metadata.order_id']],
		[{metadata: ['a']}, ['metadata']],
		[{unsubscribeGroup: 5}, ['unsubscribeGroup']],
		[{locale: 'no_locale!'}, ['locale']],
		[{locale: 'x'}, ['locale']],
		[{timezone: 'Mars/Olympus'}, ['timezone']],
		[{timezone: '+02:00'}, ['timezone']],
		[{attachments: file}, ['attachments']],
		[{attachments: [{contentType: file.contentType}]}, ['attachments[0].content', 'attachments[0].filename']],
		[{attachments: [file, {...file, filename: '../etc/passwd'}]}, ['attachments[1].filename']],
		[{attachments: [{...file, filename: 'a\\b'}]}, ['attachments[0].filename']],
		[{attachments: [{...file, filename: '..'}]}, ['attachments[0].filename']],
		[{attachments: [{...file, contentType: 'text'}]}, ['attachments[0].contentType']],
		[{attachments: [{...file, contentType: 'multipart/mixed'}]}, ['attachments[0].contentType']],
		[{attachments: [{...file, contentType: 'text/plain\r\nBcc: e@x.test'}]}, ['attachments[0].contentType']],
		[{attachments: [{...file, content: '%%%'}]}, ['attachments[0].content']],
		[{attachments: [{...file, content: 'YQ'}]}, ['attachments[0].content']],
		[{attachments: [{...file, url: 'https://x.example'}]}, ['attachments[0].url']],
		[{subject: 'Hello'}, ['subject']],
		[{html: '<p>Hello</p>'}, ['html']],
		[{text: 'Hello', attachements: []}, ['attachements', 'text']],
		[{template: 'plain'}, ['template']],
		[{tags: ['']}, ['tags[0]']],
		[{tracking: {opens: 'no'}}, ['tracking.opens']],
		[{from: 'no', to: 'no', cc: ['no']}, ['cc[0]', 'from', 'to']],
	];
	for (const [fields, violated] of cases) {
		const answer = await send(main, fields);
		t.is(answer.status, 422, JSON.stringify(fields));
		t.is(codeOf(answer), 'validation_failed', JSON.stringify(fields));
		t.deepEqual(fieldsOf(answer), violated, JSON.stringify(fields));
	}
});

test('a violation never shows the value that is wrong, and there are at most twenty', async t => {
	conforms(t, 'errors.violations');
	const {main} = service().workspaces as {main: Workspace};
	const answer = await send(main, {
		to: 'verysecretvalue',
		metadata: Object.fromEntries(Array.from({length: 40}, (_, n) => [`k${n}`, n])),
	});
	t.is(answer.status, 422);
	t.false(answer.text.includes('verysecretvalue'));
	t.is(fieldsOf(answer).length, 20);
});

test('the mail: Reply-To, copies, data, attachments and the content of the template version', async t => {
	conforms(t, 'send.template-only', 'send.replyTo', 'send.data', 'send.attachments', 'attachment.filename');
	conforms(t, 'attachment.contentType', 'attachment.content', 'send.no-inline-content', 'overview.one-click-headers');
	conforms(t, 'hosted.headers', 'hosted.automatic');
	const {main} = service().workspaces as {main: Workspace};
	const content = Buffer.from([0, 255, 13, 10, 46, 13, 10, 1]);
	const id = await accepted(main, {
		to: 'reader@simulator.test',
		data: {name: 'Zoë <b>'},
		replyTo: 'help@shop.example',
		cc: ['copy@simulator.test'],
		attachments: [{filename: 'größe.bin', contentType: 'application/x-thing', content: content.toString('base64')}],
	});
	const mail = await mailOf(main, id);
	t.is(mail.subject, 'Hello Zoë <b>');
	t.true(String(mail.html).includes('Hello Zoë &lt;b&gt;, <a href="https://shop.example/orders">'));
	t.deepEqual(addresses(mail.from), [main.from]);
	t.deepEqual(addresses(mail.to), ['reader@simulator.test']);
	t.deepEqual(addresses(mail.cc), ['copy@simulator.test']);
	t.deepEqual(addresses(mail.replyTo), ['help@shop.example']);
	t.like(mail.attachments[0], {filename: 'größe.bin', contentType: 'application/x-thing'});
	t.deepEqual(mail.attachments[0]?.content, content);
	const header = (name: string) =>
		mail.headerLines.find(({key}) => key === name)?.line.replaceAll(/\r?\n\s/g, '') ?? '';
	t.regex(header('list-unsubscribe'), /<http:\/\/127\.0\.0\.1:\d+\/unsubscribe\?token=[\w-]+>/);
	t.regex(header('list-unsubscribe-post'), /: List-Unsubscribe=One-Click$/);
});

test('the locale picks the variant and the format of money and dates; the timezone the wall clock', async t => {
	conforms(t, 'locale.effect', 'timezone.effect', 'send.locale', 'send.timezone', 'overview.localized-mail-only');
	const {main} = service().workspaces as {main: Workspace};
	const templateId = main.templates.formats;
	const german = await accepted(main, {
		...{to: 'german@simulator.test', templateId, data: late, locale: 'de', timezone: 'Europe/Berlin'},
	});
	const american = await accepted(main, {
		...{to: 'american@simulator.test', templateId, data: late, locale: 'en-US', timezone: 'America/New_York'},
	});
	const variant = await accepted(main, {
		to: 'austrian@simulator.test',
		templateId: main.templates.greeting,
		locale: 'de-AT',
	});
	const [inGerman, inAmerican, austrian] = await Promise.all([german, american, variant].map(id => mailOf(main, id)));
	const spaces = /[\u00a0\u202f]/g;
	t.deepEqual(inGerman?.text?.trim().replaceAll(spaces, ' ').split('!').slice(0, 3), [
		'1.234,50 €',
		'10.06.2026',
		'10.06.2026, 01:30',
	]);
	t.deepEqual(inAmerican?.text?.trim().replaceAll(spaces, ' ').split('!').slice(0, 3), [
		'€1,234.50',
		'Jun 9, 2026',
		'Jun 9, 2026, 7:30 PM',
	]);
	t.is(austrian?.subject, 'deutsch');
	t.regex((await readMessage(main.live, german)).created_at, timeShape);
	const wrong = await main.live.post('/v1/messages', sendBody(main, {locale: 'de', to: ''}));
	t.notRegex(wrong.body.error.message, /ü|ungültig/i);
});

test('locale and timezone: the send, then what it taught the contact, then the workspace, then en and UTC', async t => {
	conforms(t, 'locale.order', 'locale.learned');
	const {main, bare} = service().workspaces as {main: Workspace; bare: Workspace};
	const to = 'learner@learning.example';
	const subjectOf = async (workspace: Workspace, fields: object) => {
		const id = await accepted(workspace, {to, templateId: workspace.templates.greeting, ...fields});
		return (await untilStatus(workspace.live, id, 'delivered')).subject;
	};
	const timeOf = async (workspace: Workspace, fields: object) => {
		const id = await accepted(workspace, {to, templateId: workspace.templates.formats, data: late, ...fields});
		return (await mailOf(workspace, id)).text
			?.trim()
			.replaceAll(/[\u00a0\u202f]/g, ' ')
			.split('!')[2];
	};
	t.is(await subjectOf(main, {}), 'francais');
	t.is(await timeOf(main, {}), '10 juin 2026, 01:30');
	t.is(await subjectOf(main, {locale: 'de', timezone: 'Asia/Tokyo'}), 'deutsch');
	t.is(await subjectOf(main, {to: 'LEARNER@learning.example'}), 'deutsch');
	t.is(await timeOf(main, {locale: ''}), '10.06.2026, 08:30');
	t.is(await subjectOf(main, {locale: 'en'}), 'english');
	t.is(await subjectOf(bare, {}), 'english');
	t.is(await timeOf(bare, {}), 'Jun 9, 2026, 11:30 PM');
	t.is(await timeOf(bare, {timezone: 'Asia/Kolkata'}), 'Jun 10, 2026, 5:00 AM');
});

test('a topic is named by its code; its id, and any other text, is an unknown topic', async t => {
	conforms(t, 'messages.send.topic-code', 'topic.by-code', 'send.unsubscribeGroup');
	const {main} = service().workspaces as {main: Workspace};
	const {body: topic} = await main.live.post<Topic>('/v1/unsubscribe-groups', {code: 'news', name: 'News'});
	t.is((await send(main, {unsubscribeGroup: 'news'})).status, 202);
	for (const unsubscribeGroup of [topic.id, 'NEWS', 'grp_1', unknownId('usg'), 'any thing']) {
		const answer = await send(main, {unsubscribeGroup});
		t.is(answer.status, 422);
		t.is(codeOf(answer), 'unknown_unsubscribe_group');
	}
});

test('the same address in cc, or the recipient, is one copy', async t => {
	conforms(t, 'send.cc');
	const {main} = service().workspaces as {main: Workspace};
	const id = await accepted(main, {
		to: 'same@simulator.test',
		cc: ['SAME@simulator.test', 'copy@simulator.test', 'Copy@Simulator.test'],
	});
	t.deepEqual([...(await readMessage(main.live, id)).cc], ['copy@simulator.test']);
});
