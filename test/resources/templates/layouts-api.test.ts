import test, {type ExecutionContext} from 'ava';
import {putLayout} from '../../../src/resources/templates/layouts-store.ts';
import type {Store} from '../../../src/store/store.ts';
import {type Answer, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';

const main = {files: {'body.html': "<b>{{ content }}</b>{% render 'foot' %}"}};
const foot = (text: string) => ({files: {'foot.liquid': text}});
const variants = [{locale: null, subject: 'Receipt', html: '<p>{{ n }}</p>'}];

async function prepare(t: ExecutionContext, store: Store): Promise<{api: TestApi; id: string}> {
	const api = await startApi(t, store);
	t.is((await api.put('/v1/layouts/partial/foot', foot('Acme'))).status, 200);
	t.is((await api.put('/v1/layouts/layout/main', main)).status, 200);
	const id = idOf(await api.post('/v1/templates', {name: 'receipt'}));
	const saved = await api.post(`/v1/templates/${id}/versions`, {variants, layout: 'main'});
	t.is(saved.status, 201, saved.text);
	t.like(saved.body, {layout: 'main', variants: [{html: '<p>{{ n }}</p>'}]});
	return {api, id};
}

const fieldsOf = ({body}: Answer) =>
	(body as {error: {violations: Array<{field: string; message: string}>}}).error.violations;

sqliteTest(
	test,
	'a version uses its layout; changing a partial creates the next version, after a dry run',
	async (t, store) => {
		const {api, id} = await prepare(t, store);
		const preview = async () => (await api.post(`/v1/templates/${id}/preview`, {data: {n: 1}})).body;
		t.like(await preview(), {html: '<b><p>1</p></b>Acme'});
		const diff = [
			'--- receipt/body.html (version 1)',
			'+++ receipt/body.html (version 2)',
			'@@ -1,1 +1,1 @@',
			'-<b><p>{{ n }}</p></b>Acme',
			'+<b><p>{{ n }}</p></b>Acme Ltd',
			'',
		].join('\n');
		const change = {templates: [{id, name: 'receipt', version: 2, diff}]};
		const dry = await api.put('/v1/layouts/partial/foot?dry_run=true', foot('Acme Ltd'));
		t.deepEqual([dry.status, dry.body], [200, change], dry.text);
		t.like(await preview(), {html: '<b><p>1</p></b>Acme'});
		t.deepEqual((await api.put('/v1/layouts/partial/foot', foot('Acme Ltd'))).body, change);
		t.like(await preview(), {html: '<b><p>1</p></b>Acme Ltd'});
		t.deepEqual((await api.put('/v1/layouts/partial/foot', foot('Acme Ltd'))).body, {templates: []});
		t.like((await api.get(`/v1/templates/${id}/versions/1`)).body, {layout: 'main'});
	},
);

sqliteTest(test, 'rejects a layout change as a whole if a template no longer compiles', async (t, store) => {
	const {api, id} = await prepare(t, store);
	const bad = await api.put('/v1/layouts/layout/main', {files: {'body.html': '\n{{ content }} {{ x | nope }}'}});
	t.is(bad.status, 422);
	t.like(fieldsOf(bad), [{field: 'files', message: 'receipt: _layouts/main/body.html:2:15: undefined filter: nope'}]);
	for (const [files, message] of [
		[
			{'body.html': 'no mark'},
			/^_layouts\/main\/body\.html:1:1: a layout must contain \{\{ content \}\} exactly once/,
		],
		[{'../x.html': '{{ content }}'}, /must be body\.mjml/],
		[{'body.a/b.html': '{{ content }}'}, /must be body\.mjml/],
		[{'body.de_DE.html': '{{ content }}'}, /must be body\.mjml/],
		[{}, /body\.mjml: is missing/],
		[{'body.html': "{{ content }}{% render 'gone' %}"}, /:1:14: partial gone not found/],
	] as const) {
		const answer = await api.put('/v1/layouts/layout/main', {files});
		t.is(answer.status, 422, answer.text);
		t.regex(fieldsOf(answer)[0]?.message ?? '', message);
	}
	t.is((await api.put(`/v1/layouts/partial/${'a'.repeat(65)}`, foot('x'))).status, 422);
	t.is((await api.put('/v1/layouts/other/main', main)).status, 404);
	t.like((await api.get(`/v1/templates/${id}`)).body, {latest_version: 1});
	t.like((await api.get('/v1/layouts/layout/main')).body, {files: main.files, used_by: ['receipt']});
	const unknown = await api.post(`/v1/templates/${id}/versions`, {variants, layout: 'nix'});
	t.deepEqual(fieldsOf(unknown), [{field: 'layout', message: 'layout nix not found'}]);
	const own = [{...variants[0], html: "<p>\n{% render 'gone' %}</p>"}];
	const inPartial = await api.post(`/v1/templates/${id}/versions`, {variants: own, layout: 'main'});
	t.regex(fieldsOf(inPartial)[0]?.message ?? '', /^line 2, column 1: partial gone not found/);
});

storeTest(test, 'removes only layouts and partials that are not in use, and lists them in pages', async (t, store) => {
	const {api, id} = await prepare(t, store);
	const used = await api.remove('/v1/layouts/partial/foot');
	t.is(used.status, 409);
	t.regex(used.text, /receipt, layout\/main use the partial foot/);
	t.is((await api.remove('/v1/layouts/layout/main')).status, 409);
	await api.post(`/v1/templates/${id}/versions`, {variants});
	t.is((await api.remove('/v1/layouts/layout/main')).status, 204);
	t.is((await api.remove('/v1/layouts/layout/main')).status, 404);
	await api.put('/v1/layouts/layout/other', {files: {'body.html': '{{ content }}'}});
	const page = (await api.get('/v1/layouts?limit=1')).body as {data: unknown[]; next_cursor: string};
	t.like(page.data, [{kind: 'layout', name: 'other'}]);
	t.like((await api.get(`/v1/layouts?limit=1&cursor=${page.next_cursor}`)).body, {
		...{data: [{kind: 'partial', name: 'foot'}], next_cursor: null},
	});
});

storeTest(test, 'concurrent changes of a layout and a template both take effect', async (t, store) => {
	const {api, id} = await prepare(t, store);
	const texts = ['one', 'two', 'three', 'four'];
	const answers = await Promise.all([
		...texts.map(text => api.put('/v1/layouts/partial/foot', foot(text))),
		...texts.map(text =>
			api.post(`/v1/templates/${id}/versions`, {variants: [{subject: text, html: text}], layout: 'main'}),
		),
	]);
	t.true(
		answers.every(({status}) => [200, 201, 409].includes(status)),
		answers.map(({text}) => text).join('\n'),
	);
	const {files} = (await api.get('/v1/layouts/partial/foot')).body as {files: Record<string, string>};
	const {html} = (await api.post(`/v1/templates/${id}/preview`, {})).body as {html: string};
	t.true(html.endsWith(`</b>${files['foot.liquid']}`), `${html} and ${files['foot.liquid']}`);
});

/** Counts the characters of the rows read during the work. */
async function readDuring({reader}: Store, work: () => Promise<unknown>): Promise<number> {
	let read = 0;
	const note = (rows: unknown) => {
		read += JSON.stringify(rows)?.length ?? 0;
	};
	reader.on('query-response', note);
	await work();
	reader.removeListener('query-response', note);
	return read;
}

sqliteTest(test, 'a request for one layout reads only its sources, and lists read none', async (t, store) => {
	const {api, id} = await prepare(t, store);
	const long = 'x'.repeat(30_000);
	await store.writer.transaction(async trx => {
		for (let n = 0; n < 12; n++) {
			const files = {'body.html': `${long}{{ content }}`};
			const row = {kind: 'layout', name: `other${n}`, files, updated_at: '2026-01-01T00:00:00.000Z'} as const;
			await putLayout(trx, api.workspace.id, row);
		}
	});
	const body = 'y'.repeat(30_000);
	await api.post(`/v1/templates/${id}/versions`, {variants: [{subject: 'a', html: body}], layout: 'other0'});
	const another = idOf(await api.post('/v1/templates', {name: 'another'}));
	await api.post(`/v1/templates/${another}/versions`, {variants, layout: 'main'});
	const paths = ['/v1/layouts', '/v1/layouts/layout/main', '/v1/layouts/partial/foot', '/v1/layouts/layout/none'];
	for (const path of paths) {
		t.true((await readDuring(store, () => api.get(path))) < 8000, path);
	}
	t.true((await readDuring(store, () => api.get('/v1/layouts/layout/other1'))) < 2 * long.length);
	t.like((await api.get('/v1/layouts/layout/other0')).body, {used_by: ['receipt']});
	t.like((await api.get('/v1/layouts/partial/foot')).body, {used_by: ['another', 'layout/main']});
	const dry = () => api.put('/v1/layouts/partial/foot?dry_run=true', foot('Acme Ltd'));
	t.true((await readDuring(store, dry)) < 16_000, 'a change reads what it changes');
	t.true((await readDuring(store, () => api.get(`/v1/templates/${id}/versions`))) < 8000);
});

sqliteTest(test, 'reads the usage of layouts saved by the previous version of the program', async (t, store) => {
	const {api} = await prepare(t, store);
	await store.reader('templates').update({uses: null});
	await store.reader('layout_uses').where({kind: 'partial'}).delete();
	const files = JSON.stringify({'body.html': '{{ content }}'});
	await store.reader('layouts').where({kind: 'layout'}).update({files, updated_at: '2026-01-01T00:00:00.000Z'});
	t.like((await api.get('/v1/layouts/layout/main')).body, {used_by: ['receipt']});
	t.like((await api.get('/v1/layouts/partial/foot')).body, {used_by: []});
});

sqliteTest(test, 'replaces a diff of more than 2,000 lines by a notice', async (t, store) => {
	const {api} = await prepare(t, store);
	const dry = async (text: string) => (await api.put('/v1/layouts/partial/foot?dry_run=true', foot(text))).body;
	t.regex(
		((await dry('a\n'.repeat(1000))) as {templates: Array<{diff: string}>}).templates[0]?.diff ?? '',
		/^--- receipt/,
	);
	const {templates} = (await dry('a\n'.repeat(2100))) as {templates: Array<{diff: string}>};
	t.is(
		templates[0]?.diff,
		'The diff of receipt is not shown: it has more than 2000 lines, or all diffs have more than 1 MiB.\n',
	);
});
