import {createRequire} from 'node:module';
import test from 'ava';
import {compileMjml, textElements} from '../../../src/compose/render/compile.ts';
import {liquidEngines} from '../../../src/compose/render/liquid-engine.ts';

const engine = liquidEngines().html;

function mail(column: string, head = ''): string {
	return `<mjml>\n<mj-head>${head}</mj-head>\n<mj-body>\n<mj-section>\n<mj-column>\n${column}\n</mj-column>\n</mj-section>\n</mj-body>\n</mjml>`;
}

async function html(source: string): Promise<string> {
	const result = await compileMjml(engine, source);
	return result.ok ? result.html : `refused: ${JSON.stringify(result.violations)}`;
}

for (const [what, source, kept] of [
	['an attribute', '<mj-button href="{{ url }}">Go</mj-button>', 'href="{{ url }}"'],
	[
		'quotes in an attribute',
		'<mj-button href="{{ url | default: "x" }}">Go</mj-button>',
		'href="{{ url | default: "x" }}"',
	],
	[
		'characters special in HTML',
		'<mj-text>{% if a <b and c > d %}x{% endif %}</mj-text>',
		'{% if a <b and c > d %}x{% endif %}',
	],
	[
		'a loop of table rows',
		'<mj-table>{% for i in list %}<tr><td>{{ i }}</td></tr>{% endfor %}</mj-table>',
		'{% for i in list %}<tr><td>{{ i }}</td></tr>{% endfor %}',
	],
	[
		'tags between elements in mj-raw',
		'<mj-raw>{% if a %}</mj-raw><mj-text>x</mj-text><mj-raw>{% endif %}</mj-raw>',
		'{% if a %}',
	],
	['a color', '<mj-text color="{{ brand }}">x</mj-text>', 'color:{{ brand }}'],
	[
		'a raw block',
		'<mj-text>{% raw %}{{ not liquid }}{% endraw %}</mj-text>',
		'{% raw %}{{ not liquid }}{% endraw %}',
	],
	['text that looks like a placeholder', '<mj-text>lq0x0e {{ name }} lq1x0e</mj-text>', 'lq0x0e {{ name }} lq1x0e'],
	['a css class', '<mj-text css-class="{{ kind }}">x</mj-text>', 'class="{{ kind }}"'],
] as const) {
	test(`keeps Liquid: ${what}`, async t => {
		const made = await html(mail(source));
		t.true(made.includes(kept), made);
	});
}

test('Liquid survives inlined styles', async t => {
	const made = await html(
		mail(
			'<mj-text><p class="a" title="{{ "<" }}">{% if a > b %}x{% endif %}</p></mj-text>',
			'<mj-style inline="inline">.a { color: red }</mj-style>',
		),
	);
	t.regex(made, /title="\{\{ "<" \}\}" style="color: red;?"/);
	t.true(made.includes('{% if a > b %}x{% endif %}'));
});

const inlined = '<mj-style inline="inline">.a { color: blue } p { margin: 0 }</mj-style>';

