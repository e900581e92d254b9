import test from 'ava';
import fc from 'fast-check';
import {anyChar} from '../../helpers/any-char.ts';
import {type Answer, codeOf, startApi, type TestApi} from '../../helpers/api.ts';
import {newStore, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {addWorkspace} from '../../helpers/workspace.ts';

type Version = {
	readonly version: number;
	readonly created_at: string;
	readonly variants: ReadonlyArray<Record<string, unknown>>;
	readonly sample: unknown;
};
type Page = {readonly data: readonly Version[]; readonly next_cursor: string | null};
type Violations = ReadonlyArray<{readonly field: string; readonly message: string}>;

const mjml = (inner: string) => `<mjml><mj-body>${inner}</mj-body></mjml>`;
const section = (inner: string) => mjml(`<mj-section><mj-column><mj-text>${inner}</mj-text></mj-column></mj-section>`);

function versions({workspace}: TestApi): string {
	return `/v1/templates/${workspace.templateId}/versions`;
}

function violationsOf({status, body, text}: Answer): Violations {
	if (status !== 422) {
		throw new Error(text);
	}
	return (body as {error: {violations: Violations}}).error.violations;
}

storeTest(test, 'compiles a version, returns it as it was written and uses it for the next send', async (t, store) => {
	const api = await startApi(t, store);
	const variants = [
		{locale: null, subject: 'Receipt {{ n }}', mjml: section('Order {{ n }}')},
		{locale: 'de-at', subject: 'Beleg {{ n }}', html: '<p>Bestellung {{ n }}</p>', text: ''},
	];
	const saved = await api.post(versions(api), {variants});
	t.is(saved.status, 201, saved.text);
	const body = saved.body as Version;
	t.like(body, {template_id: api.workspace.templateId, version: 2, sample: null});
	t.regex(body.created_at, /\+00:00$/);
	t.deepEqual(body.variants, [
		{...variants[0], text: null},
		{...variants[1], locale: 'de-AT'},
	]);
	t.deepEqual((await api.get(`${versions(api)}/2`)).body, saved.body);
	t.like((await api.get(`/v1/templates/${api.workspace.templateId}`)).body, {latest_version: 2});

	const sent = (await api.send()).body as {id: string};
	t.like((await api.get(`/v1/messages/${sent.id}`)).body, {template_version: 2});
	const row = await store.reader('messages').where({id: sent.id}).first('version_id');
	const stored = await store.reader('template_variants').where({version_id: row.version_id}).orderBy('position');
	t.regex(stored[0].html, /<!doctype html>[\s\S]*Order \{\{ n \}\}/i);
	t.deepEqual(
		stored.map(({locale, kind, text}) => [locale, kind, text]),
		[
			[null, 'mjml', 'Order {{ n }}\n'],
			['de-AT', 'html', ''],
		],
	);
});

storeTest(test, 'each save creates a version; concurrent saves are numbered without gaps', async (t, store) => {
	const api = await startApi(t, store);
	const variants = [{subject: 's', html: '<p>x</p>'}];
	const saved = await Promise.all(Array.from({length: 6}, () => api.post(versions(api), {variants})));
	t.deepEqual(
		saved.map(({body}) => (body as Version).version).toSorted((a, b) => a - b),
		[2, 3, 4, 5, 6, 7],
	);
	const seen: number[] = [];
	let cursor: string | null = '';
	while (cursor !== null) {
		const page = (await api.get(`${versions(api)}?limit=3${cursor && `&cursor=${cursor}`}`)).body as Page;
		seen.push(...page.data.map(({version}) => version));
		cursor = page.next_cursor;
		t.deepEqual(page.data.find(({version}) => version === 5)?.variants ?? [{locale: null, subject: 's'}], [
			{locale: null, subject: 's'},
		]);
	}
	t.deepEqual(seen, [7, 6, 5, 4, 3, 2, 1]);
	const other = await api.post('/v1/templates', {name: 'other'});
	const {next_cursor: foreign} = (await api.get(`${versions(api)}?limit=1`)).body as Page;
	const path = `/v1/templates/${(other.body as {id: string}).id}/versions`;
	t.is(violationsOf(await api.get(`${path}?cursor=${foreign}`))[0]?.field, 'cursor');
	t.deepEqual((await api.get(path)).body, {data: [], next_cursor: null});
	for (const number of ['0', '8', '01', '-1', '1e1', '2.0', 'x', '99999999999999999999', '%00']) {
		t.is(codeOf(await api.get(`${versions(api)}/${number}`)), 'not_found', number);
	}
	t.deepEqual(api.reported, []);
});

sqliteTest(test, 'reports parse errors with field, line and column, and saves nothing', async (t, store) => {
	const api = await startApi(t, store);
	const refused = await api.post(versions(api), {
		variants: [
			{subject: 'ok', mjml: '<mjml>\n<mj-body>\n  <mj-foo/>\n</mj-body></mjml>'},
			{locale: 'de', subject: 'Hi {{ name', html: '<p>\n {% if x %}</p>', text: '{{ x | nope }}'},
			{locale: 'fr', subject: 'ok', html: '{% include "/etc/passwd" %}'},
			{locale: 'es', subject: 'ok', html: '<p>ok</p>'},
		],
	});
	t.is(codeOf(refused), 'validation_failed');
	const found = violationsOf(refused).map(({field, message}) => `${field}: ${message}`);
	for (const expected of [
		/^variants\[0\]\.mjml: line 3, column 3: .*mj-foo/,
		/^variants\[1\]\.subject: line 1, column 4: /,
		/^variants\[1\]\.html: line 2, column 2: tag \{% if x %\} not closed$/,
		/^variants\[1\]\.text: line 1, column 1: undefined filter: nope$/,
		/^variants\[2\]\.html: line 1, column 1: tag "include" not found$/,
	]) {
		t.true(
			found.some(line => expected.test(line)),
			`${expected}: ${found.join('\n')}`,
		);
	}
	t.is(found.length, 5, found.join('\n'));
	t.like((await api.get(`/v1/templates/${api.workspace.templateId}`)).body, {latest_version: 1});
});

test('rejects an invalid version before compiling anything', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const good = {subject: 's', html: ''};
	for (const [body, field] of [
		[{}, 'variants'],
		[{variants: []}, 'variants'],
		[{variants: {}}, 'variants'],
		[{variants: [good], sample: {}}, 'sample'],
		[{variants: new Array(51).fill(good)}, 'variants'],
		[{variants: [null]}, 'variants[0]'],
		[{variants: [{html: ''}]}, 'variants[0].subject'],
		[{variants: [{...good, surprise: 1}]}, 'variants[0].surprise'],
		[{variants: [{subject: 's'}]}, 'variants[0].mjml'],
		[{variants: [good, {...good, locale: 'de', mjml: ''}]}, 'variants[1].mjml'],
		[{variants: [good, good]}, 'variants[1].locale'],
		[
			{
				variants: [
					{...good, locale: 'de-at'},
					{...good, locale: 'DE-AT'},
				],
			},
			'variants[1].locale',
		],
		[{variants: [good, {...good, locale: ''}]}, 'variants[1].locale'],
		[{variants: [{...good, locale: 'not a tag'}]}, 'variants[0].locale'],
		[{variants: [{...good, subject: 7}]}, 'variants[0].subject'],
		[{variants: [{...good, html: 'a\u0000'}]}, 'variants[0].html'],
		[{variants: [{...good, text: '\ud800'}]}, 'variants[0].text'],
	] as const) {
		const answer = await api.post(versions(api), body);
		t.deepEqual(
			violationsOf(answer).map(violation => violation.field),
			[field],
			answer.text,
		);
	}
	t.is((await api.post(versions(api), {variants: [{...good, html: 'x'.repeat(262_144)}]})).status, 413);
});

