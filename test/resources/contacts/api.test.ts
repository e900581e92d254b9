import test from 'ava';
import fc from 'fast-check';
import {storeTime} from '../../../src/kit/time.ts';
import {isId} from '../../../src/mail/ids.ts';
import {anyChar} from '../../helpers/any-char.ts';
import {type Answer, idOf, startApi, type TestApi} from '../../helpers/api.ts';
import {conforms} from '../../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

type Contact = {readonly id: string; readonly email: string; readonly [field: string]: unknown};
type Page = {readonly data: readonly Contact[]; readonly next_cursor: string | null};

const list = async (api: TestApi, query = ''): Promise<Page> => (await api.get(`/v1/contacts${query}`)).body as Page;
const contactOf = async (api: TestApi, email: string): Promise<Contact> => {
	const {data} = await list(api, `?email=${encodeURIComponent(email)}`);
	return data[0] as Contact;
};

const violated = ({body}: Answer) =>
	(body as {error: {violations: Array<{field: string}>}}).error.violations.map(({field}) => field);

sqliteTest(test, 'the first live send to an address creates its contact, whatever the case', async (t, store) => {
	conforms(t, 'other.contacts');
	const api = await startApi(t, store);
	await api.send(
		{to: 'Jane@Example.org', cc: ['copy@example.org']},
		await addKey(store, api.workspace.id, {mode: 'test'}),
	);
	t.deepEqual(await list(api), {data: [], next_cursor: null}, 'a test send makes none');
	await api.send({to: 'Jane@Example.org', cc: ['copy@example.org']});
	await api.send({to: 'jane@example.ORG'});
	const {data} = await list(api);
	t.is(data.length, 1);
	const [{id, created_at, updated_at, ...rest}] = data as [Contact];
	t.true(isId('con', id));
	t.regex(String(created_at), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);
	t.is(updated_at, created_at);
	t.deepEqual(rest, {email: 'Jane@Example.org', locale: null, timezone: null, topics: [], suppressed: false});
	t.deepEqual((await api.get(`/v1/contacts/${id}`)).body, data[0]);
});

sqliteTest(test, 'a contact shows what blocks messages to it', async (t, store) => {
	const api = await startApi(t, store);
	const other = await addWorkspace(store, 'other');
	await api.send({to: 'jane@example.org'});
	const at = storeTime(Date.now());
	for (const [workspaceId, code] of [
		[api.workspace.id, 'news'],
		[api.workspace.id, 'alerts'],
		[other.id, 'other'],
	] as const) {
		await store.database('topic_optouts').insert({
			...{workspace_id: workspaceId, code, address_key: 'jane@example.org', address: 'jane@example.org'},
			...{source: 'one-click', created_at: at},
		});
	}
	const suppression = {address: 'jane@example.org', address_key: 'jane@example.org', reason: 'manual', source: 'api'};
	await store
		.database('suppressions')
		.insert({id: newId('sup'), workspace_id: other.id, ...suppression, created_at: at});
	t.like(await contactOf(api, 'jane@example.org'), {topics: ['alerts', 'news'], suppressed: false});
	await store
		.database('suppressions')
		.insert({id: newId('sup'), workspace_id: api.workspace.id, ...suppression, created_at: at});
	t.like(await contactOf(api, 'jane@example.org'), {topics: ['alerts', 'news'], suppressed: true});
});

storeTest(test, 'lists contacts in pages, newest first, and finds one by its address', async (t, store) => {
	const api = await startApi(t, store);
	const addresses = Array.from({length: 60}, (_, index) => `u${index}@example.org`);
	for (const to of addresses) {
		await api.send({to});
	}
	const first = await list(api);
	t.is(first.data.length, 25);
	const seen = first.data.map(({email}) => email);
	await api.send({to: 'late@example.org'});
	let cursor = first.next_cursor;
	while (cursor !== null) {
		const page = await list(api, `?limit=20&cursor=${cursor}`);
		seen.push(...page.data.map(({email}) => email));
		cursor = page.next_cursor;
	}
	t.deepEqual(seen, addresses.toReversed());
	t.like(await contactOf(api, 'U7@EXAMPLE.org'), {email: 'u7@example.org'});
	t.deepEqual(await list(api, '?email=nobody@example.org'), {data: [], next_cursor: null});
	for (const query of [
		'email=x',
		'email=',
		'limit=0',
		`cursor=${first.next_cursor}&email=u7@example.org`,
		'locale=de',
	]) {
		t.is((await api.get(`/v1/contacts?${query}`)).status, 422, query);
	}
	const events = await api.get(`/v1/messages?cursor=${first.next_cursor}`);
	t.is(events.status, 422, 'no other list takes its cursor');
});

