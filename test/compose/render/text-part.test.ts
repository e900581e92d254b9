import test from 'ava';
import fc from 'fast-check';
import {PieceEmitter} from '../../../src/compose/render/emitters.ts';
import {liquidEngines} from '../../../src/compose/render/liquid-engine.ts';
import {createRenderer} from '../../../src/compose/render/render.ts';
import {textFromHtml, textPieces, textTemplate, tidyPieces, tidyText} from '../../../src/compose/render/text-part.ts';
import {joined} from '../../../src/kit/text.ts';
import {anyChar} from '../../helpers/any-char.ts';
import {input, variant} from './inputs.ts';

const engine = liquidEngines().plain;
const renderer = createRenderer();

const data = {
	name: 'Ada & <Co>',
	url: 'https://a.example/?a=1&b=2',
	yes: true,
	bad: 'javascript:alert(1)',
	items: [
		{name: 'One', url: 'https://one.example'},
		{name: 'Two', url: 'https://two.example'},
	],
};

for (const [what, html, text] of [
	['an output', '<p>Hello {{ name }}</p>', 'Hello Ada & <Co>\n'],
	['a link', '<a href="{{ url }}">Open</a>', 'Open <https://a.example/?a=1&b=2>\n'],
	[
		'a constant link whose text is its URL',
		'<a href="https://a.example">https://a.example</a>',
		'https://a.example\n',
	],
	[
		'a link whose text is its URL',
		'<p>Or open <a href="{{ url | safe_url }}">{{url}}</a>.</p>',
		'Or open https://a.example/?a=1&b=2.\n',
	],
	['Liquid in link and text', '<a href="{{ url }}">{{ name }}</a>', 'Ada & <Co> <https://a.example/?a=1&b=2>\n'],
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
		'a condition inside a link',
		'{% for i in items %}<p><a href="{{ i.url }}">{% if forloop.first %}{{ i.name }}{% else %}More{% endif %}</a></p>{% endfor %}',
		null,
	],
	[
		'an assign before the body',
		'{% assign x = name %}<html><head><title>T</title></head><body>{{ x }}</body></html>',
		'Ada & <Co>\n',
	],
	[
		'styles, scripts, comments, hidden text',
		'<style>{{ name }}</style><!-- {{ name }} --><script>x</script><img src="{{ url }}"><div style="display:none">{{ name }}</div><p>a</p>',
		'a\n',
	],
	['an image', '<p>From<img alt="{{ name }}" src="https://a.example/p.png">.</p>', 'From Ada & <Co> .\n'],
	['an image as link', '<a href="{{ url }}"><img alt="Shop"></a>', 'Shop <https://a.example/?a=1&b=2>\n'],
	[
		'a link to nothing',
		'<p><a href="{{ none }}">{{ name }}</a>, <a href="{{ none | safe_url }}">b</a>.</p>',
		'Ada & <Co>, b.\n',
	],
	['a rejected link', '<a href="{{ bad | safe_url }}">Open</a>', 'Open\n'],
	['a link to nothing behind a long line', `<p>${'word '.repeat(14)}<a href="{{ none }}">links</a></p>`, null],
	['terms', '<dl>{% for i in items %}<dt>{{ i.name }}</dt><dd>x</dd>{% endfor %}</dl>', 'One\nx\nTwo\nx\n'],
	[
		'an empty cell',
		'<table>{% for i in items %}<tr><td>{{ i.name }}</td><td></td><td>x</td></tr>{% endfor %}</table>',
		'One  x\nTwo  x\n',
	],
	['words that look like placeholders', '<p>lq0x0e {{ name }}</p>', 'lq0x0e Ada & <Co>\n'],
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
	['HTML from an output', '<p>{{ name | raw }}</p>'],
	['line breaks from an output', '<p>{{ name | upcase | newline_to_br }}</p>'],
	['an assign in a comment', '<!-- {% assign x = 1 %} -->{{ x }}'],
	['an assign in the head', '<html><head>{% assign x = 1 %}</head><body>{{ x }}</body></html>'],
	['a block that begins in a style', '<style>{% if yes %}</style>{% endif %}<p>a</p>'],
	['a block that ends in a comment', '{% if yes %}<p>a</p><!-- {% endif %} -->'],
	['a branch in a comment', '{% if yes %}a<!-- {% else %} -->b{% endif %}'],
	['entities that spell Liquid', '<p>&#123;&#123; name }}</p>'],
	['a loop of items left open', '<ul>{% for i in items %}<li>{{ i.name }}{% endfor %}</ul>'],
	['a loop of options left open', '<select>{% for i in items %}<option>{{ i.name }}{% endfor %}</select>'],
	['a link that a condition leaves empty', '<a href="{% if no %}{{ url }}{% endif %}">a</a>'],
	['a raw block', '<p>{% raw %}{{ name }}{% endraw %}</p>'],
] as const) {
	test(`leaves ${what} to the rendered HTML`, t => {
		t.is(textTemplate(engine, html), null);
	});
}

