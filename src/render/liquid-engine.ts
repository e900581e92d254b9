import {Context, filters, Liquid, type LiquidOptions, type Template, toValue} from 'liquidjs';
import {compareNumbers, Numeral, unmarked} from '../kit/exact-json.ts';
import type {Pieces} from '../kit/text.ts';
import {formatCurrency, formatDate, type Place, readMoment, readZone, strftime} from './dates.ts';
import {PieceEmitter, renderAll, renderDirectly, shown, TextEmitter, textOf} from './direct.ts';
import {longestSource, renderMemory} from './limits.ts';

type Engines = {
	/** Escapes what it puts into html, unless the last filter is `raw`. */
	readonly html: Liquid;
	/** For subjects and text parts: writes values as they are. */
	readonly plain: Liquid;
};

// A symbol, which no template can name: data can neither read nor replace the place of a render.
const placeKey = Symbol('place');
const strictKey = Symbol('strict');

// They would read other templates or files, which a template must not.
const refusedTags = ['include', 'render', 'layout', 'block'];
const usualDate = '%A, %B %-e, %Y at %-l:%M %P %z';

const jsonFilters = ['json', 'jsonify', 'inspect'] as const;

/** They make text of what they get. */
const textFilters = new Set([
	...['append', 'prepend', 'strip', 'lstrip', 'rstrip', 'squish', 'downcase', 'upcase', 'capitalize', 'split', 'join'],
	...['remove', 'remove_first', 'remove_last', 'replace', 'replace_first', 'replace_last', 'truncate', 'truncatewords'],
	...['strip_newlines', 'normalize_whitespace', 'number_of_words', 'array_to_sentence_string', 'slugify', 'strip_html'],
	...['url_encode', 'url_decode', 'cgi_escape', 'uri_escape', 'base64_encode', 'base64_decode', 'xml_escape'],
	...['escape', 'escape_once', 'newline_to_br', 'sha256', 'hmac_sha256'],
]);

type BuiltinName = 'escape' | 'escape_once' | 'newline_to_br' | 'map' | 'slice' | 'sort' | (typeof jsonFilters)[number];
type Filter = (this: {readonly context: Context}, value: unknown, ...args: unknown[]) => unknown;
type OutputEscape = NonNullable<LiquidOptions['outputEscape']>;
const builtin = filters as unknown as Readonly<Record<BuiltinName, Filter>>;
const escapeText = withText(builtin.escape);
const escapeOnce = withText(builtin.escape_once);

/** The Liquid language of templates. */
export function liquidEngines(): Engines {
	const html = engine({outputEscape: escapeText as unknown as OutputEscape});
	// Their results are escaped html already; escaping that again would show `&lt;br /&gt;` to the reader.
	html.registerFilter('escape', {handler: escapeText, raw: true});
	html.registerFilter('escape_once', {handler: escapeOnce, raw: true});
	html.registerFilter('newline_to_br', {
		handler(value: unknown) {
			return builtin.newline_to_br.call(this, escapeOnce.call(this, value));
		},
		raw: true,
	});
	return {html, plain: engine({})};

	function engine(escaping: {outputEscape?: OutputEscape}): Liquid {
		const liquid = new Liquid({
			...escaping,
			templates: {},
			ownPropertyOnly: true,
			strictFilters: true,
			dynamicPartials: false,
			parseLimit: longestSource,
			memoryLimit: renderMemory,
		});
		for (const tag of refusedTags) {
			delete liquid.tags[tag];
		}
		const {renderer} = liquid;
		renderer.renderTemplates = (templates, context, emitter = new TextEmitter(isStrict(context))) =>
			renderAll(templates, context, emitter) as unknown as ReturnType<typeof renderer.renderTemplates>;

		for (const [name, filter] of Object.entries<Filter>(builtin)) {
			if (textFilters.has(name)) {
				liquid.registerFilter(name, withText(filter));
			}
		}
		liquid.registerFilter('slice', function (value: unknown, ...args: unknown[]) {
			const all = toValue(value);
			return builtin.slice.call(this, Array.isArray(all) ? all : shown(all, isStrict(this.context)), ...args);
		});
		liquid.registerFilter('format_currency', function (value: unknown, code: unknown) {
			return formatCurrency(placeOf(this.context), value, code) ?? value;
		});
		liquid.registerFilter('format_date', function (value: unknown, style: unknown = 'medium') {
			return formatDate(placeOf(this.context), value, style, undefined) ?? value;
		});
		liquid.registerFilter(
			'format_datetime',
			function (value: unknown, dateStyle: unknown = 'medium', timeStyle: unknown = 'short') {
				return formatDate(placeOf(this.context), value, dateStyle, timeStyle) ?? value;
			},
		);
		liquid.registerFilter('safe_url', function (value: unknown) {
			return safeUrl(isStrict(this.context) ? shown(value, true) : value);
		});
		for (const name of jsonFilters) {
			liquid.registerFilter(name, function (value: unknown, ...args: unknown[]) {
				return unmarked(String(builtin[name].call(this, value, ...args) ?? ''));
			});
		}
		liquid.registerFilter('sort', function* (list: unknown, property: unknown): Generator<unknown, unknown, unknown> {
			const named = property === undefined ? list : yield builtin.map.call(this, list, property);
			const keys: readonly unknown[] = Array.isArray(named) ? named : [];
			if (!keys.some(key => key instanceof Numeral)) {
				return yield builtin.sort.call(this, list, property);
			}
			const keyed = (list as readonly unknown[]).map((item, index) => ({item, key: keys[index]}));
			return keyed.sort((a, b) => inOrder(a.key, b.key)).map(({item}) => item);
		});
		liquid.registerFilter('date', function (value: unknown, format: unknown, timezone: unknown) {
			return written(this.context, value, textOf(format ?? usualDate, isStrict(this.context)), {timezone});
		});
		liquid.registerFilter('date_to_xmlschema', function (value: unknown) {
			return written(this.context, value, '%FT%T%:z');
		});
		liquid.registerFilter('date_to_rfc822', function (value: unknown) {
			return written(this.context, value, '%a, %d %b %Y %T %z', {locale: 'en'});
		});
		liquid.registerFilter('date_to_string', function (value: unknown, type: unknown, style: unknown) {
			return written(this.context, value, dayForm('%b', type, style));
		});
		liquid.registerFilter('date_to_long_string', function (value: unknown, type: unknown, style: unknown) {
			return written(this.context, value, dayForm('%B', type, style));
		});
		return liquid;
	}
}