for (const [style, expected] of [
	['"{{ st }}"', 'color: blue; {{ st }}'],
	["'{{ st }}'", 'color: blue; {{ st }}'],
	['{{ st }}', 'color: blue; {{ st }}'],
	['"width:1px; {{ st }}"', 'color: blue; width:1px; {{ st }}'],
	['"{{ st }}; width:1px"', 'color: blue; {{ st }}; width:1px'],
	['"{% if b %}color:red;{% endif %}width:1px"', 'color: blue; {% if b %}color:red;{% endif %}width:1px'],
	['"{{ side }}-color: red"', 'color: blue; {{ side }}-color: red'],
	['"width: {{ w }}px"', 'color: blue; width: {{ w }}px;'],
	['"font-family:&quot;Open Sans&quot;, serif"', "color: blue; font-family: 'Open Sans', serif;"],
	[`'font-family:"Open Sans"; {{ st }}'`, 'color: blue; font-family:&quot;Open Sans&quot;; {{ st }}'],
] as const) {
	test(`inlined styles keep style=${style}`, async t => {
		const made = await html(
			mail(`<mj-text><b class="a" style=${style}>x</b><b style=${style}>y</b></mj-text>`, inlined),
		);
		t.true(made.includes(`<b class="a" style="${expected}">x</b>`), made);
		// No rule concerns this one.
		t.regex(made, /<b style=.*Open Sans|<b style=.*\{[{%]/);
	});
}

test('an error below a multi-line style attribute keeps its line', async t => {
	const made = await html(mail('<mj-text><p style="{{ st }}\n\n">x</p></mj-text>\n<mj-txt>x</mj-txt>', inlined));
	t.regex(made, /mj-txt.*"line":9,/);
});

test('escapes quotes of a title in attributes', async t => {
	const made = await html(mail('<mj-text>x</mj-text>', '<mj-title>Your "{{ name }}" & \'more\'</mj-title>'));
	const title = `Your &quot;{{ name }}&quot; & 'more'`;
	t.true(made.includes(`<title>${title}</title>`), made);
	t.true(made.includes(`aria-label="${title}" aria-roledescription`), made);
});

for (const [what, source, line, column, message] of [
	['an unknown element', mail('<mj-txt>x</mj-txt>'), 6, 1, /mj-txt.*(exist|registered)/],
	[
		'an element in the wrong place',
		mail('<mj-text>x</mj-text><mj-section></mj-section>'),
		6,
		21,
		/mj-section cannot be used inside mj-column/,
	],
	['an unknown attribute', mail('\n  <mj-text colour="red">x</mj-text>'), 7, 3, /colour is illegal/],
	['an invalid attribute', mail('<mj-text {% if a %}color="red"{% endif %}>x</mj-text>'), 6, 1, /\{% if a %\}/],
	[
		'a width in Liquid',
		mail('<mj-image src="x" width="{{ w }}px" />'),
		6,
		1,
		/width has invalid value: \{\{ w \}\}px/,
	],
	['text in a column', mail('  Hello'), 6, 3, /directly in <mj-column>.*<mj-text>/],
	['Liquid in a column', mail('<mj-text>x</mj-text>\n {% if a %}<mj-text>y</mj-text>{% endif %}'), 7, 2, /<mj-raw>/],
	[
		'a position after Liquid of two lines',
		mail('<mj-text>{{ a\n | upcase }}</mj-text>\n  Hello'),
		8,
		3,
		/would be lost/,
	],
	['an element left open', mail('<mj-text>Hello'), 6, 1, /<mj-text> is never closed/],
	['an element closed twice', mail('<mj-text>Hello</mj-text></mj-text>'), 6, 25, /<\/mj-text> has no opening tag/],
	['a tag left open', '<mjml>\n<mj-body', 2, 1, /never closed/],
	['a quote left open', '<mjml>\n<mj-body width="600px>\n</mj-body></mjml>', 2, 1, /never closed/],
	['a comment left open', '<mjml>\n<!-- </mjml>', 2, 1, /never closed/],
	['no body', '<mjml></mjml>', 1, 1, /Malformed MJML/],
	['an empty source', '', 1, 1, /Parsing failed/],
	['plain text', 'Hello', 1, 1, /outside of <mjml>/],
	['an unknown filter', mail('<mj-text>{{ a | b }}</mj-text>'), 6, 10, /undefined filter: b/],
	['an unknown tag', mail('<mj-text>{% b %}</mj-text>'), 6, 10, /tag "b" not found/],
	['an open block', mail('<mj-text>{% if a %}</mj-text>'), 6, 10, /not closed/],
	[
		'a tag that MJML leaves out',
		mail(
			'<mj-text>x</mj-text>',
			'<mj-attributes><mj-class name="a" color="{% if a %}red{% endif %}" /></mj-attributes>',
		),
		2,
		51,
		/drops this: \{% if a %\}/,
	],
	['too many elements', mail('<mj-text>x</mj-text>'.repeat(500)), 6, 9901, /more than 500/],
] as const) {
	test(`reports an error with its position: ${what}`, async t => {
		const result = await compileMjml(engine, source);
		if (result.ok) {
			return t.fail(result.html);
		}
		const [first] = result.violations;
		t.regex(first?.message ?? '', message);
		t.deepEqual([first?.line, first?.column, first?.field], [line, column, 'mjml']);
	});
}

for (const include of [
	'<mj-include path="package.json" />',
	'<mj-include path="/etc/passwd" type="html" />',
	'<mj-include path="../package.json"></mj-include>',
	'<MJ-INCLUDE path="./package.json" type="css"/>',
	'<mj-wrapper><mj-include path="package.json" /></mj-wrapper>',
]) {
	test(`rejects ${include}`, async t => {
		const result = await compileMjml(engine, `<mjml><mj-body>\n${include}</mj-body></mjml>`);
		t.false(result.ok);
		t.regex(result.ok ? '' : (result.violations[0]?.message ?? ''), /mj-include is not allowed/);
	});
}

test('does not follow mj-include inside HTML', async t => {
	const made = await html(mail('<mj-raw><!-- <mj-include path="package.json" /> --></mj-raw>'));
	t.false(made.includes('dependencies'), made);
});

test('knows all text elements of MJML', async t => {
	await import('mjml'); // Registers them.
	const {components} = createRequire(import.meta.url)('mjml-core') as {
		components: Record<string, {endingTag?: boolean; getTagName(): string}>;
	};
	const ending = Object.values(components)
		.filter(component => component.endingTag)
		.map(component => component.getTagName());
	t.deepEqual([...textElements].sort(), [...ending, 'mj-html-attribute'].sort());
});

test('loads no third-party fonts unless the template names them with mj-font', async t => {
	const text = '<mj-text font-family="Roboto, Ubuntu, sans-serif">x</mj-text>';
	const plain = await html(mail(text));
	t.regex(plain, /Roboto/);
	t.notRegex(plain, /@import|<link|https?:\/\/fonts\./);
	const named = '<mj-font name="Roboto" href="https://fonts.shop.example/roboto.css" />';
	t.regex(await html(mail(text, named)), /fonts\.shop\.example\/roboto\.css/);
});

test('hides the preview line without setting a color', async t => {
	const made = await html(mail('<mj-text>x</mj-text>', '<mj-preview>Sooner</mj-preview>'));
	t.regex(made, /<div style="display:none;[^"]*opacity:0;overflow:hidden;">\s*Sooner/);
	t.notRegex(made, /#fff/i);
});

const social = (attributes: string) => `<mj-social><mj-social-element ${attributes}>x</mj-social-element></mj-social>`;
const accordion = (attributes: string) =>
	`<mj-accordion ${attributes}><mj-accordion-element><mj-accordion-title>a</mj-accordion-title></mj-accordion-element></mj-accordion>`;
const carousel = (attributes: string) =>
	`<mj-carousel ${attributes}><mj-carousel-image src="https://a.example/1.png" /></mj-carousel>`;
const ownIcon = (names: readonly string[]) => names.map(name => `${name}="https://a.example/i.png"`).join(' ');

for (const [what, source, attributes] of [
	['a network', social('name="facebook" href="https://a.example"'), ['src']],
	['a network not shared', social("name='x-noshare'"), ['src']],
	['an empty source', social('name="github" src=""'), ['src']],
	[
		'one of two networks',
		social(`name="facebook" ${ownIcon(['src'])}>x</mj-social-element><mj-social-element name="x"`),
		['src'],
	],
	['an accordion', accordion(''), ['icon-wrapped-url', 'icon-unwrapped-url']],
	['an accordion with one icon', accordion(ownIcon(['icon-wrapped-url'])), ['icon-unwrapped-url']],
	['a carousel', carousel(''), ['left-icon', 'right-icon']],
	['a carousel with one icon', carousel(ownIcon(['right-icon'])), ['left-icon']],
] as const) {
	test(`rejects third-party pictures: ${what}`, async t => {
		const made = await compileMjml(engine, mail(source));
		const found = made.ok ? [] : made.violations;
		t.deepEqual(
			found.map(({message}) => /set its (\S+) to an image of your own$/.exec(message)?.[1]),
			[...attributes],
		);
		t.true(found.every(({field, line}) => field === 'mjml' && line === 6));
	});
}

for (const [what, source, head] of [
	['a network', social(`name="facebook" ${ownIcon(['src'])}`), ''],
	['an own network', social('name="shop"'), ''],
	['a network in Liquid', social('name="{{ network }}"'), ''],
	[
		'a default for all',
		social('name="facebook"'),
		`<mj-attributes><mj-social-element ${ownIcon(['src'])} /></mj-attributes>`,
	],
	[
		'a class',
		social('name="facebook" mj-class="f"'),
		`<mj-attributes><mj-class name="f" ${ownIcon(['src'])} /></mj-attributes>`,
	],
	['Liquid', accordion('icon-wrapped-url="{{ a }}" icon-unwrapped-url="{{ b }}"'), ''],
	['a carousel', carousel(ownIcon(['left-icon', 'right-icon'])), ''],
] as const) {
	test(`accepts own pictures: ${what}`, async t => {
		t.notRegex(await html(mail(source, head)), /refused|mailjet|imgur/);
	});
}

test('no other MJML element has a default URL', async t => {
	await import('mjml'); // Registers them.
	const {components} = createRequire(import.meta.url)('mjml-core') as {
		components: Record<string, {defaultAttributes?: Record<string, string>; getTagName(): string}>;
	};
	const found = Object.values(components).flatMap(component =>
		Object.entries(component.defaultAttributes ?? {})
			.filter(([, value]) => /\/\//.test(value))
			.map(([name]) => `${component.getTagName()} ${name}`),
	);
	t.deepEqual(found.sort(), [
		'mj-accordion icon-unwrapped-url',
		'mj-accordion icon-wrapped-url',
		'mj-carousel left-icon',
		'mj-carousel right-icon',
	]);
});

for (const [what, attributes, head, directions] of [
	['the default', '', '', ['ltr', 'ltr']],
	['left to right', ' dir="ltr"', '', ['ltr', 'ltr']],
	['right to left', ' dir="rtl"', '', ['rtl', 'rtl']],
	['right to left with attributes', " lang='ar' dir='RTL'", '<mj-title>x</mj-title>', ['rtl', 'rtl']],
	[
		'a default of the author',
		' dir="rtl"',
		'<mj-attributes><mj-section direction="ltr" /></mj-attributes>',
		['ltr', 'rtl'],
	],
	['automatic', ' dir="auto"', '', []],
	['Liquid', ' dir="{{ direction }}"', '', []],
	[
		'Liquid with its own direction',
		' dir="{{ direction }}"',
		'<mj-attributes><mj-section direction="rtl" /></mj-attributes>',
		['rtl', 'ltr'],
	],
] as const) {
	test(`direction of columns: ${what}`, async t => {
		const made = await html(mail('<mj-text>x</mj-text>', head).replace('<mjml>', `<mjml${attributes}>`));
		t.deepEqual(
			[...made.matchAll(/direction:(\w+)/g)].map(([, direction]) => direction),
			[...directions],
		);
	});
}

test('a message without a head keeps its direction and the lines of errors', async t => {
	const source = (body: string) =>
		`<mjml dir="rtl">\n<mj-body>\n<mj-section><mj-column>${body}</mj-column></mj-section></mj-body></mjml>`;
	t.regex(await html(source('<mj-text>x</mj-text>')), /direction:rtl/);
	const faulty = await compileMjml(engine, source('<mj-text colour="red">x</mj-text>'));
	t.deepEqual(faulty.ok || faulty.violations.map(({line, column}) => [line, column]), [[3, 24]]);
});

test('sets the HTML language to that of the message unless the author sets one', async t => {
	const made = await html(mail('<mj-text>x</mj-text>'));
	t.is(made.match(/ lang="\{\{ message\.locale \}\}"/g)?.length, 2);
	const named = await html(mail('<mj-text>x</mj-text>').replace('<mjml>', '<mjml lang="de">'));
	t.is(named.match(/ lang="de"/g)?.length, 2);
	t.notRegex(named, /message\.locale/);
});
