import test from 'ava';
import {CsvReader, type CsvRecord} from '../../../src/kit/csv.ts';
import {csvColumns, readPages} from '../../../src/resources/csv-lists.ts';
import {idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

/** Returns the rows of a CSV list, keyed by the header’s names. */
async function rowsOf(
	api: TestApi,
	path: string,
	key = api.key,
	accept = 'text/csv',
): Promise<Array<Record<string, string>>> {
	const answer = await fetch(api.base + path, {headers: {authorization: `Bearer ${key}`, accept}});
	if (answer.headers.get('content-type') !== 'text/csv; charset=utf-8') {
		throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
	}
	return readCsv(await answer.text());
}

function readCsv(text: string): Array<Record<string, string>> {
	const reader = new CsvReader();
	const [names = [], ...rows] = [...reader.push(text), ...reader.end()].map(
		record => (record as Extract<CsvRecord, {cells: readonly string[]}>).cells,
	);
	return rows.map(cells => Object.fromEntries(names.map((name, index) => [name, cells[index] ?? ''])));
}

storeTest(test, 'exports all matching messages as CSV, beyond the page size', async (t, store) => {
	const api = await startApi(t, store);
	const ids: string[] = [];
	for (let n = 0; n < 130; n++) {
		const to = n % 2 === 0 ? 'even@example.org' : 'odd@example.org';
		ids.push(
			idOf(
				await api.send({
					to,
					metadata: {note: n === 0 ? '=1+1' : 'a, "b"'},
					tags: ['x', 'y'],
					cc: ['c@example.net'],
				}),
			),
		);
	}
	const all = await rowsOf(api, '/v1/messages');
	t.deepEqual(
		all.map(({id}) => id),
		ids.toReversed(),
	);
	t.deepEqual(Object.keys(all[0] ?? {}), [...csvColumns.messages]);
	const {
		id,
		created_at: created,
		metadata,
		tags,
		cc,
	} = (await api.get(`/v1/messages/${ids[1]}`)).body as Record<string, unknown>;
	t.like(all.at(-2), {
		id,
		created_at: created,
		metadata: JSON.stringify(metadata),
		tags: JSON.stringify(tags),
		cc: JSON.stringify(cc),
	});
	t.is((await rowsOf(api, '/v1/messages?recipient=odd@example.org')).length, 65);
	t.is((await rowsOf(api, '/v1/messages?limit=7')).length, 7);
	const {next_cursor: cursor} = (await api.get('/v1/messages?limit=100')).body as {next_cursor: string};
	t.deepEqual(
		(await rowsOf(api, `/v1/messages?cursor=${cursor}`)).map(row => row.id),
		ids.slice(0, 30).toReversed(),
	);

	// The response is JSON unless CSV is requested.
	const both = ['application/json, text/csv', 'text/csv;q=0.5, application/json', 'text/csv;a=b;q=0'];
	const none = ['*/*', 'application/json', 'text/*', 'text/csv;q=0', 'text/csv; q=0.0, */*', 'text/csvx', ...both];
	for (const accept of none) {
		const answer = await fetch(`${api.base}/v1/messages`, {headers: {authorization: `Bearer ${api.key}`, accept}});
		t.is(answer.headers.get('content-type'), 'application/json; charset=utf-8', accept);
		await answer.body?.cancel();
	}
	t.is((await rowsOf(api, '/v1/messages', api.key, 'application/json;q=0.5, text/csv')).length, 130);
	t.is((await rowsOf(api, '/v1/messages', api.key, 'Text/CSV;q=0.5, */*')).length, 130);
	const head = await fetch(`${api.base}/v1/messages`, {
		method: 'HEAD',
		headers: {authorization: `Bearer ${api.key}`, accept: 'text/csv'},
	});
	t.deepEqual([head.status, head.headers.get('content-disposition')], [200, 'attachment; filename="messages.csv"']);
});

sqliteTest(test, 'a CSV export has the same checks and permissions as the JSON list', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.send());
	const foreign = await addKey(store, (await addWorkspace(store, 'other')).id);
	await t.throwsAsync(rowsOf(api, '/v1/messages?cursor=x'), {message: /422 .*validation_failed/});
	await t.throwsAsync(rowsOf(api, `/v1/messages/${newId('msg')}/events`), {message: /404 .*message_not_found/});
	await t.throwsAsync(rowsOf(api, `/v1/messages/${id}/events`, foreign), {message: /404 .*message_not_found/});
	const testKey = await addKey(store, api.workspace.id, {mode: 'test'});
	for (const key of [foreign, testKey]) {
		t.deepEqual(await rowsOf(api, '/v1/messages', key), []);
		t.deepEqual(await rowsOf(api, '/v1/events', key), []);
	}
});

storeTest(test, 'exports the events of one message or all events as CSV', async (t, store) => {
	const api = await startApi(t, store);
	const ids = [idOf(await api.send()), idOf(await api.send())];
	t.like(await rowsOf(api, `/v1/messages/${ids[0]}/events`), [{type: 'accepted', detail: '{}'}]);
	const events = await rowsOf(api, '/v1/events');
	t.deepEqual(
		events.map(row => [row.message_id, row.type, row.mode]),
		ids.map(id => [id, 'accepted', 'live']),
	);
	t.deepEqual(await rowsOf(api, '/v1/events?types=delivered'), []);
});

test('reads page after page, to the end or to the requested number of rows', async t => {
	const all = Array.from({length: 250}, (_, n) => n);
	const scan = async ({after, limit}: {after: string | null; limit: number}) => {
		const from = after === null ? 0 : Number(after) + 1;
		const rows = all.slice(from, from + limit);
		return {rows, next: from + limit < all.length ? String(from + limit - 1) : null};
	};
	const read = async (most?: number) => {
		const rows: number[] = [];
		for await (const page of readPages(scan, {max: most})) {
			rows.push(...page);
		}
		return rows;
	};
	t.deepEqual(await read(), all);
	for (const most of [1, 99, 100, 101, 249, 250, 251]) {
		t.deepEqual(await read(most), all.slice(0, most));
	}
});
