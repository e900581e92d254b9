import test from 'ava';
import fc from 'fast-check';
import {createRenderer, type RenderInput} from '../../../src/compose/render/render.ts';
import {anyChar} from '../../helpers/any-char.ts';
import {input, variant} from './inputs.ts';

const renderer = createRenderer();

function htmlOf(html: string, data?: Record<string, unknown>, more?: Partial<RenderInput>): string {
	const result = renderer.render(variant({html}), input(data, more));
	return result.ok ? result.html : `${result.reason}: ${result.message}`;
}

function subjectOf(subject: string, data?: Record<string, unknown>): string {
	const result = renderer.render(variant({subject}), input(data));
	return result.ok ? result.subject : `${result.reason}: ${result.message}`;
}

const nasty = `<img src=x onerror="alert('1')"> & co`;
const escaped = '&lt;img src=x onerror=&#34;alert(&#39;1&#39;)&#34;&gt; &amp; co';

for (const [html, expected] of [
	['{{ x }}', escaped],
	['{{ x | upcase | downcase }}', escaped],
	['{{ x | escape }}', escaped],
	['{{ x | escape_once }}', escaped],
	['{{ x | newline_to_br }}', escaped],
	['{{ "a\nb" | newline_to_br }}', 'a<br />\nb'],
	['{{ list }}', `${escaped}${escaped}`],
	['{% echo x %}', escaped],
	['{% cycle x, x %}', escaped],
	['{% liquid echo x %}', escaped],
	['{% for i in list limit: 1 %}{{ i }}{% endfor %}', escaped],
	['{{ x | raw }}', nasty],
] as const) {
	test(`html: ${JSON.stringify(html)} is ${expected === nasty ? 'raw' : 'escaped'}`, t => {
		t.is(htmlOf(html, {x: nasty, list: [nasty, nasty]}), expected);
	});
}

test('counters start again in each part of a message', t => {
	const counting = '{% increment n %}{% increment n %}{% decrement m %}';
	const result = renderer.render(variant({subject: counting, html: counting, text: counting}), input({n: 5}));
	t.deepEqual(result, {ok: true, subject: '56-1', html: '56-1', text: '56-1\n'});
});

test('does not escape subject and text', t => {
	const result = renderer.render(variant({subject: '{{ x }}', text: '{{ x }}'}), input({x: nasty}));
	t.like(result, {ok: true, subject: nasty, text: `${nasty}\n`});
});

test('renders missing data as empty', t => {
	t.is(htmlOf('[{{ a }}{{ a.b.c }}{{ a[0] }}{{ a.b | upcase }}{% for i in a %}x{% endfor %}{{ a | size }}]'), '[0]');
});

for (const name of ['recipient', 'unsubscribe_url', 'workspace', 'message']) {
	test(`data cannot replace ${name}`, t => {
		const data = {[name]: {email: 'evil', name: 'evil', id: 'evil'}};
		t.is(
			htmlOf('{{ recipient.email }} {{ unsubscribe_url }} {{ workspace.name }} {{ message.id }}', data),
			'ada@reader.example https://mail.example/u Acme msg_1',
		);
	});
}

test('a template cannot replace reserved names for later parts', t => {
	const result = renderer.render(
		variant({subject: '{% assign workspace = "evil" %}', html: '{{ workspace.name }}'}),
		input(),
	);
	t.like(result, {ok: true, html: 'Acme'});
});

test('filters follow the locale and the time zone of the render', t => {
	const html =
		'{{ 1234.5 | format_currency: "EUR" }}|{{ at | format_date }}|{{ at | format_datetime: "short", "short" }}|{{ at | date: "%Y-%m-%d %H:%M" }}';
	const data = {at: '2026-06-09T23:30:00Z'};
	const plain = (text: string) => text.replace(/[\u00a0\u202f]/g, ' ');
	t.is(plain(htmlOf(html, data)), '€1,234.50|Jun 9, 2026|6/9/26, 11:30 PM|2026-06-09 23:30');
	t.is(
		plain(htmlOf(html, data, {locale: 'de-DE', timezone: 'Asia/Kolkata'})),
		'1.234,50 €|10.06.2026|10.06.26, 05:00|2026-06-10 05:00',
	);
});

test('renders invalid input of format filters unchanged', t => {
	t.is(
		htmlOf(
			'{{ "soon" | format_date }}|{{ "x" | format_currency: "EUR" }}|{{ 5 | format_currency: "NOPE" }}|{{ a | format_datetime }}|{{ "<" | format_date }}',
		),
		'soon|x|5||&lt;',
	);
});

