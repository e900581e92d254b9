import {compile, type DomNode} from 'html-to-text';
import type {Liquid} from 'liquidjs';
import {encodeConstant, type Pieces} from '../../kit/text.ts';
import {maxHtmlDepth} from './limits.ts';
import {type LiquidToken, liquidProblem, shield} from './liquid-source.ts';

const ownLine = {leadingLineBreaks: 1, trailingLineBreaks: 1};
const heading = {uppercase: false, leadingLineBreaks: 2, trailingLineBreaks: 2};

/** Block elements that html-to-text does not handle as such by default. */
const lineElements = [
	'address',
	'caption',
	'center',
	'dd',
	'details',
	'dialog',
	'dir',
	'dl',
	'dt',
	'fieldset',
	'figcaption',
	'figure',
	'hgroup',
	'legend',
	'li',
	'menu',
	'optgroup',
	'option',
	'search',
	'summary',
	'textarea',
	'tr',
];
/** Elements to skip. Among the hidden ones is the preview text, which only repeats the message. */
const skippedElements = [
	'head',
	'style',
	'script',
	'title',
	'template',
	'datalist',
	'iframe',
	'[hidden]',
	'[style*="display:none" i]',
	'[style*="display: none" i]',
];

/** A placeholder word for an empty cell. */
const emptyCellWord = '\0';

const toText = compile({
	wordwrap: 78, // RFC 5322 §2.1.1: lines should not be longer.
	baseElements: {selectors: []}, // The whole document, because Liquid may precede the body.
	limits: {maxDepth: 200, maxInputLength: 1_100_000},
	formatters: {
		cell(element, walk, builder) {
			if (isBlank(element)) {
				const isInRow = element.parent && !isBlank(element.parent) && !isLayout(element);
				builder.addInline(isInRow ? ` ${emptyCellWord} ` : '');
				return;
			}
			builder.addInline(' ');
			walk(element.children, builder);
			builder.addInline(' ');
		},
		alternative({attribs}, _, builder) {
			// Spaces keep adjacent icons apart.
			builder.addInline(attribs.alt?.trim() ? ` ${attribs.alt} ` : '');
		},
	},
	selectors: [
		// RFC 3986 appendix C: angle brackets delimit a URL in text.
		{selector: 'a', options: {linkBrackets: ['<', '>'], hideLinkHrefIfSameAsText: true}},
		{selector: 'img', format: 'alternative'},
		{selector: 'input[type="image" i]', format: 'alternative'},
		...skippedElements.map(selector => ({selector, format: 'skip'})),
		...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map(selector => ({selector, options: heading})),
		...lineElements.map(selector => ({selector, format: 'block', options: ownLine})),
		{selector: 'td', format: 'cell'},
		{selector: 'th', format: 'cell'},
		{selector: 'ul', options: {itemPrefix: '- '}},
	],
});

const convertHtml = (html: string): string => toText(html).replaceAll(emptyCellWord, '');

/** Caches `isBlank`, which is called for a node by each of its ancestors. */
const blankNodes = new WeakMap<DomNode, boolean>();

function isBlank(node: DomNode): boolean {
	const {type, data, attribs, children = []} = node;
	const cached = blankNodes.get(node);
	const result =
		cached ??
		(type === 'text' ? data?.trim() === '' : !(isImage(node) && attribs?.alt?.trim()) && children.every(isBlank));
	blankNodes.set(node, result);
	return result;
}

const isImage = ({name, attribs}: DomNode): boolean =>
	name === 'img' || (name === 'input' && attribs?.type?.toLowerCase() === 'image');

/** Whether the table of a node only serves for layout, as in MJML's output. */
function isLayout({name, attribs, parent}: DomNode): boolean {
	return name === 'table'
		? /^(?:presentation|none)$/i.test(attribs?.role ?? '')
		: parent !== undefined && parent !== null && isLayout(parent);
}

const openOrClose = /<(\/?)(?!(?:area|br|col|hr|img|input|link|meta|source|wbr)\b)[a-z]/gi;

/** Whether HTML is nested too deeply to be parsed safely. Elements left open count too. */
export function nestsTooDeeply(html: string): boolean {
	let depth = 0;
	for (const [, slash] of html.matchAll(openOrClose)) {
		depth = Math.max(0, depth + (slash === '' ? 1 : -1));
		if (depth > maxHtmlDepth) {
			return true;
		}
	}
	return false;
}

