import test from 'ava';
import fc from 'fast-check';
import {differences} from '../../../src/resources/apply/apply.ts';
import type {DeclaredWorkspace, WorkspaceState} from '../../../src/resources/apply/document.ts';
import {toDeclared} from '../../../src/resources/apply/state.ts';

const rules = {
	now: '2026-06-09T10:00:00.000Z',
	urlProblem: (url: string) => (url.includes('nix') ? 'must be good' : null),
};

const state: WorkspaceState = {
	name: 'shop',
	settings: {
		locale: 'de',
		timezone: null,
		monthly_quota: 100,
		queue_lifetime: null,
		source_pool: null,
		route: 'smtp://u:***@a.example',
		default_topic: null,
		retention_days: null,
		content_days: null,
		max_attachments: null,
		max_attachment_bytes: null,
		track_opens: true,
		track_clicks: false,
		branding: {name: null, logo_url: null, accent: null, support_email: null},
	},
	domains: [
		{name: 'a.example', return_path_domain: null, link_host: null},
		{name: 'b.example', return_path_domain: null, link_host: null},
	],
	senders: [
		{address: 'x@a.example', name: 'X', verified: false, active: true},
		{address: 'y@b.example', name: null, verified: true, active: true},
	],
	topics: [{code: 'news', name: 'News'}],
	webhooks: [
		{
			url: 'https://a.example/',
			mode: 'live',
			events: ['bounced'],
			active: true,
			format: 'default',
			retry: 'default',
			id: 'whe_1',
		},
		{
			url: 'https://a.example/',
			mode: 'live',
			events: ['delivered'],
			active: true,
			format: 'default',
			retry: 'default',
			id: 'whe_2',
		},
	],
	keys: [
		{
			name: 'app',
			mode: 'live',
			scopes: ['messages:send'],
			rate_limit: null,
			expires_at: null,
			ids: ['key_1', 'key_0'],
		},
	],
};

/** Lists changes such as `add topic news` with the fields that differ, then the errors. */
function told(wanted: Omit<DeclaredWorkspace, 'name'>, known: WorkspaceState | null = state) {
	const {changes, problems} = differences(known ?? undefined, {name: 'shop', ...wanted}, rules);
	return [
		...changes.map(({action, kind, name, fields}) =>
			[`${action} ${kind} ${name}`, ...Object.keys(fields)].join(' '),
		),
		...problems.map(({path, message}) => `${path.join('.')} ${message}`),
	];
}

test('leaves omitted sections unchanged; an empty list removes everything', t => {
	t.deepEqual(told({}), []);
	t.deepEqual(told({settings: {}, senders: [{address: 'X@a.example'}, {address: 'y@b.example'}]}), []);
	t.deepEqual(told({senders: [], domains: [], topics: [], webhooks: [], keys: []}), [
		'remove webhook https://a.example/',
		'remove webhook https://a.example/',
		'remove key app',
		'remove topic news',
		'remove sender y@b.example',
		'remove sender x@a.example',
		'remove domain b.example',
		'remove domain a.example',
	]);
});

test('lists the fields that differ with their old values', t => {
	t.deepEqual(
		told({
			settings: {locale: 'en', monthly_quota: 100, timezone: null, branding: {accent: '#0a7d4f'}},
			senders: [
				{address: 'x@a.example', name: null, active: false},
				{address: 'y@b.example'},
				{address: 'z@c.example'},
			],
			topics: [{code: 'news', name: 'Monthly'}],
			webhooks: [
				{url: 'https://a.example/', mode: 'live', events: ['bounced']},
				{url: 'https://a.example/', mode: 'live', events: ['bounced'], active: false},
				{url: 'https://a.example/', mode: 'test', events: ['bounced']},
			],
			keys: [{name: 'app', mode: 'live', rate_limit: '1/1'}],
		}),
		[
			'change workspace shop locale branding.accent',
			'change sender x@a.example name active',
			'add sender z@c.example',
			'change topic news name',
			'change webhook https://a.example/ events active',
			'add webhook https://a.example/ (test) events',
			'change key app rate_limit',
		],
	);
	const {changes} = differences(state, {name: 'shop', settings: {locale: 'en', track_opens: true}}, rules);
	t.like(changes[0], {fields: {locale: {from: 'de', to: 'en'}}, declared: {locale: 'en'}});
	t.false('track_opens' in (changes[0] as {declared: object}).declared, 'opens are recorded since when they were');
});

