import {once} from 'node:events';
import {createServer, type IncomingMessage, type ServerResponse} from 'node:http';
import type {AddressInfo} from 'node:net';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {Mailctl, MailctlError, verifyWebhook} from 'mailctl/client';
import {createEventParser, type ServerSentEvent} from '../../src/client/requests.ts';
import {streamIds} from '../../src/resources/messages/events-api.ts';
import {signature} from '../../src/resources/webhooks/post.ts';
import {idOf, startApi} from '../helpers/api.ts';
import {newStore} from '../helpers/databases.ts';
import {testVault} from '../helpers/tools.ts';

async function clientOf(t: ExecutionContext) {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const sendable = {from: 'hello@example.com', to: 'user@example.org', templateId: ''};
	return {api, sendable, client: new Mailctl({baseUrl: `${api.base}/`, apiKey: api.key})};
}

type Answer = {status: number; headers?: Record<string, string>; body: string} | 'hang up';

/** Starts a server that gives these responses in turn, repeats the last one and records the requests. */
async function scripted(t: ExecutionContext, ...answers: Answer[]) {
	const asked: Array<{method: string; url: string; headers: IncomingMessage['headers']; body: string}> = [];
	const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
		const chunks: Buffer[] = [];
		for await (const chunk of request) {
			chunks.push(chunk);
		}
		const answer = answers[Math.min(asked.length, answers.length - 1)] as Answer;
		const {method = '', url = '', headers} = request;
		asked.push({method, url, headers, body: Buffer.concat(chunks).toString()});
		if (answer === 'hang up') {
			request.socket.destroy();
		} else {
			response.writeHead(answer.status, answer.headers).end(answer.body);
		}
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => {
		server.closeAllConnections();
		server.close();
	});
	const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
	return {asked, client: new Mailctl({baseUrl, apiKey: 'key_test_x'}), baseUrl};
}

const refusal = (status: number, code: string, headers: Record<string, string> = {}): Answer => ({
	status,
	headers,
	body: JSON.stringify({error: {code, message: 'No.', request_id: 'req_1'}}),
});
const accepted: Answer = {status: 202, body: '{"id":"msg_1","status":"accepted"}'};
const mail = {from: 'a@example.com', to: 'b@example.org', templateId: 'tpl_1'};

test('sends, gets and lists messages across pages, and reports errors', async t => {
	const {api, client} = await clientOf(t);
	const made = await api.send();
	const first = (made.body as {id: string}).id;
	const {from, to, template_id: templateId, data} = await client.messages.get(first);
	const ids = [first];
	for (let n = 1; n < 5; n += 1) {
		const {id, status} = await client.messages.send({from, to, templateId, data, metadata: {n: `${n}`}});
		t.is(status, 'accepted');
		ids.unshift(id);
	}
	const listed: string[] = [];
	for await (const message of client.messages.list({limit: '2', recipient: to})) {
		listed.push(message.id);
	}
	t.deepEqual(listed, ids);
	const {data: page, next_cursor} = await client.messages.list({limit: '3'}).page();
	t.is(page.length, 3);
	t.deepEqual(
		(await client.messages.list({limit: '3'}).page(next_cursor ?? '')).data.map(({id}) => id),
		ids.slice(3),
	);

	const error = await t.throwsAsync(client.messages.send({from, to: 'nobody', templateId}), {
		instanceOf: MailctlError,
	});
	t.like(error, {status: 422, code: 'validation_failed'});
	t.deepEqual(
		error.violations.map(({field}) => field),
		['to'],
	);
	t.regex(error.requestId ?? '', /^req_/);
	t.like(await t.throwsAsync(client.messages.get('msg_none')), {status: 404, code: 'message_not_found'});
	const stranger = new Mailctl({baseUrl: api.base, apiKey: 'key_live_wrong'});
	t.like(await t.throwsAsync(stranger.messages.get(first)), {status: 401, code: 'unauthorized'});
});

test('repeating a send with its Idempotency-Key creates one message', async t => {
	const {api, client} = await clientOf(t);
	const {
		from,
		to,
		template_id: templateId,
		data,
	} = await client.messages.get(((await api.send()).body as {id: string}).id);
	const sends = await Promise.all(
		[1, 2, 3].map(() => client.messages.send({from, to, templateId, data}, {idempotencyKey: 'order-1042'})),
	);
	t.is(new Set(sends.map(({id}) => id)).size, 1);
});