for (const [subject, data, expected] of [
	['{{ x }}', {x: 'a\r\nBcc: evil@x.example\r\n\r\nbody'}, 'a Bcc: evil@x.example body'],
	[' {{ x }} ', {x: '\u0000a\u0007\u0085b\u2028c\u007f'}, 'a b c'],
	['{{ x }}', {x: 'ü – 日本 🎉'}, 'ü – 日本 🎉'],
	['{{ x }}', {x: '\n'}, ''],
] as const) {
	test(`subject of ${JSON.stringify(data.x)} is one line`, t => {
		t.is(subjectOf(subject, data), expected);
	});
}

test('cuts a subject at 998 characters, never inside one', t => {
	t.is(subjectOf('{{ x }}', {x: 'a'.repeat(2000)}).length, 998);
	t.is(subjectOf('{{ x }}', {x: `${'a'.repeat(997)}🎉`}), 'a'.repeat(997));
});

test('a text part has no consecutive empty lines and ends with a line break', t => {
	const result = renderer.render(variant({text: '\n{% if a %}x{% endif %}\n \n\nb\n-- \nc\n\n'}), input());
	t.like(result, {ok: true, text: 'b\n-- \nc\n'});
});

test('creates the text from the rendered HTML without a text template', t => {
	const result = renderer.render(variant({html: '<p>{{ x | raw }}</p>', text: null}), input({x: '<b>a</b> &amp; b'}));
	t.like(result, {ok: true, text: 'a & b\n'});
});

test('a template error names the part and the position', t => {
	t.deepEqual(renderer.render(variant({html: 'a\n {{ x | url_decode }}'}), input({x: '%'})), {
		ok: false,
		reason: 'template_error',
		message: 'html, line 2, column 2: URI malformed',
	});
	t.deepEqual(renderer.render(variant({html: '{{ x | unknown }}'}), input()), {
		ok: false,
		reason: 'template_error',
		message: 'parse, line 1, column 1: undefined filter: unknown',
	});
});

test('rejects a part over one megabyte', t => {
	t.like(renderer.render(variant({html: '{{ x }}{{ x }}'}), input({x: 'a'.repeat(500_000)})), {ok: true});
	t.like(renderer.render(variant({html: '{{ x }}{{ x }}.'}), input({x: 'a'.repeat(500_000)})), {
		ok: false,
		reason: 'render_limit',
	});
	t.like(renderer.render(variant({text: '{{ x }}'}), input({x: 'ü'.repeat(500_001)})), {
		ok: false,
		reason: 'render_limit',
	});
});

test('rejects HTML that data nests too deep', t => {
	const deep = (depth: number) =>
		renderer.render(
			variant({html: '{{ x | raw }}', text: null}),
			input({x: '<p><br>a</p>'.repeat(3000) + '<div>'.repeat(depth)}),
		);
	t.like(deep(1000), {ok: true});
	t.like(deep(1001), {ok: false, reason: 'render_limit'});
});

test('alternating renders do not affect each other', t => {
	const html = '{% increment n %}{% assign a = x %}{{ a }}{% cycle "p", "q" %}';
	t.is(htmlOf(html, {x: 1}), '01p');
	t.is(htmlOf(html, {x: 2}), '02p');
	t.is(htmlOf(html), '0p');
});

test('a small cache does not change results', t => {
	const small = createRenderer({cachedOctets: 10});
	for (const round of [1, 2]) {
		for (const html of ['a{{ x }}', 'b{{ x }}', 'a much longer template than the cache can hold {{ x }}']) {
			t.like(small.render(variant({html}), input({x: round})), {
				ok: true,
				html: html.replace('{{ x }}', String(round)),
			});
		}
	}
});

const liquid = fc
	.array(
		fc.oneof(
			fc.constantFrom(
				'{{',
				'}}',
				'{%',
				'%}',
				'{{ a }}',
				'{% if a %}',
				'{% endif %}',
				'{% for i in a %}',
				'{% endfor %}',
			),
			fc.constantFrom(
				'{% raw %}',
				'{% liquid\n',
				'| date: ',
				'| format_date',
				'| sort',
				'| map: "a"',
				'"',
				'..',
				'(1..9)',
				'a.b[0]',
			),
			fc.string({unit: anyChar, maxLength: 6}),
		),
	)
	.map(parts => parts.join(''));

test('never throws, whatever the template and data', t => {
	fc.assert(
		fc.property(liquid, fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (source, data, place) => {
			const json = JSON.parse(JSON.stringify({a: data, ...data})) as Record<string, unknown>;
			const result = renderer.render(
				{id: source, subject: source, html: source, text: null},
				input(json, {locale: place, timezone: place}),
			);
			t.is(typeof result.ok, 'boolean');
			if (result.ok) {
				t.notRegex(result.subject, /[\u0000-\u001f\u007f-\u009f]/);
			}
		}),
		{numRuns: 500},
	);
	t.deepEqual(Object.keys(Object.prototype), []);
});

