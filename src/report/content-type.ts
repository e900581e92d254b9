/** A value with parameters (RFC 2045 §5.1): names in lower case. */
export type ContentType = {readonly value: string; readonly parameters: Readonly<Record<string, string>>};

const longest = 4096;
const mostParameters = 40;

const parameter = /;[ \t]*([^\s=;*"()]{1,60})(?:\*(\d{1,2}))?(\*)?[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"?|([^\s;]*))/g;

/**
 * Reads `text/plain; charset="utf-8"`, with comments, and with parameters in pieces or with a charset (RFC 2231). What is
 * missing or no type is `text/plain`.
 */
export function readContentType(field: string | null): ContentType {
	const text = withoutComments((field ?? '').slice(0, longest));
	const semicolon = text.indexOf(';');
	const value = (semicolon === -1 ? text : text.slice(0, semicolon)).replace(/\s+/g, '').toLowerCase();
	return {
		value: /^[^/]+\/[^/]+$/.test(value) ? value : 'text/plain',
		parameters: semicolon === -1 ? {} : readParameters(text.slice(semicolon)),
	};
}

function readParameters(text: string): Record<string, string> {
	const pieces = new Map<string, string[]>();
	for (const [, name, number, extended, quoted, plain] of text.matchAll(parameter)) {
		const key = (name as string).toLowerCase();
		const values = pieces.get(key) ?? [];
		if (pieces.size >= mostParameters) {
			break;
		}
		const value = quoted === undefined ? (plain ?? '') : quoted.replace(/\\(.)/g, '$1');
		values[Number(number ?? 0)] ??= extended ? unescaped(value) : value;
		pieces.set(key, values);
	}
	return Object.fromEntries([...pieces].map(([name, values]) => [name, values.join('')]));
}

/** RFC 2231 §4: `utf-8'de'%C3%A4`. The names of boundaries and charsets, which are all that is read here, are ASCII. */
function unescaped(value: string): string {
	return value
		.replace(/^[\w-]{0,40}'[\w-]{0,40}'/, '')
		.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** Comments may nest; parentheses in quotes are none, as in a boundary. */
function withoutComments(text: string): string {
	if (!text.includes('(')) {
		return text;
	}
	let kept = '';
	let depth = 0;
	let quoted = false;
	for (let i = 0; i < text.length; i++) {
		const character = text[i] as string;
		if (character === '\\' && (quoted || depth > 0)) {
			kept += depth === 0 ? text.slice(i, i + 2) : '';
			i++;
		} else if (character === '"' && depth === 0) {
			quoted = !quoted;
			kept += character;
		} else if (character === '(' && !quoted && /[\s;(]|^$/.test(text[i - 1] ?? '')) {
			depth++;
		} else if (character === ')' && depth > 0) {
			depth--;
		} else if (depth === 0) {
			kept += character;
		}
	}
	// A comment that is never closed is none.
	return depth === 0 ? kept : text;
}
