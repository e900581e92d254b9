import {type Liquid, LiquidError, Tokenizer, TokenKind, type TopLevelToken} from 'liquidjs';
import {maxLiquid} from './limits.ts';

/** One `{{ … }}` or `{% … %}` of a source. */
export type LiquidToken = {
	readonly kind: 'output' | 'tag';
	/** A tag's name (`for`); of an output, empty. */
	readonly name: string;
	/** As the author wrote it, with its delimiters. */
	readonly text: string;
	readonly begin: number;
	readonly end: number;
};

/** Parses a field as Liquid: null, or its first fault. Never throws. */
export function liquidFault(engine: Liquid, field: string, source: string): Violation | null {
	if (liquidCount(source) > maxLiquid) {
		return {field, message: `has more than ${maxLiquid} Liquid tags and outputs`, line: 1, column: 1};
	}

	try {
		engine.parse(source);
		return invisibleFault(engine, field, source);
	} catch (error) {
		return {field, ...faultOf(error)};
	}
}

// Pasted with a name, they become part of it. Joiners (U+200C, U+200D) may belong to a word and are allowed.
const invisible = /[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/;

/** Finds an invisible character in a tag or output. It would make a name unknown, which renders as an empty text. */
function invisibleFault(engine: Liquid, field: string, source: string): Violation | null {
	if (!invisible.test(source)) {
		return null;
	}
	for (const {text, begin} of liquidTokens(engine, source)) {
		const unquoted = text.replace(/"[^"]*"|'[^']*'/g, quoted => ' '.repeat(quoted.length));
		const at = unquoted.search(invisible);
		if (at !== -1) {
			const code = unquoted.charCodeAt(at).toString(16).toUpperCase().padStart(4, '0');
			const message = `an invisible character (U+${code}) in ${text.replace(invisible, '').slice(0, 100)}: remove it`;
			return {field, message, ...positionAt(source, begin + at)};
		}
	}
	return null;
}

/** About how many tags and outputs a source has. */
export function liquidCount(source: string): number {
	return source.split(/\{[{%]/).length - 1;
}

/** What an error of Liquid says and where; without a place of its own it is at the source's begin. */
export function faultOf(error: unknown): Omit<Violation, 'field'> {
	const said = error instanceof Error ? error.message : String(error);
	const message = stackSpent.test(said) ? 'nests too deeply' : shortened(said.replace(/, line:\d+, col:\d+$/, ''));
	const [line, column] = LiquidError.is(error) ? error.token.getPosition() : [1, 1];
	return {message, line: line ?? 1, column: column ?? 1};
}

const stackSpent = /^Maximum call stack size exceeded/;

// Some of liquidjs's messages quote a whole rest of the source.
function shortened(message: string): string {
	return message.length > 300 ? `${message.slice(0, 300)}…` : message;
}

/** The Liquid of a source that parses, in order. What `{% raw %}` encloses is no Liquid. */
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

/** A source with words of letters and digits in place of its Liquid, which HTML and MJML tools do not change. */
export type Shielded = {
	readonly text: string;
	readonly tokens: readonly LiquidToken[];
	/** Matches the words; the first group is the token's number. */
	readonly pattern: RegExp;
	/** Puts the Liquid back, also into what was made from `text`. */
	readonly restore: (text: string) => string;
	/** Where an offset of `text` lies in the source. */
	readonly sourceOffset: (offset: number) => number;
};

/** Hides the Liquid of a source that parses. */
export function shield(engine: Liquid, source: string): Shielded {
	const tokens = liquidTokens(engine, source);
	let salt = 0;
	while (source.includes(`lq${salt}x`)) {
		salt++;
	}

	let text = '';
	let last = 0;
	const ends: Array<{text: number; source: number}> = [{text: 0, source: 0}];
	for (const [index, token] of tokens.entries()) {
		text += `${source.slice(last, token.begin)}lq${salt}x${index}e`;
		last = token.end;
		ends.push({text: text.length, source: token.end});
	}
	text += source.slice(last);

	const pattern = new RegExp(`lq${salt}x(\\d+)e`, 'g');
	return {
		text,
		tokens,
		pattern,
		restore: made => made.replace(pattern, (word, index) => tokens[Number(index)]?.text ?? word),
		sourceOffset(offset) {
			const before = ends.findLast(end => end.text <= offset) ?? {text: 0, source: 0};
			return before.source + offset - before.text;
		},
	};
}

/** A violation at an offset of a shielded text, in the author's own words and place. */
export function violationAt(
	field: string,
	source: string,
	shielded: Shielded,
	offset: number,
	message: string,
): Violation {
	return {field, message: shielded.restore(message), ...positionAt(source, shielded.sourceOffset(offset))};
}

/** What is wrong with a template and where: lines and columns count from 1. */
export type Violation = {
	/** `subject`, `mjml`, `html` or `text`: the field that the author wrote. */
	readonly field: string;
	readonly message: string;
	readonly line: number;
	readonly column: number;
	/** The file of a layout or partial that it is in; absent: the template's own. */
	readonly file?: string;
};

/** The line and column of an offset, both from 1. */
export function positionAt(text: string, offset: number): {line: number; column: number} {
	const before = text.slice(0, offset);
	return {line: before.split('\n').length, column: offset - before.lastIndexOf('\n')};
}

/** The offset of a line and a column. */
export function offsetAt(text: string, {line, column}: Pick<Violation, 'line' | 'column'>): number {
	const before = text.split('\n', line - 1);
	return before.reduce((sum, one) => sum + one.length + 1, column - 1);
}