test('data never opens an HTML tag', t => {
	fc.assert(
		fc.property(fc.jsonValue(), value => {
			const x = JSON.parse(JSON.stringify(value)) as unknown;
			t.notRegex(htmlOf('{{ x }}{{ x | json }}{{ x | newline_to_br | escape_once }}', {x}), /[<"']/);
		}),
	);
});

/** A clock that advances two seconds with every reading. */
function leaping(): () => number {
	let now = 0;
	return () => (now += 2000);
}

test('counts only CPU time against a template', t => {
	const spent = createRenderer({clocks: {clock: {monotonic: leaping()}, cpu: leaping()}});
	t.like(spent.render(variant({html: '{{ name }}'}), input({name: 'Ada'})), {ok: false, reason: 'render_limit'});
	const starved = createRenderer({clocks: {clock: {monotonic: leaping()}, cpu: () => 0}});
	t.like(starved.render(variant({html: '{{ name }}'}), input({name: 'Ada'})), {ok: true, html: 'Ada'});
});

for (const [json, html, expected] of [
	['{"n": 1234567890123456789}', '{{ n }}', '1234567890123456789'],
	[
		'{"n": 12345678901234567890123}',
		'{{ n }} {{ n | append: "!" }} {{ n | split: "" | first }}',
		'12345678901234567890123 12345678901234567890123! 1',
	],
	['{"n": 19.90, "z": 1.0, "e": 1E5, "m": -0}', '{{ n }} {{ z }} {{ e }} {{ m }}', '19.90 1.0 1E5 -0'],
	[
		'{"n": [1234567890123456789, 2.50]}',
		'{{ n }} {{ n | join: "+" }} {{ n | last }} {{ n | json }}',
		'12345678901234567892.50 1234567890123456789+2.50 2.50 [1234567890123456789,2.50]',
	],
	['{"n": {"a": 1.10}}', '{{ n | json | raw }} {% for p in n %}{{ p[1] }}{% endfor %}', '{"a":1.10} 1.10'],
	[
		'{"n": 3.0}',
		'{{ n | plus: 1 }} {{ n | times: n }} {{ n | divided_by: 2 }} {{ n | round }} {{ n | abs }} {{ n | at_most: 2 }}',
		'4 9 1.5 3 3 2',
	],
	[
		'{"n": 3.0}',
		'{% for i in (1..n) %}{{ i }}{% endfor %} {{ "abcdef" | slice: 1, n }} {{ "abcdef" | truncate: n, "" }}',
		'123 bcd abc',
	],
	[
		'{"n": 2.0, "l": [7, 8, 9]}',
		'{% for i in l limit: n %}{{ i }}{% endfor %} {% for i in l offset: n %}{{ i }}{% endfor %}',
		'78 9',
	],
	[
		'{"n": 2.0}',
		'{% if n == 2 %}a{% endif %}{% if 2 == n %}b{% endif %}{% if n > 1 and 3 > n %}c{% endif %}{% case n %}{% when 2 %}d{% endcase %}{% if n %}e{% endif %}',
		'abcde',
	],
	[
		'{"n": 0.0}',
		'{{ n | default: "none" }} {% if n == empty or n == blank or n == nil %}x{% else %}y{% endif %}',
		'0.0 y',
	],
	[
		'{"a": 9007199254740993, "b": 9007199254740992}',
		'{% if a == b %}same{% endif %}{% if a > b %}more{% endif %}{% if b < a %}less{% endif %}',
		'moreless',
	],
	[
		'{"a": 1234567890123456789}',
		'{% if a == 1234567890123456789 %}x{% endif %}{% if a == 1234567890123456788 %}y{% endif %}{% if a < 1234567890123456790 %}z{% endif %}',
		'xz',
	],
	[
		'{"a": 1234567890123456789}',
		'{% case a %}{% when 1234567890123456788 %}x{% when 1234567890123456789 %}y{% endcase %} {{ 1234567890123456789 }}',
		'y 1234567890123456789',
	],
	[
		'{"l": [9007199254740995, 9007199254740993, 5, null, 9007199254740994]}',
		'{{ l | sort | join: " " }}',
		'5 9007199254740993 9007199254740994 9007199254740995 ',
	],
	[
		'{"l": [{"p": 2.50, "k": "a"}, {"p": 2.5, "k": "b"}, {"p": 1.0, "k": "c"}]}',
		'{{ l | sort: "p" | map: "k" }} {{ l | where: "p", 2.5 | map: "k" }} {{ l | sum: "p" }} {{ l | find: "p", 1 | map: "k" }}',
		'cab ab 6 c',
	],
	[
		'{"l": [1.0, 2.50, 1.0]}',
		'{{ l | uniq | join: " " }} {% if l contains 2.5 %}x{% endif %} {{ l | sum }}',
		'1.0 2.50 x 4.5',
	],
	['{"n": 12345678901234567.89}', '{{ n | format_currency: "EUR" }}', '€12,345,678,901,234,567.89'],
	['{"n": 1780000000.0}', '{{ n | date: "%F" }} {{ n | format_date }}', '2026-05-28 May 28, 2026'],
	[
		'{"n": 1.50}',
		'{{ n | safe_url }} {{ n | escape }} {{ n | url_encode }} {{ n | strip }} {{ "v1.50" | remove: n }}',
		'1.50 1.50 1.50 1.50 v',
	],
] as const) {
	test(`numbers in data keep their digits: ${html} with ${json}`, t => {
		const result = renderer.render(variant({html, subject: html}), {...input(), data: json});
		t.like(result, {ok: true, html: expected, subject: expected.trim()});
	});
}

const preview = createRenderer({strict: true});
for (const [html, shown, fault] of [
	['{{ o }}', '', 'this is an object: use one of its fields'],
	['{{ o.in }}', '', 'this is an object'],
	['{{ o | escape }}', '', 'this is an object'],
	['{{ o | raw }}', '', 'this is an object'],
	['{{ o | upcase }}', '', 'this is an object'],
	['{{ o | append: "!" }}', '!', 'this is an object'],
	['{{ "a" | append: o }}', 'a', 'this is an object'],
	['{{ o | url_encode }}', '', 'this is an object'],
	['{{ o | slice: 0, 9 }}', '', 'this is an object'],
	['{{ o | sha256 | size }}', '64', 'this is an object'],
	['{{ o | default: "x" }}', '', 'this is an object'],
	['{{ o | newline_to_br }}', '', 'this is an object'],
	['{{ o | format_currency: "EUR" }}', '', 'this is an object'],
	['{{ o | date: "%F" }}', '', 'this is an object'],
	['{{ l }}', 'a', 'this is an object'],
	['{{ l | join: "," }}', 'a,', 'this is an object'],
	['{% for i in l %}{{ i }}{% endfor %}', 'a', 'this is an object'],
	['{% echo o %}', '', 'this is an object'],
	['{% cycle o, o %}', '', 'this is an object'],
	['{% capture x %}[{{ o }}]{% endcapture %}{{ x }}', '[]', 'this is an object'],
	['{% liquid echo o %}', '', 'this is an object'],
	['<a href="{{ o | safe_url }}">', '<a href="#">', 'this is an object'],
	['{{ recipient }}{{ workspace }}', '', 'this is an object'],
	['{{ 5 | modulo: 0 }}', '', 'this results in NaN'],
	['{{ 0 | divided_by: 0 }}', '', 'this results in NaN'],
	['{{ 1 | divided_by: 0 }}', '', 'this results in Infinity'],
	['{{ 0 | divided_by: 0 | append: "x" }}', 'x', 'this results in NaN'],
	['{{ 0 | divided_by: 0 | format_currency: "EUR" }}', '', 'this results in NaN'],
	['{% assign n = 0 | divided_by: 0 %}{{ n }}', '', 'this results in NaN'],
] as const) {
	test(`a value without text is empty in a message and an error in a preview: ${html}`, t => {
		const data = {o: {in: {a: 1}}, l: ['a', {b: 1}]};
		t.is(htmlOf(html, data), shown);
		for (const part of ['subject', 'html', 'text']) {
			const made = preview.render(variant({html: '', subject: '', text: '', [part]: `\n${html}`}), input(data));
			t.false(made.ok, part);
			t.regex(made.ok ? '' : made.message, new RegExp(`^${part}, line 2, column \\d+: ${fault}`));
		}
	});
}

test('values with text look the same in a preview', t => {
	const data = {o: {a: 1, 'b c': [1, null]}, l: [1, [2, 'x']], t: true, n: null, f: 1.5, z: 0};
	for (const html of [
		'{{ o.a }}{{ o["b c"] }}{{ l }}{{ t }}{{ n }}{{ f }}{{ z }}{{ missing }}{{ l | join: "-" }}',
		'{{ o | json | raw }}{{ o | inspect | raw }}{{ o | size }}{{ l | size }}{{ o | first }}{{ nil }}{{ empty }}{{ blank }}',
		'{% for p in o %}{{ p[0] }}{{ forloop.index }}{% endfor %}{% if o %}x{% endif %}{{ l | map: "a" }}{{ n | plus: 1 }}',
		'{{ "abc" | round }}{{ "x" | times: 2 }}{{ n | upcase }}{{ missing | append: n }}{{ (1..3) }}{{ f | append: "" }}',
	]) {
		const made = preview.render(variant({html, subject: html, text: html}), input(data));
		t.deepEqual(made, renderer.render(variant({html, subject: html, text: html}), input(data)));
		t.true(made.ok);
	}
});
