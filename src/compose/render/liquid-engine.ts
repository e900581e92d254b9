import {
	Context,
	Drop,
	type Emitter,
	filters,
	Liquid,
	LiquidError,
	type LiquidOptions,
	RenderError,
	type Template,
	type Token,
	TokenKind,
	toValue,
	toValueSync,
	UndefinedVariableError,
	Value,
} from 'liquidjs';
import {compareNumbers, Numeral, unmarked} from '../../kit/exact-json.ts';
import type {Pieces} from '../../kit/text.ts';
import {formatCurrency, formatDate, type Place, readMoment, readZone, strftime} from './dates.ts';
import {PieceEmitter, TextEmitter, textOf, toRenderable} from './emitters.ts';
import {maxSourceLength, renderMemory} from './limits.ts';

type Engines = {
	/** Escapes values for HTML, unless the last filter is `raw`. */
	readonly html: Liquid;
	/** For subjects and text parts. Writes values unchanged. */
	readonly plain: Liquid;
};

// Symbols, because templates and data cannot refer to them.
const placeKey = Symbol('place');
const strictKey = Symbol('strict');

// These would read other templates or files. Partials are resolved when a version is saved.
const disabledTags = ['include', 'render', 'layout', 'block'];
const defaultDate = '%A, %B %-e, %Y at %-l:%M %P %z';

const jsonFilters = ['json', 'jsonify', 'inspect'] as const;

/** Filters that convert their input to text. */
const textFilters = new Set([
	'append',
	'prepend',
	'strip',
	'lstrip',
	'rstrip',
	'squish',
	'downcase',
	'upcase',
	'capitalize',
	'split',
	'join',
	'remove',
	'remove_first',
	'remove_last',
	'replace',
	'replace_first',
	'replace_last',
	'truncate',
	'truncatewords',
	'strip_newlines',
	'normalize_whitespace',
	'number_of_words',
	'array_to_sentence_string',
	'slugify',
	'strip_html',
	'url_encode',
	'url_decode',
	'cgi_escape',
	'uri_escape',
	'base64_encode',
	'base64_decode',
	'xml_escape',
	'escape',
	'escape_once',
	'newline_to_br',
	'sha256',
	'hmac_sha256',
]);

