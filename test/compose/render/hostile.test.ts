import {once} from 'node:events';
import {Worker} from 'node:worker_threads';
import test from 'ava';
import {compileInWorker} from '../../../src/compose/render/in-worker.ts';
import type {RenderResult} from '../../../src/compose/render/render.ts';

const thread = new URL('hostile-thread.js', import.meta.url);
const resourceLimits = {maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};
const maxTestMs = 200_000;

async function renderInThread(
	templates: readonly string[],
	data: Readonly<Record<string, unknown>>,
): Promise<{results: RenderResult[]; polluted: string[]}> {
	const worker = new Worker(thread, {workerData: {templates, data}, resourceLimits, env: {}});
	try {
		const [message] = await once(worker, 'message', {signal: AbortSignal.timeout(maxTestMs)});
		return message as {results: RenderResult[]; polluted: string[]};
	} finally {
		await worker.terminate();
	}
}

const numbers = Array.from({length: 3000}, (_, index) => index);

// The thread ends by itself: nobody has to kill it.
for (const [what, html, data] of [
	[
		'nested loops over data',
		'{% for a in n %}{% for b in n %}{% for c in n %}{% endfor %}{% endfor %}{% endfor %}',
		{n: numbers},
	],
	['nested loops over ranges', '{% for a in (1..3000) %}{% for b in (1..3000) %}{{ a }}{% endfor %}{% endfor %}', {}],
	['a huge range', '{% for a in (1..100000000) %}x{% endfor %}', {}],
	['a text that doubles', `{% assign a = "aaaaaaaaaa" %}${'{% assign a = a | append: a %}'.repeat(28)}{{ a }}`, {}],
	[
		'a text that grows by replacements',
		`{% assign a = "aaaaaaaaaa" %}${'{% assign a = a | replace: "a", "aaaaaaaaaa" %}'.repeat(8)}{{ a }}`,
		{},
	],
	['a wide date', '{{ "now" | date: "%99999999d" }}', {}],
	[
		'a list that doubles',
		`{% assign a = "a,b,c" | split: "," %}${'{% assign a = a | concat: a %}'.repeat(28)}{{ a | join }}`,
		{},
	],
	['sorting in loops', '{% for a in n %}{% assign b = n | sort | reverse | uniq %}{% endfor %}', {n: numbers}],
	['a wide table', '{% tablerow a in (1..2999999) cols: 1 %}x{% endtablerow %}', {}],
	['much output', '{% for a in (1..300000) %}{{ x }}{% endfor %}', {x: 'x'.repeat(1000)}],
] as const) {
	test(`${what}: render_limit`, async t => {
		const {results} = await renderInThread([html], data);
		t.like(results[0], {ok: false, reason: 'render_limit'}, JSON.stringify(results).slice(0, 300));
	});
}

test('returns results for very deep and very long templates', async t => {
	const templates = [
		'{% if a %}'.repeat(5000) + '{% endif %}'.repeat(5000),
		'{% if a %}'.repeat(12_000) + '{% endif %}'.repeat(12_000),
		`{{ a${' | append: "x"'.repeat(15_000)} }}`,
		`{{ a${'.b'.repeat(100_000)} }}`,
		`{{ ${'a['.repeat(20_000)}1${']'.repeat(20_000)} }}`,
		'{{ a }}'.repeat(37_000),
	];
	const {results} = await renderInThread(templates, {a: {b: 1}});
	t.is(results.length, templates.length);
});

// A word that only files or prototypes would bring out.
const secret = /root:|dependencies|function|native code/;

const reachingOut = [
	'{{ "x" | constructor }}',
	'{{ "x" | __proto__ }}',
	'{{ "x" | toString }}',
	'{{ "x" | hasOwnProperty: "a" }}',
	'{% render "/etc/passwd" %}',
	'{% include "package.json" %}',
	'{% layout "package.json" %}',
	'{% block a %}x{% endblock %}',
	'{{ a.__proto__ }}',
	'{{ a.constructor }}',
	'{{ a.constructor.constructor }}',
	'{{ a["__proto__"]["polluted"] }}',
	'{{ a | map: "constructor" }}',
	'{{ a | where: "__proto__", "x" }}',
	'{{ list | map: "__proto__" | first }}',
	'{{ list.constructor }}{{ list.push }}{{ "abc".constructor }}{{ 5.constructor }}',
	'{{ toString }}{{ constructor }}{{ hasOwnProperty }}{{ globalThis }}{{ process.env }}{{ this }}{{ self }}',
	'{% assign __proto__ = "x" %}{{ __proto__ }}{{ a.polluted }}',
	'{% assign constructor = "x" %}',
	'{% capture __proto__ %}x{% endcapture %}',
	'{% increment __proto__ %}{% decrement constructor %}',
	'{% for __proto__ in list %}{{ __proto__ }}{% endfor %}',
	'{% assign list.__proto__.polluted = "x" %}',
	'{% cycle __proto__: "a", "b" %}',
	'{{ list | group_by: "__proto__" | json }}',
	'{{ list | group_by_exp: "__proto__", "__proto__.constructor" | json }}',
	'{{ list | where_exp: "constructor", "constructor.constructor" | json }}',
	'{{ a | sort: "__proto__" }}',
	'{{ opts }}{{ globals }}{{ scopes }}{{ environments }}{{ place }}',
];

test('attempts to access files and prototypes do nothing or fail', async t => {
	const data = JSON.parse(
		'{"a": {"__proto__": {"polluted": 1}, "constructor": 1}, "list": [{"b": 1}], "__proto__": {"polluted": 1}}',
	) as Record<string, unknown>;
	const {results, polluted} = await renderInThread(reachingOut, data);
	t.is(results.length, reachingOut.length);
	for (const [index, result] of results.entries()) {
		t.notRegex(result.ok ? result.html : '', secret, reachingOut[index]);
	}
	t.deepEqual(polluted, []);
});

test('compiling hostile MJML blocks nothing else and returns a result', async t => {
	const many = (inner: string) => `<mjml><mj-body>${inner}</mj-body></mjml>`;
	const results = await compileInWorker(
		[
			many('<mj-section><mj-column><mj-text>x</mj-text></mj-column></mj-section>'.repeat(2000)),
			many('<mj-wrapper>'.repeat(490) + '</mj-wrapper>'.repeat(490)),
			many(`<mj-section><mj-column><mj-text>${'<div>'.repeat(40_000)}</mj-text></mj-column></mj-section>`),
			many('<div>'.repeat(40_000)),
			many(`<mj-raw>${'<'.repeat(200_000)}</mj-raw>`),
			many(`<mj-section ${'a '.repeat(100_000)}></mj-section>`),
		].map(mjml => ({locale: null, subject: '', mjml})),
		maxTestMs,
	);
	t.is(results.length, 6);
	t.false(results[0]?.ok);
});

test('compiles or rejects very large HTML in time', async t => {
	const sources = [
		'<b>x</b>'.repeat(32_000),
		'<div>'.repeat(52_000),
		'<table><tr><td>'.repeat(17_000),
		`<pre>${' '.repeat(260_000)}x</pre>`,
		`<a ${'href '.repeat(52_000)}>x</a>`,
		'<ul><li>'.repeat(32_000),
	].map(html => ({locale: null, subject: '', html}));
	const results = await compileInWorker(sources, maxTestMs);
	t.is(results.length, sources.length);
	t.notRegex(JSON.stringify(results), /too long to compile|too much memory/);
});
