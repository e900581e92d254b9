import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {codeOf, idOf, startApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

type Sender = {readonly id: string; readonly address: string; readonly verified: boolean; readonly active: boolean};
type Page = {readonly data: readonly Sender[]; readonly next_cursor: string | null};

sqliteTest(test, 'adding a sender adds its domain with two keys; it can send once verified', async (t, store) => {
	const api = await startApi(t, store);
	const added = await api.post('/v1/senders', {address: 'No-Reply@shop.example', name: 'Kaffee & Größe'});
	t.is(added.status, 201, added.text);
	const {created_at, ...rest} = added.body as Sender & {created_at: string};
	t.regex(created_at, /\+00:00$/);
	t.deepEqual(rest, {
		id: idOf(added),
		address: 'No-Reply@shop.example',
		name: 'Kaffee & Größe',
		verified: false,
		active: true,
	});
	const domain = await store.reader('domains').where({name: 'shop.example', workspace_id: api.workspace.id}).first();
	t.is((await store.reader('dkim_keys').where({domain_id: domain.id})).length, 2);
	t.is(codeOf(await api.send({from: 'no-reply@shop.example'})), 'sender_not_available');
	const list = async () => ((await api.get('/v1/senders')).body as Page).data;
	t.deepEqual((await list())[0] as object, added.body as object);

	await store
		.database('domains')
		.where({id: domain.id})
		.update({verified_at: storeTime(Date.now()), state: 'verified'});
	api.clear();
	t.like((await list())[0], {address: 'No-Reply@shop.example', verified: true});
	t.is((await api.send({from: 'no-reply@shop.example'})).status, 202);
	const second = await api.post('/v1/senders', {address: 'second@shop.example'});
	t.like(second.body, {verified: true, name: null});
	t.is((await api.send({from: 'second@shop.example'})).status, 202);

	t.is((await api.remove(`/v1/senders/${idOf(second)}`)).status, 204);
	t.is(codeOf(await api.remove(`/v1/senders/${idOf(second)}`)), 'not_found');
	t.is(codeOf(await api.send({from: 'second@shop.example'})), 'sender_not_available');
	t.is((await store.reader('domains').where({id: domain.id})).length, 1, 'the domain stays');
});

storeTest(test, 'adds an address once, in any case and under concurrent requests', async (t, store) => {
	const api = await startApi(t, store);
	t.is(codeOf(await api.post('/v1/senders', {address: 'HELLO@Example.com'})), 'conflict');
	const same = await Promise.all(
		['a@new.example', 'A@new.example', 'a@NEW.example', 'A@New.Example'].map(address =>
			api.post('/v1/senders', {address}),
		),
	);
	t.deepEqual(same.map(({status}) => status).toSorted(), [201, 409, 409, 409]);
	t.is((await store.reader('domains').where({name: 'new.example'})).length, 1);
	const other = await addWorkspace(store, 'globex');
	const key = await addKey(store, other.id);
	t.is((await api.post('/v1/senders', {address: 'a@new.example'}, key)).status, 201);
	t.deepEqual(api.reported, []);
});

sqliteTest(test, 'rejects invalid addresses and names', async (t, store) => {
	const api = await startApi(t, store);
	for (const [body, field] of [
		[{address: 'A <a@b.example>'}, 'address'],
		[{address: 'a@b.example\r\nRCPT TO:<x@y.example>'}, 'address'],
		[{address: 'jos\u00e9@b.example'}, 'address'],
		[{address: 7}, 'address'],
		[{}, 'address'],
		[{address: 'a@b.example', name: 'a\r\nBcc: x@y.example'}, 'name'],
		[{address: 'a@b.example', name: ''}, 'name'],
		[{address: 'a@b.example', verified: true}, 'verified'],
	] as const) {
		const answer = await api.post('/v1/senders', body);
		t.is(answer.status, 422, answer.text);
		t.like((answer.body as {error: object}).error, {code: 'validation_failed', violations: {0: {field}}});
	}
	t.is((await api.post('/v1/senders', {address: 'a@b.example', name: null})).status, 201);
});

storeTest(test, 'lists senders in pages, newest first', async (t, store) => {
	const api = await startApi(t, store);
	const addresses = Array.from({length: 11}, (_, index) => `s${index}@example.com`);
	for (const address of addresses) {
		t.is((await api.post('/v1/senders', {address})).status, 201);
	}
	const seen: string[] = [];
	let cursor: string | null = '';
	while (cursor !== null) {
		const page = (await api.get(`/v1/senders?limit=5${cursor && `&cursor=${cursor}`}`)).body as Page;
		seen.push(...page.data.map(({address}) => address));
		cursor = page.next_cursor;
	}
	t.deepEqual(seen, [...addresses.toReversed(), api.workspace.sender]);
	t.is(codeOf(await api.get('/v1/senders?cursor=AAAA')), 'validation_failed');
});

sqliteTest(test, 'renames, disables and enables a sender; omitted fields stay unchanged', async (t, store) => {
	const api = await startApi(t, store);
	const {data} = (await api.get('/v1/senders')).body as Page;
	const path = `/v1/senders/${data[0]?.id}`;
	const off = await api.patch(path, {active: false});
	t.is(off.status, 200, off.text);
	t.deepEqual(off.body, {...data[0], active: false});
	t.is(codeOf(await api.send()), 'sender_not_available', 'at once');
	t.like((await api.patch(path, {name: 'Größe'})).body, {name: 'Größe', active: false});
	t.like((await api.patch(path, {name: null, active: true})).body, {name: null, active: true, verified: true});
	t.deepEqual((await api.patch(path, {})).body, data[0]);
	t.is((await api.send()).status, 202);
	for (const [body, field] of [
		[{name: 'a\r\nBcc: x@y.example'}, 'name'],
		[{active: 'yes'}, 'active'],
		[{verified: true}, 'verified'],
	] as const) {
		t.like((await api.patch(path, body)).body, {error: {code: 'validation_failed', violations: {0: {field}}}});
	}
	const acts = await store.reader('audit').where({target: data[0]?.id}).orderBy('id').pluck('action');
	t.deepEqual(acts, ['sender.disabled', 'sender.renamed', 'sender.renamed', 'sender.enabled']);

	const stranger = await addKey(store, (await addWorkspace(store, 'globex')).id);
	for (const [id, key] of [
		[data[0]?.id, stranger],
		['snd_01kaxq7w0c8m2v5t9d3f6h1j4n', api.key],
		['x', api.key],
	]) {
		t.is(codeOf(await api.patch(`/v1/senders/${id}`, {active: false}, key)), 'not_found');
	}
	t.is((await api.send()).status, 202);
});