// Tests that render run serially: a render is limited by the CPU time of the whole process, and compiles of
// other tests would use it up.

sqliteTest(test.serial, 'a preview shows what a send would contain', async (t, store) => {
	const api = await startApi(t, store);
	const preview = `/v1/templates/${api.workspace.templateId}/preview`;
	await api.post(versions(api), {
		variants: [
			{subject: 'Total {{ n | format_currency: "EUR" }}', html: '<p>{{ name }} {{ at | format_datetime }}</p>'},
			{
				locale: 'de',
				subject: 'Summe {{ n | format_currency: "EUR" }}',
				html: '<p>{{ name }} {{ at | format_datetime }}</p>',
			},
		],
	});
	const data = {n: '1234.5', name: '<Zoë>', at: '2026-06-09T23:30:00Z'};
	const german = await api.post(preview, {data, locale: 'de-AT', timezone: 'Europe/Berlin'});
	t.is(german.status, 200, german.text);
	t.like(german.body, {html: '<p>&lt;Zoë&gt; 10.06.2026, 01:30</p>', text: '<Zoë> 10.06.2026, 01:30\n'});
	t.regex((german.body as {subject: string}).subject, /^Summe .*1\.234,50/);
	await store.database('workspaces').update({locale: 'de', timezone: 'Asia/Tokyo'});
	const usual = await api.post(preview, {data, locale: '', timezone: null});
	t.like(usual.body, {html: '<p>&lt;Zoë&gt; 10.06.2026, 08:30</p>'});
	t.like((await api.post(preview, {})).body, {subject: 'Summe', html: '<p> </p>'});

	await api.post(versions(api), {variants: [{subject: 'new', html: ''}]});
	t.like((await api.post(preview, {})).body, {subject: 'new'});
	t.like((await api.post(preview, {data, version: 2, locale: 'en'})).body, {subject: 'Summe €1,234.50'});
	t.is(violationsOf(await api.post(preview, {version: 9}))[0]?.field, 'version');
	for (const [body, field] of [
		[{version: 0}, 'version'],
		[{version: 1e12}, 'version'],
		[{version: '1'}, 'version'],
		[{version: 1.5}, 'version'],
		[{locale: 'no tag'}, 'locale'],
		[{timezone: '+01:00'}, 'timezone'],
		[{data: []}, 'data'],
		[{data: {a: '\u0000'}}, 'data'],
		[{nonsense: 1}, 'nonsense'],
	] as const) {
		t.deepEqual(
			violationsOf(await api.post(preview, body)).map(violation => violation.field),
			[field],
			JSON.stringify(body),
		);
	}
	const exact = await api.post(preview, '{"version":2.0,"data":{"name":1234567890123456789}}');
	t.regex((exact.body as {html: string}).html, /1234567890123456789/);
	t.is((await api.post(preview, '')).status, 400);

	const mjml = '<mjml><mj-body><mj-section><mj-column><mj-text>x</mj-text></mj-column></mj-section></mj-body></mjml>';
	const zh = {locale: 'zh-Hant', subject: 'zh', mjml};
	t.is((await api.post(versions(api), {variants: [{subject: 'x', mjml}, zh]})).status, 201);
	for (const [locale, subject, language] of [
		['de-AT', 'x', 'de-AT'],
		['zh-TW', 'zh', 'zh-TW'],
		['', 'x', 'de'],
	] as const) {
		const made = await api.post(preview, {locale});
		t.is((made.body as {subject: string}).subject, subject);
		t.regex((made.body as {html: string}).html, new RegExp(`<html lang="${language}" dir="auto"`));
	}
	t.deepEqual(api.reported, []);
});

