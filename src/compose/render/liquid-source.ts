import {type Liquid, LiquidError, Tokenizer, TokenKind, type TopLevelToken} from 'liquidjs';
import {maxLiquid} from './limits.ts';

/** One `{{ … }}` or `{% … %}` of a source. */
export type LiquidToken = {
	readonly kind: 'output' | 'tag';
	/** The name of a tag (`for`); empty for an output. */
	readonly name: string;
	/** The source, with its delimiters. */
	readonly text: string;
	readonly begin: number;
	readonly end: number;
};

/** Parses a field as Liquid. Returns its first violation, or `null`. Never throws. */
export function liquidProblem(engine: Liquid, field: string, source: string): Violation | null {
	if (liquidCount(source) > maxLiquid) {
		return {field, message: `has more than ${maxLiquid} Liquid tags and outputs`, line: 1, column: 1};
	}

	try {
		engine.parse(source);
		return invisibleProblem(engine, field, source);
	} catch (error) {
		return {field, ...toProblem(error)};
	}
}

// When pasted with a name, these become part of it. Joiners (U+200C, U+200D) may belong to a word and are allowed.
const invisible = /[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/;

/** Finds an invisible character in a tag or output. Such a name would be unknown and render as an empty text. */
function invisibleProblem(engine: Liquid, field: string, source: string): Violation | null {
	if (!invisible.test(source)) {
		return null;
	}
	for (const {text, begin} of liquidTokens(engine, source)) {
		const unquoted = text.replace(/"[^"]*"|'[^']*'/g, quoted => ' '.repeat(quoted.length));
		const index = unquoted.search(invisible);
		if (index !== -1) {
			const code = unquoted.charCodeAt(index).toString(16).toUpperCase().padStart(4, '0');
			const message = `an invisible character (U+${code}) in ${text.replace(invisible, '').slice(0, 100)}: remove it`;
			return {field, message, ...positionAt(source, begin + index)};
		}
	}
	return null;
}

/** Returns the approximate number of tags and outputs in a source. */
export function liquidCount(source: string): number {
	return source.split(/\{[{%]/).length - 1;
}

/** Returns the message and position of a Liquid error. Errors without a position are at the start of the source. */
export function toProblem(error: unknown): Omit<Violation, 'field'> {
	const text = error instanceof Error ? error.message : String(error);
	const message = stackOverflow.test(text) ? 'nests too deeply' : shorten(text.replace(/, line:\d+, col:\d+$/, ''));
	const [line, column] = LiquidError.is(error) ? error.token.getPosition() : [1, 1];
	return {message, line: line ?? 1, column: column ?? 1};
}

const stackOverflow = /^Maximum call stack size exceeded/;

// Some messages of liquidjs quote the entire rest of the source.
function shorten(message: string): string {
	return message.length > 300 ? `${message.slice(0, 300)}…` : message;
}

/** Returns the tags and outputs of a source that parses, in order. The content of `{% raw %}` is not Liquid. */
export function liquidTokens(engine: Liquid, source: string): LiquidToken[] {
	return new Tokenizer(source)
		.readTopLevelTokens(engine.options)
		.filter(token => token.kind !== TokenKind.HTML)
		.map(token => ({
			kind: token.kind === TokenKind.Tag ? 'tag' : 'output',
			name: tagName(token),
			text: source.slice(token.begin, token.end),
			begin: token.begin,
			end: token.end,
		}));
}

function tagName(token: TopLevelToken): string {
	return 'name' in token && typeof token.name === 'string' ? token.name : '';
}

/** A source whose Liquid is replaced by words of letters and digits, which HTML and MJML tools do not change. */
export type Shielded = {
	readonly text: string;
	readonly tokens: readonly LiquidToken[];
	/** Matches the words. The first group is the index of the token. */
	readonly pattern: RegExp;
	/** Puts the Liquid back into `text`, or into anything derived from it. */
	readonly restore: (text: string) => string;
	/** Converts an offset in `text` to one in the source. */
	readonly sourceOffset: (offset: number) => number;
};

/** Replaces the Liquid of a source that parses by placeholder words. */
export function shield(engine: Liquid, source: string): Shielded {
	const tokens = liquidTokens(engine, source);
	let salt = 0;
	while (source.includes(`lq${salt}x`)) {
		salt++;
	}

	let text = '';
	let position = 0;
	const ends: Array<{text: number; source: number}> = [{text: 0, source: 0}];
	for (const [index, token] of tokens.entries()) {
		text += `${source.slice(position, token.begin)}lq${salt}x${index}e`;
		position = token.end;
		ends.push({text: text.length, source: token.end});
	}
	text += source.slice(position);

	const pattern = new RegExp(`lq${salt}x(\\d+)e`, 'g');
	return {
		text,
		tokens,
		pattern,
		restore: rendered =>
			rendered.replace(pattern, (placeholder, index) => tokens[Number(index)]?.text ?? placeholder),
		sourceOffset(offset) {
			const before = ends.findLast(end => end.text <= offset) ?? {text: 0, source: 0};
			return before.source + offset - before.text;
		},
	};
}

/** Returns a violation at an offset of a shielded text, with the Liquid and position of the source. */
export function violationAt(
	field: string,
	source: string,
	shielded: Shielded,
	offset: number,
	message: string,
): Violation {
	return {field, message: shielded.restore(message), ...positionAt(source, shielded.sourceOffset(offset))};
}

/** A problem of a template and its position. Lines and columns count from 1. */
export type Violation = {
	/** The field of the template: `subject`, `mjml`, `html` or `text`. */
	readonly field: string;
	readonly message: string;
	readonly line: number;
	readonly column: number;
	/** The file of the layout or partial that contains it. Absent for the template's own files. */
	readonly file?: string;
};

/** Returns the line and column of an offset, both counted from 1. */
export function positionAt(text: string, offset: number): {line: number; column: number} {
	const before = text.slice(0, offset);
	return {line: before.split('\n').length, column: offset - before.lastIndexOf('\n')};
}

/** Returns the offset of a line and column. */
export function offsetAt(text: string, {line, column}: Pick<Violation, 'line' | 'column'>): number {
	const before = text.split('\n', line - 1);
	return before.reduce((sum, {length}) => sum + length + 1, column - 1);
}
