import test from 'ava';
import {codeOf, idOf, startApi} from '../../helpers/api.ts';
import {newStore, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {publish, type ToPublish} from '../../helpers/domain-zone.ts';
import {startFakeDns, type Zone} from '../../helpers/fake-dns.ts';
import {clearOfMidnight} from '../../helpers/wait.ts';
import {addKey, addWorkspace, newId} from '../../helpers/workspace.ts';

type Shown = {
	readonly id: string;
	readonly name: string;
	readonly verified: boolean;
	readonly state: string;
	readonly records: ReadonlyArray<ToPublish & {readonly ok?: boolean; readonly state?: string}>;
};
type Page = {readonly data: readonly Shown[]; readonly next_cursor: string | null};

sqliteTest(
	test,
	'a domain is added with its DNS records, checked, verified and given new signing keys',
	async (t, store) => {
		const zone: Zone = {};
		const dns = await startFakeDns(t, zone);
		const api = await startApi(t, store, {dnsServers: [dns.server]});
		const added = await api.post('/v1/domains', {name: 'Shop.Example'});
		t.is(added.status, 201, added.text);
		const domain = added.body as Shown;
		t.like(domain, {
			name: 'shop.example',
			verified: false,
			state: 'pending',
			return_path_domain: 'bounce.shop.example',
		});
		t.deepEqual(
			domain.records.map(({purpose}) => purpose),
			['ownership', 'dkim', 'dkim', 'return_path', 'spf', 'dmarc'],
		);
		const path = `/v1/domains/${domain.id}`;
		const missing = (await api.get(path)).body as Shown;
		t.deepEqual(
			missing.records.map(({state, ok, value}) => [state, ok, value]),
			domain.records.map(({value}) => ['missing', false, value]),
		);
		t.like((await api.post(`${path}/verify`, {})).body, {verified: false, state: 'pending'});

		publish(zone, domain.records);
		t.like((await api.get(path)).body, {verified: false}, 'reading changes nothing');
		const verified = await api.post(`${path}/verify`, {});
		t.is(verified.status, 200);
		t.like(verified.body, {
			verified: true,
			state: 'verified',
			return_path_used: true,
			records: [{ok: true, state: 'ok'}],
		});
		t.truthy((verified.body as {next_check_at: string}).next_check_at);
		t.is((await api.post('/v1/senders', {address: 'a@shop.example'})).status, 201);
		t.is((await api.send({from: 'a@shop.example'})).status, 202);

		const rotated = await api.post(`${path}/rotate-key`, {});
		t.is(rotated.status, 200);
		const fresh = (rotated.body as Shown).records;
		t.deepEqual(
			fresh.map(({name}) => name),
			['mc3._domainkey.shop.example', 'mc4._domainkey.shop.example'],
		);
		t.is(codeOf(await api.post(`${path}/rotate-key`, {})), 'conflict');
		publish(zone, fresh);
		await api.post(`${path}/verify`, {});
		const keys = await store.reader('dkim_keys').where({domain_id: domain.id}).orderBy('id');
		t.deepEqual(
			keys.map(({selector, retired_at}) => [selector, retired_at === null]),
			[
				['mc1', false],
				['mc2', false],
				['mc3', true],
				['mc4', true],
			],
		);
		const acts = await store.reader('audit').where({target: domain.id}).orderBy('id').pluck('action');
		t.deepEqual(acts, ['domain.added', 'domain.verified', 'domain.key_rotated', 'domain.updated']);
		t.regex((await store.reader('audit').where({target: domain.id}).first()).actor, /^key_/);
	},
);

storeTest(test, 'lists domains newest first and removes one once it has no senders', async (t, store) => {
	const api = await startApi(t, store);
	const ids: string[] = [];
	for (const name of ['a.example', 'b.example', 'bücher.example']) {
		ids.push(idOf(await api.post('/v1/domains', {name, return_path_domain: `r.${name}`})));
	}
	t.is(codeOf(await api.post('/v1/domains', {name: 'A.EXAMPLE'})), 'conflict');
	const first = (await api.get('/v1/domains?limit=2')).body as Page;
	const rest = (await api.get(`/v1/domains?limit=2&cursor=${first.next_cursor}`)).body as Page;
	t.deepEqual(
		[...first.data, ...rest.data].map(({name}) => name),
		['xn--bcher-kva.example', 'b.example', 'a.example', 'example.com'],
	);
	t.like(first.data[1], {id: ids[1], return_path_domain: 'r.b.example', verified: false});
	t.false('records' in (first.data[0] as Shown));

	const sender = idOf(await api.post('/v1/senders', {address: 'x@a.example'}));
	const refused = await api.remove(`/v1/domains/${ids[0]}`);
	t.is(refused.status, 409);
	t.like(refused.body, {
		error: {code: 'conflict', message: 'The domain has senders (x@a.example). Remove them first.'},
	});
	await api.remove(`/v1/senders/${sender}`);
	t.is((await api.remove(`/v1/domains/${ids[0]}`)).status, 204);
	t.is(codeOf(await api.remove(`/v1/domains/${ids[0]}`)), 'not_found');
	t.is((await store.reader('dkim_keys').where({domain_id: ids[0]})).length, 0);
	t.deepEqual(api.reported, []);
});

/** Returns a domain name of this many characters. */
const nameOf = (length: number) => `${`${'a'.repeat(63)}.`.repeat(3)}${'b'.repeat(length - 200)}.example`;

test('rejects invalid domain names', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	for (const [body, field] of [
		[{name: 'localhost'}, 'name'],
		[{name: 'a.example\r\n'}, 'name'],
		[{name: '192.0.2.1'}, 'name'],
		[{name: 7}, 'name'],
		[{}, 'name'],
		[{name: 'a.example', return_path_domain: 'A.example'}, 'return_path_domain'],
		[{name: 'a.example', return_path_domain: 'bounce.shop.example'}, 'return_path_domain'],
		[{name: 'a.example', return_path_domain: 'xa.example'}, 'return_path_domain'],
		[{name: nameOf(247)}, 'return_path_domain'],
		[{name: 'a.example', returnPathDomain: 'r.a.example'}, 'returnPathDomain'],
	] as const) {
		const answer = await api.post('/v1/domains', body);
		t.is(answer.status, 422, answer.text);
		t.like((answer.body as {error: object}).error, {code: 'validation_failed', violations: {0: {field}}});
	}
	t.is((await api.store.reader('domains')).length, 1);
	const longest = nameOf(246);
	t.like((await api.post('/v1/domains', {name: longest})).body, {return_path_domain: `bounce.${longest}`});
	const own = nameOf(251);
	t.is((await api.post('/v1/domains', {name: own, return_path_domain: `b.${own}`})).status, 201);
});

