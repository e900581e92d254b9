import type {Liquid} from 'liquidjs';
import {deepestHtml, longestSource} from './limits.ts';
import {liquidEngines} from './liquid-engine.ts';
import {liquidFault, type Shielded, shield, type Violation} from './liquid-source.ts';
import {compileMjml, type MjmlResult} from './mjml.ts';
import {nestsTooDeeply, textTemplate} from './text-part.ts';

/** One locale's variant of a template as its author wrote it. Exactly one of `mjml` and `html`. */
export type VariantSource = {
	/** Null: the default variant. */
	readonly locale: string | null;
	readonly subject: string;
	readonly mjml?: string | undefined;
	readonly html?: string | undefined;
	/** Left out: made from the html. */
	readonly text?: string | undefined;
};

/** What is stored and sent: Liquid that is known to parse. */
export type CompiledVariant = {
	readonly ok: true;
	readonly subject: string;
	readonly html: string;
	/** Null: it must be made from the rendered html of each mail, because the html's Liquid makes html of its own. */
	readonly text: string | null;
	/** What it reads of the data. */
	readonly reads: readonly DataPath[];
};

export type CompileResult = CompiledVariant | {readonly ok: false; readonly violations: readonly Violation[]};

const mostViolations = 20;

/**
 * Compiles a variant, once, when its version is saved: MJML to html, html to text, and all Liquid parsed.
 * Every fault of the author is a violation. May take seconds for hostile input: callers with other duties use
 * `compileInWorker`.
 */
export async function compileVariant(source: VariantSource): Promise<CompileResult> {
	const engines = liquidEngines();
	const {subject, mjml, html, text} = source;
	const fields = {subject, mjml, html, text};
	const unfit = Object.entries(fields).flatMap(([field, value]) => sizeFault(field, value));
	if ((mjml === undefined) === (html === undefined)) {
		unfit.push(atStart('mjml', 'give either mjml or html'));
	}
	if (unfit.length > 0) {
		return {ok: false, violations: unfit};
	}

	const plain = [
		liquidFault(engines.plain, 'subject', subject),
		text === undefined ? null : liquidFault(engines.plain, 'text', text),
	].filter(fault => fault !== null);
	const body = await compileBody(engines.html, mjml, html ?? '');
	if (!body.ok || plain.length > 0) {
		return {ok: false, violations: [...plain, ...(body.ok ? [] : body.violations)].slice(0, mostViolations)};
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
		const fault = liquidFault(engine, 'html', html);
		return fault ? {ok: false, violations: [fault]} : checked(engine, 'html', html);
	}

	const compiled = await compileMjml(engine, mjml);
	return compiled.ok ? checked(engine, 'mjml', compiled.html) : compiled;
}

/** Guards the URLs, and proves before and after that it parses: MJML makes much of little. */
function checked(engine: Liquid, field: string, html: string): MjmlResult {
	if (html.length > longestSource) {
		return {ok: false, violations: [atStart(field, `makes more than ${longestSource} characters of html`)]};
	}

	if (nestsTooDeeply(html)) {
		return {ok: false, violations: [atStart(field, `nests more than ${deepestHtml} elements`)]};
	}

	const before = liquidFault(engine, field, html);
	const guarded = before ? html : guardUrls(shield(engine, html));
	const fault = before ?? liquidFault(engine, field, guarded);
	return fault
		? {ok: false, violations: [atStart(field, `the html made of it does not parse: ${fault.message}`)]}
		: {ok: true, html: guarded};
}

function sizeFault(field: string, value: string | undefined): Violation[] {
	return value !== undefined && Buffer.byteLength(value) > longestSource
		? [atStart(field, `is longer than ${longestSource} octets`)]
		: [];
}

function atStart(field: string, message: string): Violation {
	return {field, message, line: 1, column: 1};
}

/**
 * Adds the filter `safe_url` to every output with which the value of a URL attribute begins, so that data cannot put
 * `javascript:` into a link. An output later in the value cannot set the scheme and stays as it is.
 */
export function guardUrls({text, tokens, pattern, restore}: Shielded): string {
	const word = pattern.source;
	const urlStart = new RegExp(
		`(\\s(?:href|src|action|formaction|background|poster|xlink:href)\\s*=\\s*(?:["']\\s*)?)((?:${word}\\s*)+)`,
		'gi',
	);
	return restore(
		text.replace(urlStart, (_, before: string, words: string) => {
			let begun = false;
			const guarded = words.replace(pattern, (placeholder, index) => {
				const token = tokens[Number(index)];
				if (!token || token.kind === 'tag') {
					// Each branch of a condition begins a value of its own.
					begun &&= !(token && ['else', 'elsif', 'when'].includes(token.name));
					return placeholder;
				}
				const first = !begun;
				begun = true;
				return first ? token.text.replace(/\s*(-?\}\})$/, ' | safe_url $1') : placeholder;
			});
			return before + guarded;
		}),
	);
}

/** A value that a template reads of its data: `order.items` is `['order', 'items']`. */
type DataPath = ReadonlyArray<string | number>;

/** What the render gives to each mail by itself. */
const reserved = new Set<unknown>(['recipient', 'unsubscribe_url', 'workspace', 'message']);
const ofLists = new Set<unknown>(['size', 'first', 'last']);

/**
 * The values of the data that the sources, which must parse, read. Without values that a source makes itself, such as a
 * loop's item.
 */
export function dataPaths(engine: Liquid, sources: readonly string[]): DataPath[] {
	const found = new Map<string, DataPath>();
	for (const source of sources) {
		for (const segments of engine.globalVariableSegmentsSync(engine.parse(source))) {
			const computed = segments.findIndex(segment => typeof segment === 'object');
			const path = (computed === -1 ? segments : segments.slice(0, computed)) as DataPath;
			found.set(JSON.stringify(path), path);
		}
	}
	return [...found.values()];
}

/** The paths that lead nowhere in the data, each as far as the first name that is missing: `order.total`. */
export function missingPaths(paths: readonly DataPath[], data: Readonly<Record<string, unknown>>): string[] {
	const missing = paths.flatMap(path => {
		const lost = reserved.has(path[0]) ? -1 : lostAt(path, data);
		return lost === -1 ? [] : [path.slice(0, lost + 1).join('.')];
	});
	return [...new Set(missing)];
}

/** -1: the path has a value. */
function lostAt(path: DataPath, data: unknown): number {
	let value = data;
	for (const [index, name] of path.entries()) {
		if ((Array.isArray(value) || typeof value === 'string') && ofLists.has(name)) {
			value = name === 'size' ? 0 : value.at(name === 'first' ? 0 : -1);
		} else if (typeof value === 'object' && value !== null && Object.hasOwn(value, name)) {
			value = (value as Record<string | number, unknown>)[name];
		} else {
			return index;
		}
	}
	return -1;
}
