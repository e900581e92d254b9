import test from 'ava';
import type {List} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {
	accepted,
	addTopic,
	codeOf,
	entryOf,
	fieldsOf,
	type Message,
	oneClick,
	rawMail,
	send,
	sendBody,
	suppress,
	timeline,
	type Usage,
	unknownId,
	unsubscribeUrl,
	untilEvent,
	untilStatus,
} from './resources.ts';

const service = serviceOf(test, {
	workspaces: {main: [], other: [], order: ['--monthly-quota', '1']},
});

async function withoutVersion({id}: Workspace): Promise<string> {
	const made = await service().program.cli<{id: string}>('template', 'create', '--name', 'empty', '--workspace', id);
	return made.id;
}

async function messagesOf({live}: Workspace): Promise<readonly Message[]> {
	return (await live.get<List<Message>>('/v1/messages?limit=100')).body.data;
}

test('every check has its code, they come in their order, and what is refused leaves nothing', async t => {
	conforms(t, 'messages.send.checks', 'messages.send.rejections', 'errors.no-message', 'overview.opt-outs');
	conforms(t, 'errors.422.validation_failed', 'errors.422.template_required', 'errors.403.sending_paused');
	conforms(t, 'errors.422.template_not_found', 'errors.422.template_has_no_version', 'errors.422.sender_not_available');
	conforms(t, 'errors.422.recipient_suppressed', 'errors.422.recipient_unsubscribed', 'errors.429.quota_exceeded');
	conforms(t, 'errors.422.unknown_unsubscribe_group', 'errors.409.idempotency_key_reused');
	const {order} = service().workspaces as {order: Workspace};
	const {program} = service();
	const to = 'reader@reading.example';
	await addTopic(order, 'news');
	const keyed = {'idempotency-key': 'order-1'};
	const first = await send(order, {to, unsubscribeGroup: 'news'}, keyed);
	t.is(first.status, 202);
	const firstId = (await messagesOf(order))[0]?.id as string;
	await oneClick(unsubscribeUrl(await rawMail(service(), order, firstId)));
	await suppress(order, to);
	await program.cli('workspace', 'pause', 'order', '--reason', 'test');
	const everything = {
		...{from: 'stranger@nowhere.example', to, templateId: unknownId('tpl'), unsubscribeGroup: 'unknown'},
	};
	await waitFor('the pause holds', async () => (await send(order, everything)).status === 403);

	const refused = async (code: string, fields: object, headers = {}) => {
		const answer = await send(order, {...everything, ...fields}, headers);
		t.is(answer.status, {sending_paused: 403, idempotency_key_reused: 409, quota_exceeded: 429}[code] ?? 422, code);
		t.is(codeOf(answer), code);
		t.regex(answer.headers.get('ratelimit-remaining') ?? '', /^\d+$/);
		return answer;
	};
	t.deepEqual(fieldsOf(await refused('validation_failed', {to: 'nobody'})), ['to']);
	t.deepEqual(fieldsOf(await refused('validation_failed', {to: 'nobody', templateId: ''})), ['templateId', 'to']);
	for (const templateId of [undefined, null, '']) {
		await refused('template_required', {templateId});
	}

	await refused('idempotency_key_reused', {}, keyed);
	const replayed = await send(order, {to, unsubscribeGroup: 'news'}, keyed);
	t.deepEqual([replayed.status, replayed.text], [202, first.text]);
	await refused('sending_paused', {});
	await program.cli('workspace', 'resume', 'order');
	await waitFor('the pause is over', async () => (await send(order, everything)).status !== 403);

	await refused('template_not_found', {});
	await refused('template_not_found', {templateId: 'anything'});
	const templateId = await withoutVersion(order);
	await waitFor(
		'the template is known',
		async () => codeOf(await send(order, {...everything, templateId})) !== 'template_not_found',
	);
	await refused('template_has_no_version', {templateId});
	const template = {templateId: order.templates.plain};
	await refused('sender_not_available', template);
	const sender = {...template, from: order.from};
	await refused('recipient_suppressed', sender);
	const {id: entry} = (await entryOf(order, to)) ?? {};
	t.is((await order.live.remove(`/v1/suppressions/${entry}`)).status, 204);
	await refused('unknown_unsubscribe_group', sender);
	await refused('recipient_unsubscribed', {...sender, unsubscribeGroup: 'news'});
	await refused('quota_exceeded', {...sender, unsubscribeGroup: 'news', to: 'another@reading.example'});
	await refused('quota_exceeded', {...sender, unsubscribeGroup: null});

	t.deepEqual(
		(await messagesOf(order)).map(({id}) => id),
		[firstId],
	);
	t.like((await order.live.get<Usage>('/v1/usage')).body, {accepted: 1, quota: 1, remaining: 0});
});

test('a sender must be verified, active and of the workspace', async t => {
	conforms(t, 'send.from', 'errors.422.sender_not_available');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const {program} = service();
	const inside = ['--workspace', main.id];
	await program.cli('sender', 'add', 'new@unverified.example', ...inside);
	await program.cli('sender', 'add', 'off@main.example', '--verified', ...inside);
	await waitFor('the sender is known', async () => (await send(main, {from: 'off@main.example'})).status === 202);
	t.is((await send(main, {from: 'OFF@MAIN.example'})).status, 202);
	await program.cli('sender', 'disable', 'off@main.example', ...inside);
	await waitFor('it is disabled', async () => (await send(main, {from: 'off@main.example'})).status === 422);
	for (const from of ['new@unverified.example', 'off@main.example', other.from, 'any@main.example']) {
		const answer = await send(main, {from});
		t.deepEqual([answer.status, codeOf(answer)], [422, 'sender_not_available'], from);
	}
});

test('a template of another workspace, or one that was deleted, is not found', async t => {
	conforms(t, 'errors.422.template_not_found', 'send.templateId');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const answer = await send(main, {templateId: other.templates.plain});
	t.deepEqual([answer.status, codeOf(answer)], [422, 'template_not_found']);
});

test('the suppression list stops all mail of the workspace to the address, and none of another workspace', async t => {
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

test('an opt-out of a topic stops mail of that topic and no other', async t => {
	conforms(t, 'overview.topic-opt-out', 'errors.422.recipient_unsubscribed', 'errors.422.unknown_unsubscribe_group');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'choosy@reading.example';
	await addTopic(main, 'offers');
	await addTopic(main, 'alerts');
	const id = await accepted(main, {to, unsubscribeGroup: 'offers'});
	await oneClick(unsubscribeUrl(await rawMail(service(), main, id)));
	const answer = await send(main, {to: 'CHOOSY@reading.example', unsubscribeGroup: 'offers'});
	t.deepEqual([answer.status, codeOf(answer)], [422, 'recipient_unsubscribed']);
	t.is((await send(main, {to, unsubscribeGroup: 'alerts'})).status, 202);
	t.is((await send(main, {to})).status, 202);
	t.is((await send(main, {to: 'another@reading.example', unsubscribeGroup: 'offers'})).status, 202);
	t.is(await entryOf(main, to), undefined);
});

test('a copy to a suppressed or opted-out address is not sent; the others are', async t => {
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

test('what was queued when the address was suppressed is not sent any more', async t => {
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
