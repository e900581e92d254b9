import type {Liquid} from 'liquidjs';
import {maxElements, maxHtmlDepth, maxSourceLength} from './limits.ts';
import {liquidEngines} from './liquid-engine.ts';
import {liquidProblem, type Shielded, shield, toProblem, type Violation, violationAt} from './liquid-source.ts';
import {hideStyles} from './style-attributes.ts';
import {nestsTooDeeply, textTemplate} from './text-part.ts';

/** One locale's variant of a template as its author wrote it. Exactly one of `mjml` and `html` is set. */
export type VariantSource = {
	/** `null` for the default variant. */
	readonly locale: string | null;
	readonly subject: string;
	readonly mjml?: string | undefined;
	readonly html?: string | undefined;
	/** Generated from the HTML by default. */
	readonly text?: string | undefined;
	/** The name of the layout of body and text, if any. */
	readonly layout?: string | null | undefined;
};

/** The variant that is stored and rendered. Its Liquid is known to parse. */
export type CompiledVariant = {
	readonly ok: true;
	readonly subject: string;
	readonly html: string;
	/** `null` if the text must be derived from the rendered HTML of each message, because its Liquid outputs HTML. */
	readonly text: string | null;
	/** The variables that it uses. */
	readonly reads: readonly DataPath[];
	/** Body and text with their layout and partials resolved. Absent if it uses none. */
	readonly resolved?: Partial<Pick<VariantSource, 'mjml' | 'html' | 'text'>>;
};

export type CompileResult = CompiledVariant | {readonly ok: false; readonly violations: readonly Violation[]};

const maxViolations = 20;

/**
 * Compiles a variant when its version is saved: MJML to HTML and HTML to text, with all Liquid validated. Errors of the
 * author become violations. Hostile input can take seconds, so callers that must stay responsive use `compileInWorker`.
 *
 * `src/compose/render` turns templates into subjects, HTML and text. It compiles a version once and renders it for each
 * message, with limits on time and memory. It relies on liquidjs, MJML and html-to-text. It never reads files or other
 * templates on behalf of a template, and never outputs data into HTML unescaped unless the template asks for it.
 */
export async function compileVariant(source: VariantSource): Promise<CompileResult> {
	const engines = liquidEngines();
	const {subject, mjml, html, text} = source;
	const fields = {subject, mjml, html, text};
	const problems = Object.entries(fields).flatMap(([field, value]) => sizeProblem(field, value));
	if ((mjml === undefined) === (html === undefined)) {
		problems.push(atStart('mjml', 'specify either mjml or html'));
	}
	if (problems.length > 0) {
		return {ok: false, violations: problems};
	}

	const plainProblems = [
		liquidProblem(engines.plain, 'subject', subject),
		text === undefined ? null : liquidProblem(engines.plain, 'text', text),
	].filter(problem => problem !== null);
	const body = await compileBody(engines.html, mjml, html ?? '');
	if (!body.ok || plainProblems.length > 0) {
		return {ok: false, violations: [...plainProblems, ...(body.ok ? [] : body.violations)].slice(0, maxViolations)};
	}

	return {
		ok: true,
		subject,
		html: body.html,
		text: text ?? textTemplate(engines.plain, body.html),
		reads: dataPaths(engines.html, [subject, body.html, text ?? '']),
	};
}

async function compileBody(engine: Liquid, mjml: string | undefined, html: string): Promise<MjmlResult> {
	if (mjml === undefined) {
		const problem = liquidProblem(engine, 'html', html);
		return problem ? {ok: false, violations: [problem]} : checkHtml(engine, 'html', html);
	}

	const compiled = await compileMjml(engine, mjml);
	return compiled.ok ? checkHtml(engine, 'mjml', compiled.html) : compiled;
}

