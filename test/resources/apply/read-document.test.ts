import {readFileSync} from 'node:fs';
import test from 'ava';
import fc from 'fast-check';
import {scopes} from '../../../src/mail/api-key.ts';
import {readDocument} from '../../../src/resources/apply/read-document.ts';
import {anyChar} from '../../helpers/any-char.ts';

function faultsOf(text: string): readonly string[] {
	const read = readDocument(text);
	return read.ok ? [] : read.problems;
}

const good = `version: 1
workspaces:
  - name: shop
    settings: {locale: de-at, monthly_quota: null, branding: {accent: '#0A7D4F', logo_url: 'https://Shop.example/l.png'}}
    domains:
      - name: Shop.example
        return_path_domain: mail.SHOP.example
    senders:
      - address: Hello@shop.example
        name: The Shop
    webhooks:
      - {url: https://shop.example/a, events: [delivered, bounced]}
      - {url: https://shop.example/a, events: [bounced]}
    keys:
      - {name: app, scopes: [messages:send, contacts:read], expires_at: 2027-01-01}
      - {name: app, mode: test}
`;

test('reads values in the form in which the store has them', t => {
	const read = readDocument(good);
	t.deepEqual(read.ok && read.workspaces, [
		{
			name: 'shop',
			settings: {
				locale: 'de-AT',
				monthly_quota: null,
				branding: {accent: '#0a7d4f', logo_url: 'https://shop.example/l.png'},
			},
			domains: [{name: 'shop.example', return_path_domain: 'mail.shop.example'}],
			senders: [{address: 'Hello@shop.example', name: 'The Shop'}],
			webhooks: [
				{url: 'https://shop.example/a', mode: 'live', events: ['bounced', 'delivered']},
				{url: 'https://shop.example/a', mode: 'live', events: ['bounced']},
			],
			keys: [
				{
					name: 'app',
					mode: 'live',
					scopes: ['contacts:read', 'messages:send'],
					expires_at: '2027-01-01T00:00:00.000Z',
				},
				{name: 'app', mode: 'test'},
			],
		},
	]);
	t.like(readDocument('{"version": 1, "workspaces": []}'), {ok: true, workspaces: []});
});

test('reads the example of the guide', t => {
	const [, example = ''] = /^```yaml\n(.*?)^```/ms.exec(readFileSync('docs/guide/declared.md', 'utf8')) ?? [];
	const read = readDocument(example);
	t.like(read.ok && read.workspaces[0], {name: 'shop', keys: {length: 1}});
});

test('reports each error with its line and field', t => {
	t.deepEqual(faultsOf('version: 1\nworkspaces:\n  - name: a\n   bad'), [
		'line 4: Sequence item without - indicator',
	]);
	t.deepEqual(faultsOf(''), ['line 1: the document must be an object']);
	t.deepEqual(faultsOf('version: 1\n---\nversion: 1\n').length, 1);
	t.deepEqual(
		faultsOf(`version: 1\nworkspaces:\n  - name: a\n    name: b\n`).length,
		1,
		'a name that is a duplicate',
	);
	t.deepEqual(
		faultsOf(`version: 1
workspaces:
  - settings:
      locale: x x
      monthly_quota: -1
      colour: red
      route: nowhere
      branding: {accent: red, logo_url: 'http://a.example/'}
    keys:
      - {name: a, mode: live, scopes: [root]}
      - name: '' # Nothing
        rate_limit: fast
`),
		[
			'line 3: workspaces[0].name is required',
			'line 4: workspaces[0].settings.locale must be a BCP-47 language tag such as en or de-AT',
			'line 5: workspaces[0].settings.monthly_quota must be >= 0',
			'line 6: workspaces[0].settings.colour is not a known field',
			'line 7: workspaces[0].settings.route is neither mx nor relay nor the URL of a smarthost (smtp://…, smtps://…, ses://…, mailgun+https://… or postmark+https://…)',
			'line 8: workspaces[0].settings.branding.logo_url must be an https URL of an image',
			'line 8: workspaces[0].settings.branding.accent must be six hex digits such as #0a7d4f',
			`line 10: workspaces[0].keys[0].scopes[0] must be one of ${scopes.join(', ')}`,
			'line 11: workspaces[0].keys[1].name must have 1 to 200 characters and no leading or trailing spaces',
			'line 12: workspaces[0].keys[1].rate_limit must be requests/seconds such as 6000/60, or 0 for no limit',
		],
	);
});

