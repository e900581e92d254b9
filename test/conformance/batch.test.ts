import test from 'ava';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {codeOf, fieldsOf, idShape, readMessage, sendBody, suppress, type Usage, unknownId, walk} from './resources.ts';

const service = serviceOf(test, {workspaces: {main: [], small: ['--monthly-quota', '3'], paused: []}});

type Result = {
	readonly index: number;
	readonly status: string;
	readonly id?: string;
	readonly error?: {readonly code: string; readonly message: string};
};
type Results = {readonly data: readonly Result[]};

function sendBatch<Body = Results>({live}: Workspace, messages: unknown, headers = {}) {
	return live.post<Body>('/v1/messages/batch', {messages}, headers);
}

test("one result an item, in order; one item is no other's fault", async t => {
	conforms(
		t,
		'batch.request',
		'batch.answer',
		'batch.item',
		'batch.independent',
		'errors.batch-item',
		'status.accepted',
	);
	const {main} = service().workspaces as {main: Workspace};
	await suppress(main, 'blocked@simulator.test');
	const faults: ReadonlyArray<readonly [item: unknown, code: string | null]> = [
		[sendBody(main, {to: 'first@simulator.test'}), null],
		[sendBody(main, {to: 'nobody'}), 'validation_failed'],
		['text', 'validation_failed'],
		[null, 'validation_failed'],
		[[], 'validation_failed'],
		[{}, 'validation_failed'],
		[sendBody(main, {subject: 'Hello'}), 'validation_failed'],
		[sendBody(main, {templateId: undefined}), 'template_required'],
		[sendBody(main, {templateId: unknownId('tpl')}), 'template_not_found'],
		[sendBody(main, {from: 'stranger@main.example'}), 'sender_not_available'],
		[sendBody(main, {to: 'blocked@simulator.test'}), 'recipient_suppressed'],
		[sendBody(main, {unsubscribeGroup: 'unknown'}), 'unknown_unsubscribe_group'],
		[sendBody(main, {to: 'last@simulator.test', metadata: {n: '12'}}), null],
	];
	const {status, body} = await sendBatch(
		main,
		faults.map(([item]) => item),
	);
	t.is(status, 200);
	t.deepEqual(Object.keys(body), ['data']);
	t.deepEqual(
		body.data.map(({index, status, error}) => [index, status, error?.code ?? null]),
		faults.map(([, code], index) => [index, code === null ? 'accepted' : 'error', code]),
	);
	for (const {id, error} of body.data) {
		t.not(id === undefined, error === undefined);
		if (error !== undefined) {
			t.deepEqual(Object.keys(error).toSorted(), ['code', 'message']);
			t.true(error.message.length > 0);
		}
	}
	const last = body.data.at(-1)?.id as string;
	t.regex(last, idShape('msg'));
	t.like(await readMessage(main.live, last), {to: 'last@simulator.test', metadata: {n: '12'}});
});

test('an item that is malformed names its first fault', async t => {
	conforms(t, 'batch.item', 'errors.batch-item');
	const {main} = service().workspaces as {main: Workspace};
	const {body} = await sendBatch(main, [sendBody(main, {replyTo: 'nobody'})]);
	t.regex(body.data[0]?.error?.message ?? '', /replyTo/);
});

test('1 to 100 items', async t => {
	conforms(t, 'limits.batch', 'batch.request');
	const {main} = service().workspaces as {main: Workspace};
	const items = (count: number) =>
		Array.from({length: count}, (_, n) => sendBody(main, {to: `user${n}@simulator.test`}));
	const full = await sendBatch(main, items(100));
	t.is(full.status, 200);
	t.is(full.body.data.filter(({status}) => status === 'accepted').length, 100);
	t.is(new Set(full.body.data.map(({id}) => id)).size, 100);
	const ids = full.body.data.map(({id}) => id as string);
	t.deepEqual(ids.toSorted(), ids);
	for (const messages of [items(101), [], undefined, null, {}, 'text']) {
		const answer = await main.live.post('/v1/messages/batch', {messages});
		t.deepEqual([answer.status, codeOf(answer), fieldsOf(answer)], [422, 'validation_failed', ['messages']]);
	}
	const unknown = await main.live.post('/v1/messages/batch', {messages: items(1), dryRun: true});
	t.deepEqual(fieldsOf(unknown), ['dryRun']);
});

test('a paused workspace refuses the whole', async t => {
	conforms(t, 'batch.paused', 'errors.403.sending_paused');
	const {paused} = service().workspaces as {paused: Workspace};
	await service().program.cli('workspace', 'pause', 'paused', '--reason', 'test');
	const items = [sendBody(paused), sendBody(paused, {to: 'nobody'})];
	const answer = await waitFor('the pause holds', async () => {
		const each = await paused.live.post('/v1/messages/batch', {messages: items});
		return each.status !== 200 && each;
	});
	t.deepEqual([answer.status, codeOf(answer)], [403, 'sending_paused']);
	const before = (await walk(paused.live, '/v1/messages')).length;
	await paused.live.post('/v1/messages/batch', {messages: items});
	t.is((await walk(paused.live, '/v1/messages')).length, before);
});

test('quota counts by item', async t => {
	conforms(t, 'batch.quota');
	const {small} = service().workspaces as {small: Workspace};
	const to = [
		'one@real.example',
		'two@real.example',
		'nobody',
		'three@real.example',
		'four@real.example',
		'free@simulator.test',
	];
	const {body, status} = await sendBatch(
		small,
		to.map(each => sendBody(small, {to: each})),
	);
	t.is(status, 200);
	t.deepEqual(
		body.data.map(({error, status}) => error?.code ?? status),
		['accepted', 'accepted', 'validation_failed', 'accepted', 'quota_exceeded', 'accepted'],
	);
	t.like((await small.live.get<Usage>('/v1/usage')).body, {accepted: 3, remaining: 0});
});

test('Idempotency-Key has no effect', async t => {
	conforms(t, 'batch.no-idempotency');
	const {main} = service().workspaces as {main: Workspace};
	const headers = {'idempotency-key': 'batch'};
	const [one, two] = [
		await sendBatch(main, [sendBody(main)], headers),
		await sendBatch(main, [sendBody(main)], headers),
	];
	t.not(one.body.data[0]?.id, two.body.data[0]?.id);
	const changed = await sendBatch(main, [sendBody(main, {to: 'changed@simulator.test'})], headers);
	t.is(changed.body.data[0]?.status, 'accepted');
	t.is((await sendBatch(main, [sendBody(main)], {'idempotency-key': 'x'.repeat(300)})).status, 200);
	const single = await main.live.post('/v1/messages', sendBody(main), headers);
	t.is(single.headers.get('idempotent-replayed'), null);
});