/** Guards URLs and validates the HTML before and after. Its size is checked too, because MJML output can be huge. */
function checkHtml(engine: Liquid, field: string, html: string): MjmlResult {
	if (html.length > maxSourceLength) {
		return {ok: false, violations: [atStart(field, `produces more than ${maxSourceLength} characters of HTML`)]};
	}

	if (nestsTooDeeply(html)) {
		return {ok: false, violations: [atStart(field, `nests more than ${maxHtmlDepth} elements`)]};
	}

	const before = liquidProblem(engine, field, html);
	const guarded = before ? html : guardUrls(shield(engine, html));
	const problem = before ?? liquidProblem(engine, field, guarded);
	return problem
		? {ok: false, violations: [atStart(field, `the resulting HTML does not parse: ${problem.message}`)]}
		: {ok: true, html: guarded};
}

function sizeProblem(field: string, value: string | undefined): Violation[] {
	return value !== undefined && Buffer.byteLength(value) > maxSourceLength
		? [atStart(field, `is longer than ${maxSourceLength} octets`)]
		: [];
}

function atStart(field: string, message: string): Violation {
	return {field, message, line: 1, column: 1};
}

/**
 * Adds the filter `safe_url` to every output at the start of a URL attribute, so that data cannot put `javascript:`
 * into a link. Outputs later in the value cannot set the scheme and remain unchanged.
 */
export function guardUrls({text, tokens, pattern, restore}: Shielded): string {
	const patternSource = pattern.source;
	const urlStart = new RegExp(
		`(\\s(?:href|src|action|formaction|background|poster|xlink:href)\\s*=\\s*(?:["']\\s*)?)((?:${patternSource}\\s*)+)`,
		'gi',
	);
	return restore(
		text.replace(urlStart, (_, before: string, placeholders: string) => {
			let hasBegun = false;
			const guarded = placeholders.replace(pattern, (placeholder, index) => {
				const token = tokens[Number(index)];
				if (!token || token.kind === 'tag') {
					// Each branch of a condition starts the value anew.
					hasBegun &&= !(token && ['else', 'elsif', 'when'].includes(token.name));
					return placeholder;
				}
				const isFirst = !hasBegun;
				hasBegun = true;
				return isFirst ? token.text.replace(/\s*(-?\}\})$/, ' | safe_url $1') : placeholder;
			});
			return before + guarded;
		}),
	);
}

/** The path of a variable that a template uses: `order.items` is `['order', 'items']`. */
type DataPath = ReadonlyArray<string | number>;

/** The variables that rendering provides for each message. */
const reserved = new Set<unknown>(['recipient', 'unsubscribe_url', 'preferences_url', 'workspace', 'message']);
const listProperties = new Set<unknown>(['size', 'first', 'last']);

/**
 * Returns the variables that sources use, except those that a source defines itself, such as the item of a loop. The
 * sources must parse.
 */
export function dataPaths(engine: Liquid, sources: readonly string[]): DataPath[] {
	const paths = new Map<string, DataPath>();
	for (const source of sources) {
		for (const segments of engine.globalVariableSegmentsSync(engine.parse(source))) {
			const computed = segments.findIndex(segment => typeof segment === 'object');
			const path = (computed === -1 ? segments : segments.slice(0, computed)) as DataPath;
			paths.set(JSON.stringify(path), path);
		}
	}
	return [...paths.values()];
}

/** Returns the paths that do not exist in the data, each up to the first missing name: `order.total`. */
export function missingPaths(paths: readonly DataPath[], data: Readonly<Record<string, unknown>>): string[] {
	const missing = paths.flatMap(path => {
		const index = reserved.has(path[0]) ? -1 : missingIndex(path, data);
		return index === -1 ? [] : [path.slice(0, index + 1).join('.')];
	});
	return [...new Set(missing)];
}

/** Returns the index of the first missing name in a path, or -1 if the path exists. */
function missingIndex(path: DataPath, data: unknown): number {
	let value = data;
	for (const [index, name] of path.entries()) {
		if ((Array.isArray(value) || typeof value === 'string') && listProperties.has(name)) {
			value = name === 'size' ? 0 : value.at(name === 'first' ? 0 : -1);
		} else if (typeof value === 'object' && value !== null && Object.hasOwn(value, name)) {
			value = (value as Record<string | number, unknown>)[name];
		} else {
			return index;
		}
	}
	return -1;
}

