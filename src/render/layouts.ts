import type {Liquid} from 'liquidjs';
import {type CompileResult, compileVariant, type VariantSource} from './compile.ts';
import {deepestPartials, maxPartials, maxSourceLength} from './limits.ts';
import {liquidEngines} from './liquid-engine.ts';
import {faultOf, type LiquidToken, liquidTokens, offsetAt, positionAt, type Violation} from './liquid-source.ts';

/** A layout or a partial as its author wrote it. */
export type Layout = {
	readonly kind: 'layout' | 'partial';
	/** Unique among the workspace's of its kind. */
	readonly name: string;
	/** Sources by file name (`filesOf`). */
	readonly files: Readonly<Record<string, string>>;
};

/** `layout/main`, `partial/footer`: how a workspace knows them. */
export const keyOf = ({kind, name}: Pick<Layout, 'kind' | 'name'>): string => `${kind}/${name}`;

/** Where a file of theirs is, seen from the folder of templates. */
export const fileOf = ({kind, name}: Pick<Layout, 'kind' | 'name'>, file: string): string =>
	kind === 'layout' ? `_layouts/${name}/${file}` : `_partials/${file}`;

/** The names of files that it may have. */
export const filesOf = ({kind, name}: Pick<Layout, 'kind' | 'name'>): readonly string[] =>
	kind === 'layout' ? ['body.mjml', 'body.html', 'body.txt'] : [`${name}.liquid`];

/** Letters, digits, hyphens and underscores. */
export const layoutName = /^[\w-]{1,64}$/;

/** A field of a variant with what it makes once layout and partials are in it. */
type Part = {readonly field: string; readonly pieces: Piece[]; length: number; partials: number};

/** A run of a file's text that is in the result. */
type Piece = {readonly file: string | null; readonly text: string; readonly from: number; readonly to: number};

type Text = {
	/** Null: it is the template's own. */
	readonly file: string | null;
	readonly text: string;
	/** Replaces its `{{ content }}`; absent: it is no layout. */
	readonly content?: Text;
	/** The partials that lead here. */
	readonly trail: readonly string[];
};