for (const [what, html, text] of [
	['terms', 'a<dl><dt>Order</dt><dd>7</dd><dt>Total</dt><dd>5</dd></dl>b', 'a\nOrder\n7\nTotal\n5\nb'],
	['an address', '<address>Main St 1<br>Vienna</address>Hello', 'Main St 1\nVienna\nHello'],
	['details', 'a<details><summary>More</summary>all of it</details>b', 'a\nMore\nall of it\nb'],
	['options', '<select><option>one</option><option>two</option></select>', 'one\ntwo'],
	['options left open', '<select><option>one<option>two</select>', 'one\ntwo'],
	[
		'groups of options',
		'<select><optgroup label="x"><option>one</option></optgroup><option>two</option></select>',
		'one\ntwo',
	],
	['a field set', '<fieldset><legend>Who</legend>you</fieldset>there', 'Who\nyou\nthere'],
	['a figure', '<figure><img alt="A pen" src="x"><figcaption>Ours</figcaption></figure>', 'A pen\nOurs'],
	['centered text', 'a<center>b</center>c', 'a\nb\nc'],
	['a caption', '<table><caption>Lines</caption><tr><td>a</td></tr></table>', 'Lines\na'],
	['a menu', '<menu><li>a</li><li>b</li></menu>', 'a\nb'],
	['items without a list', '<li>a</li><li>b</li>', 'a\nb'],
	['items with paragraphs', '<ul><li>a</li><li><p>b</p></li></ul>', '- a\n\n- b'],
	['a dialog, a search', '<dialog>a</dialog><search>b</search>c', 'a\nb\nc'],
	['headings in a group', '<hgroup><h1>a</h1><p>b</p></hgroup>c', 'a\n\nb\n\nc'],
	['a text field', 'a<textarea>b</textarea>c', 'a\nb\nc'],
	[
		'invisible elements',
		'a<p hidden>b</p><span style="color:red;DISPLAY: none">c</span><template>d</template>e',
		'ae',
	],
	['images side by side', '<img alt="Web"><img alt="Chat"><img alt=""><img alt=" "><img src="x">', 'Web Chat'],
	['an image of several lines', '<p>a <img alt="two\n  lines"> b</p>', 'a two lines b'],
	['an image that is a button', '<input type="IMAGE" alt="Go" src="x"><input type="text" alt="no">', 'Go'],
	['an image in a picture', '<picture><source srcset="x"><img alt="A pen" src="y"></picture>', 'A pen'],
	['a linked image', '<a href="https://a.example"><img alt="Shop" src="x"></a>', 'Shop <https://a.example>'],
	['a linked image without text', '<a href="https://a.example"><img src="x"></a>', 'https://a.example'],
	[
		'links without a URL',
		'<a>a</a> <a name="x">b</a> <a href="">c</a> <a href="#">d</a> <a href="#top">e</a>',
		'a b c d e',
	],
	['an empty cell', '<table><tr><td>a</td><td></td><td>c</td></tr></table>', 'a  c'],
	['empty cells', '<table><tr><td>a</td><td>&nbsp;</td><td><!-- x --></td><td>c</td></tr></table>', 'a   c'],
	['an empty head cell', '<table><tr><th>Item</th><th> </th><th>Sum</th></tr></table>', 'Item  Sum'],
	['an empty first cell', '<p>x</p><table><tr><th></th><th>Sum</th></tr></table>', 'x\n\n Sum'],
	['a cell with a button', '<table><tr><td><input type="image" alt="Go"></td><td>x</td></tr></table>', 'Go x'],
	['a cell with an image', '<table><tr><td>a</td><td><img alt="b"></td><td>c</td></tr></table>', 'a b c'],
	[
		'a row of empty cells',
		'<table><tr><td>a</td></tr><tr><td></td><td></td></tr><tr><td>b</td></tr></table>',
		'a\n\nb',
	],
	[
		'an empty cell of a layout',
		'<table role="presentation"><tr><td></td><td>a</td><td></td><td>b</td></tr></table>',
		'a b',
	],
] as const) {
	test(`text of ${what}`, t => {
		t.is(textFromHtml(html), `${text}\n`);
	});
}

