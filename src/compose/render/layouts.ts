import type {Liquid} from 'liquidjs';
import {type CompileResult, compileVariant, type VariantSource} from './compile.ts';
import {maxPartialDepth, maxPartials, maxSourceLength} from './limits.ts';
import {liquidEngines} from './liquid-engine.ts';
import {type LiquidToken, liquidTokens, offsetAt, positionAt, toProblem, type Violation} from './liquid-source.ts';

/** A layout or a partial as its author wrote it. */
export type Layout = {
	readonly kind: 'layout' | 'partial';
	/** Unique within its workspace and kind. */
	readonly name: string;
	/** Sources by file name (`filesOf`). */
	readonly files: Readonly<Record<string, string>>;
};

/** Returns the key of a layout or partial within its workspace: `layout/main`, `partial/footer`. */
export const keyOf = ({kind, name}: Pick<Layout, 'kind' | 'name'>): string => `${kind}/${name}`;

/** Returns the path of a file of a layout or partial, relative to the folder of templates. */
export const fileOf = ({kind, name}: Pick<Layout, 'kind' | 'name'>, file: string): string =>
	kind === 'layout' ? `_layouts/${name}/${file}` : `_partials/${file}`;

/** Returns the names of the files that a layout or partial may have. */
export const filesOf = ({kind, name}: Pick<Layout, 'kind' | 'name'>): readonly string[] =>
	kind === 'layout' ? ['body.mjml', 'body.html', 'body.txt'] : [`${name}.liquid`];

/** Letters, digits, hyphens and underscores. */
export const layoutName = /^[\w-]{1,64}$/;

/** A field of a variant while its layout and partials are being resolved. */
type Part = {readonly field: string; readonly pieces: Piece[]; length: number; partials: number};

/** A range of a file's text that is part of the result. */
type Piece = {readonly file: string | null; readonly text: string; readonly from: number; readonly to: number};

type Text = {
	/** `null` for the template's own text. */
	readonly file: string | null;
	readonly text: string;
	/** Replaces `{{ content }}`. Set only for layouts. */
	readonly content?: Text;
	/** The chain of partials that led to this text. */
	readonly trail: readonly string[];
};

