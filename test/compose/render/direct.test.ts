import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import {Context, type Liquid} from 'liquidjs';
import {PieceEmitter, TextEmitter} from '../../../src/compose/render/emitters.ts';
import {liquidEngines, parseDirect, renderAll} from '../../../src/compose/render/liquid-engine.ts';
import {toProblem} from '../../../src/compose/render/liquid-source.ts';
import {joined} from '../../../src/kit/text.ts';

const engines = liquidEngines();
const own = liquidEngines();
for (const engine of [own.html, own.plain]) {
	// What it inherits is liquidjs's own, but for what has no text.
	const {renderTemplates} = Object.getPrototypeOf(engine.renderer) as typeof engine.renderer;
	engine.renderer.renderTemplates = (templates, context, emitter = new TextEmitter(false)) =>
		renderTemplates.call(engine.renderer, templates, context, emitter);
}

type Rendered = {readonly text?: string; readonly fault?: unknown; readonly memory: unknown; readonly checks: number};

/** The result of a template and how much of its limits it used. */
function rendered(engine: Liquid, scope: object, render: (context: Context) => string): Rendered {
	const context = new Context(
		structuredClone(scope),
		{...engine.options, memoryLimit: 2000},
		{sync: true},
		{liquid: engine},
	);
	let checks = 0;
	context.renderLimit.check = () => {
		checks++;
	};
	const memory = () => (context.memoryLimit as unknown as {readonly base: number}).base;
	try {
		return {text: render(context), memory: memory(), checks};
	} catch (error) {
		return {fault: toProblem(error), memory: memory(), checks};
	}
}

function both(kind: 'html' | 'plain', source: string, scope: object): [Rendered, Rendered] {
	const direct = rendered(engines[kind], scope, context => {
		const emitter = new PieceEmitter(false);
		renderAll(
			parseDirect(engines[kind], source, text => [{text}]),
			context,
			emitter,
		);
		return joined(emitter.end());
	});
	const theirs = rendered(own[kind], scope, context =>
		String(own[kind].renderSync(own[kind].parse(source), context)),
	);
	return [direct, theirs];
}

const names = ['a', 'b', 'item', 'list', 'forloop', 'missing', 'size', 'first', 'last', 'constructor', 'index', 'name'];
const name = fc.constantFrom(...names);
const access = fc
	.tuple(
		name,
		fc.array(
			fc.oneof(
				name.map(one => `.${one}`),
				fc.constantFrom('[0]', '[-1]', '["a"]', '[b]', '[nil]'),
			),
		),
	)
	.map(([first, rest]) => first + rest.slice(0, 3).join(''));
const literal = fc.constantFrom(
	'1',
	'-2.5',
	'"x<y"',
	"'&'",
	'nil',
	'true',
	'empty',
	'blank',
	'(1..3)',
	'(1..b)',
	'"EUR"',
);
const value = fc.oneof({weight: 3, arbitrary: access}, literal);
const filter = fc
	.tuple(
		fc.constantFrom(...Object.keys(engines.html.filters).filter(one => one !== 'sample')),
		fc.array(
			fc.oneof(
				value,
				value.map(one => `allow_false: ${one}`),
			),
			{maxLength: 2},
		),
	)
	.map(([one, args]) => ` | ${one}${args.length > 0 ? `: ${args.join(', ')}` : ''}`);
const filtered = fc.tuple(value, fc.array(filter, {maxLength: 2})).map(([one, filters]) => one + filters.join(''));
const condition = fc.oneof(
	filtered,
	fc
		.tuple(value, fc.constantFrom('==', '!=', '<', '>=', 'contains', 'and', 'or'), value)
		.map(parts => parts.join(' ')),
	value.map(one => `not ${one}`),
);
const modifier = fc.constantFrom('', ' limit: 2', ' offset: 1', ' reversed', ' offset: continue', ' limit: b');
const dash = fc.constantFrom('', '-');

