import test from 'ava';
import type {Knex} from 'knex';
import {storeTime} from '../../../src/kit/time.ts';
import {apiKeyHash} from '../../../src/mail/api-key.ts';
import {differences, perform} from '../../../src/resources/apply/apply.ts';
import type {ChangeResult} from '../../../src/resources/apply/declaration.ts';
import type {DeclaredWorkspace} from '../../../src/resources/apply/document.ts';
import {readState, toDeclared} from '../../../src/resources/apply/state.ts';
import {listAudit} from '../../../src/resources/audit/store.ts';
import {findWorkspaceByName} from '../../../src/resources/workspaces/store.ts';
import type {Store} from '../../../src/store/store.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

function applying(store: Store) {
	const tools = testTools();
	const now = storeTime(tools.clock.now());
	const write = <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => store.writer.transaction(work);
	const parts = {reader: store.reader, write, tools, vault: testVault, ownHosts: ['mail.example']};
	const read = async (name: string) => {
		const row = await findWorkspaceByName(store.reader, name);
		return row && (await readState(store.reader, row, now));
	};
	return {
		read,
		async apply(wanted: DeclaredWorkspace) {
			const {changes, problems} = differences(await read(wanted.name), wanted, {now, urlProblem: () => null});
			const made: ChangeResult[] = [];
			for (const change of changes) {
				made.push(await perform(parts, change));
			}
			return {faults: problems, made, told: changes.map(({action, kind, name}) => `${action} ${kind} ${name}`)};
		},
	};
}

const shop: DeclaredWorkspace = {
	name: 'shop',
	settings: {
		locale: 'de',
		timezone: 'Europe/Vienna',
		monthly_quota: 5000,
		queue_lifetime: 3600,
		source_pool: 'bulk',
		route: 'smtp://u:geheim@smtp.example.net',
		default_topic: 'news',
		retention_days: 30,
		content_days: 3,
		max_attachments: 10,
		max_attachment_bytes: 10_485_760,
		track_opens: true,
		track_clicks: false,
		branding: {name: 'The Shop', logo_url: null, accent: '#0a7d4f', support_email: null},
	},
	domains: [{name: 'shop.example', return_path_domain: 'mail.shop.example'}],
	senders: [
		{address: 'a@shop.example', name: 'A', verified: true, active: false},
		{address: 'b@shop.example', name: null, verified: false, active: true},
	],
	topics: [{code: 'news', name: 'News', required: true, description: 'What is new', priority: 'low'}],
	webhooks: [
		{url: 'https://shop.example/a', mode: 'live', events: ['bounced'], active: true, format: 'full'},
		{
			url: 'https://shop.example/a',
			mode: 'test',
			events: ['bounced', 'delivered'],
			active: false,
			retry: 'long',
		},
	],
	keys: [
		{
			name: 'app',
			mode: 'live',
			scopes: ['messages:send'],
			rate_limit: '10/60',
			expires_at: '2027-01-01T00:00:00.000Z',
		},
		{name: 'app', mode: 'test', scopes: ['messages:read'], rate_limit: null, expires_at: null},
	],
};

/** The same workspace in the form of an export. */
const exported = {...shop, settings: {...shop.settings, route: 'smtp://u:***@smtp.example.net'}};

sqliteTest(test, 'a file creates a workspace whose export equals the file', async (t, store) => {
	const {apply, read} = applying(store);
	const {made, faults} = await apply(shop);
	t.deepEqual(faults, []);
	const state = await read('shop');
	t.deepEqual(state && toDeclared(state), exported as typeof state);
	t.deepEqual((await apply(exported)).told, []);
	t.notRegex(JSON.stringify(state), /geheim|whsec|PRIVATE/);

	const keys = made.flatMap(each => (each?.key === undefined ? [] : [apiKeyHash(each.key)]));
	t.deepEqual(keys.toSorted(), (await store.reader('api_keys').pluck('hash')).toSorted());
	const secrets = await store.reader('webhook_endpoints').orderBy('id').select('id', 'secret');
	t.deepEqual(
		made.flatMap(each => each?.signing_secret ?? []),
		secrets.map(({id, secret}) => testVault.open(id, secret)),
	);
});