type MjmlResult =
	| {readonly ok: true; readonly html: string}
	| {readonly ok: false; readonly violations: readonly Violation[]};

type MjmlError = {readonly line: number; readonly message: string; readonly tagName: string};

/**
 * Compiles MJML that contains Liquid to HTML that contains the same Liquid. Violations refer to the MJML. The Liquid is
 * replaced by placeholder words meanwhile, because quotes, `<` and `>` in it would break the MJML.
 */
export async function compileMjml(engine: Liquid, source: string): Promise<MjmlResult> {
	const problem = liquidProblem(engine, 'mjml', source);
	if (problem) {
		return {ok: false, violations: [problem]};
	}

	const shielded = shield(engine, source);
	const problems = mjmlProblems(shielded.text);
	const violations = problems.map(({offset, message}) => violationAt('mjml', source, shielded, offset, message));
	if (problems.some(({fatal}) => fatal)) {
		return {ok: false, violations};
	}

	// Imported on demand, because loading MJML takes a third of a second and much memory.
	const {default: mjml2html} = await import('mjml');
	let html = '';
	try {
		const styles = hideStyles(withQuotedTitle(withDirection(shielded.text)), shielded);
		const result = await mjml2html(styles.text, {
			validationLevel: 'soft',
			ignoreIncludes: true,
			filePath: '.',
			// MJML's default would make every recipient's mail client load fonts such as Roboto from a third party.
			fonts: {},
			// Otherwise the `;` of an entity would end a declaration when MJML inlines styles.
			juiceOptions: {decodeStyleAttributes: true},
		});
		html = styles.restore(result.html.replace(whitePreview, hiddenPreview));
		const errors: readonly MjmlError[] = result.errors;
		violations.push(
			...errors
				.filter(error => !isLiquidColor(error, shielded))
				.map(error =>
					violationAt('mjml', source, shielded, parseOffset(shielded.text, error), error.message.trim()),
				),
		);
	} catch (error) {
		violations.push(violationAt('mjml', source, shielded, 0, toProblem(error).message));
	}

	if (violations.length === 0) {
		violations.push(...lostTags(source, shielded, html), ...thirdPartyImages(source, shielded, html));
	}
	return violations.length === 0
		? {ok: true, html: withLanguage(shielded.restore(keepDirection(html, shielded.text)))}
		: {ok: false, violations: violations.sort((a, b) => a.line - b.line || a.column - b.column)};
}

/** Escapes quotes in the title, because MJML also writes it into an attribute without escaping it. */
function withQuotedTitle(text: string): string {
	return text.replace(/(<mj-title(?:\s[^>]*)?>)([^<]*)/gi, (_, tag: string, title: string) => {
		return tag + title.replaceAll('"', '&quot;');
	});
}

/** MJML colors the hidden preview line white, which spam filters treat as text concealed from people. */
const whitePreview = '<div style="display:none;font-size:1px;color:#ffffff;line-height:1px;';
const hiddenPreview = whitePreview.replace('color:#ffffff;', '');

/** Whether an error can be ignored: MJML does not compute with colors, unlike widths, so they may contain Liquid. */
function isLiquidColor({message}: MjmlError, {pattern}: Shielded): boolean {
	return message.includes('for type Color') && message.search(pattern) !== -1;
}

/** Returns the offset of an error. MJML reports only the line, so the first tag of the element on it is used. */
function parseOffset(text: string, {line, tagName}: MjmlError): number {
	const lines = text.split('\n');
	const start = lines.slice(0, line - 1).reduce((sum, before) => sum + before.length + 1, 0);
	return start + Math.max(0, lines[line - 1]?.toLowerCase().indexOf(`<${tagName}`) ?? 0);
}

/**
 * Returns a violation for each tag that MJML dropped, such as those in an attribute that it does not write. The HTML
 * could lack an `{% endif %}`.
 */
function lostTags(source: string, shielded: Shielded, html: string): Violation[] {
	const retained = new Set([...html.matchAll(shielded.pattern)].map(([, index]) => Number(index)));
	const placeholders = [...shielded.text.matchAll(shielded.pattern)];
	return shielded.tokens.flatMap(({kind}, index) =>
		kind === 'output' || retained.has(index)
			? []
			: [
					violationAt(
						'mjml',
						source,
						shielded,
						placeholders[index]?.index ?? 0,
						`MJML drops this: ${placeholders[index]?.[0] ?? ''}`,
					),
				],
	);
}