const {template} = fc.letrec<{template: string; block: string}>(tie => ({
	block: fc.array(tie('template'), {maxLength: 4}).map(parts => parts.join('')),
	template: fc.oneof(
		{depthSize: 'small', withCrossShrink: true},
		fc.constantFrom('<p>', ' text ', '\n', '&amp;', '‘é’', '<a href="'),
		fc.tuple(dash, filtered, dash).map(([left, one, right]) => `{{${left} ${one} ${right}}}`),
		fc.tuple(filtered, name).map(([one, as]) => `{% assign ${as} = ${one} %}`),
		fc.constantFrom(
			'{% increment b %}',
			'{% cycle "x", a %}',
			'{% break %}',
			'{% continue %}',
			'{% raw %}{{ a }}{% endraw %}',
		),
		filtered.map(one => `{% echo ${one} %}`),
		fc
			.tuple(name, value, modifier, tie('block'), tie('block'))
			.map(([as, one, how, body, none]) => `{% for ${as} in ${one}${how} %}${body}{% else %}${none}{% endfor %}`),
		fc
			.tuple(condition, tie('block'), condition, tie('block'))
			.map(([one, yes, other, no]) => `{% if ${one} %}${yes}{% elsif ${other} %}b{% else %}${no}{% endif %}`),
		fc.tuple(condition, tie('block')).map(([one, body]) => `{% unless ${one} %}${body}{% endunless %}`),
		fc.tuple(name, tie('block')).map(([as, body]) => `{% capture ${as} %}${body}{% endcapture %}`),
		fc
			.tuple(value, value, tie('block'))
			.map(([one, other, body]) => `{% case ${one} %}{% when ${other}, 1 %}${body}{% else %}none{% endcase %}`),
		fc
			.tuple(name, value, tie('block'))
			.map(([as, one, body]) => `{% tablerow ${as} in ${one} cols: 2 %}${body}{% endtablerow %}`),
		fc.tuple(name, value).map(([as, one]) => `{% liquid\nassign ${as} = ${one}\necho ${as} %}`),
	),
}));
const leaf = fc.constantFrom<unknown>(
	null,
	true,
	false,
	0,
	1,
	-3.5,
	'',
	'a',
	'<b>&"\'',
	'ab\ncd',
	'2026-07-01',
	'https://x.example',
);
const json = fc.letrec(tie => ({
	any: fc.oneof(
		{depthSize: 'small'},
		leaf,
		fc.array(tie('any'), {maxLength: 4}),
		fc.dictionary(name, tie('any'), {maxKeys: 4}),
	),
})).any;
const scope = fc.dictionary(name, json, {maxKeys: 8});

test('renders any template like liquidjs, with the same errors and the same use of limits', t => {
	let [texts, faults] = [0, 0];
	fc.assert(
		fc.property(
			fc.constantFrom('html', 'plain'),
			fc.array(template, {maxLength: 6}),
			scope,
			(kind, parts, data) => {
				const source = parts.join('');
				try {
					own[kind].parse(source);
				} catch {
					return;
				}
				const [direct, theirs] = both(kind, source, data);
				t.deepEqual(direct, theirs, source);
				texts += theirs.text ? 1 : 0;
				faults += theirs.fault ? 1 : 0;
			},
		),
		{numRuns: 500},
	);
	t.true(texts > 200 && faults > 20, `${texts} texts, ${faults} faults`);
});

const cases = 'test/fixtures/render';
for (const folder of readdirSync(cases)) {
	const data = JSON.parse(readFileSync(path.join(cases, folder, 'sample.json'), 'utf8'));
	for (const file of readdirSync(path.join(cases, folder)).filter(one => /^body.*\.(mjml|html|txt)$/.test(one))) {
		test(`renders ${folder}/${file} like liquidjs`, t => {
			const [direct, theirs] = both('html', readFileSync(path.join(cases, folder, file), 'utf8'), data);
			t.deepEqual(direct, theirs);
			t.truthy(direct.text);
		});
	}
}
