import {resolve} from 'node:path';
import {parseDuration} from '../kit/time.ts';
import {hostName} from '../net/host-name.ts';

const controls = /[\u0000-\u001f\u007f]/;

export const boolean: Parser<boolean> = text =>
	text === 'true' || text === 'false' ? value(text === 'true') : allowed('use true or false');

/** One of a few words. */
export function choice<const T extends string>(words: readonly T[]): Parser<T> {
	return text => {
		const word = words.find(candidate => candidate === text);
		return word === undefined ? allowed(`use ${orList(words)}`) : value(word);
	};
}

/** A whole number from `least` to `most`, in plain decimal digits. */
export function count(least: number, most: number): Parser<number> {
	return text => {
		const number = /^\d{1,12}$/.test(text) ? Number(text) : -1;
		return number >= least && number <= most ? value(number) : allowed(`use a whole number, ${least} to ${most}`);
	};
}

const longestDuration = 3650 * 86_400_000;

/** Milliseconds of `500ms 90s 5m 4h 4d`; a plain number is seconds. At most ten years. */
export function duration(least = 0): Parser<number> {
	return text => {
		const milliseconds = parseDuration(text) ?? -1;
		return milliseconds >= least && milliseconds <= longestDuration
			? value(milliseconds)
			: allowed(`use a duration such as 500ms, 90s, 5m, 4h or 4d (a plain number is seconds)${least ? ', not 0' : ''}`);
	};
}

const sizeUnits: Readonly<Record<string, number>> = {KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3};
const largestSize = 1024 ** 4;

/** Octets of `512KiB 200MiB 1GiB`; a plain number is octets. At most 1024 GiB. */
export function size(least = 0): Parser<number> {
	return text => {
		const [, digits, unit = ''] = /^(\d{1,13})(KiB|MiB|GiB)?$/.exec(text) ?? [];
		const octets = digits === undefined ? -1 : Number(digits) * (sizeUnits[unit] ?? 1);
		return octets >= least && octets <= largestSize
			? value(octets)
			: allowed(`use a size such as 512KiB, 200MiB or 1GiB (a plain number is octets)${least ? ', not 0' : ''}`);
	};
}

/** A secret that goes into a header as it is. */
export const token: Parser<string> = text =>
	/^[!-~]{1,256}$/.test(text) ? value(text) : allowed('use 1 to 256 printable ASCII characters without spaces');

/** Items between commas, none of them empty. */
export function list<T>(item: Parser<T>): Parser<readonly T[]> {
	return (text, cwd) => {
		const values: T[] = [];
		for (const part of text.split(',')) {
			const parsed = item(part.trim(), cwd);
			if (!parsed.ok) {
				return allowed(`${parsed.allowed}; several are separated by commas`);
			}

			values.push(parsed.value);
		}

		return value(values);
	};
}

/** As `list`, but an item given twice counts once. */
export function wordSet<const T extends string>(words: readonly T[]): Parser<readonly T[]> {
	const parse = list(choice(words));
	return (text, cwd) => {
		const parsed = parse(text, cwd);
		return parsed.ok ? value([...new Set(parsed.value)]) : parsed;
	};
}

/** An absolute path; a relative one starts from the working directory. */
export const path: Parser<string> = (text, cwd) =>
	controls.test(text) ? allowed('use a path without control characters') : value(resolve(cwd, text));

/** A domain as A-labels. */
export const domain: Parser<string> = text => {
	const name = hostName(text);
	return name === undefined || name.includes('_') ? allowed('use a host name such as mail.example.com') : value(name);
};

/** A bare address with a local part that needs no quotes (RFC 5321 §4.1.2, Dot-string); the domain becomes A-labels. */
export const mailAddress: Parser<string> = (text, cwd) => {
	const at = text.lastIndexOf('@');
	const local = text.slice(0, Math.max(0, at));
	const host = domain(text.slice(at + 1), cwd);
	const isLocal = local.length <= 64 && /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/.test(local);
	return isLocal && host.ok ? value(`${local}@${host.value}`) : allowed('use an address such as fbl@example.com');
};

/** Base64 of exactly 32 bytes. */
export const key256: Parser<Uint8Array> = text => {
	const bytes = Buffer.from(text, 'base64');
	const isExact = bytes.length === 32 && bytes.toString('base64').replace('=', '') === text.replace(/=$/, '');
	return isExact ? value(new Uint8Array(bytes)) : allowed('use base64 of 32 bytes (openssl rand -base64 32)');
};

/** Several of `key256`, no two the same. */
export const keys256: Parser<readonly Uint8Array[]> = (text, cwd) => {
	const keys = list(key256)(text, cwd);
	const texts = keys.ok ? keys.value.map(key => Buffer.from(key).toString('base64')) : [];
	return new Set(texts).size === texts.length ? keys : allowed('name each key once');
};

function orList(words: readonly string[]): string {
	return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** What a parser makes of a setting's text: the ready value, or what would be allowed (a clause after `name="text" …: `). */
export type Parsed<T> = {readonly ok: true; readonly value: T} | {readonly ok: false; readonly allowed: string};
/** Pure and total: never throws. `cwd` is what relative paths start from. */
export type Parser<T> = (text: string, cwd: string) => Parsed<T>;

export function value<T>(parsed: T): Parsed<T> {
	return {ok: true, value: parsed};
}

export function allowed<T>(text: string): Parsed<T> {
	return {ok: false, allowed: text};
}
