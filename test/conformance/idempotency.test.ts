import test from 'ava';
import type {List} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {type Accepted, codeOf, type Message, send, sendBody} from './resources.ts';

const service = serviceOf(test, {workspaces: {main: [], other: []}});
const keyed = (key: string) => ({'idempotency-key': key});

async function countTo({live}: Workspace, recipient: string): Promise<number> {
	return (await live.get<List<Message>>(`/v1/messages?limit=100&recipient=${recipient}`)).body.data.length;
}

test('the same key and body: the same bytes again, one message', async t => {
	conforms(t, 'idempotency.replay', 'messages.send.idempotency-header');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'twice@simulator.test';
	const first = await send<Accepted>(main, {to, data: {a: 1, b: [1, 2]}}, keyed('replay-1'));
	t.is(first.headers.get('idempotent-replayed'), null);
	for (const data of [
		{a: 1, b: [1, 2]},
		{b: [1, 2], a: 1},
	]) {
		const again = await send<Accepted>(main, {to, data}, keyed('replay-1'));
		t.deepEqual([again.status, again.text], [202, first.text]);
		t.is(again.headers.get('idempotent-replayed'), 'true');
	}
	t.is(await countTo(main, to), 1);
});

test('the same key with another from, to, templateId or data is refused; other fields do not count', async t => {
	conforms(t, 'idempotency.reused', 'idempotency.scope', 'errors.409.idempotency_key_reused');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'scoped@simulator.test';
	const first = await send(main, {to, data: {n: 1}}, keyed('reuse-1'));
	for (const fields of [
		{data: {n: 2}},
		{data: undefined},
		{to: 'else@simulator.test'},
		{from: 'else@main.example'},
		{templateId: 'else'},
	]) {
		const answer = await send(main, {to, data: {n: 1}, ...fields}, keyed('reuse-1'));
		t.deepEqual([answer.status, codeOf(answer)], [409, 'idempotency_key_reused'], JSON.stringify(fields));
	}
	const more = {metadata: {other: 'x'}, cc: ['copy@simulator.test'], locale: 'de'};
	const same = await send(main, {to, data: {n: 1}, ...more}, keyed('reuse-1'));
	t.deepEqual([same.status, same.text], [202, first.text]);
	t.is(await countTo(main, to), 1);
});

test('a key counts in its workspace and mode alone', async t => {
	conforms(t, 'idempotency.scope');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const ids = [
		(await send<Accepted>(main, {}, keyed('shared'))).body.id,
		(await send<Accepted>(other, {}, keyed('shared'))).body.id,
		(await main.test.post<Accepted>('/v1/messages', sendBody(main), keyed('shared'))).body.id,
		(await send<Accepted>(main, {}, keyed('Shared'))).body.id,
	];
	t.is(new Set(ids).size, 4);
	t.true(ids.every(id => id.startsWith('msg_')));
});

test('another key of the workspace replays too', async t => {
	conforms(t, 'idempotency.scope');
	const {main} = service().workspaces as {main: Workspace};
	const more = await service().keyed(main);
	const first = await send(main, {}, keyed('of-all-keys'));
	const again = await more.post('/v1/messages', sendBody(main), keyed('of-all-keys'));
	t.deepEqual([again.status, again.text], [202, first.text]);
});

test('without the header the same body is another message', async t => {
	conforms(t, 'idempotency.none', 'messages.send.idempotency-header');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'unprotected@simulator.test';
	const [one, two] = [await send<Accepted>(main, {to}), await send<Accepted>(main, {to})];
	t.not(one.body.id, two.body.id);
	t.is(await countTo(main, to), 2);
});

test('a rejection is not kept: the key is free for what comes next', async t => {
	conforms(t, 'idempotency.replay');
	const {main} = service().workspaces as {main: Workspace};
	const refused = await send(main, {from: 'stranger@main.example'}, keyed('after-refusal'));
	t.is(codeOf(refused), 'sender_not_available');
	t.is((await send(main, {to: 'free@simulator.test'}, keyed('after-refusal'))).status, 202);
});

test('fifty at once with one key: one message, fifty identical answers', async t => {
	conforms(t, 'idempotency.replay');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'fifty@simulator.test';
	const answers = await Promise.all(Array.from({length: 50}, () => send(main, {to}, keyed('fifty'))));
	t.deepEqual([...new Set(answers.map(({status, text}) => `${status} ${text}`))].length, 1);
	t.is(answers[0]?.status, 202);
	t.is(answers.filter(({headers}) => headers.get('idempotent-replayed') === 'true').length, 49);
	t.is(await countTo(main, to), 1);
});

test('a key is 1 to 255 printable ASCII characters', async t => {
	conforms(t, 'messages.send.idempotency-header', 'errors.400.bad_request');
	const {main} = service().workspaces as {main: Workspace};
	for (const key of ['k'.repeat(255), '~ !"#']) {
		t.is((await send(main, {}, keyed(key))).status, 202, key);
	}
	for (const key of ['k'.repeat(256), 'ü', '']) {
		const answer = await send(main, {}, keyed(key));
		t.deepEqual([answer.status, codeOf(answer)], [400, 'bad_request'], key);
	}
});
