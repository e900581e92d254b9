import test from 'ava';
import {type AddressObject, type ParsedMail, simpleParser} from 'mailparser';
import {type Answer, type Failure, type List, timeShape} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {
	type Accepted,
	accepted,
	addTopic,
	type Contact,
	codeOf,
	type Delivery,
	type Endpoint,
	entryOf,
	idShape,
	oneClick,
	rawMail,
	readMessage,
	type Suppression,
	send,
	sendBody,
	suppress,
	timeline,
	unknownId,
	unsubscribeUrl,
	untilEvent,
	untilStatus,
	walk,
} from './resources.ts';
import {pathWith, prefixIn, routes} from './routes.ts';

// What only the whole daemon shows: mail that is written, sent, reported on and answered. test/api shows the rest in
// process.

const service = serviceOf(test, {
	workspaces: {
		main: ['--locale', 'fr', '--timezone', 'Europe/Paris'],
		tracked: ['--track-opens', '--track-clicks'],
		other: [],
		mine: [],
		theirs: [],
	},
	templates: {
		greeting: {
			'template.json':
				'{"subject":"default {{ name }}","subjects":{"de":"deutsch","fr":"francais","en":"english"}}',
			'body.html': '<p>default</p>',
			'body.de.html': '<p>deutsch</p>',
			'body.fr.html': '<p>francais</p>',
			'body.en.html': '<p>english</p>',
		},
		formats: {
			'template.json': '{"subject":"formats"}',
			'body.html':
				'<p>{{ 1234.5 | format_currency: "EUR" }}!{{ at | format_date }}!{{ at | format_datetime }}!</p>',
			'body.txt': '{{ 1234.5 | format_currency: "EUR" }}!{{ at | format_date }}!{{ at | format_datetime }}!',
		},
		endless: {
			'template.json': '{"subject":"Endless"}',
			'body.html': '<p>{% for n in (1..99999999) %}x{% endfor %}</p>',
		},
	},
});
const late = {at: '2026-06-09T23:30:00Z'};

/** The message as captured. */
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