/** The images that MJML loads from third parties if the attribute is not set. */
const defaultImages = [
	{element: 'mj-social-element', attribute: 'src', url: 'https://www.mailjet.com/images/theme/v1/icons/ico-social/'},
	{element: 'mj-accordion', attribute: 'icon-wrapped-url', url: 'https://i.imgur.com/bIXv1bk.png'},
	{element: 'mj-accordion', attribute: 'icon-unwrapped-url', url: 'https://i.imgur.com/w4uTygT.png'},
	{element: 'mj-carousel', attribute: 'left-icon', url: 'https://i.imgur.com/xTh3hln.png'},
	{element: 'mj-carousel', attribute: 'right-icon', url: 'https://i.imgur.com/os7o9kz.png'},
];

/** Returns a violation for each image of a third party, which would learn who reads the message and when. */
function thirdPartyImages(source: string, shielded: Shielded, html: string): Violation[] {
	const {text} = shielded;
	return defaultImages
		.filter(({url}) => html.includes(url) && !text.includes(url))
		.flatMap(({element, attribute, url}) => {
			const isSet = new RegExp(`\\s${attribute}\\s*=\\s*(?:"[^"]|'[^'])`, 'i');
			const tags = [...text.matchAll(new RegExp(`<${element}(?=[\\s/>])(?:"[^"]*"|'[^']*'|[^>"'])*`, 'gi'))];
			const tagsWithout = tags.filter(([tag]) => !isSet.test(tag));
			const message = `${element} loads an image from ${new URL(url).host}: set its ${attribute} to an image of your own`;
			return tagsWithout.map(({index}) => violationAt('mjml', source, shielded, index, message));
		});
}

/** Sets the direction of a right-to-left template, because MJML makes all sections and columns left-to-right. */
function withDirection(text: string): string {
	if (parseDirection(text) !== 'rtl') {
		return text;
	}
	const elements = ['mj-wrapper', 'mj-section', 'mj-group', 'mj-column'];
	const defaults = `<mj-attributes>${elements.map(name => `<${name} direction="rtl" />`).join('')}</mj-attributes>`;
	// Inserted without a line break, so that violations keep their line numbers.
	const head = /<mj-head(?:\s[^>]*)?(?<!\/)>/i;
	return head.test(text)
		? text.replace(head, tag => tag + defaults)
		: text.replace(/<mjml(?:\s[^>]*)?>/i, tag => `${tag}<mj-head>${defaults}</mj-head>`);
}

/**
 * Removes MJML's `ltr` if the direction is `auto` or Liquid, so that it is inherited unless an element sets its own.
 */
function keepDirection(html: string, text: string): string {
	const direction = parseDirection(text);
	const isUndetermined = direction !== null && direction !== 'ltr' && direction !== 'rtl';
	return isUndetermined && !/\sdirection\s*=/i.test(text) ? html.replace(/direction:ltr;?/g, '') : html;
}

function parseDirection(text: string): string | null {
	return /<mjml\s(?:[^>]*\s)?dir\s*=\s*["']([^"']*)["']/i.exec(text)?.[1]?.trim().toLowerCase() ?? null;
}

/** Replaces the undetermined language that MJML writes if the source does not set one. */
function withLanguage(html: string): string {
	return html.replaceAll(' lang="und" dir="', ' lang="{{ message.locale }}" dir="');
}

type MjmlProblem = {
	readonly offset: number;
	readonly message: string;
	/** Whether the source must not be compiled to find further problems. */
	readonly fatal?: true;
};

type OpenElement = {readonly name: string; readonly offset: number};

