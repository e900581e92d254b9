import {isObject, Numeral, parseExact} from '../kit/exact-json.ts';
import {hiddenValue} from './message.ts';
import type {AttemptResult, Outcome} from './outcome.ts';
import type {Report} from './report.ts';

/** A sensitive variable's value in the forms that texts are searched for (see `normalize`). */
type HiddenForm = {readonly plain: string; readonly decoded: string};

/**
 * The values of a message's sensitive variables. `isTooMuch`: searching for them would take too long, so texts are
 * masked completely.
 */
export type HiddenValues = {readonly forms: readonly HiddenForm[]; readonly isTooMuch: boolean};

/** A shorter value is masked only where it stands alone, because replies are full of short numbers. */
const minPartLength = 4;
/** A text, or a line of a dialogue, that is at least this long may have been cut off within a value. */
const cutLength = 500;
/** The limits of the search for one message. A text that is stored has at most `maxValueLength` characters. */
const maxValues = 100;
const maxValueLength = 4096;
const maxLength = 16_384;

/**
 * Finds the values by comparing the variables as stored, where `hiddenValue` replaces sensitive ones, with the full
 * ones. Both arguments are JSON texts.
 */
export function findHiddenValues(stored: string, all: string): HiddenValues {
	const values = new Set<string>();
	collectHidden(parseExact(stored), parseExact(all), values);
	const length = [...values].reduce((sum, value) => sum + value.length, 0);
	if (values.size > maxValues || length > maxLength) {
		return {forms: [], isTooMuch: true};
	}
	const forms = [...values].map(value => ({
		plain: normalize(value, {joinsLines: false, decodes: false}).text,
		decoded: normalize(value, {joinsLines: false, decodes: true}).text,
	}));
	return {forms, isTooMuch: false};
}

function collectHidden(stored: unknown, full: unknown, values: Set<string>): void {
	if (stored === hiddenValue) {
		collectScalars(full, values);
	} else if (Array.isArray(stored) && Array.isArray(full)) {
		for (const [index, item] of stored.entries()) {
			collectHidden(item, full[index], values);
		}
	} else if (isObject(stored) && isObject(full)) {
		for (const [name, value] of Object.entries(stored)) {
			collectHidden(value, full[name], values);
		}
	}
}

function collectScalars(value: unknown, values: Set<string>): void {
	if ((Array.isArray(value) || isObject(value)) && !(value instanceof Numeral)) {
		for (const item of Object.values(value)) {
			collectScalars(item, values);
		}
	} else if (value !== null && typeof value !== 'boolean') {
		const text = String(value).slice(0, maxValueLength);
		const parts = URL.canParse(text) ? partsOfUrl(new URL(text)) : [];
		for (const part of [text, ...parts]) {
			if (part.trim() !== '') {
				values.add(part);
			}
		}
	}
}

/** Returns the parts of a URL that a server may quote alone: the link without its host, or only a token in it. */
function partsOfUrl({pathname, search, searchParams, hash}: URL): string[] {
	const path = pathname + search + hash;
	return [path, ...searchParams.values(), pathname.slice(pathname.lastIndexOf('/') + 1)].filter(
		part => part.length > 2 * minPartLength,
	);
}

/** A text without spaces, in lower case, with the original position of each character. */
type Normalized = {
	readonly text: string;
	readonly starts: readonly number[];
	readonly ends: readonly number[];
};

/** `decodes` also decodes quoted-printable, percent-encoding and HTML entities. */
type Normalization = {readonly joinsLines: boolean; readonly decodes: boolean};

/** Matches what may stand within a value that continues on the next line of a reply: dialogue prefixes and codes. */
const lineBreak = /\s+(?:\d+ [CS*]: )?(?:\d{3}[ -])?(?:[245]\.\d{1,3}\.\d{1,3}(?:\s+|$))?/y;
const space = /(?:[\s\\]|=(?=\r?\n))+/y;
const escapedCharacter = /[=%]([0-9a-f]{2})|&#(\d{1,6});|&#x([0-9a-f]{1,5});|&(amp|lt|gt|quot|apos);/iy;
const entities: Readonly<Record<string, string>> = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'"};

function normalize(text: string, {joinsLines, decodes}: Normalization): Normalized {
	const [letters, starts, ends]: [string[], number[], number[]] = [[], [], []];
	for (let index = 0; index < text.length; ) {
		// Most characters cannot begin any of these forms.
		const isLetter = /[\w.@:/-]/.test(text.charAt(index));
		const skipped = isLetter ? 0 : (joinsLines && lengthAt(lineBreak, text, index)) || lengthAt(space, text, index);
		if (skipped > 0) {
			index += skipped;
			continue;
		}
		const match = decodes && !isLetter ? matchAt(escapedCharacter, text, index) : null;
		const length = match?.[0].length ?? 1;
		for (const character of (match ? unescaped(match) : text.charAt(index)).toLowerCase()) {
			letters.push(character);
			starts.push(index);
			ends.push(index + length);
		}
		index += length;
	}
	return {text: letters.join(''), starts, ends};
}

