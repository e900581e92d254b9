import test from 'ava';
import {type List, timeShape} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {
	accepted,
	addTopic,
	codeOf,
	fieldsOf,
	idShape,
	type Message,
	sendBody,
	suppress,
	timeline,
	unknownId,
	untilStatus,
	walk,
} from './resources.ts';

const service = serviceOf(test, {
	workspaces: {main: [], filters: [], pages: [], events: [], other: []},
	templates: {second: {'template.json': '{"subject":"Second"}', 'body.html': '<p>Second</p>'}},
});

/** Many messages by batches, newest first. */
async function fill(
	workspace: Workspace,
	count: number,
	fields: (n: number) => object = () => ({}),
): Promise<string[]> {
	const ids: string[] = [];
	for (let start = 0; start < count; start += 100) {
		const items = Array.from({length: Math.min(100, count - start)}, (_, n) => sendBody(workspace, fields(start + n)));
		const {body} = await workspace.live.post<{data: Array<{id: string}>}>('/v1/messages/batch', {messages: items});
		ids.push(...body.data.map(({id}) => id));
	}

	return ids.reverse();
}

test('an unknown id, and one that is none, is message_not_found', async t => {
	conforms(t, 'messages.get.unknown', 'errors.404.message_not_found');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const foreign = await accepted(other);
	for (const id of [
		unknownId('msg'),
		foreign,
		'msg_1',
		'anything',
		unknownId('evt'),
		'%00',
		'msg_%F0%9F%92%A9',
		`msg_${'0'.repeat(5000)}`,
	]) {
		for (const path of [`/v1/messages/${id}`, `/v1/messages/${id}/events`]) {
			const answer = await main.live.get(path);
			t.deepEqual([answer.status, codeOf(answer)], [404, 'message_not_found'], path.slice(0, 99));
		}
	}
});

test('25 by default, 1 to 100 by limit; any other limit is a violation', async t => {
	conforms(t, 'messages.list.limit', 'limits.page-size', 'errors.422.validation_failed', 'messages.list.answer');
	conforms(t, 'overview.newest-first', 'overview.message-lists-paged');
	const {main} = service().workspaces as {main: Workspace};
	const ids = await fill(main, 130, () => ({to: 'limit@simulator.test'}));
	const listed = async (query: string) => (await main.live.get<List<Message>>(`/v1/messages${query}`)).body;
	const first = await listed('?recipient=limit@simulator.test');
	t.deepEqual(
		first.data.map(({id}) => id),
		ids.slice(0, 25),
	);
	t.is(typeof first.next_cursor, 'string');
	t.is((await listed('?limit=1')).data.length, 1);
	t.is((await listed('?limit=100')).data.length, 100);
	t.deepEqual(Object.keys(first.data[0] ?? {}).includes('attachments'), true);
	for (const limit of ['0', '101', '-1', '1.5', '5e1', '0x10', '%205', '05x', '', 'all', '99999999999999999999']) {
		const answer = await main.live.get(`/v1/messages?limit=${limit}`);
		t.deepEqual([answer.status, codeOf(answer), fieldsOf(answer)], [422, 'validation_failed', ['limit']], limit);
	}
	const repeated = await main.live.get('/v1/messages?limit=5&limit=6');
	t.deepEqual([repeated.status, fieldsOf(repeated)], [422, ['limit']]);
	const unknown = await main.live.get('/v1/messages?page=2&recipients=a@b.example');
	t.deepEqual([unknown.status, fieldsOf(unknown)], [422, ['page', 'recipients']]);
});

