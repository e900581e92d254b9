import test from 'ava';
import {type List, timeShape} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {
	accepted,
	addTopic,
	codeOf,
	entryOf,
	fieldsOf,
	idShape,
	oneClick,
	rawMail,
	type Suppression,
	send,
	suppress,
	type Topic,
	unknownId,
	unsubscribeUrl,
	untilStatus,
	walk,
} from './resources.ts';

const service = serviceOf(test, {workspaces: {main: [], filters: [], other: []}});

test('an entry made by the API', async t => {
	conforms(t, 'suppressions.add.answer', 'suppression.id', 'suppression.recipient', 'suppression.reason');
	conforms(t, 'suppression.source', 'suppression.created_at', 'suppression.manual');
	const {main} = service().workspaces as {main: Workspace};
	const {status, body} = await main.live.post<Suppression>('/v1/suppressions', {recipient: 'Made@Listed.example'});
	t.is(status, 201);
	t.regex(body.id, idShape('sup'));
	t.like(body, {recipient: 'Made@Listed.example', reason: 'manual', source: 'api'});
	t.regex(body.created_at, timeShape);
});

test('adding again keeps the entry', async t => {
	conforms(t, 'suppressions.add.idempotent');
	const {main} = service().workspaces as {main: Workspace};
	const first = await suppress(main, 'again@listed.example');
	for (const recipient of ['again@listed.example', 'AGAIN@Listed.Example']) {
		const second = await main.live.post<Suppression>('/v1/suppressions', {recipient});
		t.is(second.status, 200);
		t.deepEqual(second.body, first);
	}
	const {body} = await main.live.get<List<Suppression>>('/v1/suppressions?recipient=again@listed.example');
	t.deepEqual(body.data, [first]);
	const answers = await Promise.all(
		Array.from({length: 10}, () => main.live.post<Suppression>('/v1/suppressions', {recipient: 'race@listed.example'})),
	);
	t.is(new Set(answers.map(answer => answer.body.id)).size, 1);
	t.deepEqual(
		answers
			.map(({status}) => status)
			.toSorted()
			.at(-1),
		201,
	);
	t.is(answers.filter(({status}) => status === 201).length, 1);
});

test('recipient is the only field, and an address', async t => {
	conforms(t, 'suppressions.add.request');
	const {main} = service().workspaces as {main: Workspace};
	const cases: ReadonlyArray<readonly [body: unknown, fields: readonly string[]]> = [
		[{}, ['recipient']],
		[{recipient: null}, ['recipient']],
		[{recipient: ''}, ['recipient']],
		[{recipient: 'nobody'}, ['recipient']],
		[{recipient: 5}, ['recipient']],
		[{recipient: ['a@b.example']}, ['recipient']],
		[{recipient: 'Name <a@b.example>'}, ['recipient']],
		[{recipient: 'a@b.example', reason: 'complaint'}, ['reason']],
	];
	for (const [body, fields] of cases) {
		const answer = await main.live.post('/v1/suppressions', body);
		t.deepEqual([answer.status, codeOf(answer), fieldsOf(answer)], [422, 'validation_failed', fields]);
	}
	for (const body of ['', '[]', '"a@b.example"', '{']) {
		const answer = await main.live.post('/v1/suppressions', body);
		t.true([400, 422].includes(answer.status), body);
	}
	t.is(codeOf(await main.live.post('/v1/suppressions', '')), 'bad_request');
});

