import test from 'ava';
import {guardUrls} from '../../../src/compose/render/compile.ts';
import {liquidEngines, safeUrl} from '../../../src/compose/render/liquid-engine.ts';
import {shield} from '../../../src/compose/render/liquid-source.ts';

for (const url of [
	'https://a.example/?x=javascript:1',
	'HTTP://a.example',
	'mailto:a@b.example',
	'tel:+49123',
	'/path:with-colon',
	'//a.example',
	'?a=b:c',
	'#top',
	'',
	5,
	null,
	undefined,
] as const) {
	test(`keeps ${JSON.stringify(url)}`, t => {
		t.is(safeUrl(url), url);
	});
}

for (const url of [
	'javascript:alert(1)',
	'JavaScript:alert(1)',
	'  javascript:alert(1)',
	'java\nscript:alert(1)',
	'java\tscript\u0000:alert(1)',
	'\u0001javascript:alert(1)',
	`${' '.repeat(5000)}javascript:alert(1)`,
	'data:text/html,<script>',
	'vbscript:x',
	'file:///etc/passwd',
	['javascript:alert(1)'],
	{a: 1},
]) {
	test(`rejects ${JSON.stringify(url).slice(0, 60)}`, t => {
		t.is(safeUrl(url), '#');
	});
}

const engine = liquidEngines().html;

for (const [source, guarded] of [
	['<a href="{{ u }}">', '<a href="{{ u | safe_url }}">'],
	['<a href=\'{{- u | append: "x" -}}\'>', '<a href=\'{{- u | append: "x" | safe_url -}}\'>'],
	['<a href={{ u }}>', '<a href={{ u | safe_url }}>'],
	['<a HREF = " {{u}}">', '<a HREF = " {{u | safe_url }}">'],
	['<img src="{{ a }}{{ b }}">', '<img src="{{ a | safe_url }}{{ b }}">'],
	[
		'<a href="{% if a %}{{ b }}{% else %}{{ c }}{% endif %}">',
		'<a href="{% if a %}{{ b | safe_url }}{% else %}{{ c | safe_url }}{% endif %}">',
	],
	['<a href="https://{{ host }}/">', '<a href="https://{{ host }}/">'],
	['<a title="{{ u }}" data-href="{{ u }}">', '<a title="{{ u }}" data-href="{{ u }}">'],
] as const) {
	test(`guards ${source}`, t => {
		t.is(guardUrls(shield(engine, source)), guarded);
	});
}