test('reports impossible changes with their path', t => {
	t.deepEqual(told({domains: [{name: 'a.example', return_path_domain: 'm.a.example'}]}), [
		'change domain a.example return_path_domain',
		'remove domain b.example',
		'domains.0.return_path_domain cannot change: remove the domain and add it again',
		'domains must include b.example, the domain of y@b.example',
	]);
	t.deepEqual(told({webhooks: [{url: 'https://nix/', mode: 'live', events: ['bounced']}]}).slice(-1), [
		'webhooks.0.url must be good',
	]);
});

test('accepts a masked password only if the rest matches the stored one', t => {
	t.deepEqual(told({settings: {route: 'smtp://u:***@a.example'}}), []);
	const masked = 'settings.route has a masked password: enter the password, or omit route';
	t.deepEqual(told({settings: {route: 'smtp://v:***@a.example'}}), ['change workspace shop route', masked]);
	t.deepEqual(told({settings: {route: 'smtp://v:***@a.example'}}, null), ['add workspace shop route', masked]);
	const {changes} = differences(state, {name: 'shop', settings: {route: 'smtp://u:geheim@a.example'}}, rules);
	t.like(changes[0], {
		fields: {route: {from: 'smtp://u:***@a.example', to: 'smtp://u:***@a.example'}},
		declared: {route: 'smtp://u:geheim@a.example'},
	});
});

test('requires the default topic to be among the resulting topics', t => {
	t.deepEqual(told({settings: {default_topic: 'news'}}), ['change workspace shop default_topic']);
	const fault = 'settings.default_topic requires nix in topics';
	t.deepEqual(told({settings: {default_topic: 'nix'}}), ['change workspace shop default_topic', fault]);
	t.deepEqual(told({settings: {default_topic: 'new'}, topics: [{code: 'new', name: 'New'}]}, null), [
		'add workspace shop default_topic',
		'add topic new name',
	]);
});

test('does not recreate an expired key', t => {
	const key = {name: 'old', mode: 'live', expires_at: '2026-06-09T09:59:59.999Z'} as const;
	t.deepEqual(told({keys: [{name: 'app', mode: 'live'}, key]}), []);
	t.deepEqual(
		told({
			keys: [
				{name: 'app', mode: 'live'},
				{...key, expires_at: '2026-06-09T10:00:00.001Z'},
			],
		}),
		['add key old expires_at'],
	);
});

test('a workspace never differs from its own export, and a new one gets everything in it', t => {
	const text = fc.string({minLength: 1, maxLength: 3});
	const domain = fc.record({name: text, return_path_domain: fc.option(text)});
	const arbitrary: fc.Arbitrary<WorkspaceState> = fc.record({
		name: fc.constant('shop'),
		settings: fc.constant(state.settings),
		domains: fc.uniqueArray(domain, {selector: each => each.name}),
		senders: fc.constant([]),
		topics: fc.uniqueArray(fc.record({code: text, name: text}), {selector: each => each.code}),
		webhooks: fc.array(
			fc.record({
				url: fc.constantFrom('https://a.example/', 'https://b.example/'),
				mode: fc.constantFrom('live', 'test'),
				events: fc.constantFrom(['bounced'] as const, ['bounced', 'delivered'] as const),
				active: fc.boolean(),
				format: fc.constantFrom('default', 'full'),
				retry: fc.constantFrom('default', 'long'),
				id: text,
			}),
			{maxLength: 6},
		),
		keys: fc.constant(state.keys),
	});
	fc.assert(
		fc.property(arbitrary, known => {
			t.deepEqual(told(toDeclared(known), known), []);
			const parts = [known.domains, known.topics, known.webhooks, known.keys];
			const added = differences(undefined, toDeclared(known), rules).changes.length - 1;
			t.is(
				added,
				parts.reduce((sum, items) => sum + items.length, 0),
			);
		}),
	);
});