function withText(filter: Filter): Filter {
	return function (value, ...args) {
		const strict = isStrict(this.context);
		return filter.call(this, shown(value, strict), ...args.map(arg => shown(arg, strict)));
	};
}

/** By all digits; what is no number comes last. */
function inOrder(one: unknown, other: unknown): number {
	return (
		compareNumbers(one, other) ||
		Number(Number.isNaN(compareNumbers(one, 0))) - Number(Number.isNaN(compareNumbers(other, 0)))
	);
}

function dayForm(month: string, type: unknown, style: unknown): string {
	if (type !== 'ordinal') {
		return `%d ${month} %Y`;
	}
	return style === 'US' ? `${month} %-d%q, %Y` : `%-d%q ${month} %Y`;
}

/** A moment in a form of `strftime`; the value as it came where it, or the zone, does not exist. */
function written(
	context: Context,
	value: unknown,
	format: string,
	asked: {readonly locale?: string; readonly timezone?: unknown} = {},
): unknown {
	const place = placeOf(context);
	const moment = readMoment(value);
	const zone = readZone(asked.timezone ?? place.timezone);
	if (moment === undefined || zone === undefined) {
		return value;
	}
	const {memoryLimit} = context;
	return strftime(moment, format, {
		...{locale: asked.locale ?? place.locale, zone},
		use: characters => memoryLimit.use(characters),
	});
}

/** Parses what will be rendered many times. `split` makes pieces of the text between outputs and tags. */
export function parseDirect(engine: Liquid, source: string, split: (text: string) => Pieces): Template[] {
	const templates = engine.parse(source);
	renderDirectly(templates, split);
	return templates;
}

type RenderTerms = {
	/** Where the reader is: its filters format for it. */
	readonly place: Place;
	/** A preview: what has no text is a fault, and not an empty text. */
	readonly strict: boolean;
	/** Whether it has used its time up; asked before each template. */
	readonly isSpent: () => boolean;
};

/**
 * Renders what an engine parsed.
 *
 * @throws {Error} a fault of the template, or `… limit exceeded`
 */
export function renderTemplates(
	engine: Liquid,
	templates: Template[],
	scope: object,
	{place, strict, isSpent}: RenderTerms,
): Pieces {
	const context = new Context(
		scope,
		engine.options,
		{sync: true, globals: {[placeKey]: place, [strictKey]: strict}},
		{liquid: engine},
	);
	// Liquid's own limit counts by the clock, which runs on where the machine has no time for this thread.
	context.renderLimit.check = () => {
		if (isSpent()) {
			throw new Error('template render limit exceeded');
		}
	};
	const emitter = new PieceEmitter(strict);
	renderAll(templates, context, emitter);
	return emitter.end();
}

function placeOf(context: Context): Place {
	const place = (context.globals as {readonly [placeKey]?: Place})[placeKey];
	return place ?? {locale: 'en', timezone: 'UTC'};
}

function isStrict({globals}: Context): boolean {
	return (globals as {readonly [strictKey]?: boolean})[strictKey] === true;
}

const scheme = /^([a-z][a-z0-9+.-]*):/i;
const allowedSchemes = new Set(['http', 'https', 'mailto', 'tel', 'sms', 'cid']);

/**
 * The value, or `#` where it is a URL of a scheme that does not belong into a mail (`javascript:`, `data:`).
 * Browsers drop spaces and controls before and inside of a scheme, so they are no disguise.
 */
export function safeUrl(value: unknown): unknown {
	if (typeof value === 'object' && value !== null && !(value instanceof Numeral)) {
		return '#'; // Liquid would join a list to text unseen.
	}
	if (typeof value !== 'string') {
		return value;
	}

	const found = scheme.exec(value.replace(/[\s\u0000-\u0020\u007f-\u00a0\u200b\ufeff]+/g, ''))?.[1];
	return found === undefined || allowedSchemes.has(found.toLowerCase()) ? value : '#';
}
