import test from 'ava';
import fc from 'fast-check';
import {joined} from '../../src/mail/pieces.ts';
import {PieceEmitter} from '../../src/render/direct.ts';
import {createEngines} from '../../src/render/engine.ts';
import {createRenderer} from '../../src/render/render.ts';
import {textFromHtml, textPieces, textTemplate, tidyPieces, tidyText} from '../../src/render/text-part.ts';
import {input, variant} from './inputs.ts';

const engine = createEngines().plain;
const renderer = createRenderer();

const data = {
	name: 'Ada & <Co>',
	url: 'https://a.example/?a=1&b=2',
	yes: true,
	items: [
		{name: 'One', url: 'https://one.example'},
		{name: 'Two', url: 'https://two.example'},
	],
};

for (const [what, html, text] of [
	['an output', '<p>Hello {{ name }}</p>', 'Hello Ada & <Co>\n'],
	['a link', '<a href="{{ url }}">Open</a>', 'Open <https://a.example/?a=1&b=2>\n'],
	['a link of its own name', '<a href="https://a.example">https://a.example</a>', 'https://a.example\n'],
	[
		'a link whose name is its URL',
		'<p>Or open <a href="{{ url | safe_url }}">{{url}}</a>.</p>',
		'Or open https://a.example/?a=1&b=2.\n',
	],
	['Liquid in link and name', '<a href="{{ url }}">{{ name }}</a>', 'Ada & <Co> <https://a.example/?a=1&b=2>\n'],
	['entities', '<p>a &amp; b &lt; c</p>', 'a & b < c\n'],
	['headings as written', '<h1>Hello {{ name }}</h1><h2>You</h2>', 'Hello Ada & <Co>\n\nYou\n'],
	[
		'a loop of rows',
		'<table>{% for i in items %}<tr><td>{{ i.name }}</td><td>x</td></tr>{% endfor %}</table>',
		'One x\nTwo x\n',
	],
	['a loop of list items', '<ul>{% for i in items %}<li>{{ i.name }}</li>{% endfor %}</ul>', '- One\n- Two\n'],
	['a condition', '<p>a</p>{% if no %}<p>b</p>{% else %}<p>c</p>{% endif %}<p>d</p>', 'a\n\nc\n\nd\n'],
	[
		'a condition inside of a link',
		'{% for i in items %}<p><a href="{{ i.url }}">{% if forloop.first %}{{ i.name }}{% else %}More{% endif %}</a></p>{% endfor %}',
		null,
	],
	[
		'an assign before the body',
		'{% assign x = name %}<html><head><title>T</title></head><body>{{ x }}</body></html>',
		'Ada & <Co>\n',
	],
	[
		'styles, scripts, comments, images, hidden text',
		'<style>{{ name }}</style><!-- {{ name }} --><script>x</script><img alt="{{ name }}"><div style="display:none">{{ name }}</div><p>a</p>',
		'a\n',
	],
	['words looked like stand-ins', '<p>lq0x0e {{ name }}</p>', 'lq0x0e Ada & <Co>\n'],
] as const) {
	test(`converts ${what}`, t => {
		const template = textTemplate(engine, html);
		if (template === null) {
			return t.fail('not converted');
		}
		const result = renderer.render(variant({text: template}), input(data));
		if (text !== null) {
			t.like(result, {ok: true, text});
		}
		const rendered = renderer.render(variant({html}), input(data));
		t.is(result.ok && rendered.ok && words(result.text), rendered.ok && words(textFromHtml(rendered.html)));
	});
}

for (const [what, html] of [
	['html that an output makes', '<p>{{ name | raw }}</p>'],
	['line breaks that an output makes', '<p>{{ name | upcase | newline_to_br }}</p>'],
	['an assign in a comment', '<!-- {% assign x = 1 %} -->{{ x }}'],
	['an assign in the head', '<html><head>{% assign x = 1 %}</head><body>{{ x }}</body></html>'],
	['a block that begins in a style', '<style>{% if yes %}</style>{% endif %}<p>a</p>'],
	['a block that ends in a comment', '{% if yes %}<p>a</p><!-- {% endif %} -->'],
	['a branch in a comment', '{% if yes %}a<!-- {% else %} -->b{% endif %}'],
	['entities that spell Liquid', '<p>&#123;&#123; name }}</p>'],
	['a raw block', '<p>{% raw %}{{ name }}{% endraw %}</p>'],
] as const) {
	test(`leaves ${what} to the rendered html`, t => {
		t.is(textTemplate(engine, html), null);
	});
}