type BuiltinName = 'escape' | 'escape_once' | 'newline_to_br' | 'map' | 'slice' | 'sort' | (typeof jsonFilters)[number];
type Filter = (this: {readonly context: Context}, value: unknown, ...args: unknown[]) => unknown;
type OutputEscape = NonNullable<LiquidOptions['outputEscape']>;
const builtin = filters as unknown as Readonly<Record<BuiltinName, Filter>>;
const escapeAny = withText(builtin.escape);
const escaped = /[&<>"']/;
const escapeOnce = withText(builtin.escape_once);

/** Creates the engines for the Liquid dialect of templates. */
export function liquidEngines(): Engines {
	const html = createEngine({outputEscape: escapeText as unknown as OutputEscape});
	// The results of these filters are already escaped. Escaping them again would show `&lt;br /&gt;` to the recipient.
	html.registerFilter('escape', {handler: escapeText, raw: true});
	html.registerFilter('escape_once', {handler: escapeOnce, raw: true});
	html.registerFilter('newline_to_br', {
		handler(value: unknown) {
			return builtin.newline_to_br.call(this, escapeOnce.call(this, value));
		},
		raw: true,
	});
	return {html, plain: createEngine({})};
}

function createEngine(escaping: {outputEscape?: OutputEscape}): Liquid {
	const liquid = new Liquid({
		...escaping,
		templates: {},
		ownPropertyOnly: true,
		strictFilters: true,
		dynamicPartials: false,
		parseLimit: maxSourceLength,
		memoryLimit: renderMemory,
	});
	for (const tag of disabledTags) {
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
	registerValueFilters(liquid);
	registerDateFilters(liquid);
	return liquid;
}

function registerValueFilters(liquid: Liquid): void {
	liquid.registerFilter('slice', function (value: unknown, ...args: unknown[]) {
		const input = toValue(value);
		const sliceable = Array.isArray(input) ? input : toRenderable(input, isStrict(this.context));
		return builtin.slice.call(this, sliceable, ...args);
	});
	liquid.registerFilter('format_currency', function (value: unknown, code: unknown) {
		return formatCurrency(placeOf(this.context), value, code) ?? value;
	});
	liquid.registerFilter('safe_url', function (value: unknown) {
		return safeUrl(isStrict(this.context) ? toRenderable(value, true) : value);
	});
	for (const name of jsonFilters) {
		liquid.registerFilter(name, function (value: unknown, ...args: unknown[]) {
			return unmarked(String(builtin[name].call(this, value, ...args) ?? ''));
		});
	}
	liquid.registerFilter('sort', function* (list: unknown, property: unknown): Generator<unknown, unknown, unknown> {
		const mapped = property === undefined ? list : yield builtin.map.call(this, list, property);
		const keys: readonly unknown[] = Array.isArray(mapped) ? mapped : [];
		if (!keys.some(key => key instanceof Numeral)) {
			return yield builtin.sort.call(this, list, property);
		}
		const keyed = (list as readonly unknown[]).map((item, index) => ({item, key: keys[index]}));
		return keyed.sort((a, b) => compareExactly(a.key, b.key)).map(({item}) => item);
	});
}

function registerDateFilters(liquid: Liquid): void {
	liquid.registerFilter('format_date', function (value: unknown, style: unknown = 'medium') {
		return formatDate(placeOf(this.context), value, style, undefined) ?? value;
	});
	liquid.registerFilter(
		'format_datetime',
		function (value: unknown, dateStyle: unknown = 'medium', timeStyle: unknown = 'short') {
			return formatDate(placeOf(this.context), value, dateStyle, timeStyle) ?? value;
		},
	);
	liquid.registerFilter('date', function (value: unknown, format: unknown, timezone: unknown) {
		return formatMoment(this.context, value, textOf(format ?? defaultDate, isStrict(this.context)), {timezone});
	});
	liquid.registerFilter('date_to_xmlschema', function (value: unknown) {
		return formatMoment(this.context, value, '%FT%T%:z');
	});
	liquid.registerFilter('date_to_rfc822', function (value: unknown) {
		return formatMoment(this.context, value, '%a, %d %b %Y %T %z', {locale: 'en'});
	});
	liquid.registerFilter('date_to_string', function (value: unknown, type: unknown, style: unknown) {
		return formatMoment(this.context, value, dayFormat('%b', type, style));
	});
	liquid.registerFilter('date_to_long_string', function (value: unknown, type: unknown, style: unknown) {
		return formatMoment(this.context, value, dayFormat('%B', type, style));
	});
}

/** Escapes a value. The fast path covers most texts, which contain nothing to escape. */
function escapeText(this: {readonly context: Context}, value: unknown): unknown {
	if (typeof value === 'string' && !escaped.test(value)) {
		this.context.memoryLimit.use(value.length);
		return value;
	}
	return escapeAny.call(this, value);
}

function withText(filter: Filter): Filter {
	return function (value, ...args) {
		const strict = isStrict(this.context);
		return filter.call(this, toRenderable(value, strict), ...args.map(arg => toRenderable(arg, strict)));
	};
}

/** Compares numbers with full precision. Other values are sorted last. */
function compareExactly(a: unknown, b: unknown): number {
	return (
		compareNumbers(a, b) || Number(Number.isNaN(compareNumbers(a, 0))) - Number(Number.isNaN(compareNumbers(b, 0)))
	);
}

function dayFormat(month: string, type: unknown, style: unknown): string {
	if (type !== 'ordinal') {
		return `%d ${month} %Y`;
	}
	return style === 'US' ? `${month} %-d%q, %Y` : `%-d%q ${month} %Y`;
}

/** Formats a moment by `strftime`. Returns the value unchanged if it or the zone is invalid. */
function formatMoment(
	context: Context,
	value: unknown,
	format: string,
	options: {readonly locale?: string; readonly timezone?: unknown} = {},
): unknown {
	const place = placeOf(context);
	const moment = readMoment(value);
	const zone = readZone(options.timezone ?? place.timezone);
	if (moment === undefined || zone === undefined) {
		return value;
	}
	const {memoryLimit} = context;
	return strftime(moment, format, {
		locale: options.locale ?? place.locale,
		zone,
		use: characters => memoryLimit.use(characters),
	});
}

/** Parses a template that is rendered many times. `split` splits the text between outputs and tags into pieces. */
export function parseDirect(engine: Liquid, source: string, split: (text: string) => Pieces): Template[] {
	const templates = engine.parse(source);
	renderDirectly(templates, split);
	return templates;
}

type RenderTerms = {
	/** The locale and time zone that filters format for. */
	readonly place: Place;
	/** Whether values without a text are errors, as in previews. Otherwise they are rendered as an empty text. */
	readonly strict: boolean;
	/** Whether the time is used up. It is checked regularly while rendering. */
	readonly isSpent: () => boolean;
};

/** The number of templates between two checks of the clock, since a check takes as long as several templates. */
const templatesPerCheck = 8;

/**
 * Renders parsed templates.
 *
 * @throws {Error} an error of the template, or `… limit exceeded`
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
	// Liquid's own limit is by wall clock only, which also counts time in which this thread is not scheduled.
	let templatesLeft = 0;
	context.renderLimit.check = () => {
		if (templatesLeft-- > 0) {
			return;
		}
		templatesLeft = templatesPerCheck - 1;
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
 * Returns the value, or `#` if it is a URL with a scheme that must not occur in mail (`javascript:`, `data:`). Spaces
 * and control characters are ignored, because browsers drop them before and within a scheme.
 */
export function safeUrl(value: unknown): unknown {
	if (typeof value === 'object' && value !== null && !(value instanceof Numeral)) {
		return '#'; // Liquid would join a list to a text that is not checked.
	}
	if (typeof value !== 'string') {
		return value;
	}

	const urlScheme = scheme.exec(value.replace(/[\s\u0000-\u0020\u007f-\u00a0\u200b\ufeff]+/g, ''))?.[1];
	return urlScheme === undefined || allowedSchemes.has(urlScheme.toLowerCase()) ? value : '#';
}

/** Evaluates a part of an expression. */
type Evaluate = (context: Context) => unknown;

// liquidjs does not export these types.
type Lookup = {readonly findScope: (name: string | number) => object};
type Access = Token & {readonly variable?: unknown; readonly props: readonly Token[]};
type Call = {
	readonly handler: (this: object, value: unknown, ...args: unknown[]) => unknown;
	readonly token: Token;
	readonly liquid: Liquid;
};

/**
 * Makes a parsed template render by plain function calls. liquidjs creates several generators for each output to
 * support promises, and a receipt would spend most of its rendering time on them. Tags, and expressions with operators
 * or ranges, are still evaluated by liquidjs, which accepts values and generators alike.
 *
 * @param split splits the text between outputs and tags into pieces
 */
function renderDirectly(templates: readonly Template[], split: (text: string) => Pieces): void {
	for (const template of templates) {
		if (template.token.kind === TokenKind.HTML) {
			const {str} = template as Template & {readonly str: string};
			const pieces = split(str);
			template.render = (_, emitter: Emitter) =>
				emitter instanceof PieceEmitter ? emitter.add(pieces) : emitter.write(str);
		}
		for (const argument of template.arguments?.() ?? []) {
			if (argument instanceof Value) {
				[...argument.initial.postfix, ...argument.filters.flatMap(({args}) => args.flat())].forEach(keepDigits);
				evaluateDirectly(argument);
			} else {
				keepDigits(argument);
			}
		}
		if (template.token.kind === TokenKind.Output) {
			const {value} = template as Template & {readonly value: Value};
			template.render = (context: Context, emitter: Emitter) =>
				emitter.write(toValue(toValueSync(value.value(context, false))));
		}
		renderDirectly((toValueSync(template.children?.(false, true)) as Template[] | undefined) ?? [], split);
	}
}

/** Replaces `renderTemplates` of liquidjs's renderer. */
export function renderAll(templates: readonly Template[], context: Context, emitter: Emitter): string {
	context.renderLimit.check(1);
	for (const template of templates) {
		context.renderLimit.check(1);
		try {
			const text = toValueSync(template.render(context, emitter));
			if (text) {
				emitter.write(text);
			}
		} catch (error) {
			throw LiquidError.is(error) ? error : new RenderError(error as Error, template);
		}
		if (context.breakCalled || context.continueCalled) {
			break;
		}
	}
	return emitter.buffer;
}

/** Replaces a number literal that a double cannot represent exactly. */
function keepDigits(token: unknown): void {
	const {kind, content} = Object(token) as {readonly kind?: TokenKind; content?: unknown};
	if (kind === TokenKind.Number) {
		const exact = new Numeral((token as Token).getText());
		if (Math.abs(compareNumbers(exact, content)) > 0) {
			(token as {content: unknown}).content = exact;
		}
	}
}

function evaluateDirectly(value: Value): void {
	const initial = value.initial.postfix.length === 1 ? toEvaluator(value.initial.postfix[0]) : null;
	const steps = value.filters.map(filter => {
		const {handler, token, liquid} = filter as unknown as Call;
		const args = filter.args.map(argument => (Array.isArray(argument) ? null : toEvaluator(argument)));
		return args.every(argument => argument !== null)
			? (input: unknown, context: Context) =>
					handler.call({context, token, liquid}, input, ...args.map(argument => argument(context)))
			: (input: unknown, context: Context) => filter.render(input, context);
	});
	if (!initial) {
		return;
	}
	const direct = (context: Context): unknown => {
		let result = initial(context);
		for (const step of steps) {
			result = toValueSync(step(result, context));
		}
		return result;
	};
	value.value = direct as unknown as Value['value'];
}

/** Returns a function that evaluates a token, or `null` if it is left to liquidjs. */
function toEvaluator(token: Token | undefined): Evaluate | null {
	if (token === undefined) {
		return null;
	}
	if ('content' in token) {
		const {content} = token;
		return () => content;
	}
	if (token.kind !== TokenKind.PropertyAccess) {
		return null;
	}
	const {variable, props} = token as Access;
	const names = props.map(prop => ('content' in prop ? prop.content : null));
	const [first] = names;
	if (variable !== undefined || first === undefined || !names.every(isName)) {
		return null;
	}
	return context => {
		try {
			let value = (context as unknown as Lookup).findScope(first as string | number);
			for (const name of names) {
				value = readName(context, value, name);
			}
			return value;
		} catch (error) {
			throw new UndefinedVariableError(error as Error, token);
		}
	};
}

/** Reads a property like `readProperty` of liquidjs, with a fast path for the fields of plain JSON objects. */
function readName(context: Context, owner: unknown, name: string | number): object {
	if (
		typeof owner === 'object' &&
		owner !== null &&
		Object.hasOwn(owner, name) &&
		!(owner instanceof Drop) &&
		!Array.isArray(owner)
	) {
		const value = (owner as Readonly<Record<string | number, unknown>>)[name];
		if (value !== undefined && typeof value !== 'function' && !('toLiquid' in owner)) {
			return value as object;
		}
	}
	return context.readProperty(owner as object, name);
}

const isName = (name: unknown): name is string | number => typeof name === 'string' || typeof name === 'number';