test('wraps lines between words and keeps links whole', t => {
	const url = `https://a.example/${'x'.repeat(200)}`;
	const text = textFromHtml(`<p>${'word '.repeat(100)}</p><a href="${url}">Open</a>`);
	t.true(text.includes(`<${url}>`));
	t.true(text.split('\n').every(line => line.length <= 78 || line.includes(url)));
});

/** Ignores line breaks: the lengths of values are unknown when a template is wrapped. */
function words(text: string): string {
	return text.replace(/\s+/g, ' ').trim();
}

const inline = fc.constantFrom(
	'{{ name }}',
	'word',
	'<b>bold</b>',
	'<a href="{{ url }}">link</a>',
	'<a href="{{ none }}">none</a>',
	'<img alt="{{ name }}">',
	'<!-- {{ name }} -->',
	'<br>',
	'&amp;',
);
const {block} = fc.letrec<{block: string}>(tie => ({
	block: fc.oneof(
		{maxDepth: 3},
		inline,
		tie('block').map(inner => `<p>${inner}</p>`),
		tie('block').map(inner => `<table><tr><td>${inner}</td><td></td><td>x</td></tr></table>`),
		tie('block').map(inner => `<dl><dt>${inner}</dt><dd>x</dd></dl>`),
		tie('block').map(inner => `{% if yes %}${inner}{% else %}<p>no</p>{% endif %}`),
		tie('block').map(inner => `{% for i in items %}<div>${inner}{{ i.name }}</div>{% endfor %}`),
		fc.array(tie('block'), {maxLength: 3}).map(parts => parts.join(' ')),
	),
}));

test('a converted template yields the text of the rendered HTML', t => {
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

test('does not convert a branch that ends within a line, whose line break would be lost', t => {
	const html = '{% if yes %}word{% else %}<p>no</p>{% endif %} <table><tr><td>{{ name }}</td></tr></table>';
	t.is(textTemplate(engine, html), null);
	t.not(textTemplate(engine, '<p>Hello {% if yes %}{{ name }}{% else %}you{% endif %}</p><p>bye</p>'), null);
	t.not(
		textTemplate(engine, '{% for i in items %}<p>{{ i.name }}</p>{% endfor %}<p>{% if yes %}a{% endif %}</p>'),
		null,
	);
});

test('converts any HTML', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar}), fc.string(), (a, b) => {
			t.is(typeof textFromHtml(`<p ${a}>${b}<${a}`), 'string');
		}),
	);
});

test('normalizes text in pieces like the whole text', t => {
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
			const emitter = new PieceEmitter(false);
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
		{numRuns: 300},
	);
});