sqliteTest(test, 'treats a domain of another workspace as unknown and leaves it unchanged', async (t, store) => {
	const api = await startApi(t, store);
	const stranger = await addKey(store, (await addWorkspace(store, 'other')).id);
	const before = await store.reader('domains').where({id: api.workspace.domainId}).first();
	for (const id of [api.workspace.domainId, newId('dom'), 'x', '%00']) {
		for (const answer of [
			await api.get(`/v1/domains/${id}`, stranger),
			await api.post(`/v1/domains/${id}/verify`, {}, stranger),
			await api.post(`/v1/domains/${id}/rotate-key`, {}, stranger),
			await api.remove(`/v1/domains/${id}`, stranger),
		]) {
			t.is(answer.status, 404, id);
			t.is(codeOf(answer), 'not_found');
		}
	}
	t.deepEqual(await store.reader('domains').where({id: before.id}).first(), before);
	t.is((await store.reader('dkim_keys')).length, 0);
});

storeTest(test, 'reports who sent mail with a domain in the requested days', async (t, store) => {
	await clearOfMidnight();
	const dns = await startFakeDns(t, {
		'_dmarc.shop.example': {txt: ['v=DMARC1; p=quarantine']},
		'bounce.shop.example': {txt: ['v=spf1 ip4:198.51.100.0/24 -all']},
	});
	const api = await startApi(t, store, {dnsServers: [dns.server]});
	const id = idOf(await api.post('/v1/domains', {name: 'shop.example'}));
	const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
	const of = {domain_id: id, disposition: 'none', why: ''};
	await store.writer.transaction(async trx => {
		await trx('dmarc_days').insert([
			{...of, day: day(1), ip: '192.0.2.1', dkim: 1, spf: 0, n: 30, signed: 30},
			{...of, day: day(40), ip: '192.0.2.1', dkim: 1, spf: 1, n: 30, signed: 30},
			{...of, day: day(1), ip: '198.51.100.9', dkim: 0, spf: 1, n: 4, signed: 0},
			{...of, day: day(1), ip: '203.0.113.9', dkim: 0, spf: 0, n: 9, signed: 9, why: 'DKIM none'},
		]);
	});
	const seen = {day: day(1), domain: 'bounce.shop.example', policy: 'sts'};
	await store.writer.transaction(async trx => {
		await trx('tls_report_days').insert([
			{...seen, result: 'success', n: 50},
			{...seen, result: 'certificate-expired', n: 4},
			{...seen, domain: 'bounce.other.example', result: 'success', n: 7},
		]);
	});
	const path = `/v1/domains/${id}/dmarc`;
	const read = await api.get(`${path}?days=2`);
	t.is(read.status, 200, read.text);
	t.like(read.body, {
		...{days: 2, reports: 0, unsigned: 4},
		sources: [
			{ip: '192.0.2.1', count: 30, aligned: 30, spf: 0, dkim: 30, ours: true},
			{ip: '203.0.113.9', count: 9, aligned: 0, ours: false, why: 'DKIM none'},
			{ip: '198.51.100.9', count: 4, aligned: 4, spf: 4, dkim: 0, ours: true},
		],
		advice: {policy: 'quarantine', next: 'quarantine', days: 30, cost: {ours: 0, others: 9}},
	});
	t.deepEqual(Object.keys(read.body as object), ['days', 'reports', 'unsigned', 'sources', 'advice', 'tls']);
	t.like(read.body, {tls: []}, 'the domain is yet to be proved');
	await store.writer.transaction(async trx => void (await trx('domains').where({id}).update({state: 'verified'})));
	t.like((await api.get(`${path}?days=60`)).body, {sources: [{count: 60, spf: 30}]});
	t.like((await api.get(path)).body, {
		days: 30,
		tls: [
			{policy: 'sts', result: 'certificate-expired', count: 4},
			{policy: 'sts', result: 'success', count: 50},
		],
	});
	for (const wrong of ['0', '91', 'x']) {
		t.is(codeOf(await api.get(`${path}?days=${wrong}`)), 'validation_failed', wrong);
	}
	t.is(codeOf(await api.get(`/v1/domains/${newId('dom')}/dmarc`)), 'not_found');
});

sqliteTest(test, 'sets and clears the link host of a domain, and rejects invalid ones', async (t, store) => {
	const api = await startApi(t, store);
	const id = idOf(await api.post('/v1/domains', {name: 'links.example', link_host: 'go.links.example'}));
	const path = `/v1/domains/${id}`;
	t.like(await api.patch(path, {}), {status: 200, body: {link_host: 'go.links.example', link_host_used: false}});
	const changed = await api.patch(path, {link_host: 'l.links.example'});
	t.is((changed.body as {link_host: string}).link_host, 'l.links.example');
	const {records} = changed.body as {records: Array<{purpose: string; type: string; name: string; value: string}>};
	t.like(
		records.find(({purpose}) => purpose === 'links'),
		{type: 'CNAME', name: 'l.links.example', value: 'mail.shop.example'},
	);
	t.is(codeOf(await api.patch(path, {link_host: 'l.other.example'})), 'unprocessable_entity');
	t.is(codeOf(await api.patch(path, {link_host: 'no host'})), 'validation_failed');
	t.like(await api.patch(path, {link_host: null}), {status: 200, body: {link_host: null}});
});