test('hard bounces and complaints make entries; so does an opt-out from everything', async t => {
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

test('the list: newest first, by recipient, by reason', async t => {
	conforms(t, 'suppressions.list.answer', 'overview.newest-first');
	const {filters} = service().workspaces as {filters: Workspace};
	const entries: Suppression[] = [];
	for (const n of [1, 2, 3]) {
		entries.unshift(await suppress(filters, `user${n}@listed.example`));
	}
	const bounced = await accepted(filters, {to: 'bounced+filter@simulator.test'});
	await untilStatus(filters.live, bounced, 'bounced');
	const listed = async (query: string) =>
		(await filters.live.get<List<Suppression>>(`/v1/suppressions${query}`)).body.data;
	t.deepEqual((await listed('')).slice(1), entries);
	t.deepEqual(await listed('?reason=manual'), entries);
	t.like((await listed('?reason=hard_bounce'))[0], {source: bounced});
	t.deepEqual(await listed('?reason=complaint'), []);
	t.deepEqual(await listed('?recipient=USER2@listed.example'), [entries[1] as Suppression]);
	t.deepEqual(await listed('?recipient=user2@listed.example&reason=complaint'), []);
	t.deepEqual(fieldsOf(await filters.live.get('/v1/suppressions?reason=boredom')), ['reason']);
	t.deepEqual(await walk(filters.live, '/v1/suppressions?reason=manual&limit=2'), entries);
});

test('an entry can be deleted once; foreign and unknown ids are not found', async t => {
	conforms(t, 'suppressions.delete.answer', 'suppressions.delete.foreign', 'errors.404.not_found');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const {id} = await suppress(main, 'deleted@listed.example');
	t.is(codeOf(await other.live.remove(`/v1/suppressions/${id}`)), 'not_found');
	t.like(await entryOf(main, 'deleted@listed.example'), {id});
	const gone = await main.live.remove(`/v1/suppressions/${id}`);
	t.deepEqual([gone.status, gone.text], [204, '']);
	for (const each of [id, unknownId('sup'), 'sup_1', unknownId('msg')]) {
		const answer = await main.live.remove(`/v1/suppressions/${each}`);
		t.deepEqual([answer.status, codeOf(answer)], [404, 'not_found'], each);
	}
	const again = await suppress(main, 'deleted@listed.example');
	t.not(again.id, id);
});

test('a topic is made with code and name', async t => {
	conforms(t, 'topics.add.request', 'topics.add.answer', 'topic.id', 'topic.code', 'topic.name', 'topic.created_at');
	conforms(t, 'topics.add.duplicate', 'errors.409.conflict', 'topic.per-workspace', 'limits.topic-code');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const longest = 'a'.repeat(64);
	for (const code of ['news', 'Weekly_News-2', '0', longest]) {
		const {status, body} = await main.live.post<Topic>('/v1/unsubscribe-groups', {code, name: 'Größe & <News>'});
		t.is(status, 201, code);
		t.regex(body.id, idShape('usg'));
		t.like(body, {code, name: 'Größe & <News>'});
		t.regex(body.created_at, timeShape);
	}
	const again = await main.live.post('/v1/unsubscribe-groups', {code: 'news', name: 'Other'});
	t.deepEqual([again.status, codeOf(again)], [409, 'conflict']);
	t.is((await main.live.post('/v1/unsubscribe-groups', {code: 'News', name: 'Case counts'})).status, 201);
	t.is((await other.live.post('/v1/unsubscribe-groups', {code: 'news', name: 'Other'})).status, 201);
	const cases: ReadonlyArray<readonly [body: object, fields: readonly string[]]> = [
		[{}, ['code', 'name']],
		[{code: 'a'}, ['name']],
		[{name: 'a'}, ['code']],
		[{code: `${longest}a`, name: 'a'}, ['code']],
		[{code: '', name: 'a'}, ['code']],
		[{code: 'a b', name: 'a'}, ['code']],
		[{code: 'ä', name: 'a'}, ['code']],
		[{code: 'a.b', name: 'a'}, ['code']],
		[{code: 'a\n', name: 'a'}, ['code']],
		[{code: 'a', name: ''}, ['name']],
		[{code: 'a', name: 'n'.repeat(201)}, ['name']],
		[{code: 'a', name: 5}, ['name']],
		[{code: 'a', name: 'a', id: 'usg_1'}, ['id']],
	];
	for (const [body, fields] of cases) {
		const answer = await main.live.post('/v1/unsubscribe-groups', body);
		t.deepEqual([answer.status, codeOf(answer), fieldsOf(answer)], [422, 'validation_failed', fields]);
	}
	t.is((await main.live.post('/v1/unsubscribe-groups', {code: 'long-name', name: 'n'.repeat(200)})).status, 201);
});

test('topics are listed and deleted; what was opted out of holds again when the code comes back', async t => {
	conforms(t, 'topics.list.answer', 'topics.delete.answer', 'topics.delete.foreign', 'topic.per-workspace');
	const {filters, other} = service().workspaces as {filters: Workspace; other: Workspace};
	const [first, second] = [await addTopic(filters, 'first'), await addTopic(filters, 'second')];
	t.deepEqual((await filters.live.get<List<Topic>>('/v1/unsubscribe-groups')).body.data, [second, first]);
	const to = 'left@listed.example';
	const id = await accepted(filters, {to, unsubscribeGroup: 'first'});
	await oneClick(unsubscribeUrl(await rawMail(service(), filters, id)));

	t.is(codeOf(await other.live.remove(`/v1/unsubscribe-groups/${first.id}`)), 'not_found');
	t.is((await filters.live.remove(`/v1/unsubscribe-groups/${first.id}`)).status, 204);
	t.is(codeOf(await filters.live.remove(`/v1/unsubscribe-groups/${first.id}`)), 'not_found');
	t.is(codeOf(await filters.live.remove(`/v1/unsubscribe-groups/${unknownId('usg')}`)), 'not_found');
	t.deepEqual((await filters.live.get<List<Topic>>('/v1/unsubscribe-groups')).body.data, [second]);
	t.is(codeOf(await send(filters, {to, unsubscribeGroup: 'first'})), 'unknown_unsubscribe_group');
	await addTopic(filters, 'first');
	t.is(codeOf(await send(filters, {to, unsubscribeGroup: 'first'})), 'recipient_unsubscribed');
});