sqliteTest(test.serial, 'a preview reports a missing version and rendering errors', async (t, store) => {
	const api = await startApi(t, store);
	const {id} = (await api.post('/v1/templates', {name: 'empty'})).body as {id: string};
	t.is(codeOf(await api.post(`/v1/templates/${id}/preview`, {})), 'template_has_no_version');
	t.is(codeOf(await api.post(`/v1/templates/${id}/preview`, {version: 1})), 'template_has_no_version');
	const saved = await api.post(`/v1/templates/${id}/versions`, {
		variants: [
			{
				subject: 's',
				html: '<p>\n  {{ n | divided_by: 0 | sort: "x" }}{% for a in (1..100000000) %}x{% endfor %}</p>',
			},
		],
	});
	t.is(saved.status, 201, saved.text);
	const failed = await api.post(`/v1/templates/${id}/preview`, {data: {n: 1}});
	t.is(failed.status, 422);
	t.like((failed.body as {error: object}).error, {code: 'unprocessable_entity'});
	t.regex(failed.text, /The template fails at html, line 2, column \d+: /);
	await api.post(`/v1/templates/${id}/versions`, {variants: [{subject: 's', html: '<p>\n  {{ n }}</p>'}]});
	const object = await api.post(`/v1/templates/${id}/preview`, {data: {n: {a: 1}}});
	t.is(object.status, 422);
	t.regex(object.text, /fails at html, line 2, column 3: this is an object: use one of its fields/);
});