const mark = /^\{\{-?\s*content\s*-?\}\}$/;
const rendered = /^\{%-?\s*render\s+(["'])(.*?)\1\s*-?%\}$/s;

/** Puts a text with its content and its partials into the part. The first fault; null: none. */
function put(
	engine: Liquid,
	layouts: readonly Layout[],
	part: Part,
	{file, text, content, trail}: Text,
): Violation | null {
	const faultAt = (offset: number, message: string): Violation => ({
		...{field: part.field, message, ...positionAt(text, offset)},
		...(file !== null && {file}),
	});
	let tokens: LiquidToken[];
	try {
		tokens = liquidTokens(engine, text);
	} catch (error) {
		return {field: part.field, ...faultOf(error), ...(file !== null && {file})};
	}

	const marks = content ? tokens.filter(token => mark.test(token.text)) : [];
	if (content && marks.length !== 1) {
		const message = 'a layout has {{ content }} once, where the body of a template goes';
		return faultAt(marks[1]?.begin ?? 0, message);
	}
	let from = 0;
	const copy = (to: number): void => {
		part.pieces.push({file, text, from, to});
		part.length += to - from;
	};
	for (const token of tokens) {
		const isMark = marks.includes(token);
		if (!isMark && token.name !== 'render') {
			continue;
		}
		copy(token.text.startsWith('-', 2) ? Math.max(from, text.slice(0, token.begin).trimEnd().length) : token.begin);
		const next = isMark ? content : partialOf(token, layouts, trail);
		const isTooMuch = part.length > maxSourceLength || (!isMark && ++part.partials > maxPartials);
		const fault = isTooMuch
			? `with its layout and partials it has more than ${maxSourceLength} characters or ${maxPartials} partials`
			: next;
		if (typeof fault === 'string') {
			return faultAt(token.begin, fault);
		}
		const inside = next && typeof next !== 'string' ? put(engine, layouts, part, next) : null;
		if (inside) {
			return inside;
		}
		from = token.text.endsWith('-', token.text.length - 2)
			? text.length - text.slice(token.end).trimStart().length
			: token.end;
	}
	copy(text.length);
	return null;
}

/** What a `{% render %}` names, or why it cannot be put in. */
function partialOf({text}: LiquidToken, layouts: readonly Layout[], trail: readonly string[]): Text | string {
	const name = rendered.exec(text)?.[2];
	if (name === undefined) {
		return `a partial is named in quotes and takes no parameters, as in {% render 'footer' %}: it sees all variables`;
	}
	const partial = layouts.find(one => one.kind === 'partial' && one.name === name);
	const next = [...trail, name];
	if (!partial) {
		return `there is no partial ${name}: add _partials/${name}.liquid`;
	}
	if (trail.includes(name) || next.length > deepestPartials) {
		return `${trail.includes(name) ? 'a partial leads back to itself' : `partials nest more than ${deepestPartials} deep`}: ${next.join(' → ')}`;
	}
	const [file = '', source = ''] = Object.entries(partial.files)[0] ?? [];
	return {file: fileOf(partial, file), text: source, trail: next};
}

const textOf = ({pieces}: Part): string => pieces.map(({text, from, to}) => text.slice(from, to)).join('');

/** The violation where its author finds it: in the layout, the partial, or the template itself. */
function placed(violation: Violation, part: Part): Violation {
	let offset = offsetAt(textOf(part), violation);
	// An empty piece has no place; what ends the text belongs to the last one.
	const filled = part.pieces.filter(({from, to}) => to > from);
	const piece = filled.find(({from, to}) => {
		offset -= to - from;
		return offset < 0;
	});
	const {file, text, from, to} = piece ?? filled.at(-1) ?? {file: null, text: '', from: 0, to: 0};
	const place = positionAt(text, piece ? to + offset : Math.max(from, to - 1));
	return {...violation, ...place, ...(file !== null && {file})};
}

/** Puts one field of a variant into its layout, and partials into both. */
function resolveField(
	engine: Liquid,
	layouts: readonly Layout[],
	name: VariantSource['layout'],
	[field, own]: readonly [field: string, text: string],
): Part | Violation {
	const layout = layouts.find(one => one.kind === 'layout' && one.name === name);
	const file = `body.${field === 'text' ? 'txt' : field}`;
	const around = layout?.files[file];
	if (name && (!layout || (around === undefined && field !== 'text'))) {
		const message = layout ? `the layout ${name} has no ${file}` : `there is no layout ${name}`;
		return {field: 'layout', message, line: 1, column: 1};
	}
	const frame = layout && field === 'mjml' ? own.search(/<mjml[\s>]/) : -1;
	if (frame >= 0) {
		const message = 'the layout has <mjml> and <mj-body>: keep only what goes between them';
		return {field, message, ...positionAt(own, frame)};
	}
	const content: Text = {file: null, text: own, trail: []};
	const part: Part = {field, pieces: [], length: 0, partials: 0};
	const whole =
		layout && around !== undefined ? {file: fileOf(layout, file), text: around, content, trail: []} : content;
	return put(engine, layouts, part, whole) ?? part;
}

/**
 * Compiles a variant with its layout and partials in it, so that what is made needs nothing else. Violations name the
 * file that they are in, if it is not the template's own.
 */
export async function compileInLayout(source: VariantSource, layouts: readonly Layout[]): Promise<CompileResult> {
	const field = source.mjml === undefined ? 'html' : 'mjml';
	const own = {[field]: source[field], text: source.text};
	const written = Object.entries(own).filter((entry): entry is [string, string] => entry[1] !== undefined);
	const isPlain = !source.layout && !written.some(([, text]) => /\{%-?\s*render\b/.test(text));
	if (isPlain || written.some(([, text]) => text.length > maxSourceLength)) {
		return await compileVariant(source);
	}

	const engine = liquidEngines().plain;
	const parts = written.map(each => resolveField(engine, layouts, source.layout, each));
	const faults = parts.filter(part => 'message' in part);
	if (faults.length > 0) {
		return {ok: false, violations: faults};
	}
	const whole = parts.filter(part => 'pieces' in part);
	const resolved = Object.fromEntries(whole.map(part => [part.field, textOf(part)]));
	const result = await compileVariant({...source, ...resolved});
	if (result.ok) {
		return {...result, resolved};
	}
	const violations = result.violations.map(one => {
		const part = whole.find(({field}) => field === one.field);
		return part ? placed(one, part) : one;
	});
	return {ok: false, violations};
}

/** What is wrong with a layout or a partial before any template uses it. */
export function layoutFaults(layout: Layout, layouts: readonly Layout[]): Violation[] {
	const engine = liquidEngines().plain;
	const content: Text = {file: null, text: '', trail: []};
	const trail = layout.kind === 'partial' ? [layout.name] : [];
	return Object.entries(layout.files).flatMap(([file, text]) => {
		const part: Part = {field: file, pieces: [], length: 0, partials: 0};
		const whole = {file: fileOf(layout, file), text, trail, ...(layout.kind === 'layout' && {content})};
		return put(engine, layouts, part, whole) ?? [];
	});
}

/**
 * These keys and those of all that they use, directly or by way of others. `uses`: what each layout or partial uses
 * itself.
 */
export function reachedFrom(keys: Iterable<string>, uses: ReadonlyMap<string, readonly string[]>): Set<string> {
	const reached = new Set(keys);
	// A Set grows while it is iterated.
	for (const key of reached) {
		for (const next of uses.get(key) ?? []) {
			reached.add(next);
		}
	}
	return reached;
}