test('creates and deletes suppressions', async t => {
	const {client} = await clientOf(t);
	const {id} = await client.suppressions.create({recipient: 'no@example.org'});
	t.is((await client.suppressions.list().page()).data.length, 1);
	t.is(await client.suppressions.delete(id), undefined);
	t.is((await client.suppressions.list().page()).data.length, 0);
	t.like(await t.throwsAsync(client.suppressions.delete('sup/../x')), {status: 404});
});

test('retries temporary failures with the same Idempotency-Key', async t => {
	for (const passing of [
		'hang up',
		refusal(503, 'unavailable'),
		refusal(429, 'rate_limited', {'retry-after': '0'}),
	] as const) {
		const {client, asked} = await scripted(t, passing, passing, accepted);
		t.is((await client.messages.send(mail)).id, 'msg_1');
		t.is(asked.length, 3);
		t.is(new Set(asked.map(({headers}) => headers['idempotency-key'])).size, 1);
		t.regex(`${asked[0]?.headers['idempotency-key']}`, /^[\w-]{36}$/);
		t.like(asked[0], {method: 'POST', url: '/v1/messages', body: JSON.stringify(mail)});
	}
});

test('does not retry a request that may have taken effect, only one that was refused first', async t => {
	const batch = {messages: [mail]} as never;
	for (const answer of ['hang up', refusal(503, 'unavailable')] as const) {
		const {client, asked} = await scripted(t, answer);
		await t.throwsAsync(client.messages.batch(batch), {instanceOf: MailctlError});
		t.is(asked.length, 1);
	}
	const {client, asked} = await scripted(t, refusal(429, 'rate_limited', {'retry-after': '0'}), {
		status: 200,
		body: '{"data":[]}',
	});
	t.deepEqual(await client.messages.batch(batch), {data: []});
	t.is(asked.length, 2);
});

test('does not request an ID that would change the route', async t => {
	const {asked, client} = await scripted(t, {status: 200, body: '{"data":[],"next_cursor":null}'});
	for (const id of ['.', '..', '']) {
		await t.throwsAsync(client.messages.get(id), {instanceOf: MailctlError, code: 'not_found'});
		await t.throwsAsync(client.messages.events(id).page(), {code: 'not_found'});
		await t.throwsAsync(client.suppressions.delete(id), {code: 'not_found'});
	}
	t.deepEqual(asked, []);
	await client.messages.events('../keys').page();
	t.is(asked[0]?.url, '/v1/messages/..%2Fkeys/events');
});

test('gives up after the retries, on a refusal, a long Retry-After, an unknown response or an abort', async t => {
	const down = await scripted(t, 'hang up');
	t.like(await t.throwsAsync(down.client.messages.get('x')), {status: 0, code: 'no_answer', requestId: null});
	t.is(down.asked.length, 3);
	const never = new Mailctl({baseUrl: down.baseUrl, apiKey: 'k', maxRetries: 0});
	await t.throwsAsync(never.messages.get('x'));
	t.is(down.asked.length, 4);
	for (const answer of [refusal(422, 'validation_failed'), refusal(429, 'rate_limited', {'retry-after': '7200'})]) {
		const {client, asked} = await scripted(t, answer);
		await t.throwsAsync(client.messages.get('x'), {instanceOf: MailctlError});
		t.is(asked.length, 1);
	}
	const proxy = await scripted(t, {status: 200, body: '<html>'});
	t.like(await t.throwsAsync(proxy.client.messages.get('x')), {status: 200, code: 'bad_answer'});
	const other = await scripted(t, {status: 404, body: '<html>'});
	t.like(await t.throwsAsync(other.client.messages.get('x')), {status: 404, code: 'bad_answer'});
	const stop = new AbortController();
	stop.abort(new Error('enough'));
	await t.throwsAsync(other.client.messages.get('x', {signal: stop.signal}), {message: 'enough'});
});

const stream = (...messages: string[]): Answer => ({
	status: 200,
	headers: {'content-type': 'text/event-stream; charset=utf-8'},
	body: messages.join(''),
});
const message = (n: number) => `id: ${n}\nevent: sent\ndata: {"id":"evt_${n}","type":"sent"}\n\n`;

test('a stream yields events, resumes where another one stopped and ends when aborted', async t => {
	const {api, client} = await clientOf(t);
	const stop = new AbortController();
	const lastEventId = streamIds(testVault, api.workspace.id).write({position: 0, eventId: null});
	const events = client.events.stream({types: 'accepted', signal: stop.signal, lastEventId});
	const [one = '', two = ''] = [await api.send(), await api.send()].map(idOf);
	const first = (await events.next()).value;
	t.is(first.event.message_id, one);
	for await (const {event} of client.events.stream({lastEventId: first.lastEventId})) {
		t.is(event.message_id, two);
		break;
	}
	t.is((await events.next()).value.event.message_id, two);
	stop.abort(new Error('enough'));
	await t.throwsAsync(events.next(), {message: 'enough'});
});