const contentOutput = /^\{\{-?\s*content\s*-?\}\}$/;
const renderTag = /^\{%-?\s*render\s+(["'])(.*?)\1\s*-?%\}$/s;

/** Appends a text to `part`, with its content and partials resolved. Returns the first violation, or `null`. */
function appendText(
	engine: Liquid,
	layouts: readonly Layout[],
	part: Part,
	{file, text, content, trail}: Text,
): Violation | null {
	const violationAt = (offset: number, message: string): Violation => ({
		field: part.field,
		message,
		...positionAt(text, offset),
		...(file !== null && {file}),
	});
	let tokens: LiquidToken[];
	try {
		tokens = liquidTokens(engine, text);
	} catch (error) {
		return {field: part.field, ...toProblem(error), ...(file !== null && {file})};
	}

	const contentOutputs = content ? tokens.filter(token => contentOutput.test(token.text)) : [];
	if (content && contentOutputs.length !== 1) {
		const message = 'a layout must contain {{ content }} exactly once, for the body of a template';
		return violationAt(contentOutputs[1]?.begin ?? 0, message);
	}
	let from = 0;
	const copy = (to: number): void => {
		part.pieces.push({file, text, from, to});
		part.length += to - from;
	};
	for (const token of tokens) {
		const isContent = contentOutputs.includes(token);
		if (!isContent && token.name !== 'render') {
			continue;
		}
		copy(token.text.startsWith('-', 2) ? Math.max(from, text.slice(0, token.begin).trimEnd().length) : token.begin);
		const next = isContent ? content : findPartial(token, layouts, trail);
		const isTooLarge = part.length > maxSourceLength || (!isContent && ++part.partials > maxPartials);
		const problem = isTooLarge
			? `with its layout and partials it has more than ${maxSourceLength} characters or ${maxPartials} partials`
			: next;
		if (typeof problem === 'string') {
			return violationAt(token.begin, problem);
		}
		const innerViolation = next && typeof next !== 'string' ? appendText(engine, layouts, part, next) : null;
		if (innerViolation) {
			return innerViolation;
		}
		from = token.text.endsWith('-', token.text.length - 2)
			? text.length - text.slice(token.end).trimStart().length
			: token.end;
	}
	copy(text.length);
	return null;
}

/** Returns the partial that a `{% render %}` refers to, or the reason why it cannot be inserted. */
function findPartial({text}: LiquidToken, layouts: readonly Layout[], trail: readonly string[]): Text | string {
	const name = renderTag.exec(text)?.[2];
	if (name === undefined) {
		return `write the name of a partial in quotes and without parameters, as in {% render 'footer' %}: it sees all variables`;
	}
	const partial = layouts.find(layout => layout.kind === 'partial' && layout.name === name);
	const next = [...trail, name];
	if (!partial) {
		return `partial ${name} not found: add _partials/${name}.liquid`;
	}
	if (trail.includes(name) || next.length > maxPartialDepth) {
		return `${trail.includes(name) ? 'a partial includes itself' : `partials nest more than ${maxPartialDepth} deep`}: ${next.join(' → ')}`;
	}
	const [file = '', source = ''] = Object.entries(partial.files)[0] ?? [];
	return {file: fileOf(partial, file), text: source, trail: next};
}

const joinPieces = ({pieces}: Part): string => pieces.map(({text, from, to}) => text.slice(from, to)).join('');

/** Maps a violation to the source where its author finds it: the layout, the partial, or the template itself. */
function atSource(violation: Violation, part: Part): Violation {
	let offset = offsetAt(joinPieces(part), violation);
	// Empty pieces have no position. A violation at the very end belongs to the last piece.
	const nonEmpty = part.pieces.filter(({from, to}) => to > from);
	const piece = nonEmpty.find(({from, to}) => {
		offset -= to - from;
		return offset < 0;
	});
	const {file, text, from, to} = piece ?? nonEmpty.at(-1) ?? {file: null, text: '', from: 0, to: 0};
	const position = positionAt(text, piece ? to + offset : Math.max(from, to - 1));
	return {...violation, ...position, ...(file !== null && {file})};
}

/** Resolves the layout and partials of one field of a variant. */
function resolveField(
	engine: Liquid,
	layouts: readonly Layout[],
	name: VariantSource['layout'],
	[field, text]: readonly [field: string, text: string],
): Part | Violation {
	const layout = layouts.find(candidate => candidate.kind === 'layout' && candidate.name === name);
	const file = `body.${field === 'text' ? 'txt' : field}`;
	const outer = layout?.files[file];
	if (name && (!layout || (outer === undefined && field !== 'text'))) {
		const message = layout ? `the layout ${name} has no ${file}` : `layout ${name} not found`;
		return {field: 'layout', message, line: 1, column: 1};
	}
	const mjmlStart = layout && field === 'mjml' ? text.search(/<mjml[\s>]/) : -1;
	if (mjmlStart >= 0) {
		const message = 'the layout already has <mjml> and <mj-body>: remove them here and keep only their content';
		return {field, message, ...positionAt(text, mjmlStart)};
	}
	const content: Text = {file: null, text, trail: []};
	const part: Part = {field, pieces: [], length: 0, partials: 0};
	const root =
		layout && outer !== undefined ? {file: fileOf(layout, file), text: outer, content, trail: []} : content;
	return appendText(engine, layouts, part, root) ?? part;
}

/**
 * Compiles a variant with its layout and partials resolved, so that the result is self-contained. Violations in a
 * layout or partial include its file.
 */
export async function compileInLayout(source: VariantSource, layouts: readonly Layout[]): Promise<CompileResult> {
	const field = source.mjml === undefined ? 'html' : 'mjml';
	const sources = {[field]: source[field], text: source.text};
	const fields = Object.entries(sources).filter((entry): entry is [string, string] => entry[1] !== undefined);
	const isPlain = !source.layout && !fields.some(([, text]) => /\{%-?\s*render\b/.test(text));
	if (isPlain || fields.some(([, text]) => text.length > maxSourceLength)) {
		return await compileVariant(source);
	}

	const engine = liquidEngines().plain;
	const parts = fields.map(field => resolveField(engine, layouts, source.layout, field));
	const problems = parts.filter(part => 'message' in part);
	if (problems.length > 0) {
		return {ok: false, violations: problems};
	}
	const resolvedParts = parts.filter(part => 'pieces' in part);
	const resolved = Object.fromEntries(resolvedParts.map(part => [part.field, joinPieces(part)]));
	const result = await compileVariant({...source, ...resolved});
	if (result.ok) {
		return {...result, resolved};
	}
	const violations = result.violations.map(violation => {
		const part = resolvedParts.find(({field}) => field === violation.field);
		return part ? atSource(violation, part) : violation;
	});
	return {ok: false, violations};
}

/** Returns the violations in a layout or partial itself, before any template uses it. */
export function layoutProblems(layout: Layout, layouts: readonly Layout[]): Violation[] {
	const engine = liquidEngines().plain;
	const content: Text = {file: null, text: '', trail: []};
	const trail = layout.kind === 'partial' ? [layout.name] : [];
	return Object.entries(layout.files).flatMap(([file, text]) => {
		const part: Part = {field: file, pieces: [], length: 0, partials: 0};
		const root = {file: fileOf(layout, file), text, trail, ...(layout.kind === 'layout' && {content})};
		return appendText(engine, layouts, part, root) ?? [];
	});
}

/** Returns these keys and those they use, directly or indirectly. `uses` maps each key to those it uses directly. */
export function reachedFrom(keys: Iterable<string>, uses: ReadonlyMap<string, readonly string[]>): Set<string> {
	const reached = new Set(keys);
	// Iterating a Set also visits items added during the iteration.
	for (const key of reached) {
		for (const next of uses.get(key) ?? []) {
			reached.add(next);
		}
	}
	return reached;
}