sqliteTest(test, 'changes what differs in place and records each change separately', async (t, store) => {
	const {apply, read} = applying(store);
	await apply(shop);
	const ids = async () => [
		...(await store.reader('api_keys').orderBy('id').pluck('id')),
		...(await store.reader('webhook_endpoints').orderBy('id').pluck('id')),
		...(await store.reader('topics').pluck('id')),
	];
	const before = await ids();
	const wanted: DeclaredWorkspace = {
		...exported,
		settings: {...exported.settings, locale: 'en', track_opens: false, branding: {accent: null}},
		senders: [
			{address: 'A@shop.example', name: 'B', verified: false, active: true},
			{address: 'b@shop.example', name: null, verified: true, active: false},
		],
		topics: [{code: 'news', name: 'Monthly', public: true, required: false, description: null}],
		webhooks: [
			{
				url: 'https://shop.example/a',
				mode: 'live',
				events: ['clicked'],
				active: false,
				format: 'default',
				retry: 'long',
			},
			{url: 'https://shop.example/a', mode: 'test', events: ['bounced', 'delivered'], active: true},
		],
		keys: [
			{
				name: 'app',
				mode: 'live',
				scopes: ['messages:read'],
				rate_limit: null,
				expires_at: '2028-01-01T00:00:00.000Z',
			},
			{name: 'app', mode: 'test', scopes: ['messages:send'], rate_limit: '1/1', expires_at: null},
		],
	};
	const {told, made} = await apply(wanted);
	t.deepEqual(told, [
		'change workspace shop',
		'change sender A@shop.example',
		'change sender b@shop.example',
		'change topic news',
		'change webhook https://shop.example/a',
		'change webhook https://shop.example/a (test)',
		'change key app',
		'change key app (test)',
	]);
	t.false(made.includes(undefined));
	t.deepEqual((await apply(wanted)).told, []);
	t.deepEqual(await ids(), before);
	t.like(await read('shop'), {
		senders: [
			{address: 'a@shop.example', name: 'B', verified: false, active: true},
			{address: 'b@shop.example', name: null, verified: true, active: false},
		],
		topics: [{code: 'news', name: 'Monthly', public: true, required: false, description: null, priority: 'low'}],
	});
	const acts = (await listAudit(store.reader, {limit: 100})).map(({action}) => action);
	for (const act of ['sender.renamed', 'sender.unverified', 'topic.updated', 'webhook.updated', 'key.updated']) {
		t.true(acts.includes(act), act);
	}
});

sqliteTest(test, 'empty sections remove what was there', async (t, store) => {
	const {apply, read} = applying(store);
	await apply(shop);
	const {made} = await apply({name: 'shop', domains: [], senders: [], topics: [], webhooks: [], keys: []});
	t.false(made.includes(undefined));
	t.like(await read('shop'), {
		...{domains: [], senders: [], topics: [], webhooks: [], keys: []},
		settings: exported.settings as object,
	});
});

storeTest(test, 'does not report success for objects that were removed meanwhile', async (t, store) => {
	const {apply, read} = applying(store);
	await apply(shop);
	const known = await read('shop');
	const {changes} = differences(
		known,
		{...exported, topics: [], senders: [], webhooks: []},
		{now: storeTime(0), urlProblem: () => null},
	);
	await apply({...exported, topics: [], senders: [], webhooks: []});
	const tools = testTools();
	const write = <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => store.writer.transaction(work);
	for (const change of changes) {
		t.is(
			await perform({reader: store.reader, write, tools, vault: testVault, ownHosts: ['mail.example']}, change),
			undefined,
			change.name,
		);
	}
	t.is(changes.length, 5);
});
