import {execFile} from 'node:child_process';
import process from 'node:process';
import {promisify} from 'node:util';
import test from 'ava';
import {readAttribute} from '../../src/compose/links/rewrite.ts';
import {Numeral, writeExact} from '../../src/kit/exact-json.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import type {Service, Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {service} from './service.ts';

const name = '<img src=x onerror=alert(1)> \u202egnp';

/** A message with a `cc` recipient, a file and a name that contains markup. */
async function sent({workspaces}: Service, to: string, copy = 'carol@dest.example'): Promise<string> {
	const {live, from, templates} = workspaces.mailed as Workspace;
	const {status, body} = await live.post<{id: string}>(
		'/v1/messages',
		writeExact({
			from,
			to,
			cc: [copy],
			templateId: templates.letter,
			data: {name, id: new Numeral('1234567890123456789')},
			metadata: {order_id: '1042', note: 'it\'s "new"'},
			tags: ['receipt'],
			...{toName: 'Ann, Example', headers: {'X-Order': '<b>7</b>'}},
			attachments: [
				{filename: 'Größe.txt', contentType: 'text/plain', content: Buffer.from('file').toString('base64')},
			],
		}),
	);
	if (status !== 202) {
		throw new Error(`The send answered ${status}.`);
	}
	await waitFor('both copies', async () => {
		const {data} = (await live.get<{data: Array<{state: string}>}>(`/v1/messages/${body.id}/recipients`)).body;
		return data.every(({state}) => state === 'delivered');
	});
	return body.id;
}

type Message = {id: string; to: string; cc: string[]; data: object; metadata: object; tags: string[]};
const run = promisify(execFile);

test('shows a message with its timeline and every part', async t => {
	const id = await sent(service(), 'ann@dest.example');
	const visitor = await visitorOf(service(), 'viewer', 'mailed');
	const page = await visitor.get(`/messages/${id}`);
	t.is(page.status, 200);
	for (const shown of [
		'ann@dest.example',
		'carol@dest.example',
		'/messages?q=tag%3Areceipt',
		'order_id%3D1042',
		'delivered',
		'<bdi>Ann, Example</bdi> &lt;<bdi>ann@dest.example</bdi>&gt;',
		'X-Order: &lt;b&gt;7&lt;/b&gt;',
	]) {
		t.true(page.text.includes(shown), shown);
	}
	t.false(page.text.includes('<img src=x'), 'a subject is text');
	t.false(/<bdi>[^<]*\u202e/.test(page.text), 'a subject turns nothing round');

	const text = await visitor.get(`/messages/${id}/text`);
	t.true(text.text.includes('Hello'));
	const headers = await visitor.get(`/messages/${id}/headers?copy=${await recipientOf(id, 'carol@dest.example')}`);
	t.true(headers.text.includes('DKIM-Signature'));
	const raw = await visitor.get(`/messages/${id}/raw`);
	t.is(raw.headers.get('content-type'), 'message/rfc822');
	t.regex(raw.text, /^Return-Path|^[\w-]+: /);
	t.true((await visitor.get(`/messages/${id}/source`)).text.includes('multipart/mixed'));
	t.true((await visitor.get(`/messages/${id}/variables`)).text.includes('&quot;name&quot;: &quot;&lt;img'));

	t.regex((await visitor.get(`/messages/${id}/variables`)).text, /&quot;id&quot;: 1234567890123456789/);

	const preview = await visitor.get(`/messages/${id}/preview`);
	t.true(preview.text.includes('sandbox=""'));
	t.true(preview.text.includes('Größe.txt'));
	t.true(
		preview.text.includes(
			'href="https://shop.example/orders?a=1&amp;b=2" target="_blank" rel="noopener noreferrer"',
		),
	);
	const file = await visitor.get(`/messages/${id}/attachments/0`);
	t.is(file.text, 'file');
	t.is(file.headers.get('content-type'), 'application/octet-stream');
	for (const missing of ['attachments/9', 'attachments/x', 'attachments/-1']) {
		t.is((await visitor.get(`/messages/${id}/${missing}`)).status, 404, missing);
	}
	t.is((await visitor.get('/messages/msg_00000000000000000000000000')).status, 404);
	t.is((await visitor.get('/messages/nonsense')).status, 404);
});