test('a send returns an id and accepted, and the message reads back as sent', async t => {
	conforms(
		t,
		'messages.send.answer',
		'messages.send.request',
		'status.accepted',
		'messages.get.answer',
		'overview.ids',
	);
	conforms(t, 'overview.times');
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

test('the message has Reply-To, cc, data, attachments and the content of the template version', async t => {
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

test('the locale selects the variant and formats; the timezone sets the local time', async t => {
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

test('locale and timezone come from the send, then the contact, then the workspace, then en and UTC', async t => {
	conforms(t, 'locale.order', 'locale.learned');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
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
	t.is(await subjectOf(other, {}), 'english');
	t.is(await timeOf(other, {}), 'Jun 9, 2026, 11:30 PM');
	t.is(await timeOf(other, {timezone: 'Asia/Kolkata'}), 'Jun 10, 2026, 5:00 AM');
});

for (const mode of ['live', 'test'] as const) {
	test(`simulated outcomes with a ${mode} key: statuses and timelines`, async t => {
		conforms(
			t,
			'status.delivered',
			'status.final',
			'status.suppresses',
			'timeline.types',
			'suppression.by-outcome',
		);
		conforms(t, 'message.status', 'event.type');
		const {tracked} = service().workspaces as {tracked: Workspace};
		const cases: ReadonlyArray<readonly [local: string, status: string, types: readonly string[], entry?: string]> =
			[
				['delivered', 'delivered', ['accepted', 'queued', 'sent', 'delivered']],
				['anything', 'delivered', ['accepted', 'queued', 'sent', 'delivered']],
				['deferred', 'delivered', ['accepted', 'queued', 'sent', 'delivered']],
				['bounced', 'bounced', ['accepted', 'queued', 'sent', 'bounced'], 'hard_bounce'],
				['soft-bounced', 'bounced', ['accepted', 'queued', 'sent', 'bounced']],
				['complained', 'complained', ['accepted', 'queued', 'sent', 'delivered', 'complained'], 'complaint'],
				['suppressed', 'suppressed', ['accepted', 'queued', 'suppressed']],
				['errored', 'errored', ['accepted', 'queued', 'errored']],
				['opened', 'delivered', ['accepted', 'queued', 'sent', 'delivered', 'opened']],
				['clicked', 'delivered', ['accepted', 'queued', 'sent', 'delivered', 'clicked']],
			];
		await Promise.all(
			cases.map(async ([local, status, types, reason]) => {
				const to = `${local}+${mode}@simulator.test`;
				const id = await accepted(tracked, {to}, tracked[mode]);
				await untilEvent(tracked.live, id, types.at(-1) as string);
				await untilStatus(tracked.live, id, status);
				const got = (await timeline(tracked.live, id)).map(({type}) => type);
				// `sent` is told once a host took the copy's MAIL FROM, which of these refusals says the simulator.
				const told = (all: readonly string[]) => all.filter(type => type !== 'sent' || status === 'delivered');
				const isClick = local === 'clicked';
				t.deepEqual(
					told(got).filter(type => !(isClick && type === 'opened')),
					told(types),
					to,
				);
				t.is((await entryOf(tracked, to))?.reason, reason, to);
			}),
		);
	});
}

test('a failing template makes its message errored with the reason, and suppresses nothing', async t => {
	conforms(t, 'status.final', 'status.states', 'timeline.types');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'unlucky@outcomes.example';
	const id = await accepted(main, {to, templateId: main.templates.endless});
	const [errored] = (await untilEvent(main.live, id, 'errored')).filter(({type}) => type === 'errored');
	t.regex(String(errored?.detail?.reason), /\w/);
	t.like(await untilStatus(main.live, id, 'errored'), {subject: null});
	t.is(await entryOf(main, to), undefined);
});

test('hard bounces, complaints and opt-outs from everything create suppressions', async t => {
	conforms(t, 'suppression.by-outcome', 'suppression.reason', 'suppression.source', 'suppression.unsubscribe');
	conforms(t, 'status.suppresses', 'suppressions.delete.any-reason');
	const {main} = service().workspaces as {main: Workspace};
	const hard = await accepted(main, {to: 'bounced+entry@simulator.test'});
	const complaint = await accepted(main, {to: 'complained+entry@simulator.test'});
	const soft = await accepted(main, {to: 'soft-bounced+entry@simulator.test'});
	const leaving = await accepted(main, {to: 'leaving@listed.example'});
	await untilStatus(main.live, hard, 'bounced');
	await untilStatus(main.live, complaint, 'complained');
	await untilStatus(main.live, soft, 'bounced');
	await oneClick(unsubscribeUrl(await rawMail(service(), main, leaving)));

	const bounceEntry = await entryOf(main, 'bounced+entry@simulator.test');
	t.like(bounceEntry, {reason: 'hard_bounce', source: hard});
	const complaintEntry = await entryOf(main, 'complained+entry@simulator.test');
	t.like(complaintEntry, {reason: 'complaint', source: complaint});
	t.is(await entryOf(main, 'soft-bounced+entry@simulator.test'), undefined);
	t.like(await entryOf(main, 'leaving@listed.example'), {reason: 'unsubscribe', source: 'one-click'});

	for (const {id, recipient} of [bounceEntry, complaintEntry] as Suppression[]) {
		t.is(codeOf(await send(main, {to: recipient})), 'recipient_suppressed');
		const manual = await main.live.post<Suppression>('/v1/suppressions', {recipient});
		t.is(manual.body.id, id);
		t.not(manual.body.reason, 'manual');
		t.is((await main.live.remove(`/v1/suppressions/${id}`)).status, 204);
		t.is((await send(main, {to: recipient})).status, 202);
	}
});

test('a suppression stops all messages of its workspace to the address, and none of another workspace', async t => {
	conforms(t, 'overview.suppression', 'errors.422.recipient_suppressed', 'overview.scoped');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const recipient = 'Blocked@Bücher.example';
	const entry = await suppress(main, recipient);
	await addTopic(main, 'receipts');
	for (const to of [recipient, 'blocked@bücher.example', 'BLOCKED@XN--BCHER-KVA.EXAMPLE']) {
		for (const unsubscribeGroup of [undefined, 'receipts']) {
			const answer = await send(main, {to, unsubscribeGroup});
			t.deepEqual([answer.status, codeOf(answer)], [422, 'recipient_suppressed'], to);
		}
		const byTestKey = await main.test.post('/v1/messages', sendBody(main, {to}));
		t.is(codeOf(byTestKey), 'recipient_suppressed');
		t.is((await send(other, {to})).status, 202);
	}

	t.is((await send(main, {to: 'blocked+plus@bücher.example'})).status, 202);
	t.is((await main.live.remove(`/v1/suppressions/${entry.id}`)).status, 204);
	t.is((await send(main, {to: recipient})).status, 202);
});

test('skips a suppressed or opted-out cc recipient and sends to the others', async t => {
	conforms(t, 'overview.suppression', 'send.cc');
	const {main} = service().workspaces as {main: Workspace};
	await suppress(main, 'blocked-copy@simulator.test');
	const id = await accepted(main, {cc: ['blocked-copy@simulator.test', 'fine-copy@simulator.test']});
	await untilStatus(main.live, id, 'delivered');
	await untilEvent(main.live, id, 'suppressed');
	const events = await waitFor('both copies have ended', async () => {
		const all = await timeline(main.live, id);
		return all.filter(({type}) => type === 'delivered').length === 2 && all;
	});
	t.deepEqual(
		events.filter(({type}) => type === 'suppressed').map(({detail}) => detail?.recipient),
		['blocked-copy@simulator.test'],
	);
});

test('does not send a message already queued when its address is suppressed', async t => {
	conforms(t, 'overview.suppression', 'overview.opt-outs');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'deferred+meanwhile@simulator.test';
	const id = await accepted(main, {to});
	await suppress(main, to);
	await untilStatus(main.live, id, 'suppressed');
	const types = (await timeline(main.live, id)).map(({type}) => type);
	t.true(types.includes('suppressed'));
	t.false(types.includes('delivered'));
});

test('every message has both headers, with a token for each recipient', async t => {
	conforms(t, 'hosted.headers', 'hosted.automatic', 'overview.one-click-headers');
	const {main: workspace} = service().workspaces as {main: Workspace};
	const id = await accepted(workspace, {to: 'first@copies.example', cc: ['second@copies.example']});
	await waitFor(
		'both copies',
		async () => (await timeline(workspace.live, id)).filter(({type}) => type === 'delivered').length === 2,
	);
	const mails = await Promise.all(
		['first@copies.example', 'second@copies.example'].map(async recipient =>
			(
				await service().program.cliBytes(
					'message',
					'raw',
					id,
					'--recipient',
					recipient,
					'--workspace',
					workspace.id,
				)
			).toString(),
		),
	);
	const urls = mails.map(unsubscribeUrl);
	t.is(new Set(urls).size, 2);
	for (const mail of mails) {
		t.regex(mail, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m);
	}
	await oneClick(urls[1] as string);
	t.is(await entryOf(workspace, 'first@copies.example'), undefined);
	t.like(await entryOf(workspace, 'second@copies.example'), {reason: 'unsubscribe'});
});

test('POST unsubscribes with one click, from the topic if there is one, otherwise from everything', async t => {
	conforms(t, 'hosted.one-click', 'hosted.rule-1', 'hosted.token', 'suppression.unsubscribe', 'suppression.source');
	conforms(t, 'suppression.reason', 'timeline.types', 'overview.topic-opt-out');
	const {main: workspace, other} = service().workspaces as {main: Workspace; other: Workspace};
	await addTopic(workspace, 'one-click');
	await addTopic(workspace, 'another');
	const to = 'Leaver@hosted.example';
	const id = await accepted(workspace, {to, unsubscribeGroup: 'one-click'});
	const topicUrl = unsubscribeUrl(await rawMail(service(), workspace, id));
	const allUrl = unsubscribeUrl(await rawMail(service(), workspace, await accepted(workspace, {to})));

	const response = await oneClick(topicUrl);
	t.is(response.status, 200);
	t.regex(response.headers.get('content-type') ?? '', /^text\/html/);
	t.is(codeOf(await send(workspace, {to, unsubscribeGroup: 'one-click'})), 'recipient_unsubscribed');
	t.is((await send(workspace, {to, unsubscribeGroup: 'another'})).status, 202);
	t.is((await send(workspace, {to})).status, 202);
	t.is(await entryOf(workspace, to), undefined);
	await untilEvent(workspace.live, id, 'unsubscribed');

	t.is((await oneClick(allUrl)).status, 200);
	t.like(await entryOf(workspace, to), {recipient: to, reason: 'unsubscribe', source: 'one-click'});
	t.is(codeOf(await send(workspace, {to, unsubscribeGroup: 'another'})), 'recipient_suppressed');
	t.is(await entryOf(other, to), undefined);
	t.is((await send(other, {to})).status, 202);
});

async function oneOfEach(workspace: Workspace): Promise<Readonly<Record<string, string>>> {
	const {live} = workspace;
	const endpoint = await live.post<Endpoint>('/v1/webhooks', {
		url: 'https://hooks.theirs.example/',
		events: ['delivered'],
	});
	const message = await accepted(workspace, {to: 'person@people.example'});
	const events = await untilEvent(live, message, 'delivered');
	const [delivery] = await waitFor('the event could not be delivered', async () => {
		const {body} = await live.get<List<Delivery>>(`/v1/webhooks/${endpoint.body.id}/deliveries`);
		return body.data.some(({status}) => status === 'failed') && body.data;
	});
	const firstOf = async <Item>(path: string) => (await live.get<List<Item>>(path)).body.data[0] as Item;
	return {
		msg: message,
		evt: events[0]?.id as string,
		sup: (await suppress(workspace, 'blocked@people.example')).id,
		usg: (await addTopic(workspace, 'news')).id,
		whe: endpoint.body.id,
		whd: delivery?.id as string,
		con: (await firstOf<Contact>('/v1/contacts')).id,
		tpl: workspace.templates.plain as string,
		snd: (await firstOf<{id: string}>('/v1/senders')).id,
	};
}

/** Everything of a response that a caller can see, except what differs between any two requests. */
function shapeOf({status, headers, body}: Answer<Failure>): unknown {
	const {error} = body ?? {};
	const changing = new Set(['x-request-id', 'date', 'ratelimit-remaining', 'ratelimit-reset']);
	return {
		status,
		headers: [...headers].filter(([name]) => !changing.has(name)),
		error: error === undefined ? body : {...error, request_id: 'the same'},
	};
}

test('every route treats ids of another workspace as unknown and changes nothing', async t => {
	conforms(t, 'overview.foreign-ids', 'overview.scoped', 'auth.one-workspace', 'errors.404.not_found');
	conforms(t, 'errors.404.message_not_found', 'messages.get.unknown', 'suppressions.delete.foreign');
	conforms(
		t,
		'topics.delete.foreign',
		'webhooks.delete.foreign',
		'webhooks.deliveries.foreign',
		'webhooks.replay.foreign',
	);
	const {mine, theirs} = service().workspaces as {mine: Workspace; theirs: Workspace};
	const ids = await oneOfEach(theirs);
	const lists = ['messages', 'suppressions', 'unsubscribe-groups', 'webhooks', 'contacts', 'templates', 'senders'];
	const contents = async (workspace: Workspace) =>
		await Promise.all([
			...lists.map(name => walk(workspace.live, `/v1/${name}`)),
			walk<Delivery>(workspace.live, `/v1/webhooks/${ids.whe}/deliveries`)
				.then(all => all.map(({id}) => id))
				.catch(() => null),
		]);
	const [before, mineBefore] = [await contents(theirs), await contents(mine)];

	for (const route of routes) {
		const prefix = prefixIn(route);
		if (prefix === null) {
			continue;
		}
		const body = route.body === undefined ? null : JSON.stringify(route.body);
		const unknown = await mine.live.call(route.method, pathWith(route, unknownId), body);
		t.is(unknown.status, 404, `${route.method} ${route.path}`);
		t.is(unknown.body.error.code, prefix === 'msg' ? 'message_not_found' : 'not_found');
		const path = pathWith(route, () => ids[prefix] as string);
		const foreign = await mine.live.call(route.method, path, body);
		t.deepEqual(shapeOf(foreign), shapeOf(unknown), `${route.method} ${route.path}`);
	}

	t.deepEqual(await contents(theirs), before);
	t.deepEqual(await contents(mine), mineBefore);
});
