import test from 'ava';
import {codeOf, idOf, startApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

const shape = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;
type Template = {readonly id: string; readonly name: string; readonly latest_version: number | null};
type Page<Row> = {readonly data: readonly Row[]; readonly next_cursor: string | null};

sqliteTest(test, 'creates, returns, lists and deletes a template', async (t, store) => {
	const api = await startApi(t, store);
	const made = await api.post('/v1/templates', {name: 'Beleg – größer 🎉'});
	t.is(made.status, 201, made.text);
	const {created_at, updated_at, ...rest} = made.body as Template & {created_at: string; updated_at: string};
	t.deepEqual(rest, {id: idOf(made), name: 'Beleg – größer 🎉', latest_version: null, built_in: false});
	t.regex(created_at, shape);
	t.is(updated_at, created_at);
	const path = `/v1/templates/${idOf(made)}`;
	t.deepEqual((await api.get(path)).body, made.body);
	const {body} = await api.get('/v1/templates');
	t.deepEqual(
		(body as Page<Template>).data.map(({name}) => name),
		['Beleg – größer 🎉', 'welcome'],
	);
	t.is((await api.send({templateId: idOf(made)})).status, 422);
	t.is(codeOf(await api.send({templateId: idOf(made)})), 'template_has_no_version');

	const removed = await api.remove(path);
	t.is(removed.status, 204);
	t.is(removed.text, '');
	t.is((await api.get(path)).status, 404);
	t.is(codeOf(await api.remove(path)), 'not_found');
	t.is(codeOf(await api.send({templateId: idOf(made)})), 'template_not_found');
});

sqliteTest(test, 'a template has settings for all its versions and shows those that are set', async (t, store) => {
	const api = await startApi(t, store);
	await api.post('/v1/unsubscribe-groups', {code: 'codes', name: 'Codes'});
	const settings = {topic: 'codes', priority: 'high', sensitive: ['code', 'order.link']};
	const made = await api.post('/v1/templates', {name: 'code', ...settings});
	t.is(made.status, 201, made.text);
	t.like(made.body, settings);
	const path = `/v1/templates/${idOf(made)}`;
	const changed = await api.patch(path, {priority: null, sensitive: ['code']});
	t.deepEqual([changed.status, changed.body], [200, (await api.get(path)).body]);
	t.false('priority' in (changed.body as object));
	t.like(changed.body, {topic: 'codes', sensitive: ['code']});
	const variants = [{subject: 'a', html: '<p>a</p>'}];
	t.is((await api.post(`${path}/versions`, {variants, priority: 'low'})).status, 201);
	t.like((await api.get(path)).body, {topic: 'codes', priority: 'low', sensitive: ['code'], latest_version: 1});

	for (const [body, code] of [
		[{topic: 'unknown'}, 'unprocessable_entity'],
		[{topic: 'no code'}, 'validation_failed'],
		[{priority: 'urgent'}, 'validation_failed'],
		[{sensitive: ['a b']}, 'validation_failed'],
	] as const) {
		t.is(codeOf(await api.patch(path, body)), code);
		t.is(codeOf(await api.post('/v1/templates', {...body, name: 'refused'})), code);
		t.is(codeOf(await api.post(`${path}/versions`, {...body, variants})), code);
	}
	t.like((await api.get(path)).body, {latest_version: 1});
	t.is(codeOf(await api.patch(`/v1/templates/${newId('tpl')}`, {priority: 'low'})), 'not_found');
	t.is(
		codeOf(await api.patch(path, {priority: 'low'}, await addKey(store, (await addWorkspace(store, 'other')).id))),
		'not_found',
	);
});

sqliteTest(test, 'a name is unique and can be reused after the template was deleted', async (t, store) => {
	const api = await startApi(t, store);
	const same = await Promise.all(Array.from({length: 8}, () => api.post('/v1/templates', {name: 'receipt'})));
	t.deepEqual(same.map(({status}) => status).toSorted(), [201, ...new Array(7).fill(409)]);
	t.is(codeOf(same.find(({status}) => status === 409) as (typeof same)[0]), 'conflict');
	const first = same.find(({status}) => status === 201) as (typeof same)[0];
	t.is((await api.remove(`/v1/templates/${idOf(first)}`)).status, 204);
	t.is((await api.post('/v1/templates', {name: 'receipt'})).status, 201);
	const other = await addWorkspace(store, 'globex');
	t.is((await api.post('/v1/templates', {name: 'receipt'}, await addKey(store, other.id))).status, 201);
});

sqliteTest(test, 'accepts a chosen id, unique in the workspace, and uses it in sends and reads', async (t, store) => {
	const api = await startApi(t, store);
	const made = await api.post('/v1/templates', {name: 'receipt', id: 'tpl_receipt'});
	t.like(made, {status: 201, body: {id: 'tpl_receipt', name: 'receipt'}}, made.text);
	const again = await api.post('/v1/templates', {name: 'bill', id: 'tpl_receipt'});
	t.like(again, {
		status: 409,
		body: {error: {code: 'conflict', message: 'A template with this id already exists.'}},
	});
	for (const id of ['receipt', 'tpl_', 'tpl_a b', `tpl_${'a'.repeat(65)}`, 'tpl_ä', 'tpl_a\n', '']) {
		const refused = await api.post('/v1/templates', {name: 'bill', id});
		t.like(
			(refused.body as {error: object}).error,
			{code: 'validation_failed', violations: {0: {field: 'id'}}},
			id,
		);
	}
	const other = await addWorkspace(store, 'globex');
	const theirs = await addKey(store, other.id);
	t.is((await api.get('/v1/templates/tpl_receipt', theirs)).status, 404);
	t.is((await api.post('/v1/templates', {name: 'receipt', id: 'tpl_receipt'}, theirs)).status, 201);

	t.is(codeOf(await api.send({templateId: 'tpl_receipt'})), 'template_has_no_version');
	const variants = [{subject: 'Receipt', html: '<p>1</p>'}];
	const version = await api.post('/v1/templates/tpl_receipt/versions', {variants});
	t.like(version, {status: 201, body: {template_id: 'tpl_receipt', version: 1}}, version.text);
	t.deepEqual((await api.get('/v1/templates/tpl_receipt/versions/1')).body, version.body);
	t.like((await api.get('/v1/templates/tpl_receipt/versions')).body, {data: [{template_id: 'tpl_receipt'}]});
	const sent = await api.send({templateId: 'tpl_receipt'});
	t.is(sent.status, 202, sent.text);
	t.like((await api.get(`/v1/messages/${idOf(sent)}`)).body, {template_id: 'tpl_receipt', template_name: 'receipt'});
	await api.send();
	const {body} = await api.get('/v1/messages?templateId=tpl_receipt');
	t.deepEqual(
		(body as Page<{id: string}>).data.map(({id}) => id),
		[idOf(sent)],
	);
});

sqliteTest(test, 'rejects invalid template names', async (t, store) => {
	const api = await startApi(t, store);
	for (const name of [
		'',
		' a',
		'a ',
		'a\nb',
		'a\u0000b',
		'\ud800',
		'a\u202eb',
		'a'.repeat(201),
		7,
		null,
		['a'],
		{},
	]) {
		const answer = await api.post('/v1/templates', {name});
		t.like(answer, {status: 422}, `${JSON.stringify(name)}: ${answer.text}`);
		t.like((answer.body as {error: object}).error, {code: 'validation_failed', violations: {0: {field: 'name'}}});
	}
	t.is((await api.post('/v1/templates', {name: '🎉'.repeat(200)})).status, 201);
	t.is((await api.get('/v1/templates')).status, 200);
});

storeTest(
	test,
	'pages newest first; templates added or deleted meanwhile cause no repeats or gaps',
	async (t, store) => {
		const api = await startApi(t, store);
		const names = Array.from({length: 30}, (_, index) => `template ${index}`);
		const ids = new Map<string, string>();
		for (const name of names) {
			ids.set(name, idOf(await api.post('/v1/templates', {name})));
		}
		const seen: string[] = [];
		let cursor: string | null = '';
		for (let pages = 0; cursor !== null; pages++) {
			const {body} = await api.get(`/v1/templates?limit=7${cursor && `&cursor=${cursor}`}`);
			const page = body as Page<Template>;
			seen.push(...page.data.map(({name}) => name));
			cursor = page.next_cursor;
			if (pages === 1) {
				await api.post('/v1/templates', {name: 'new'});
				await api.remove(`/v1/templates/${ids.get('template 3')}`);
			}
		}
		const expected = [...names.filter(name => name !== 'template 3').toReversed(), 'welcome'];
		t.deepEqual(seen, expected);
		t.is((((await api.get('/v1/templates')).body as Page<Template>).data as unknown[]).length, 25);
	},
);

sqliteTest(test, 'treats ids of another workspace as unknown on every template route', async (t, store) => {
	const api = await startApi(t, store);
	const other = await addWorkspace(store, 'globex');
	const otherKey = await addKey(store, other.id);
	const sender = idOf(await api.post('/v1/senders', {address: 'a@example.com'}));
	const variants = [{subject: 's', html: '<p>x</p>'}];
	const shapeOf = (text: string) => text.replace(/req_\w+/, 'req');
	const calls: Array<[string, string, unknown?]> = [
		['GET', '/v1/templates/ID'],
		['DELETE', '/v1/templates/ID'],
		['GET', '/v1/templates/ID/versions'],
		['POST', '/v1/templates/ID/versions', {variants}],
		['GET', '/v1/templates/ID/versions/1'],
		['POST', '/v1/templates/ID/preview', {}],
		['DELETE', '/v1/senders/ID'],
	];
	for (const [method, path, body] of calls) {
		const isSender = path.startsWith('/v1/senders');
		const ask = (id: string, key: string) => {
			const to = path.replace('ID', encodeURIComponent(id));
			return method === 'POST'
				? api.post(to, body, key)
				: method === 'GET'
					? api.get(to, key)
					: api.remove(to, key);
		};
		const unknown = await ask(newId(isSender ? 'snd' : 'tpl'), otherKey);
		t.is(unknown.status, 404, path);
		t.is(codeOf(unknown), 'not_found', path);
		for (const id of [isSender ? sender : api.workspace.templateId, 'x', "' or 1=1", '%00', newId('msg'), 'é']) {
			const foreign = await ask(id, otherKey);
			t.is(foreign.status, 404, `${method} ${path} ${id}`);
			t.is(shapeOf(foreign.text), shapeOf(unknown.text), `${method} ${path} ${id}`);
		}
	}
	t.is((await api.get(`/v1/templates/${api.workspace.templateId}`)).status, 200);
	t.is((await api.remove(`/v1/senders/${sender}`)).status, 204);
	t.deepEqual(api.reported, []);
});