/** Converts rendered HTML to wrapped text with links. Takes milliseconds, so rendering avoids it where possible. */
export function textFromHtml(html: string): string {
	return tidyText(trimLines(convertHtml(html)));
}

/** Removes repeated empty lines, and those at both ends, which conditions without output leave behind. */
export function tidyText(text: string): string {
	return `${removeGaps(text).trim()}\n`;
}

const removeGaps = (text: string): string => text.replace(/\n(?:[ \t]*\n){2,}/g, '\n\n');

/** Splits a template's text for `tidyPieces`. A constant has no white space at its ends and no repeated empty lines. */
export function textPieces(text: string): Pieces {
	const inner = text.trim();
	const start = text.length - text.trimStart().length;
	return [text.slice(0, start), encodeConstant(removeGaps(inner)), text.slice(start + inner.length)];
}

/** Like `tidyText`, for the rendered result of `textPieces`. */
export function tidyPieces(pieces: Pieces): Pieces {
	const tidy: Array<Pieces[number]> = [];
	for (const [index, piece] of pieces.entries()) {
		if (typeof piece === 'string') {
			const text = index === 0 ? removeGaps(piece).trimStart() : removeGaps(piece);
			tidy.push(index === pieces.length - 1 ? text.trimEnd() : text);
		} else {
			tidy.push(piece);
		}
	}
	tidy.push('\n');
	return tidy;
}

function trimLines(text: string): string {
	return text
		.split('\n')
		.map(line => line.trimEnd())
		.join('\n');
}

// These output HTML, which can be converted to text only after rendering.
const htmlFilters = /\|\s*(?:raw|escape|escape_once|newline_to_br|xml_escape)\b/;
// These affect everything after them, so dropping one together with a comment or style would change the text.
const lastingTags = new Set(['assign', 'capture', 'increment', 'decrement', 'cycle', 'liquid', 'break', 'continue']);
const blockTags = new Set(['if', 'unless', 'case', 'for', 'tablerow', 'capture', 'comment', 'raw']);
const branchTags = new Set(['else', 'elsif', 'when']);

/**
 * Converts HTML that contains Liquid to text that contains the same Liquid, once per template instead of once per
 * message. Returns `null` if the result could differ from the text of the rendered HTML. Then `textFromHtml` is needed.
 */