sqliteTest(
	test.serial,
	'a pushed sample is returned, used by previews and kept by a save over the API',
	async (t, store) => {
		const api = await startApi(t, store);
		const variants = [{subject: 'Hi {{ name }}', html: ''}];
		await api.post(versions(api), {variants});
		await store.database('template_versions').where({version: 2}).update({sample: '{\n "name": "Zoë"\n}'});
		t.like((await api.post(versions(api), {variants})).body, {version: 3, sample: {name: 'Zoë'}});
		const preview = `/v1/templates/${api.workspace.templateId}/preview`;
		const sampled = await api.post(preview, {});
		t.like(sampled.body, {subject: 'Hi Zoë'}, sampled.text);
		t.like((await api.post(preview, {data: {}})).body, {subject: 'Hi'});
	},
);

const numbers = Array.from({length: 3000}, (_, index) => index);

test.serial('hostile templates get a response and do not hold up other requests', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const preview = `/v1/templates/${api.workspace.templateId}/preview`;
	/**
	 * Sends other requests while this one is processed. If they finish later once, the disk may have been slow; if they
	 * waited for it, they would finish later every time.
	 */
	async function beside(work: () => Promise<Answer>, triesLeft = 9): Promise<Answer> {
		let done = false;
		const answer = work().finally(() => {
			done = true;
		});
		const others = await Promise.all([api.get('/v1/templates'), api.send()]);
		t.deepEqual(
			others.map(({status}) => status),
			[200, 202],
		);
		if (done && triesLeft > 0) {
			return await beside(work, triesLeft - 1);
		}
		t.false(done, 'others did not wait for it');
		return await answer;
	}
	// One renders for too long and one compiles for too long; test/compose/render/hostile.test.ts has more of each.
	const html = '{% for a in n %}{% for b in n %}{% for c in n %}{% endfor %}{% endfor %}{% endfor %}';
	const saved = await beside(() => api.post(versions(api), {variants: [{subject: 's', html}]}));
	t.is(saved.status, 201, saved.text);
	const rendered = await beside(() => api.post(preview, {data: {n: numbers}}));
	t.is(codeOf(rendered), 'unprocessable_entity', rendered.text.slice(0, 300));
	const sections = '<mj-section><mj-column><mj-text>x</mj-text></mj-column></mj-section>'.repeat(2000);
	const variants = [{subject: 's', mjml: mjml(sections)}];
	const refused = await beside(() => api.post(versions(api), {variants}));
	t.is(codeOf(refused), 'validation_failed', refused.text.slice(0, 300));
	t.true(refused.text.length < 12_000);
	t.deepEqual(api.reported, []);
});

test.serial('too many concurrent saves of a workspace: some get a 503, none is lost', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const variants = [{subject: 's', html: '<p>x</p>'}];
	const saved = await Promise.all(Array.from({length: 30}, () => api.post(versions(api), {variants})));
	const statuses = new Set(saved.map(({status}) => status));
	t.deepEqual([...statuses].toSorted(), [201, 503]);
	t.truthy(saved.find(({status}) => status === 503)?.headers.get('retry-after'));
	const {data} = (await api.get(`${versions(api)}?limit=100`)).body as Page;
	t.is(data.length - 1, saved.filter(({status}) => status === 201).length);
});

const anyText = fc.oneof(
	fc.string({unit: anyChar, maxLength: 30}),
	fc.constantFrom('{{ a }}', '{% if %}', '<mjml>', ''),
);
const anyVariant = fc.oneof(
	{
		weight: 3,
		arbitrary: fc.record(
			{locale: fc.oneof(anyText, fc.constant(null)), subject: anyText, html: anyText, text: anyText},
			{requiredKeys: ['subject']},
		),
	},
	{weight: 1, arbitrary: fc.jsonValue()},
);
const anyBody = fc.oneof(
	{weight: 4, arbitrary: fc.record({variants: fc.array(anyVariant, {maxLength: 4})})},
	{weight: 1, arbitrary: fc.jsonValue()},
);

test.serial('responds properly to any JSON for versions, previews, names and senders', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	await addWorkspace(api.store, 'other');
	const {templateId} = api.workspace;
	await fc.assert(
		fc.asyncProperty(anyBody, async body => {
			const text = JSON.stringify(body);
			for (const path of [versions(api), `/v1/templates/${templateId}/preview`, '/v1/templates', '/v1/senders']) {
				const answer = await api.post(path, text);
				t.true([200, 201, 400, 422].includes(answer.status), `${path} ${text}: ${answer.text}`);
			}
		}),
		{numRuns: 60},
	);
	t.deepEqual(api.reported, []);
});
