import {randomBytes} from 'node:crypto';

/**
 * A JSON number in the spelling of its author, if JavaScript would spell it differently: `12345678901234567890`,
 * `1.10`, `1E5`, `-0`.
 */
export class Numeral {
	readonly #text: string;

	constructor(text: string) {
		this.#text = text;
	}

	toString(): string {
		return this.#text;
	}

	/** The nearest double: for arithmetic. */
	valueOf(): number {
		return Number(this.#text);
	}

	/** Only `writeExact` makes a number of it again. */
	toJSON(): string {
		return mark + this.#text;
	}

	// Liquid compares what has these five. They compare all digits.
	equals(other: unknown): boolean {
		return (typeof other === 'number' || other instanceof Numeral) && compareNumbers(this, other) === 0;
	}

	gt(other: unknown): boolean {
		return compareNumbers(this, other) > 0;
	}

	geq(other: unknown): boolean {
		return compareNumbers(this, other) >= 0;
	}

	lt(other: unknown): boolean {
		return compareNumbers(this, other) < 0;
	}

	leq(other: unknown): boolean {
		return compareNumbers(this, other) <= 0;
	}
}

/** It cannot be guessed, so no text of a document begins with it. */
const mark = `${randomBytes(12).toString('base64url')} `;
const marked = new RegExp(`"${mark}([-+.\\dEe]+)"`, 'g');
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
/**
 * Matches each number that JavaScript may spell differently, and some texts that look like one. Captures the number.
 */
const oddNumber = new RegExp(
	`(?:^|[,:[])\\s*(?=(${number.source}))-?(?:\\d[\\d.]{15}|\\d+(?:\\.\\d+)?[eE]|\\d+\\.\\d*0(?!\\d)|0\\.000000|(?<=-)0(?![\\d.]))`,
	'g',
);

/** False: `JSON.parse` keeps all digits of the text. */
function mayRespell(json: string): boolean {
	for (const [, spelling = ''] of json.matchAll(oddNumber)) {
		if (isRespelled(spelling)) {
			return true;
		}
	}
	return false;
}

function isRespelled(spelling: string): boolean {
	return String(Number(spelling)) !== spelling;
}

/**
 * `JSON.parse` with a Numeral for each number that JavaScript would spell differently.
 *
 * @param name only in the objects and lists of this name
 */
export function parseExact(json: string, name: string | null = null): unknown {
	// Throws for what is not JSON: marks could make it look like some.
	const plain: unknown = JSON.parse(json);
	return mayRespell(json) ? withoutMarks(JSON.parse(markNumbers(json)), name, new Map()) : plain;
}

/** `JSON.stringify` of what `parseExact` made. */
export function writeExact(value: unknown, space?: number): string {
	return unmarked(JSON.stringify(value, undefined, space));
}

/** What `JSON.stringify` made, with the Numerals in it as numbers. */
export function unmarked(json: string): string {
	return json.includes(mark) ? json.replace(marked, '$1') : json;
}

/** Negative, 0 or positive if the first is less, equal or greater; NaN if either is not a number. */
export function compareNumbers(one: unknown, other: unknown): number {
	const [left, right] = [decimalOf(one), decimalOf(other)];
	if (left === null || right === null) {
		return Number.NaN;
	}
	if (left.sign !== right.sign || left.sign === 0) {
		return left.sign - right.sign;
	}
	const size = left.point - right.point || (left.digits < right.digits ? -1 : left.digits > right.digits ? 1 : 0);
	return left.sign * size;
}

type Decimal = {
	readonly sign: number;
	/** Neither the first nor the last is 0. */
	readonly digits: string;
	/** How many of the digits stand before the point. */
	readonly point: number;
};

/** Null: it is no decimal number. */
function decimalOf(value: unknown): Decimal | null {
	const spelling = value instanceof Numeral ? value : typeof value === 'object' ? '' : Number(value);
	const [, minus, whole = '', fraction = '', exponent = '0'] =
		/^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(String(spelling)) ?? [];
	const all = (whole + fraction).replace(/^0+/, '');
	let end = all.length; // Not by a pattern, which would look at each run of zeros again and again.
	while (all[end - 1] === '0') {
		end--;
	}
	const digits = all.slice(0, end);
	const sign = digits === '' ? 0 : minus === '-' ? -1 : 1;
	return minus === undefined ? null : {sign, digits, point: all.length - fraction.length + Number(exponent)};
}

/** Makes texts of the numbers that JavaScript would spell differently. */
function markNumbers(text: string): string {
	const parts: string[] = [];
	for (let start = 0; start < text.length; ) {
		const quote = text.indexOf('"', start);
		const end = quote === -1 ? text.length : quote;
		parts.push(
			text
				.slice(start, end)
				.replace(number, spelling => (isRespelled(spelling) ? `"${mark}${spelling}"` : spelling)),
		);
		start = quote === -1 ? text.length : endOfText(text, quote);
		parts.push(text.slice(end, start));
	}
	return parts.join('');
}

/** Changes the value in place. Equal spellings share a Numeral: Liquid's `uniq` and `group_by` compare by identity. */
function withoutMarks(value: unknown, name: string | null, known: Map<string, Numeral>): unknown {
	if (typeof value === 'string' && value.startsWith(mark)) {
		const numeral = known.get(value) ?? new Numeral(value.slice(mark.length));
		known.set(value, numeral);
		return name === null ? numeral : numeral.valueOf();
	}
	if (typeof value === 'object' && value !== null) {
		const items = value as Record<string, unknown>;
		// Object.entries costs twice as much; what JSON.parse makes has no inherited names.
		for (const key in items) {
			const item = items[key];
			if (typeof item === 'object' || typeof item === 'string') {
				items[key] = withoutMarks(item, key === name && typeof item === 'object' ? null : name, known);
			}
		}
	}
	return value;
}

/** After the closing quote; the end of the text if it is missing. */
function endOfText(text: string, quote: number): number {
	for (let at = quote + 1; at < text.length; at++) {
		if (text[at] === '\\') {
			at++;
		} else if (text[at] === '"') {
			return at + 1;
		}
	}
	return text.length;
}

/** A JSON object with unknown fields. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Record<string, unknown> {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An object; an empty one for anything else. */
export const objectOf = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** What a text of a stranger says in JSON; undefined: it is none. */
export function parsedJson(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

/** Where the parser stopped, as a clause. Its own words may repeat the text, in which a password may be. */
export function stoppedAt(error: unknown, text: string): string {
	const position = /at position (\d+)/.exec((error as Error).message)?.[1];
	return position === undefined ? '' : `: look at line ${text.slice(0, Number(position)).split('\n').length}`;
}