test('an unknown version is the only error, because its fields may mean anything', t => {
	const message =
		'version is 2, but this mailctl reads version 1: use the mailctl that wrote the file, or export a new one';
	t.deepEqual(faultsOf('# of later\nversion: 2\nregions: []\nworkspaces: nix\n'), [`line 2: ${message}`]);
	t.deepEqual(faultsOf('{"version": "2", "workspaces": []}').length, 1);
	t.deepEqual(faultsOf('workspaces: []').length, 1);
});

test('reports errors beyond the schema too', t => {
	t.deepEqual(
		faultsOf(`version: 1
workspaces:
  - name: a
    domains:
      - name: a.example
      - name: A.example
      - name: localhost
      - {name: b.example, return_path_domain: B.example}
    senders:
      - address: x@a.example
      - address: X@a.example
      - address: x@c.example
    topics: [{code: news, name: N}, {code: news, name: M}]
    keys:
      - name: k
      - {name: k, mode: live}
  - name: a
`),
		[
			'line 6: workspaces[0].domains[1] is a duplicate',
			'line 7: workspaces[0].domains[2].name must be a full name such as shop.example',
			'line 8: workspaces[0].domains[3].return_path_domain must be a host below b.example, such as bounce.b.example',
			'line 11: workspaces[0].senders[1] is a duplicate',
			'line 12: workspaces[0].senders[2].address requires c.example in domains',
			'line 13: workspaces[0].topics[1] is a duplicate',
			'line 16: workspaces[0].keys[1] is a duplicate',
			'line 17: workspaces[1] is a duplicate',
		],
	);
});

test('refuses aliases that expand without limit and nesting that is too deep', t => {
	const lol = Array.from({length: 30}, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}, *a${n}, *a${n}]`);
	t.regex(faultsOf(`a0: &a0 [x]\n${lol.join('\n')}\n`)[0] as string, /^line 1: Excessive alias count/);
	for (const deep of ['['.repeat(100_000), '{a: '.repeat(50_000), '- '.repeat(50_000)]) {
		t.true(faultsOf(deep).length > 0);
	}
});

test('never throws, and reports each error with a line of the text', t => {
	const piece = fc.oneof(
		fc.constantFrom(...good.split(/(?<=[\n:,{}[\] ])/)),
		fc.string({unit: anyChar, maxLength: 8}),
		fc.constantFrom('*a', '&a ', '!!binary ', '<<: ', '__proto__: ', '? ', '|\n', '"', '~', '\u0000', '\t', '- '),
	);
	const mutated = fc
		.tuple(fc.nat(good.length), fc.nat(40), fc.array(piece, {maxLength: 12}))
		.map(([at, length, pieces]) => good.slice(0, at) + pieces.join('') + good.slice(at + length));
	fc.assert(
		fc.property(
			fc.oneof(
				mutated,
				fc.array(piece).map(pieces => pieces.join('')),
			),
			text => {
				const read = readDocument(text);
				const lines = text.split('\n').length;
				const wrong = read.ok
					? []
					: read.problems.filter(fault => !(Number(/^line (\d+): ./su.exec(fault)?.[1] ?? 0) <= lines + 1));
				t.deepEqual(wrong, []);
				t.true(read.ok || read.problems.length > 0);
			},
		),
		{numRuns: 500},
	);
});
