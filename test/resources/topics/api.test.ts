import test from 'ava';
import {readGeneration} from '../../../src/store/changes.ts';
import {codeOf, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

type Topic = {readonly id: string; readonly code: string; readonly name: string; readonly created_at: string};
type Page = {readonly data: readonly Topic[]; readonly next_cursor: string | null};

const path = '/v1/unsubscribe-groups';

async function list(api: TestApi, query = '', key?: string): Promise<Page> {
	return (await api.get(`${path}${query}`, key)).body as Page;
}

async function optOut({store, workspace}: TestApi, address: string, code: string): Promise<void> {
	await store.database('topic_optouts').insert({
		workspace_id: workspace.id,
		code,
		address_key: address,
		address,
		source: 'one-click',
		created_at: '2026-06-09T10:15:30.123Z',
	});
}

storeTest(test, 'creates, lists and deletes a topic, which sends can use at once', async (t, store) => {
	conforms(t, 'topics.add.answer', 'topics.list.answer', 'topics.delete.answer', 'topic.id', 'topic.code');
	conforms(t, 'topic.name', 'topic.created_at', 'topic.by-code', 'messages.send.topic-code');
	conforms(t, 'send.unsubscribeGroup');
	const api = await startApi(t, store);
	t.is(codeOf(await api.send({unsubscribeGroup: 'news-2_A'})), 'unknown_unsubscribe_group');
	const before = await readGeneration(store.reader);
	const made = await api.post(path, {code: 'news-2_A', name: 'News & <offers>'});
	t.is(made.status, 201);
	const topic = made.body as Topic;
	t.regex(topic.id, /^usg_[0-9a-z]{26}$/);
	t.regex(topic.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);
	t.deepEqual(topic, {id: topic.id, code: 'news-2_A', name: 'News & <offers>', created_at: topic.created_at});
	t.true((await readGeneration(store.reader)) > before, 'other processes look again');
	t.is((await api.send({unsubscribeGroup: 'news-2_A'})).status, 202);
	t.is(codeOf(await api.send({unsubscribeGroup: topic.id})), 'unknown_unsubscribe_group', 'a code, never an id');
	t.deepEqual(await list(api), {data: [topic], next_cursor: null});

	const removed = await api.remove(`${path}/${topic.id}`);
	t.is(removed.status, 204);
	t.is(removed.text, '');
	t.is(codeOf(await api.send({unsubscribeGroup: 'news-2_A'})), 'unknown_unsubscribe_group');
	t.is(codeOf(await api.remove(`${path}/${topic.id}`)), 'not_found');
	t.deepEqual((await list(api)).data, []);
});

storeTest(test, 'a code is unique in its workspace, even under concurrent requests', async (t, store) => {
	conforms(t, 'topics.add.duplicate', 'errors.409.conflict', 'topic.per-workspace');
	const api = await startApi(t, store);
	const answers = await Promise.all(
		Array.from({length: 10}, (_, index) => api.post(path, {code: 'news', name: `News ${index}`})),
	);
	t.is(answers.filter(({status}) => status === 201).length, 1);
	const refused = answers.filter(({status}) => status === 409);
	t.is(refused.length, 9);
	t.deepEqual([...new Set(refused.map(codeOf))], ['conflict']);
	t.is((await api.post(path, {code: 'News', name: 'another'})).status, 201, 'case counts');
	const other = await addWorkspace(store, 'other');
	t.is((await api.post(path, {code: 'news', name: 'theirs'}, await addKey(store, other.id))).status, 201);
});

sqliteTest(test, 'requires and validates code and name', async (t, store) => {
	conforms(t, 'topics.add.request', 'limits.topic-code');
	const api = await startApi(t, store);
	const fieldsOf = async (body: object) => {
		const answer = await api.post(path, body);
		t.is(codeOf(answer), 'validation_failed', JSON.stringify(body));
		return (answer.body as {error: {violations: Array<{field: string}>}}).error.violations.map(({field}) => field);
	};
	t.deepEqual((await fieldsOf({})).toSorted(), ['code', 'name']);
	t.deepEqual((await fieldsOf({code: null, name: null})).toSorted(), ['code', 'name']);
	for (const code of ['', 'a b', 'ä', 'a.b', 'a'.repeat(65), 'a\n', 5]) {
		t.deepEqual(await fieldsOf({code, name: 'x'}), ['code'], String(code));
	}
	for (const name of ['', 'n'.repeat(201), 'a\u0000b', '\ud800', 5]) {
		t.deepEqual(await fieldsOf({code: 'x', name}), ['name'], String(name));
	}
	for (const description of ['', 'd'.repeat(501), 'a\u0000b', 5]) {
		t.deepEqual(await fieldsOf({code: 'x', name: 'x', description}), ['description'], String(description));
	}
	t.deepEqual((await fieldsOf({code: 'x', name: 'x', public: 'yes', required: 1, priority: 'urgent'})).toSorted(), [
		'priority',
		'public',
		'required',
	]);
	t.deepEqual(await fieldsOf({code: 'x', name: 'x', id: 'usg_x'}), ['id']);
	t.is((await api.post(path, {code: 'a'.repeat(64), name: '😀'.repeat(200)})).status, 201);
});

sqliteTest(test, 'a topic shows only the fields that are set', async (t, store) => {
	const api = await startApi(t, store);
	const set = {public: true, required: true, description: 'What is new, once a month', priority: 'low'};
	t.like((await api.post(path, {code: 'all', name: 'All', ...set})).body, set);
	const unset = {public: false, required: false, description: null, priority: null};
	const plain = await api.post(path, {code: 'plain', name: 'Plain', ...unset});
	t.deepEqual(Object.keys(plain.body as object), ['id', 'code', 'name', 'created_at']);
	const [, all] = (await list(api)).data;
	t.like(all, set);
});

sqliteTest(test, 'opt-outs survive their topic and apply again when its code is reused', async (t, store) => {
	const api = await startApi(t, store);
	const first = idOf(await api.post(path, {code: 'news', name: 'News'}));
	await optOut(api, 'user@example.org', 'news');
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed');
	t.is((await api.remove(`${path}/${first}`)).status, 204);
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'unknown_unsubscribe_group');
	t.is((await api.post(path, {code: 'news', name: 'News again'})).status, 201);
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed');
	t.is((await api.send()).status, 202, 'other mail is not meant');
});