test('a walk by cursor sees everything once, whatever comes meanwhile; null ends it', async t => {
	conforms(t, 'messages.list.cursor', 'cursor.pages', 'messages.list.answer', 'overview.newest-first');
	const {pages} = service().workspaces as {pages: Workspace};
	const ids = await fill(pages, 210);
	const seen: string[] = [];
	let cursor: string | null = '';
	while (cursor !== null) {
		const {body}: {body: List<Message>} = await pages.live.get<List<Message>>(
			`/v1/messages?limit=50${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
		);
		t.true(body.data.length <= 50);
		t.true('next_cursor' in body);
		seen.push(...body.data.map(({id}) => id));
		cursor = body.next_cursor;
		await fill(pages, 7);
	}
	t.deepEqual(seen, ids);
});

test('a cursor is of its workspace, list and filters; any other text is a violation', async t => {
	conforms(t, 'cursor.pages', 'messages.list.cursor');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	await fill(other, 5);
	await fill(main, 5);
	for (const n of [1, 2, 3]) {
		await untilStatus(main.live, await accepted(main, {to: `cursor${n}@simulator.test`}), 'delivered');
	}
	const {next_cursor: cursor} = (await main.live.get<List<Message>>('/v1/messages?limit=2&status=delivered')).body;
	t.is(typeof cursor, 'string');
	const good = cursor as string;
	const query = (text: string) => `limit=2&cursor=${encodeURIComponent(text)}`;
	t.is((await main.live.get(`/v1/messages?status=delivered&${query(good)}`)).status, 200);
	const middle = Math.floor(good.length / 2);
	const wrong = [
		main.live.get(`/v1/messages?${query(good)}`),
		main.live.get(`/v1/messages?status=bounced&${query(good)}`),
		main.live.get(`/v1/messages?status=delivered&recipient=cursor1@simulator.test&${query(good)}`),
		main.live.get(`/v1/contacts?${query(good)}`),
		main.live.get(`/v1/suppressions?${query(good)}`),
		other.live.get(`/v1/messages?status=delivered&${query(good)}`),
		main.live.get(`/v1/messages?status=delivered&${query(good.slice(0, -1))}`),
		main.live.get(`/v1/messages?status=delivered&${query(`${good}A`)}`),
		main.live.get(
			`/v1/messages?status=delivered&${query(good.slice(0, middle) + (good[middle] === 'x' ? 'y' : 'x') + good.slice(middle + 1))}`,
		),
		main.live.get('/v1/messages?status=delivered&cursor='),
		main.live.get('/v1/messages?status=delivered&cursor=msg_1'),
		main.live.get(`/v1/messages?status=delivered&cursor=${'A'.repeat(3000)}`),
	];
	for (const answer of await Promise.all(wrong)) {
		t.deepEqual([answer.status, codeOf(answer), fieldsOf(answer)], [422, 'validation_failed', ['cursor']]);
	}
});

test('the filters, alone and together', async t => {
	conforms(t, 'messages.list.status', 'messages.list.recipient', 'messages.list.from', 'messages.list.templateId');
	const {filters} = service().workspaces as {filters: Workspace};
	await service().program.cli('sender', 'add', 'second@filters.example', '--verified', '--workspace', filters.id);
	const second = {templateId: filters.templates.second};
	const plain = await accepted(filters, {to: 'Ann@Filters-Bücher.example'});
	const other = await accepted(filters, {to: 'ben@simulator.test', ...second});
	const bounced = await accepted(filters, {
		to: 'bounced+list@simulator.test',
		...second,
		cc: ['ann@filters-bücher.example'],
	});
	await untilStatus(filters.live, plain, 'delivered');
	await untilStatus(filters.live, other, 'delivered');
	await untilStatus(filters.live, bounced, 'bounced');
	const cases: ReadonlyArray<readonly [query: Record<string, string>, ids: readonly string[]]> = [
		[{}, [bounced, other, plain]],
		[{status: 'delivered'}, [other, plain]],
		[{status: 'bounced'}, [bounced]],
		[{status: 'accepted'}, []],
		[{recipient: 'Ann@Filters-Bücher.example'}, [plain]],
		[{recipient: `ANN@${new URL('https://filters-bücher.example').hostname}`}, [plain]],
		[{recipient: 'nobody@simulator.test'}, []],
		[{from: filters.from}, [bounced, other, plain]],
		[{from: 'SHOP@Filters.example'}, [bounced, other, plain]],
		[{from: 'second@filters.example'}, []],
		[{templateId: filters.templates.second as string}, [bounced, other]],
		[{templateId: unknownId('tpl')}, []],
		[{templateId: 'anything'}, []],
		[{templateId: filters.templates.second as string, status: 'delivered'}, [other]],
		[{templateId: filters.templates.plain as string, status: 'bounced'}, []],
	];
	for (const [query, ids] of cases) {
		const answer = await filters.live.get<List<Message>>(`/v1/messages?${new URLSearchParams(query)}`);
		t.is(answer.status, 200, answer.text);
		t.deepEqual(
			answer.body.data.map(({id}) => id),
			ids,
			JSON.stringify(query),
		);
	}
	for (const [name, value] of [
		['status', 'gone'],
		['status', 'Delivered'],
		['status', ''],
	] as const) {
		const answer = await filters.live.get(`/v1/messages?${name}=${value}`);
		t.deepEqual([answer.status, fieldsOf(answer)], [422, [name]], `${name}=${value}`);
	}
	const injected = await filters.live.get<List<Message>>(
		`/v1/messages?templateId=${encodeURIComponent("' OR 1=1 --")}`,
	);
	t.deepEqual([injected.status, injected.body.data.length], [200, 0]);
});

test('createdAfter is from, createdBefore is before; both are dates or times that exist', async t => {
	conforms(t, 'messages.list.created');
	const {other: filters} = service().workspaces as {other: Workspace};
	const to = 'range@simulator.test';
	const id = await accepted(filters, {to});
	const {created_at} = (await filters.live.get<Message>(`/v1/messages/${id}`)).body;
	const at = Date.parse(created_at);
	const time = (offset: number) => new Date(at + offset).toISOString().replace('.000', '');
	const count = async (query: string) => {
		const answer = await filters.live.get<List<Message>>(`/v1/messages?recipient=${to}&${query}`);
		t.is(answer.status, 200, `${query}: ${answer.text}`);
		return answer.body.data.length;
	};
	t.is(await count(`createdAfter=${time(0)}`), 1);
	t.is(await count(`createdAfter=${time(1000)}`), 0);
	t.is(await count(`createdBefore=${time(0)}`), 0);
	t.is(await count(`createdBefore=${time(1000)}`), 1);
	t.is(await count(`createdAfter=${time(0)}&createdBefore=${time(1000)}`), 1);
	t.is(await count(`createdAfter=${time(1000)}&createdBefore=${time(0)}`), 0);
	// As the answers write it, the plus sign encoded or not.
	t.is(await count(`createdAfter=${encodeURIComponent(created_at)}`), 1);
	t.is(await count(`createdAfter=${created_at}`), 1);
	t.is(await count(`createdAfter=${time(-86_400_000).slice(0, 10)}`), 1);
	t.is(await count(`createdBefore=${time(0).slice(0, 10)}`), 0);
	const east = new Date(at + 2 * 3_600_000).toISOString().slice(0, 19);
	t.is(await count(`createdAfter=${encodeURIComponent(`${east}+02:00`)}`), 1);
	t.is(await count(`createdBefore=${encodeURIComponent(`${east}+02:00`)}`), 0);
	for (const wrong of [
		'2026-02-30',
		'2026-13-01',
		'1',
		'yesterday',
		'Tue, 09 Jun 2026 10:00:00 GMT',
		'2026-06-09T25:00:00Z',
		'2026-06-09T10:15',
		'',
	]) {
		for (const name of ['createdAfter', 'createdBefore']) {
			const answer = await filters.live.get(`/v1/messages?${name}=${encodeURIComponent(wrong)}`);
			t.deepEqual([answer.status, fieldsOf(answer)], [422, [name]], `${name}=${wrong}`);
		}
	}
});

test('the timeline: oldest first, each entry with its times, paged like any list', async t => {
	conforms(t, 'messages.events.answer', 'event.id', 'event.type', 'event.occurred_at', 'event.recorded_at');
	conforms(t, 'overview.message-lists-paged', 'cursor.lists', 'overview.progress');
	// Another workspace than that whose lists are walked meanwhile.
	const {main: workspace} = service().workspaces as {main: Workspace};
	const id = await accepted(workspace, {to: 'deferred+timeline@simulator.test', cc: ['copy@simulator.test']});
	await untilStatus(workspace.live, id, 'delivered');
	const events = await waitFor('both copies are delivered', async () => {
		const all = await timeline(workspace.live, id);
		return all.filter(({type}) => type === 'delivered').length === 2 && all;
	});
	t.deepEqual(
		events.slice(0, 2).map(({type}) => type),
		['accepted', 'queued'],
	);
	t.deepEqual(events.map(({type}) => type).toSorted(), [
		'accepted',
		'delivered',
		'delivered',
		'queued',
		'sent',
		'sent',
	]);
	const {id: _, ...first} = events[0] ?? {id: ''};
	t.like(first, {type: 'accepted'});
	for (const event of events) {
		t.regex(event.id, idShape('evt'));
		t.regex(event.occurred_at, timeShape);
		t.regex(event.recorded_at, timeShape);
		t.true(event.recorded_at >= event.occurred_at);
	}
	t.deepEqual(
		events.map(({id: each}) => each),
		events.map(({id: each}) => each).toSorted(),
	);
	const perRecipient = events
		.filter(({type}) => type === 'delivered')
		.map(({detail}) => [detail?.recipient, detail?.role]);
	t.deepEqual(perRecipient.toSorted(), [
		['copy@simulator.test', 'cc'],
		['deferred+timeline@simulator.test', 'to'],
	]);
	t.deepEqual(await walk(workspace.live, `/v1/messages/${id}/events?limit=1`), [...events]);
	t.deepEqual(await walk(workspace.live, `/v1/messages/${id}/events?limit=4`), [...events]);
	const wrong = await workspace.live.get(`/v1/messages/${id}/events?limit=101`);
	t.deepEqual(fieldsOf(wrong), ['limit']);
	t.deepEqual(fieldsOf(await workspace.live.get(`/v1/messages/${id}/events?type=sent`)), ['type']);
});

test('every collection has limit and cursor', async t => {
	conforms(t, 'cursor.lists', 'overview.newest-first', 'limits.page-size');
	const {events: workspace} = service().workspaces as {events: Workspace};
	for (const n of [1, 2, 3]) {
		await accepted(workspace, {to: `contact${n}@paging.example`});
		await suppress(workspace, `blocked${n}@paging.example`);
		await addTopic(workspace, `topic${n}`);
		await workspace.live.post('/v1/webhooks', {url: `https://hooks${n}.example/`, events: ['delivered']});
	}
	const paths = ['messages', 'contacts', 'suppressions', 'unsubscribe-groups', 'webhooks', 'templates', 'senders'];
	for (const path of paths.map(name => `/v1/${name}`)) {
		const idsOf = async (query: string) => (await walk<{id: string}>(workspace.live, path + query)).map(({id}) => id);
		const ids = await idsOf('');
		t.true(ids.length > 0, path);
		t.is(new Set(ids).size, ids.length, path);
		t.deepEqual(ids, ids.toSorted().reverse(), `${path} newest first`);
		t.deepEqual(await idsOf('?limit=1'), ids, path);
		const {body} = await workspace.live.get<List<unknown>>(path);
		t.true('next_cursor' in body, path);
		for (const limit of ['0', '101', 'x']) {
			t.deepEqual(fieldsOf(await workspace.live.get(`${path}?limit=${limit}`)), ['limit'], path);
		}
		t.deepEqual(fieldsOf(await workspace.live.get(`${path}?cursor=x`)), ['cursor'], path);
		t.deepEqual(fieldsOf(await workspace.live.get(`${path}?offset=1`)), ['offset'], path);
	}
});
