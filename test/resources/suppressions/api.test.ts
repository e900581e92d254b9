import test from 'ava';
import type {Store} from '../../../src/store/store.ts';
import {codeOf, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {recipientRows} from '../../helpers/recipient-rows.ts';
import {resultOf, schedulerOf} from '../../helpers/scheduler.ts';
import {waitFor} from '../../helpers/wait.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

type Entry = {readonly id: string; readonly recipient: string; readonly reason: string; readonly source: string};
type Page = {readonly data: readonly Entry[]; readonly next_cursor: string | null};

const path = '/v1/suppressions';

async function add(api: TestApi, recipient: string, key?: string): Promise<Entry> {
	return (await api.post(path, {recipient}, key)).body as Entry;
}

async function list(api: TestApi, query = '', key?: string): Promise<Page> {
	return (await api.get(`${path}${query}`, key)).body as Page;
}

async function insertEntry({database}: Store, workspaceId: string, address: string, reason: string): Promise<string> {
	const id = newId('sup');
	const created_at = '2026-06-09T10:15:30.123Z';
	await database('suppressions').insert({
		...{id, workspace_id: workspaceId, address, address_key: address, reason, source: newId('msg'), created_at},
	});
	return id;
}

sqliteTest(test, 'adding an address again returns the first entry unchanged', async (t, store) => {
	conforms(t, 'suppressions.add.answer', 'suppressions.add.idempotent', 'suppression.id');
	conforms(t, 'suppression.recipient', 'suppression.created_at', 'suppression.manual');
	const api = await startApi(t, store);
	const made = await api.post(path, {recipient: 'Jörg@Bücher.example'});
	t.is(made.status, 201);
	const entry = made.body as Entry & {created_at: string};
	t.regex(entry.id, /^sup_[0-9a-z]{26}$/);
	t.regex(entry.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);
	t.deepEqual(entry, {
		id: entry.id,
		recipient: 'Jörg@Bücher.example',
		reason: 'manual',
		source: 'api',
		mode: 'live',
		created_at: entry.created_at,
	});
	const again = await api.post(path, {recipient: 'jörg@xn--bcher-kva.example'});
	t.is(again.status, 200);
	t.deepEqual(again.body, entry);
	const bounced = await insertEntry(store, api.workspace.id, 'gone@x.test', 'hard_bounce');
	t.like(await add(api, 'gone@x.test'), {id: bounced, reason: 'hard_bounce'});
});

storeTest(test, 'fifty concurrent additions of one address create one entry', async (t, store) => {
	const api = await startApi(t, store);
	const answers = await Promise.all(
		Array.from({length: 50}, (_, index) => api.post(path, {recipient: index % 2 ? 'a@x.test' : 'A@x.test'})),
	);
	t.is(answers.filter(({status}) => status === 201).length, 1);
	t.is(answers.filter(({status}) => status === 200).length, 49);
	t.is(new Set(answers.map(idOf)).size, 1);
	t.is((await list(api)).data.length, 1);
});

sqliteTest(test, 'names the invalid fields of a body', async (t, store) => {
	conforms(t, 'suppressions.add.request');
	const api = await startApi(t, store);
	for (const [body, field] of [
		[{}, 'recipient'],
		[{recipient: 'Name <a@x.test>'}, 'recipient'],
		[{recipient: ['a@x.test']}, 'recipient'],
		[{recipient: null}, 'recipient'],
		[{recipient: 'a@x.test', reason: 'complaint'}, 'reason'],
	] as const) {
		const answer = await api.post(path, body);
		t.is(answer.status, 422, JSON.stringify(body));
		t.is(codeOf(answer), 'validation_failed');
		t.is((answer.body as {error: {violations: [{field: string}]}}).error.violations[0].field, field);
	}
	t.is(codeOf(await api.post(path, '[]')), 'validation_failed');
	t.is(codeOf(await api.post(path, '')), 'bad_request');
	t.is(codeOf(await api.post(`${path}?dry=1`, {recipient: 'a@x.test'})), 'validation_failed');
	t.deepEqual((await list(api)).data, []);
});

storeTest(test, 'lists entries in pages, newest first, with filters', async (t, store) => {
	conforms(t, 'suppressions.list.answer', 'overview.newest-first', 'limits.page-size');
	const api = await startApi(t, store);
	const ids: string[] = [];
	for (let n = 0; n < 27; n++) {
		ids.unshift(idOf(await api.post(path, {recipient: `r${n}@x.test`})));
	}
	const bounced = await insertEntry(store, api.workspace.id, 'gone@x.test', 'hard_bounce');
	const first = await list(api);
	t.deepEqual(
		first.data.map(({id}) => id),
		[bounced, ...ids].slice(0, 25),
	);
	const rest = await list(api, `?cursor=${first.next_cursor}`);
	t.deepEqual(
		rest.data.map(({id}) => id),
		ids.slice(24),
	);
	t.is(rest.next_cursor, null);
	t.deepEqual(
		(await list(api, '?reason=hard_bounce')).data.map(({id}) => id),
		[bounced],
	);
	t.deepEqual((await list(api, '?recipient=R3%40X.test')).data, [await add(api, 'r3@x.test')]);
	t.deepEqual((await list(api, '?recipient=r3%40x.test&reason=complaint')).data, []);
	const manual = await list(api, '?reason=manual&limit=1');
	t.is(codeOf(await api.get(`${path}?reason=complaint&limit=1&cursor=${manual.next_cursor}`)), 'validation_failed');
	t.is(codeOf(await api.get(`${path}?cursor=${manual.next_cursor}`)), 'validation_failed');
	for (const query of [
		'?limit=0',
		'?limit=101',
		'?reason=spam',
		'?recipient=nobody',
		'?since=1',
		'?limit=1&limit=2',
	]) {
		t.is(codeOf(await api.get(path + query)), 'validation_failed', query);
	}
});

sqliteTest(test, 'paging while entries are added and removed neither repeats nor skips one', async (t, store) => {
	const api = await startApi(t, store);
	const stay: string[] = [];
	const go: string[] = [];
	for (let n = 0; n < 60; n++) {
		(n % 3 === 0 ? go : stay).push(idOf(await api.post(path, {recipient: `r${n}@x.test`})));
	}
	const seen: string[] = [];
	let cursor: string | null = null;
	for (let pages = 0; pages === 0 || cursor !== null; pages++) {
		const page: Page = await list(api, `?limit=7${cursor === null ? '' : `&cursor=${cursor}`}`);
		seen.push(...page.data.map(({id}) => id));
		cursor = page.next_cursor;
		await add(api, `new${pages}@x.test`);
		const leaving = go.pop();
		t.true(leaving === undefined || (await api.remove(`${path}/${leaving}`)).status === 204);
	}
	t.is(new Set(seen).size, seen.length);
	t.deepEqual(
		stay.filter(id => !seen.includes(id)),
		[],
	);
});

storeTest(
	test,
	'removing an entry of any source allows sending again and is recorded in the audit trail',
	async (t, store) => {
		conforms(t, 'suppressions.delete.answer');
		const api = await startApi(t, store);
		const complaint = await insertEntry(store, api.workspace.id, 'user@example.org', 'complaint');
		t.is(codeOf(await api.send()), 'recipient_suppressed');
		const removed = await api.remove(`${path}/${complaint}`);
		t.is(removed.status, 204);
		t.is(removed.text, '');
		t.is((await api.send()).status, 202);
		t.is(codeOf(await api.remove(`${path}/${complaint}`)), 'not_found');

		const manual = await add(api, 'user@example.org');
		t.is((await api.remove(`${path}/${manual.id}`)).status, 204);
		const acts = await store.reader('audit').where({action: 'suppression.removed'}).orderBy('id');
		const [key] = await store.reader('api_keys');
		t.deepEqual(
			acts.map(({target}) => target),
			[complaint, manual.id],
		);
		t.like(acts[0], {workspace_id: api.workspace.id, actor: key.id, recipient: 'user@example.org'});
		t.like(JSON.parse(acts[0].detail), {reason: 'complaint'});
	},
);

sqliteTest(test, 'treats entries of another workspace as unknown and keeps them', async (t, store) => {
	const api = await startApi(t, store);
	const other = await addWorkspace(store, 'other');
	const key = await addKey(store, other.id);
	const entry = await add(api, 'a@x.test');
	const shape = ({status, body}: {status: number; body: unknown}) => [
		status,
		Object.keys((body as {error: object}).error),
		codeOf({body} as never),
	];
	const foreign = shape(await api.remove(`${path}/${entry.id}`, key));
	t.deepEqual(foreign, [404, ['code', 'message', 'request_id'], 'not_found']);
	for (const id of [newId('sup'), 'sup_x', newId('usg'), '%00', 'a'.repeat(300)]) {
		t.deepEqual(shape(await api.remove(`${path}/${id}`, key)), foreign, id);
	}
	t.deepEqual((await list(api, '', key)).data, []);
	const page = await list(api, '?limit=1');
	await add(api, 'b@x.test');
	const {next_cursor} = await list(api, '?limit=1');
	t.is(codeOf(await api.get(`${path}?limit=1&cursor=${next_cursor}`, key)), 'validation_failed');
	t.deepEqual(page.data, [entry]);
	t.is((await api.post(path, {recipient: 'a@x.test'}, key)).status, 201, 'a list of its own');
});

sqliteTest(
	test,
	'suppressing an address stops queued messages to it, before and between attempts',
	async (t, store) => {
		const api = await startApi(t, store);
		for (const to of ['waits@a.test', 'deferred@b.test', 'other@a.test']) {
			t.is((await api.send({to})).status, 202);
		}
		t.is((await api.post(path, {recipient: 'Waits@A.test'})).status, 201);
		const tried: string[] = [];
		const {scheduler} = schedulerOf(store, async recipient => {
			tried.push(recipient.address);
			if (recipient.address === 'deferred@b.test') {
				await add(api, recipient.address);
				return resultOf(recipient, {kind: 'deferred', category: 'system', reason: '450 later'});
			}
			return resultOf(recipient, {kind: 'delivered'});
		});
		await scheduler.start();
		const states = async () => {
			const rows: Array<{address: string; state: string}> = await recipientRows(store.reader).orderBy('address');
			return rows.map(({address, state}) => `${address} ${state}`);
		};
		await waitFor(
			'every copy',
			async () => (await recipientRows(store.reader).whereNotNull('next_attempt_at')).length === 0,
		);
		await scheduler.stop();
		t.deepEqual(await states(), [
			'deferred@b.test suppressed',
			'other@a.test delivered',
			'waits@a.test suppressed',
		]);
		t.deepEqual(tried.toSorted(), ['deferred@b.test', 'other@a.test']);
	},
);