test('exports messages, events and audit entries as CSV with the filters of the page', async t => {
	const id = await sent(service(), 'csv@dest.example');
	const visitor = await visitorOf(service(), 'admin', 'mailed');
	const page = await visitor.get('/messages?q=csv@dest.example');
	const [, link = ''] = /href="(\/messages\/export\?[^"]*)"/.exec(page.text) ?? [];
	const file = await visitor.get(link.replaceAll('&amp;', '&'));
	t.is(file.headers.get('content-disposition'), 'attachment; filename="messages.csv"');
	t.deepEqual(
		file.text.split('\r\n').map(line => line.split(',')[0]),
		['id', id, ''],
	);
	const events = await visitor.get('/messages/export-events');
	t.true(events.text.includes(`,${id},live,accepted,`));
	const acts = await visitor.get('/audit/export');
	t.true(acts.text.startsWith('id,at,workspace,actor,from,action,target,detail\r\n'));
});

test('the curl command of a message sends the same message from a shell', async t => {
	const id = await sent(service(), 'henry@dest.example');
	const visitor = await visitorOf(service(), 'viewer', 'mailed');
	const [, command = ''] = /data-copy="(curl[^"]+)"/.exec((await visitor.get(`/messages/${id}`)).text) ?? [];
	t.true(command.includes('1234567890123456789'));
	const {live} = service().workspaces.mailed as Workspace;
	const {stdout} = await run('sh', ['-c', readAttribute(command) ?? ''], {env: {...process.env, API_KEY: live.key}});
	const {body: first} = await live.get<Message>(`/v1/messages/${id}`);
	const {body: second} = await live.get<Message>(`/v1/messages/${JSON.parse(stdout).id}`);
	t.not(second.id, first.id);
	const {to, cc, data, metadata, tags} = first;
	t.like(second, {to, cc, data, metadata, tags});
});

