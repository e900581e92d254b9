import test from 'ava';
import fc from 'fast-check';
import {html, nameMarkup, plainName} from '../../src/hosted/html.ts';
import {anyChar} from '../helpers/any-char.ts';

test('escapes values in elements and in attributes', t => {
	const name = `<script>alert(1)</script>"><img onerror='x'>&amp;`;
	const {markup} = html`<p title="${name}">${name}</p>`;
	t.is(markup.split('<').length, 3);
	t.is(markup.split('"').length, 3);
	t.false(markup.includes("'"));
	t.true(markup.includes('&amp;amp;'));
});

test('inserts markup, lists of markup and null', t => {
	t.is(
		html`<p>${html`<b>${1}</b>`}${[html`<i>a</i>`, html`<i>b</i>`]}${null}</p>`.markup,
		'<p><b>1</b><i>a</i><i>b</i></p>',
	);
});

test('escapes any text so that it adds no markup and reads the same', t => {
	const entities: Record<string, string> = {'&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'"};
	fc.assert(
		fc.property(fc.string({unit: anyChar}), text => {
			const {markup} = html`${text}`;
			t.notRegex(markup, /[<>"']|&(?!(?:amp|lt|gt|quot|#39);)/);
			t.is(
				markup.replace(/&[^;]+;/g, entity => entities[entity] as string),
				text,
			);
		}),
	);
});

test('a name cannot change the direction of the text after it', t => {
	t.is(plainName('Shop\u202e\u2066\n\u0000 Süd \u200f'), 'Shop Süd \u200f');
	t.is(nameMarkup('\u202eA & B').markup, '<bdi>A &amp; B</bdi>');
});
