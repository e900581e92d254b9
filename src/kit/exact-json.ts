import {randomBytes} from 'node:crypto';

/**
 * A JSON number in its original spelling, for numbers that JavaScript would write differently, such as
 * `12345678901234567890`, `1.10`, `1E5` or `-0`.
 */
export class Numeral {
	readonly #text: string;

	constructor(text: string) {
		this.#text = text;
	}

	toString(): string {
		return this.#text;
	}

	/** Returns the nearest double, for arithmetic. */
	valueOf(): number {
		return Number(this.#text);
	}

	/** Returns a marked string, which only `writeExact` turns back into a number. */
	toJSON(): string {
		return mark + this.#text;
	}

	// Liquid compares objects that have these five methods. They take all digits into account.
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

/** Random, so that no string in a document can begin with it. */
const mark = `${randomBytes(12).toString('base64url')} `;
const marked = new RegExp(`"${mark}([-+.\\dEe]+)"`, 'g');
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
/**
 * Matches each number that JavaScript may write differently, and some texts that look like one. Captures the number.
 */
const oddNumber = new RegExp(
	`(?:^|[,:[])\\s*(?=(${number.source}))-?(?:\\d[\\d.]{15}|\\d+(?:\\.\\d+)?[eE]|\\d+\\.\\d*0(?!\\d)|0\\.000000|(?<=-)0(?![\\d.]))`,
	'g',
);

/** Returns `false` if `JSON.parse` preserves all digits in the text. */
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
 * Parses JSON like `JSON.parse`, but with a `Numeral` for each number that JavaScript would write differently.
 *
 * @param name restricts this to the objects and arrays with this name
 */
export function parseExact(json: string, name: string | null = null): unknown {
	// This rejects invalid JSON first, because the marks could make it look valid.
	const plain: unknown = JSON.parse(json);
	return mayRespell(json) ? withoutMarks(JSON.parse(markNumbers(json)), name, new Map()) : plain;
}

/** Writes a value from `parseExact` as JSON. */
export function writeExact(value: unknown, space?: number): string {
	return unmarked(JSON.stringify(value, undefined, space));
}

/** Turns the marked strings in the output of `JSON.stringify` back into numbers. */
export function unmarked(json: string): string {
	return json.includes(mark) ? json.replace(marked, '$1') : json;
}

/**
 * Returns a negative, zero or positive number if the first is less, equal or greater, or NaN if either is not a number.
 */
export function compareNumbers(first: unknown, second: unknown): number {
	const [left, right] = [parseDecimal(first), parseDecimal(second)];
	if (left === null || right === null) {
		return Number.NaN;
	}
	if (left.sign !== right.sign || left.sign === 0) {
		return left.sign - right.sign;
	}
	const order = left.point - right.point || (left.digits < right.digits ? -1 : left.digits > right.digits ? 1 : 0);
	return left.sign * order;
}

type Decimal = {
	readonly sign: number;
	/** Without leading and trailing zeros. */
	readonly digits: string;
	/** The number of digits before the decimal point. */
	readonly point: number;
};

/** Returns `null` if the value is not a decimal number. */
function parseDecimal(value: unknown): Decimal | null {
	const spelling = value instanceof Numeral ? value : typeof value === 'object' ? '' : Number(value);
	const [, minus, integer = '', fraction = '', exponent = '0'] =
		/^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(String(spelling)) ?? [];
	const all = (integer + fraction).replace(/^0+/, '');
	let end = all.length; // A regular expression would rescan each run of zeros.
	while (all[end - 1] === '0') {
		end--;
	}
	const digits = all.slice(0, end);
	const sign = digits === '' ? 0 : minus === '-' ? -1 : 1;
	return minus === undefined ? null : {sign, digits, point: all.length - fraction.length + Number(exponent)};
}

/** Turns the numbers that JavaScript would write differently into marked strings. */
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

/**
 * Modifies the value in place. Equal spellings share a Numeral, since Liquid's `uniq` and `group_by` compare identity.
 */
function withoutMarks(value: unknown, name: string | null, numerals: Map<string, Numeral>): unknown {
	if (typeof value === 'string' && value.startsWith(mark)) {
		const numeral = numerals.get(value) ?? new Numeral(value.slice(mark.length));
		numerals.set(value, numeral);
		return name === null ? numeral : numeral.valueOf();
	}
	if (typeof value === 'object' && value !== null) {
		const items = value as Record<string, unknown>;
		// Object.entries would take twice as long, and the result of JSON.parse has no inherited properties.
		for (const key in items) {
			const item = items[key];
			if (typeof item === 'object' || typeof item === 'string') {
				items[key] = withoutMarks(item, key === name && typeof item === 'object' ? null : name, numerals);
			}
		}
	}
	return value;
}

/** Returns the index after the closing quote, or the length of the text if the quote is missing. */
function endOfText(text: string, quote: number): number {
	for (let index = quote + 1; index < text.length; index++) {
		if (text[index] === '\\') {
			index++;
		} else if (text[index] === '"') {
			return index + 1;
		}
	}
	return text.length;
}

/** A JSON object with unknown fields. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Record<string, unknown> {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the value if it is an object, or an empty object. */
export const objectOf = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Parses JSON from an untrusted source. Returns `undefined` if it is invalid. */
export function parsedJson(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

/**
 * Returns where the parser stopped, as a clause. The parser's own message may quote the text, and thereby a password.
 */
export function stoppedAt(error: unknown, text: string): string {
	const position = /at position (\d+)/.exec((error as Error).message)?.[1];
	return position === undefined ? '' : `: see line ${text.slice(0, Number(position)).split('\n').length}`;
}