export function textTemplate(engine: Liquid, html: string): string | null {
	const {text, tokens, pattern, restore} = shield(engine, html);
	if (tokens.some(token => htmlFilters.test(token.text))) {
		return null;
	}

	const converted = trimLines(convertHtml(text));
	const retained = [...converted.matchAll(pattern)].map(([, index]) => Number(index));
	// Decoded entities may look like Liquid.
	if (/\{[{%]/.test(converted) || !preservesBlocks(tokens, retained)) {
		return null;
	}

	const shortened = dropRepeatedLinks(converted, tokens, pattern);
	// A condition may leave the URL empty. The link then becomes its text.
	const conditional = new RegExp(`<(?:${pattern.source}){2,}>`, 'g');
	const hasConditionalUrl = [...shortened.matchAll(conditional)].some(([link]) =>
		kindsIn(link, tokens, pattern).includes('tag'),
	);
	if (hasConditionalUrl || losesBreak(shortened, tokens, pattern)) {
		return null;
	}

	const template = restore(dropEmptyLinks(joinTagLines(shortened, tokens, pattern), tokens, pattern));
	return liquidProblem(engine, 'text', template) ? null : template;
}

function kindsIn(
	text: string,
	tokens: readonly LiquidToken[],
	pattern: RegExp,
): Array<LiquidToken['kind'] | undefined> {
	return [...text.matchAll(pattern)].map(([, index]) => tokens[Number(index)]?.kind);
}

/** Whether every retained token is still in the same branch of the same block, and no missing token was needed. */
function preservesBlocks(tokens: readonly LiquidToken[], retained: readonly number[]): boolean {
	const before = branches(tokens, [...tokens.keys()]);
	const after = branches(tokens, retained);
	return tokens.every(({name}, index) => {
		if (after.has(index)) {
			return after.get(index) === before.get(index);
		}
		const closesRetained = (name.startsWith('end') || branchTags.has(name)) && after.has(before.get(index) ?? -1);
		return !closesRetained && !lastingTags.has(name);
	});
}

/**
 * Returns for each token the index of the tag that starts its branch, or -1 outside of blocks. For `else`, `endif` and
 * similar tags, it is the index of the block's first tag.
 */
function branches(tokens: readonly LiquidToken[], order: readonly number[]): Map<number, number> {
	const branchOf = new Map<number, number>();
	const open: Array<{first: number; branch: number}> = [];
	for (const index of order) {
		const {name} = tokens[index] ?? {name: ''};
		const block = open.at(-1);
		if (name.startsWith('end')) {
			branchOf.set(index, block?.first ?? -1);
			open.pop();
		} else if (branchTags.has(name)) {
			branchOf.set(index, block?.first ?? -1);
			if (block) {
				block.branch = index;
			}
		} else {
			branchOf.set(index, block?.branch ?? -1);
			if (blockTags.has(name)) {
				open.push({first: index, branch: index});
			}
		}
	}
	return branchOf;
}

/** Shortens links whose text equals their URL, as `textFromHtml` does. */
function dropRepeatedLinks(text: string, tokens: readonly LiquidToken[], pattern: RegExp): string {
	const expression = (index: string) =>
		tokens[Number(index)]?.text.replace(/\|\s*safe_url\b/, '').replace(/^\{\{-?|-?\}\}$|\s/g, '');
	const link = new RegExp(`(${pattern.source}) <${pattern.source}>`, 'g');
	return text.replace(link, (match, name: string, label: string, target: string) =>
		expression(label) === expression(target) ? name : match,
	);
}

/** Reduces links with an empty URL, or one that `safe_url` rejects, to their text, as `textFromHtml` does. */
function dropEmptyLinks(text: string, tokens: readonly LiquidToken[], pattern: RegExp): string {
	return text.replace(new RegExp(`\\s?<${pattern.source}>`, 'g'), (match, index: string) => {
		const {kind, text: output} = tokens[Number(index)] as LiquidToken;
		return kind === 'output'
			? output.replace(/\s*(-?\}\})$/, ' | prepend: " <" | append: ">" | remove: " <>" | remove: " <#>" $1')
			: match;
	});
}

/**
 * Whether a branch ends within a line (`word{% else %}`) while its block ends, or its loop starts, on a line with only
 * tags. `joinTagLines` removes the line break of such a line, so the next text or iteration would be joined to the
 * word.
 */
function losesBreak(text: string, tokens: readonly LiquidToken[], pattern: RegExp): boolean {
	const blockOf = branches(
		tokens,
		[...text.matchAll(pattern)].map(([, index]) => Number(index)),
	);
	const endsWithinLine = new Set<number | undefined>();
	const endsOnTagLine = new Set<number | undefined>();
	for (const line of text.split('\n')) {
		// Outputs count as words, because only tags disappear.
		const visible = line
			.replace(pattern, (token, index) => (tokens[Number(index)]?.kind === 'tag' ? token : 'x'))
			.trim();
		const trailing = new RegExp(`(?:${pattern.source}\\s*)+$`).exec(visible)?.[0] ?? '';
		const target = trailing === visible ? endsOnTagLine : endsWithinLine;
		for (const [, index] of trailing.matchAll(pattern)) {
			const {name} = tokens[Number(index)] ?? {name: ''};
			if (branchTags.has(name) || name.startsWith('end')) {
				target.add(blockOf.get(Number(index)));
			} else if (name === 'for' && target === endsOnTagLine) {
				endsOnTagLine.add(Number(index));
			}
		}
	}
	return [...endsWithinLine].some(block => endsOnTagLine.has(block));
}

/** Removes the line breaks of lines with only tags, so that the rows of a loop have no empty lines between them. */
function joinTagLines(text: string, tokens: readonly LiquidToken[], pattern: RegExp): string {
	return text
		.split('\n')
		.map(line => {
			const hasOnlyTags =
				line.trim() !== '' &&
				line.replace(pattern, (_, index) => (tokens[Number(index)]?.kind === 'tag' ? '' : 'x')).trim() === '';
			return hasOnlyTags ? line.trim() : `${line}\n`;
		})
		.join('');
}