/** The elements that accept text or HTML. MJML silently drops it in all others. */
export const textElements: ReadonlySet<string> = new Set([
	'mj-accordion-text',
	'mj-accordion-title',
	'mj-breakpoint',
	'mj-button',
	'mj-carousel-image',
	'mj-html-attribute',
	'mj-navbar-link',
	'mj-preview',
	'mj-raw',
	'mj-social-element',
	'mj-style',
	'mj-table',
	'mj-text',
	'mj-title',
]);

/**
 * Finds problems that MJML's lenient parser would ignore: elements left open or closed twice, text and Liquid between
 * elements (which it drops), `mj-include`, and too many elements. Runs in one linear pass.
 *
 * @param text the source with its Liquid shielded
 */
function mjmlProblems(text: string): MjmlProblem[] {
	const problems: MjmlProblem[] = [];
	const open: OpenElement[] = [];
	let elements = 0;
	let position = 0;

	while (position < text.length) {
		const next = nextMarkup(text, position);
		problems.push(...textProblems(text, position, next, open.at(-1)?.name));
		if (next >= text.length) {
			break;
		}

		const end = markupEnd(text, next);
		if (end === -1) {
			problems.push({offset: next, message: 'this is never closed', fatal: true});
			return problems;
		}
		checkTag(next, text.slice(next, end));
		if (elements > maxElements) {
			problems.push({offset: next, message: `has more than ${maxElements} MJML elements`, fatal: true});
			return problems;
		}
		position = end;
	}

	problems.push(...open.map(unclosed));
	return problems;

	function checkTag(offset: number, tag: string): void {
		const [, slash, name = ''] = /^<(\/?)(mj[a-z-]*)(?=[\s/>])/i.exec(tag) ?? [];
		const element = name.toLowerCase();
		if (element === '') {
			return;
		}
		if (element === 'mj-include') {
			problems.push({offset, message: 'mj-include is not allowed: templates cannot read files'});
			return;
		}
		if (slash === '/') {
			problems.push(...closeElement(open, offset, element));
			return;
		}

		elements++;
		if (!tag.endsWith('/>')) {
			open.push({name: element, offset});
		}
	}
}

/** Returns a problem if there is text between two positions and the element around them accepts none. */
function textProblems(text: string, from: number, to: number, parent: string | undefined): MjmlProblem[] {
	const start = from + text.slice(from, to).search(/\S/);
	if (start < from || (parent && textElements.has(parent))) {
		return [];
	}
	const where = parent ? `directly in <${parent}>` : 'outside of <mjml>';
	const message = `text ${where} would be lost: put it into an <mj-text>, or Liquid tags between elements into <mj-raw>`;
	return [{offset: start, message}];
}

/** Removes an element, and all opened inside of it, from `open`. Returns the problems with that. */
function closeElement(open: OpenElement[], offset: number, element: string): MjmlProblem[] {
	const index = open.findLastIndex(({name}) => name === element);
	return index === -1
		? [{offset, message: `</${element}> has no opening tag`}]
		: open.splice(index).slice(1).map(unclosed);
}

const unclosed = ({name, offset}: OpenElement): MjmlProblem => ({offset, message: `<${name}> is never closed`});

/** Returns the start of the next tag, comment or CDATA section, or the length of the text. */
function nextMarkup(text: string, from: number): number {
	const index = text.slice(from).search(/<[/a-z!?]/i);
	return index === -1 ? text.length : from + index;
}

/** Returns the end of the markup that starts at `from`, or -1. A `>` inside quotes does not end a tag. */
function markupEnd(text: string, from: number): number {
	for (const [begin, end] of [
		['<!--', '-->'],
		['<![CDATA[', ']]>'],
	] as const) {
		if (text.startsWith(begin, from)) {
			const index = text.indexOf(end, from + begin.length);
			return index === -1 ? -1 : index + end.length;
		}
	}

	if (!/^<\/?mj/i.test(text.slice(from, from + 4))) {
		const index = text.indexOf('>', from);
		return index === -1 ? text.length : index + 1;
	}
	for (let position = from; position < text.length; position++) {
		const character = text[position];
		if (character === '>') {
			return position + 1;
		}
		if (character === '"' || character === "'") {
			position = text.indexOf(character, position + 1);
			if (position === -1) {
				return -1;
			}
		}
	}
	return -1;
}