test('serves the message in a sandbox that loads nothing, with disabled links', async t => {
	const id = await sent(service(), 'frank@dest.example');
	const visitor = await visitorOf(service(), 'viewer', 'mailed');
	const frame = await visitor.get(`/messages/${id}/frame`);
	t.is(frame.headers.get('content-type'), 'text/html; charset=utf-8');
	t.is(
		frame.headers.get('content-security-policy'),
		"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
	);
	t.notRegex(frame.text, /<link|<base|\shttp-equiv/i);
	t.regex(frame.text, /<a href="#_" href="https:/);
	const withImages = await visitor.get(`/messages/${id}/frame?images=1`);
	t.true(withImages.headers.get('content-security-policy')?.includes('img-src data: https: http:;'));
	const alone = await visitor.raw(`/messages/${id}/frame`, {headers: {'sec-fetch-dest': 'document'}});
	t.is(alone.location, `/messages/${id}/preview`);
});

test('an operator resends a message and suppresses its recipient, after which resending is refused', async t => {
	const {program} = service();
	// Whose address no other test sends to: from here on it gets nothing.
	const copy = 'dora@dest.example';
	const id = await sent(service(), 'gina@dest.example', copy);
	const operator = await visitorOf(service(), 'operator', 'mailed');
	const again = await operator.submit(`/messages/${id}/resend`);
	t.is(again.status, 303);
	const {text} = await operator.get(again.location ?? '');
	t.true(text.includes('Sent again'));
	t.true(text.includes(`/messages/${id}"`), 'it says of which');

	t.is((await operator.submit(`/messages/${id}/suppress`, {copy: await recipientOf(id, copy)})).status, 303);
	t.is((await operator.submit(`/messages/${id}/suppress`)).status, 303);
	const workspace = service().workspaces.mailed?.id ?? '';
	const entries = await program.cli<Array<{recipient: string; source: string}>>(
		'suppression',
		'list',
		'--workspace',
		workspace,
	);
	t.deepEqual(entries.map(({recipient, source}) => `${recipient} ${source}`).sort(), [
		`${copy} dashboard`,
		'gina@dest.example dashboard',
	]);
	const refused = await operator.submit(`/messages/${id}/resend`);
	t.is(refused.status, 422);
	t.true(refused.text.includes('The recipient is on the suppression list.'));

	const acts = await program.cli<Array<{action: string; actor: string; target: string}>>('audit', 'list');
	t.regex(acts.find(({action}) => action === 'message.resent')?.actor ?? '', /^user:operator/);
	const viewer = await visitorOf(service(), 'viewer', 'mailed');
	t.notRegex((await viewer.get(`/messages/${id}`)).text, /resend|suppress"/);
});

test('operators reschedule or cancel a scheduled message until it is too late', async t => {
	const {live, from, templates} = service().workspaces.mailed as Workspace;
	const send = {from, to: 'later@dest.example', templateId: templates.letter, data: {name}};
	const {body} = await live.post<{id: string}>('/v1/messages', {...send, sendAt: '+2h'});
	const [viewer, operator] = [
		await visitorOf(service(), 'viewer', 'mailed'),
		await visitorOf(service(), 'operator', 'mailed'),
	];
	const path = `/messages/${body.id}`;
	t.regex((await viewer.get(path)).text, /Scheduled for.*in [12] h/);
	t.notRegex((await viewer.get(path)).text, /Change time|Cancel/);
	const change = '<details class="opened main"><summary>Change time';
	t.regex(
		(await operator.get(path)).text,
		new RegExp(`${change}[\\s\\S]*class="item danger"><summary>Cancel message…`),
	);
	t.notRegex((await operator.get(path)).text, /Try now|Send again/);
	t.true((await viewer.get('/messages?status=scheduled')).text.includes(path));
	t.true((await viewer.get('/messages/export?status=scheduled')).text.includes(body.id));
	const soon = await operator.submit(`${path}/reschedule`, {sendAt: 'soon'});
	t.is(soon.status, 422);
	t.regex(
		soon.text,
		/<details class="opened main" open><summary>Change time[\s\S]*value="soon"[\s\S]*>The time must be an RFC 3339 time/,
	);
	const moved = await operator.submit(`${path}/reschedule`, {sendAt: ' +2d '});
	t.is(moved.location, path);
	t.like((await live.get<{send_at: string; status: string}>(`/v1${path}`)).body, {status: 'accepted'});
	t.is((await operator.submit(`${path}/reschedule`, {sendAt: '+0s'})).status, 303);
	await waitFor(
		'it is sent',
		async () => (await live.get<{status: string}>(`/v1${path}`)).body.status === 'delivered',
	);
	for (const act of ['cancel', 'reschedule']) {
		const late = await operator.submit(`${path}/${act}`, {sendAt: '+2h'});
		t.is(late.status, 422);
		t.true(
			late.text.includes(
				'It is too late: the first attempt has already started, or the message is no longer queued.',
			),
			act,
		);
		t.is((await operator.submit(`/messages/msg_00000000000000000000000000/${act}`, {sendAt: '+2h'})).status, 404);
	}
	t.notRegex((await operator.get(path)).text, /Change time|Cancel message/);
	t.false((await viewer.get('/messages?status=scheduled')).text.includes(path));
});

async function recipientOf(id: string, address: string): Promise<string> {
	const workspace = service().workspaces.mailed?.id ?? '';
	const shown = await service().program.cli<{recipients: Array<{id: string; address: string}>}>(
		...['message', 'show', id, '--workspace', workspace],
	);
	return shown.recipients.find(recipient => recipient.address === address)?.id ?? '';
}

test('shows nothing of an erased message, even if just rendered or captured', async t => {
	const id = await sent(service(), 'ida@dest.example');
	const operator = await visitorOf(service(), 'operator', 'mailed');
	t.regex((await operator.get(`/messages/${id}/frame`)).text, /Hello/);
	const {live} = service().workspaces.mailed as Workspace;
	const {body} = await live.get<{data: Array<{id: string}>}>('/v1/contacts?email=ida@dest.example');
	t.is((await live.remove(`/v1/contacts/${body.data[0]?.id}`)).status, 204);
	t.is((await operator.get(`/messages/${id}/frame`)).status, 404);
	t.is((await operator.get(`/messages/${id}/raw`)).status, 404);
	for (const tab of ['', '/preview', '/text', '/headers', '/source', '/variables']) {
		const page = await operator.get(`/messages/${id}${tab}`);
		t.is(page.status, 200, tab);
		// An id or a token may have these digits in it.
		t.notRegex(page.text, /ida@|onerror|\b1042\b|resend/, tab);
	}
	t.is((await operator.submit(`/messages/${id}/resend`)).status, 422);
	t.is((await operator.submit(`/messages/${id}/suppress`)).status, 422);
});

test('a search with too many terms finds nothing, and the page stays small', async t => {
	const visitor = await visitorOf(service(), 'viewer', 'mailed');
	const asked = (n: number) => `/messages?q=${new Array(n).fill('tag%3Areceipt').join('+')}`;
	t.is((await visitor.get(asked(10))).text.match(/Remove from search/g)?.length, 10);
	const {status, text} = await visitor.get(asked(1000));
	t.is(status, 200);
	t.regex(text, /No matching messages/);
	t.notRegex(text, /Remove from search/);
	t.true(text.length < 1_000_000, `${text.length}`);
});