sqliteTest(test, 'PATCH changes only the given fields; null or an empty string clears one', async (t, store) => {
	conforms(t, 'contact.locale-and-timezone');
	const now = {ms: Date.parse('2026-06-09T10:15:30Z')};
	const api = await startApi(t, store, {clock: {now: () => now.ms, monotonic: () => now.ms}});
	await api.send({to: 'jane@example.org', locale: 'de-at'});
	const {id} = await contactOf(api, 'jane@example.org');
	const patch = async (body: object) => (await api.patch(`/v1/contacts/${id}`, body)).body;
	now.ms += 60_000;
	t.like(await patch({timezone: 'Europe/Vienna'}), {
		...{id, email: 'jane@example.org', locale: 'de-AT', timezone: 'Europe/Vienna', topics: [], suppressed: false},
		...{created_at: '2026-06-09T10:15:30+00:00', updated_at: '2026-06-09T10:16:30+00:00'},
	});
	t.like(await patch({locale: 'pt-br', timezone: null}), {locale: 'pt-BR', timezone: null});
	t.like(await patch({locale: ''}), {locale: null, timezone: null});
	now.ms += 60_000;
	t.like(await patch({}), {locale: null, updated_at: '2026-06-09T10:16:30+00:00'}, 'nothing was changed');
	for (const [body, ...fields] of [
		[{locale: 'not a tag'}, 'locale'],
		[{locale: 5, timezone: 'Mars/Base'}, 'locale', 'timezone'],
		[{timezone: '+02:00'}, 'timezone'],
		[{email: 'x@example.org'}, 'email'],
		[{Locale: 'de', topics: []}, 'Locale', 'topics'],
	] as const) {
		const answer = await api.patch(`/v1/contacts/${id}`, body);
		t.is(answer.status, 422);
		t.deepEqual(violated(answer).sort(), [...fields].sort());
	}
	t.is((await api.patch(`/v1/contacts/${id}`, '')).status, 400);
	t.is((await api.patch(`/v1/contacts/${id}`, 'null')).status, 400);
	t.is((await api.patch(`/v1/contacts/${id}`, '[]')).status, 422);
	t.like(await contactOf(api, 'jane@example.org'), {locale: null, timezone: null});
});

sqliteTest(test, 'gives the same 404 for a foreign contact, an unknown one and a malformed id', async (t, store) => {
	const api = await startApi(t, store);
	await api.send({to: 'jane@example.org'});
	const {id} = await contactOf(api, 'jane@example.org');
	const stranger = await addKey(store, (await addWorkspace(store, 'other')).id);
	for (const call of [
		(path: string, key?: string) => api.get(path, key),
		(path: string, key?: string) => api.patch(path, {locale: 'de'}, key),
		(path: string, key?: string) => api.remove(path, key),
	]) {
		const answers = await Promise.all([
			call(`/v1/contacts/${id}`, stranger),
			...[newId('con'), newId('msg'), 'x', '%00', 'é', id.toUpperCase(), 'x'.repeat(5000)].map(text =>
				call(`/v1/contacts/${text}`),
			),
		]);
		for (const {status, text} of answers) {
			t.is(status, 404);
			t.is(
				text.replace(/req_[0-9a-z]{26}/, ''),
				'{"error":{"code":"not_found","message":"The resource does not exist.","request_id":""}}',
			);
		}
	}
	t.like(await contactOf(api, 'jane@example.org'), {id, locale: null});
});

sqliteTest(
	test,
	'DELETE erases the person before it responds; the message remains without the address',
	async (t, store) => {
		const api = await startApi(t, store);
		const sent = idOf(
			await api.send({to: 'Jane@example.org', data: {name: 'Jane'}, metadata: {order: '7'}, tags: ['x']}),
		);
		const {id} = await contactOf(api, 'jane@example.org');
		const erased = await api.remove(`/v1/contacts/${id}`);
		t.is(erased.status, 204);
		t.is(erased.text, '');
		t.is((await api.get(`/v1/contacts/${id}`)).status, 404);
		t.is((await api.remove(`/v1/contacts/${id}`)).status, 404);
		t.deepEqual((await list(api)).data, []);
		t.like((await api.get(`/v1/messages/${sent}`)).body, {
			...{id: sent, status: 'suppressed', to: 'erased@erased.invalid', data: {}, metadata: {}, subject: null},
			...{from: 'hello@example.com', template_name: 'welcome', tags: ['x'], attachments: []},
		});
		t.deepEqual(((await api.get('/v1/messages?recipient=jane@example.org')).body as Page).data, []);
		const {data} = (await api.get(`/v1/messages/${sent}/events`)).body as {
			data: Array<{type: string; detail: object}>;
		};
		t.deepEqual(
			data.map(({type, detail}) => [type, detail]),
			[
				['accepted', {}],
				['suppressed', {role: 'to', reason: 'erased'}],
			],
		);
		await api.send({to: 'jane@example.org'});
		t.not((await contactOf(api, 'jane@example.org')).id, id, 'a later send makes a new contact');
	},
);

storeTest(test, 'no change to a contact, however malformed, causes a 500', async (t, store) => {
	const api = await startApi(t, store);
	await api.send({to: 'jane@example.org'});
	const {id} = await contactOf(api, 'jane@example.org');
	const value = fc.oneof(fc.jsonValue(), fc.string({unit: anyChar}), fc.constantFrom(null, '', 'de', 'UTC', '\0'));
	const body = fc.oneof(
		fc
			.dictionary(fc.constantFrom('locale', 'timezone', 'email', '__proto__'), value)
			.map(each => JSON.stringify(each)),
		fc.string({unit: anyChar}),
	);
	await fc.assert(
		fc.asyncProperty(body, async text => {
			const {status} = await api.patch(`/v1/contacts/${id}`, text);
			t.true([200, 400, 422].includes(status), `${status} ${text}`);
		}),
		{numRuns: 50},
	);
	t.deepEqual(api.reported, []);
});