test('reopens a lost stream after the last message', async t => {
	const {client, asked} = await scripted(
		t,
		stream(message(1), ': heartbeat\nid: 2\n\n', 'id: 3\ndata: {"cut'),
		'hang up',
		refusal(503, 'unavailable', {'retry-after': '0'}),
		stream(message(3)),
		refusal(403, 'insufficient_scope'),
	);
	const told: string[] = [];
	const error = await t.throwsAsync(
		async () => {
			for await (const {event, lastEventId} of client.events.stream({types: 'sent'})) {
				told.push(`${event.id} ${lastEventId}`);
			}
		},
		{instanceOf: MailctlError},
	);
	t.like(error, {status: 403, code: 'insufficient_scope'});
	t.deepEqual(told, ['evt_1 1', 'evt_3 3']);
	t.deepEqual(
		asked.map(({headers}) => headers['last-event-id']),
		[undefined, '2', '2', '2', '3'],
	);
	t.like(asked[0], {method: 'GET', url: '/v1/events?types=sent'});
	const proxy = await scripted(t, {status: 200, body: '<html>'});
	t.like(await t.throwsAsync(proxy.client.events.stream().next()), {code: 'bad_answer'});
});

test('reads the same stream messages in any pieces, whatever the text', t => {
	const line = fc.oneof(
		fc.constantFrom(
			'',
			':',
			'id',
			'id:',
			'data',
			'data: ',
			'event: sent',
			'id: evt_1-1',
			'data: {"a":1}',
			'retry: 5',
		),
		fc.string(),
	);
	fc.assert(
		fc.property(fc.array(line), fc.constantFrom('\n', '\r\n'), fc.array(fc.nat(20)), (lines, end, cuts) => {
			const text = `${lines.map(one => one.replaceAll(/[\r\n]/g, '')).join(end)}${end}`;
			const whole = createEventParser()(text);
			const read = createEventParser();
			const pieces: ServerSentEvent[] = [];
			let at = 0;
			for (const cut of [...cuts, text.length]) {
				pieces.push(...read(text.slice(at, at + cut)));
				at += cut;
			}
			t.deepEqual(pieces, whole);
			t.true(whole.every(one => one.id !== null || one.data !== '' || lines.some(one => one.startsWith('data'))));
		}),
	);
	t.deepEqual(createEventParser()('data: a\ndata:b\nid: 7\n\n: x\n\nid: 8\n\ndata: c'), [
		{id: '7', data: 'a\nb'},
		{id: '8', data: ''},
	]);
});

const secret = 'whsec_3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456';
const body = Buffer.from(
	'{"type":"delivered","message_id":"msg_1","recipient":"ä@example.org","occurred_at":"x","metadata":{}}',
);
const now = signature({secret, next: null}, Date.now(), body);
const overlapping = signature({secret, next: `${secret}y`}, Date.now(), body);

test('verifyWebhook accepts authentic webhooks as bytes or text, with Fetch or Node headers', t => {
	t.like(verifyWebhook(body, now, secret), {type: 'delivered', recipient: 'ä@example.org'});
	t.like(verifyWebhook(body.toString(), new Headers(now), secret), {message_id: 'msg_1'});
	const upper = Object.fromEntries(Object.entries(now).map(([name, value]) => [name.toUpperCase(), [value]]));
	t.like(verifyWebhook(body, upper, secret), {type: 'delivered'});
	t.like(verifyWebhook(body, overlapping, secret), {type: 'delivered'});
	t.like(verifyWebhook(body, overlapping, `${secret}y`), {type: 'delivered'});
});

test('verifyWebhook refuses everything else', t => {
	const cases = [
		[body, now, `${secret}x`],
		[Buffer.from(`${body} `), now, secret],
		[body, {}, secret],
		[body, {...now, 'x-webhook-signature': ''}, secret],
		[body, {...now, 'x-webhook-timestamp': '1e9'}, secret],
		[body, signature({secret, next: null}, Date.now() - 301_000, body), secret],
		[body, signature({secret, next: null}, Date.now() + 310_000, body), secret],
		[body, overlapping, `${secret}x`],
	] as const;
	for (const [raw, headers, key] of cases) {
		t.throws(() => verifyWebhook(raw, headers, key), {instanceOf: MailctlError, code: 'bad_signature'});
	}
});