sqliteTest(test, 'lists topics newest first, a hundred per page', async (t, store) => {
	const api = await startApi(t, store);
	const ids = Array.from({length: 101}, () => newId('usg'));
	await store.database('topics').insert(
		ids.map((id, index) => ({
			id,
			workspace_id: api.workspace.id,
			code: `c${index}`,
			name: `Topic ${index}`,
			created_at: '2026-06-09T10:15:30.123Z',
		})),
	);
	const newest = ids.toReversed();
	const page = await list(api);
	t.deepEqual(
		page.data.map(({id}) => id),
		newest.slice(0, 100),
	);
	t.deepEqual(
		(await list(api, `?cursor=${page.next_cursor}`)).data.map(({id}) => id),
		newest.slice(100),
	);
	t.is((await list(api, '?limit=3')).data.length, 3);
	for (const query of ['?limit=0', '?code=x', '?cursor=x']) {
		t.is(codeOf(await api.get(path + query)), 'validation_failed', query);
	}
});

sqliteTest(test, 'treats topics of another workspace as unknown', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.post(path, {code: 'news', name: 'News'}));
	const other = await addWorkspace(store, 'other');
	const key = await addKey(store, other.id);
	const shape = ({status, body}: {status: number; body: unknown}) => [
		status,
		Object.keys((body as {error: object}).error),
		codeOf({body} as never),
	];
	const foreign = shape(await api.remove(`${path}/${id}`, key));
	t.deepEqual(foreign, [404, ['code', 'message', 'request_id'], 'not_found']);
	for (const unknown of [newId('usg'), 'news', '%00']) {
		t.deepEqual(shape(await api.remove(`${path}/${unknown}`, key)), foreign, unknown);
	}
	t.deepEqual((await list(api, '', key)).data, []);
});