test('lines are wrapped between words, links are whole', t => {
	const url = `https://a.example/${'x'.repeat(200)}`;
	const text = textFromHtml(`<p>${'word '.repeat(100)}</p><a href="${url}">Open</a>`);
	t.true(text.includes(`<${url}>`));
	t.true(text.split('\n').every(line => line.length <= 78 || line.includes(url)));
});

/** Without where lines break: the values' lengths are not known when a template is wrapped. */
function words(text: string): string {
	return text.replace(/\s+/g, ' ').trim();
}

const inline = fc.constantFrom(
	'{{ name }}',
	'word',
	'<b>bold</b>',
	'<a href="{{ url }}">link</a>',
	'<!-- {{ name }} -->',
	'<br>',
	'&amp;',
);
const {block} = fc.letrec<{block: string}>(tie => ({
	block: fc.oneof(
		{maxDepth: 3},
		inline,
		tie('block').map(inner => `<p>${inner}</p>`),
		tie('block').map(inner => `<table><tr><td>${inner}</td></tr></table>`),
		tie('block').map(inner => `{% if yes %}${inner}{% else %}<p>no</p>{% endif %}`),
		tie('block').map(inner => `{% for i in items %}<div>${inner}{{ i.name }}</div>{% endfor %}`),
		fc.array(tie('block'), {maxLength: 3}).map(parts => parts.join(' ')),
	),
}));

test('the converted template says what the rendered html says', t => {
	fc.assert(
		fc.property(block, html => {
			const template = textTemplate(engine, html);
			if (template === null) {
				return; // Made per mail then.
			}
			const converted = renderer.render(variant({text: template}), input(data));
			const rendered = renderer.render(variant({html}), input(data));
			t.is(converted.ok && words(converted.text), rendered.ok && words(textFromHtml(rendered.html)), html);
		}),
	);
});

test('a branch that ends within a line leaves the text to be made per mail, for its line break would be lost', t => {
	const html = '{% if yes %}word{% else %}<p>no</p>{% endif %} <table><tr><td>{{ name }}</td></tr></table>';
	t.is(textTemplate(engine, html), null);
	t.not(textTemplate(engine, '<p>Hello {% if yes %}{{ name }}{% else %}you{% endif %}</p><p>bye</p>'), null);
	t.not(
		textTemplate(engine, '{% for i in items %}<p>{{ i.name }}</p>{% endfor %}<p>{% if yes %}a{% endif %}</p>'),
		null,
	);
});

test('any html converts', t => {
	fc.assert(
		fc.property(fc.string({unit: 'binary'}), fc.string(), (a, b) => {
			t.is(typeof textFromHtml(`<p ${a}>${b}<${a}`), 'string');
		}),
	);
});

test('text in pieces is tidied as the whole is', t => {
	const parts = fc.array(
		fc.oneof(
			fc.record({
				constant: fc
					.array(fc.constantFrom('a', ' ', '\n', '\t', '\r\n', '\u00a0', 'word'.repeat(20)), {maxLength: 12})
					.map(words => words.join('')),
			}),
			fc.array(fc.constantFrom('b', ' ', '\n', '\t', '\u00a0'), {maxLength: 5}).map(words => words.join('')),
		),
		{maxLength: 8},
	);
	fc.assert(
		fc.property(parts, found => {
			const emitter = new PieceEmitter();
			for (const part of found) {
				if (typeof part === 'string') {
					emitter.write(part);
				} else {
					emitter.add(textPieces(part.constant));
				}
			}
			const whole = found.map(part => (typeof part === 'string' ? part : part.constant)).join('');
			t.is(joined(tidyPieces(emitter.end())), tidyText(whole), JSON.stringify(found));
		}),
		{numRuns: 1000},
	);
});