function matchAt(form: RegExp, text: string, index: number): RegExpExecArray | null {
	form.lastIndex = index;
	return form.exec(text);
}

const lengthAt = (form: RegExp, text: string, index: number): number => matchAt(form, text, index)?.[0].length ?? 0;

function unescaped([, octet, decimal, hex, name]: RegExpExecArray): string {
	return name !== undefined
		? (entities[name.toLowerCase()] ?? '')
		: String.fromCharCode(decimal === undefined ? Number.parseInt(octet ?? hex ?? '0', 16) : Number(decimal));
}

const normalizations: readonly Normalization[] = [false, true].flatMap(joinsLines =>
	[false, true].map(decodes => ({joinsLines, decodes})),
);

/** Replaces every occurrence of the values with `hiddenValue`, in any case, quoted, or continued on the next line. */
export function maskHidden(text: string, {forms, isTooMuch}: HiddenValues): string {
	if (isTooMuch) {
		return codesOnly(text);
	}
	const masked = new Uint8Array(text.length);
	for (const normalization of normalizations) {
		const normalized = normalize(text, normalization);
		for (const {plain, decoded} of forms) {
			maskValue(masked, text, normalized, normalization.decodes ? decoded : plain);
		}
	}
	let output = '';
	for (let index = 0; index < text.length; index++) {
		output += masked[index] === 0 ? text.charAt(index) : masked[index - 1] === 1 ? '' : hiddenValue;
	}
	return output;
}

function maskValue(masked: Uint8Array, text: string, {text: searched, starts, ends}: Normalized, value: string): void {
	for (let pos = searched.indexOf(value); value !== '' && pos !== -1; pos = searched.indexOf(value, pos + 1)) {
		const [from, to] = [starts[pos] ?? 0, ends[pos + value.length - 1] ?? 0];
		if (value.length >= minPartLength || isAlone(text, from, to)) {
			masked.fill(1, from, to);
		}
	}
	const firstCut = text.length < cutLength ? searched.length : Math.max(0, searched.length - value.length + 1);
	for (let pos = firstCut; pos <= searched.length - minPartLength; pos++) {
		if (value.startsWith(searched.slice(pos))) {
			masked.fill(1, starts[pos]);
			return;
		}
	}
}

const isAlone = (text: string, from: number, to: number): boolean =>
	!/[\w.]/.test(text.charAt(from - 1)) && !/[\w]/.test(text.charAt(to));

/** Masks everything that a server replied in an attempt. */
export function maskResult(result: AttemptResult, values: HiddenValues): AttemptResult {
	const attempts = result.attempts.map(attempt => ({
		...attempt,
		reply: maskHidden(attempt.reply, values),
		dialogue: attempt.dialogue && maskDialogue(attempt.dialogue, values),
	}));
	return {...result, attempts, outcome: maskOutcome(result.outcome, values)};
}

function maskDialogue(dialogue: string, values: HiddenValues): string {
	const lines = maskHidden(dialogue, values).split('\n');
	return lines.map(line => (line.length >= cutLength ? maskHidden(line, values) : line)).join('\n');
}

function maskOutcome(outcome: Outcome, values: HiddenValues): Outcome {
	switch (outcome.kind) {
		case 'deferred':
		case 'bounced':
			return {...outcome, reason: maskHidden(outcome.reason, values)};
		case 'errored':
			return outcome.message === undefined ? outcome : {...outcome, message: maskHidden(outcome.message, values)};
		case 'released':
			return outcome.reason === undefined ? outcome : {...outcome, reason: maskHidden(outcome.reason, values)};
		default:
			return outcome;
	}
}

/**
 * Removes the text from a report about a message with sensitive variables. By the time a report arrives, the values are
 * no longer stored, so they cannot be searched for. Codes and category remain.
 */
export function withoutText(report: Report): Report {
	return {...report, matched: null, reason: codesOnly(report.reason)};
}

function codesOnly(text: string): string {
	const [codes = ''] = /^(?:[245]\d\d[ -])?(?:[245]\.\d{1,3}\.\d{1,3}(?= |$))?/.exec(text) ?? [];
	return `${codes.trim()} ${hiddenValue}`.trim();
}
