import test from 'ava';
import fc from 'fast-check';
import {isId} from '../../../src/mail/ids.ts';
import {sendBody} from '../../../src/send/schema.ts';
import {anyChar} from '../../helpers/any-char.ts';
import {codeOf, idOf, startApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {onWriting, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {recipientRows} from '../../helpers/recipient-rows.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

const shape = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;

storeTest(test, 'a send is stored and announced before the 202 is returned', async (t, store) => {
	conforms(t, 'send.asynchronous', 'send.not-in-request', 'status.accepted');
	const api = await startApi(t, store);
	const answer = await api.send();
	t.is(answer.status, 202);
	const id = idOf(answer);
	t.true(isId('msg', id));
	t.is(answer.text, JSON.stringify({id, status: 'accepted'}));
	t.true(isId('req', answer.headers.get('x-request-id') ?? ''));
	t.deepEqual(api.announced, ['example.org']);
	const [recipient] = await recipientRows(store.reader).where({message_id: id});
	t.like(recipient, {
		role: 'to',
		address: 'user@example.org',
		state: 'accepted',
		destination: 'example.org',
		attempts: 0,
	});
	t.truthy(recipient.next_attempt_at);
});

sqliteTest(test, 'preserves the digits of numbers in data, but not in other fields', async (t, store) => {
	const api = await startApi(t, store);
	const {templateId} = api.workspace;
	const head = `"from":"hello@example.com","to":"user@example.org","templateId":"${templateId}"`;
	const data = '{"id":1234567890123456789,"price":19.90,"list":[1.0,-0,1E5,{"data":0.10}],"text":"1.0"}';
	const sent = await api.post('/v1/messages', `{${head},"data": ${data}}`);
	t.is(sent.status, 202, sent.text);
	const batch = await api.post(
		'/v1/messages/batch',
		`{"messages":[{${head},"data":${data}},{${head},"data":${data} }]}`,
	);
	const {data: results} = batch.body as {data: Array<{id: string}>};
	for (const id of [idOf(sent), ...results.map(result => result.id)]) {
		const read = await api.get(`/v1/messages/${id}`);
		t.true(read.text.includes(`"data":${data},`), read.text);
	}
	for (const [fields, field] of [
		['"data":1.0', 'data'],
		['"data":[1.0]', 'data'],
		['"data":{"n":1e999}', 'data'],
		['"data":{"n":[-1e999]}', 'data'],
		['"metadata":{"n":1.0}', 'metadata.n'],
		['"tags":[1.0]', 'tags[0]'],
	]) {
		const answer = await api.post('/v1/messages', `{${head},${fields}}`);
		const {violations} = (answer.body as {error: {violations: Array<{field: string}>}}).error;
		t.deepEqual(
			violations.map(violation => violation.field),
			[field],
			fields,
		);
	}
	t.is(codeOf(await api.post('/v1/messages', `{${head},"data":{1.0:2}}`)), 'bad_request');
});

sqliteTest(test, 'returns a message as it was sent, with the field names of the read view', async (t, store) => {
	const api = await startApi(t, store);
	const sent = await api.send({
		to: 'Jose\u0301@MÜNCHEN.de',
		replyTo: 'Help@Example.com',
		cc: ['A@example.net', 'b@example.net'],
		data: {name: 'Zoë', n: 1.5, list: [{a: null}], '': 'x'},
		metadata: {order_id: '77', constructor: 'kept'},
		tags: ['receipt', 'köln'],
		locale: 'de-at',
		timezone: 'Asia/Kolkata',
		tracking: {opens: false},
		attachments: [{filename: 'Résumé.pdf', contentType: 'application/pdf', content: 'JVBERi0='}],
	});
	t.is(sent.status, 202, sent.text);
	const {status, body} = await api.get(`/v1/messages/${idOf(sent)}`);
	t.is(status, 200);
	const {created_at, updated_at, ...rest} = body as Record<string, unknown>;
	t.regex(String(created_at), shape);
	t.regex(String(updated_at), shape);
	t.deepEqual(rest, {
		id: idOf(sent),
		status: 'accepted',
		to: 'Jose\u0301@MÜNCHEN.de',
		from: 'hello@example.com',
		reply_to: 'Help@Example.com',
		cc: ['A@example.net', 'b@example.net'],
		attachments: [{filename: 'Résumé.pdf', content_type: 'application/pdf'}],
		subject: null,
		template_id: api.workspace.templateId,
		template_name: 'welcome',
		template_version: 1,
		data: {name: 'Zoë', n: 1.5, list: [{a: null}], '': 'x'},
		metadata: {order_id: '77', constructor: 'kept'},
		tags: ['receipt', 'köln'],
		mode: 'live',
		resent_from: null,
	});
	const [attachment] = await store.reader('attachments').where({message_id: idOf(sent)});
	t.is(Buffer.from(attachment.content).toString(), '%PDF-');
});

sqliteTest(test, 'returns empty fields for a message with only the required ones', async (t, store) => {
	const api = await startApi(t, store);
	const {body} = await api.get(`/v1/messages/${idOf(await api.send())}`);
	t.like(body, {reply_to: null, subject: null});
	t.like(body, {cc: [], attachments: [], data: {}, metadata: {}, tags: []});
});

storeTest(test, 'the timeline starts with accepted and pages by a cursor that other lists refuse', async (t, store) => {
	conforms(t, 'messages.events.answer', 'event.id', 'event.occurred_at', 'event.recorded_at');
	conforms(t, 'overview.message-lists-paged', 'cursor.lists');
	const api = await startApi(t, store);
	await store.database('suppressions').insert({
		id: newId('sup'),
		workspace_id: api.workspace.id,
		address: 'gone@example.net',
		address_key: 'gone@example.net',
		reason: 'manual',
		source: 'api',
		created_at: '',
	});
	const id = idOf(await api.send({cc: ['Gone@example.net', 'b@example.net']}));
	const other = idOf(await api.send());
	const whole = await api.get(`/v1/messages/${id}/events`);
	type Events = {data: Array<Record<string, unknown>>; next_cursor: string | null};
	const {data, next_cursor} = whole.body as Events;
	t.deepEqual(
		data.map(({type, detail}) => ({type, detail})),
		[
			{type: 'accepted', detail: {}},
			{type: 'suppressed', detail: {recipient: 'Gone@example.net', role: 'cc', reason: 'suppressed'}},
		],
	);
	t.is(next_cursor, null);
	for (const event of data) {
		t.true(isId('evt', String(event.id)));
		t.regex(String(event.occurred_at), shape);
		t.regex(String(event.recorded_at), shape);
	}

	const first = (await api.get(`/v1/messages/${id}/events?limit=1`)).body as Events;
	t.deepEqual(first.data, [data[0]]);
	const cursor = first.next_cursor ?? '';
	const second = (await api.get(`/v1/messages/${id}/events?limit=1&cursor=${cursor}`)).body as Events;
	t.deepEqual(second, {data: [data[1] as Record<string, unknown>], next_cursor: null});

	const changed = `${cursor.slice(0, -1)}${cursor.endsWith('A') ? 'B' : 'A'}`;
	for (const [path, bad] of [
		[id, changed],
		[id, 'x'],
		[id, ''],
		[id, `${cursor}=`],
		[other, cursor],
	]) {
		const refused = await api.get(`/v1/messages/${path}/events?cursor=${bad}`);
		t.is(refused.status, 422);
		t.like((refused.body as {error: object}).error, {
			code: 'validation_failed',
			violations: [{field: 'cursor'}],
		});
	}
	for (const query of ['limit=0', 'limit=101', 'limit=1&limit=1', 'page=2']) {
		t.is((await api.get(`/v1/messages/${id}/events?${query}`)).status, 422, query);
	}
});

sqliteTest(test, 'gives the same 404 for a foreign message, an unknown one and a malformed id', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.send());
	const stranger = await addKey(store, (await addWorkspace(store, 'other')).id);
	for (const path of ['', '/events', '/recipients', '/attempts', '/content', '/raw']) {
		const answers = await Promise.all([
			api.get(`/v1/messages/${id}${path}`, stranger),
			api.get(`/v1/messages/${newId('msg')}${path}`),
			api.get(`/v1/messages/batch-${path}`.replace('-/', '/')),
			api.get(`/v1/messages/%00${path}`),
			api.get(`/v1/messages/${'é'.repeat(50)}${path}`),
			api.get(`/v1/messages/${'x'.repeat(5000)}${path}`),
			api.get(`/v1/messages/${id.toUpperCase()}${path}`),
			api.get(`/v1/messages/${newId('evt')}${path}`),
		]);
		const bodies = answers.map(({status, text}) => [status, text.replace(/req_[0-9a-z]{26}/, '')]);
		t.deepEqual(
			bodies,
			bodies.map(() => [
				404,
				'{"error":{"code":"message_not_found","message":"The message does not exist.","request_id":""}}',
			]),
		);
	}
});

