import {isValidTimezone, validLocale} from '../compose/render/locale.ts';
import {duration as durationParser, rateLimit as rateLimitParser} from '../config/parsers.ts';
import {defined} from '../kit/collections.ts';
import {labelProblem} from '../kit/text.ts';
import {parseTime} from '../kit/time.ts';
import {type Address, parseAddress, parseDomain} from '../mail/address.ts';
import {parseRoute} from '../mail/route.ts';
import {suppressionReasons} from '../mail/suppression.ts';
import {CliError} from './fault.ts';

// Parsers of options. An invalid option value is a usage error (64); an invalid argument, such as an address, is bad
// data (65). Shell completion offers the `choices` of a parser.

export function refuse(option: string, text: string, fix: string): never {
	throw new CliError('usage', `${option} "${text}" is not allowed`, fix);
}

/** Accepts one of the words. */
export function oneOf<Word extends string>(option: string, words: readonly Word[]): (text: string) => Word {
	const parse = (text: string) =>
		words.find(word => word === text) ??
		refuse(option, text, `use ${words.join(words.length === 2 ? ' or ' : ', ')}`);
	return Object.assign(parse, {choices: words});
}

export const mode = oneOf('--mode', ['live', 'test']);

export function label(option: string, maxLength?: number): (text: string) => string {
	return text => {
		const problem = labelProblem(text, maxLength);
		return problem === null ? text : refuse(option, text, `it ${problem}`);
	};
}

/** The value that clears a setting. It is a word, because commander converts `null` to an empty text. */
export const none = 'none';

export function orNull<Value>(value: Value | typeof none): Value | null {
	return value === none ? null : value;
}

/** Returns the changes without undefined values. Throws a usage error (64) if none is left. */
export function changesIn<Values extends object>(values: Values) {
	const changes = defined(values);
	if (Object.keys(changes).length === 0) {
		throw new CliError('usage', 'nothing to change', 'use at least one of the options in --help');
	}
	return changes;
}

/** Returns a BCP 47 tag in its canonical form. */
export function locale(text: string): string {
	return validLocale(text) ?? refuse('--locale', text, 'use a language tag such as en or de-AT');
}

/** Validates an IANA zone name. */
export function timezone(text: string): string {
	return isValidTimezone(text) ? text : refuse('--timezone', text, 'use a zone name such as Europe/Vienna');
}

export function count(option: string, min: number, max: number): (text: string) => number {
	return text => {
		const number = /^\d{1,12}$/.test(text) ? Number(text) : -1;
		return number >= min && number <= max ? number : refuse(option, text, `use a whole number, ${min} to ${max}`);
	};
}

/** Makes an option accept `none` too. */
export function acceptNone<Value>(parse: (text: string) => Value): (text: string) => Value | typeof none {
	return text => (text === none ? none : parse(text));
}

/** Like `acceptNone`, for values whose default comes from the settings: `default` clears them too. */
export function acceptNoneOrDefault<Value>(parse: (text: string) => Value): (text: string) => Value | typeof none {
	return text => (text === none || text === 'default' ? none : parse(text));
}

/** Validates `mx`, `relay` or URLs of relays, and returns the text unchanged. */
export function route(text: string): string {
	const parsed = parseRoute(text);
	if (!parsed.ok) {
		throw new CliError(
			'usage',
			`the value of --route ${parsed.problem}`,
			'use mx, relay, smtp://[user:password@]host, default, or - to read it from standard input',
		);
	}
	return text;
}

export function rateLimit(text: string): string {
	const parsed = rateLimitParser(text, '');
	return parsed.ok ? text : refuse('--rate-limit', text, parsed.allowed);
}

/** Parses an RFC 3339 time, or a duration before now, into milliseconds since 1970. */
export function past(option: string): (text: string) => number {
	return text => parseMoment(option, text, -1);
}

/** Parses a future RFC 3339 time, or a duration from now, into milliseconds since 1970. */
export function future(option: string): (text: string) => number {
	return text => {
		const time = parseMoment(option, text, 1);
		return time > Date.now() ? time : refuse(option, text, 'use a time in the future');
	};
}

/** Parses a time, or a duration after now (`sign` 1) or before now (`sign` -1). */
function parseMoment(option: string, text: string, sign: 1 | -1): number {
	const span = durationParser(0)(text, '');
	return (
		(span.ok ? Date.now() + sign * span.value : parseTime(text)) ??
		refuse(option, text, 'use a duration such as 90s, 4h or 30d, or a time such as 2026-11-21T10:15:30Z')
	);
}

export function email(option: string): (text: string) => string {
	return text => {
		const parsed = parseAddress(text, {allowsUtf8Local: false});
		return parsed.ok ? text : refuse(option, text, `it ${parsed.problem}`);
	};
}

/** Throws a data error (65). */
export function address(text: string, allowsUtf8Local = false): Address {
	const parsed = parseAddress(text, {allowsUtf8Local});
	if (!parsed.ok) {
		throw new CliError('data', `${text} is not a valid address`, `it ${parsed.problem}`);
	}
	return parsed.address;
}

/** Throws a data error (65). */
export function domain(text: string): string {
	const name = parseDomain(text);
	if (name === null) {
		throw new CliError('data', `${text} is not a valid domain name`, 'use a full name such as shop.example');
	}
	return name;
}

/** Validates the selector of a DKIM key: one label, with room for the suffix of the second key. */
export function selector(text: string): string {
	return /^[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?$/.test(text)
		? text
		: refuse('--selector', text, 'use at most 50 lowercase letters, digits and hyphens');
}

export const reason = oneOf('--reason', suppressionReasons);

/** Collects the values of a repeatable option. */
export function collect(text: string, previous: readonly string[] = []): string[] {
	return [...previous, text];
}

/** Parses `key=value` pairs. Throws a usage error (64). */
export function metadata(pairs: readonly string[]): Record<string, string> {
	return Object.fromEntries(pairs.map(metadataPair));
}

export function metadataPair(pair: string): [key: string, value: string] {
	const separator = pair.indexOf('=');
	if (separator < 1) {
		throw new CliError('usage', `--metadata "${pair}" is not allowed`, 'use KEY=VALUE');
	}
	return [pair.slice(0, separator), pair.slice(separator + 1)];
}