sqliteTest(test, 'a send without a template gets its own error code, if that is the only error', async (t, store) => {
	conforms(t, 'errors.422.template_required', 'send.templateId');
	const api = await startApi(t, store);
	for (const templateId of [undefined, null, '']) {
		const answer = await api.send({templateId});
		t.is(answer.status, 422);
		const {error} = answer.body as {error: object};
		t.like(error, {code: 'template_required'});
		t.false('violations' in error);
	}
	for (const fields of [{templateId: 5}, {templateId: null, to: 'x'}, {templateId: undefined, extra: 1}]) {
		t.is(codeOf(await api.send(fields)), 'validation_failed');
	}
	t.is((await api.post('/v1/messages', '')).status, 400);
	t.is((await api.post('/v1/messages', 'null')).status, 400);
});

sqliteTest(test, 'accepts a body of up to 6 MiB and rejects a larger one', async (t, store) => {
	const api = await startApi(t, store);
	const content = Buffer.alloc(1_048_576, 7).toString('base64');
	const file = {filename: 'a.bin', contentType: 'application/octet-stream', content};
	t.is((await api.send({attachments: [file, file, file]})).status, 202);
	const stored = await store.reader('attachments').orderBy('position').pluck('content');
	t.deepEqual(
		stored.map(bytes => bytes.length),
		[1_048_576, 1_048_576, 1_048_576],
	);
	t.is(codeOf(await api.send({data: {a: 'x'.repeat(6 * 1024 * 1024)}})), 'payload_too_large');
});

sqliteTest(test, 'accepts nothing while outcomes cannot be stored', async (t, store) => {
	const api = await startApi(t, store, {mayAccept: () => false});
	const answer = await api.send();
	t.is(answer.status, 503);
	t.is(codeOf(answer), 'unavailable');
	t.truthy(answer.headers.get('retry-after'));
});

storeTest(test, 'a send gets 503 and stores nothing while the store cannot be written', async (t, store) => {
	const api = await startApi(t, store);
	const lost = Object.assign(new Error('lost'), {code: store.dialect.name === 'sqlite' ? 'SQLITE_FULL' : '57P01'});
	onWriting(store, 'start', builder => {
		throw builder && lost;
	});
	const answer = await api.send();
	t.is(answer.status, 503, answer.text);
	t.deepEqual(api.reported, [lost]);
	t.deepEqual(await store.reader('messages'), []);
});

sqliteTest(test, 'no malformed body causes a 500, and a rejected one leaves nothing behind', async (t, store) => {
	const api = await startApi(t, store);
	const fields = Object.keys(sendBody.properties);
	const good: Record<string, unknown> = {
		from: api.workspace.sender,
		to: 'user@example.org',
		templateId: api.workspace.templateId,
	};
	const wrong = fc.oneof(
		fc.jsonValue({maxDepth: 3}),
		fc.string({unit: anyChar}),
		fc.constantFrom('\0', '\ud800', '__proto__', 'a@b', -0, 1e300, '0x10', [], {}, [[]], null),
	);
	const bodies = fc.oneof(
		fc.jsonValue().map(value => JSON.stringify(value)),
		fc.string({unit: anyChar}),
		fc
			.tuple(fc.constantFrom(...fields), wrong)
			.map(([field, value]) => JSON.stringify({...good, to: 'x', [field]: value})),
		fc
			.dictionary(fc.constantFrom(...fields, '__proto__', 'x'), wrong)
			.map(value => JSON.stringify({...value, from: 1})),
		fc.tuple(fc.string(), wrong).map(([name, value]) => `{"${name}":${JSON.stringify(value)},"to":1}`),
	);
	await fc.assert(
		fc.asyncProperty(bodies, async body => {
			const answer = await api.post('/v1/messages', body);
			t.true([400, 422].includes(answer.status), `${answer.status} ${answer.text}`);
		}),
		{numRuns: 300},
	);
	t.deepEqual(api.reported, []);
	for (const table of ['messages', 'recipients', 'events', 'attachments', 'contacts']) {
		t.deepEqual(await store.reader(table), []);
	}
});

sqliteTest(test, 'reports each query parameter of a send along with the errors of the body', async (t, store) => {
	conforms(t, 'errors.names-fields', 'errors.violations', 'errors.422.validation_failed');
	const api = await startApi(t, store);
	const {workspace} = api;
	const good = {from: workspace.sender, to: 'user@example.org', templateId: workspace.templateId};
	for (const [body, fields] of [
		[good, ['dryRun', 'x']],
		[{...good, to: 'nobody', templateId: ''}, ['dryRun', 'x', 'to', 'templateId']],
	] as const) {
		const answer = await api.post('/v1/messages?dryRun=1&x=1&x=2', body);
		t.is(answer.status, 422);
		t.is(codeOf(answer), 'validation_failed');
		const {violations} = (answer.body as {error: {violations: Array<{field: string}>}}).error;
		t.deepEqual(violations.map(({field}) => field).sort(), [...fields].sort());
	}
	t.is((await store.reader('messages')).length, 0);
});
