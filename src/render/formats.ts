import {LRUCache} from 'lru-cache';

/** In whose words and on whose clock a mail is written: a BCP 47 tag and an IANA zone. */
export type Place = {readonly locale: string; readonly timezone: string};

export type Formats = {
	/** Formats an amount, or gives undefined where the amount or the currency is none. */
	readonly currency: (place: Place, amount: unknown, code: unknown) => string | undefined;
	/** Formats a moment, or gives undefined where it, or a style, is none. A style of undefined leaves that half out. */
	readonly date: (place: Place, moment: unknown, dateStyle: unknown, timeStyle: unknown) => string | undefined;
};

const styles = ['short', 'medium', 'long', 'full'] as const;
type Style = (typeof styles)[number];
type Formatter = Intl.NumberFormat | Intl.DateTimeFormat;

const decimal = /^-?\d{1,30}(?:\.\d{1,20})?$/;
const isoDate = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i;
const firstMillisecondsValue = 100_000_000_000;

/**
 * What the filters `format_currency`, `format_date` and `format_datetime` do.
 * An Intl formatter costs some 50 µs to make and 1 µs to use, so the last ones used are kept.
 */
export function createFormats(): Formats {
	const formatters = new LRUCache<string, {readonly made: Formatter | null}>({max: 500});

	function formatter<T extends Formatter>(key: string, make: () => T): T | null {
		let entry = formatters.get(key);
		if (!entry) {
			entry = {made: madeOrNull(make)};
			formatters.set(key, entry);
		}
		return entry.made as T | null;
	}

	return {
		currency({locale}, amount, code) {
			const value = decimalOf(amount);
			if (value === undefined || typeof code !== 'string' || !/^[a-z]{3}$/i.test(code)) {
				return undefined;
			}
			return formatter(
				`${locale}\n${code}`,
				() => new Intl.NumberFormat(locale, {style: 'currency', currency: code}),
			)?.format(value);
		},
		date({locale, timezone}, moment, dateStyle, timeStyle) {
			const read = momentOf(moment);
			if (!read || !isStyle(dateStyle) || !(timeStyle === undefined || isStyle(timeStyle))) {
				return undefined;
			}
			// A day without a time is that day everywhere: moving it between zones would name the day before.
			const timeZone = read.wholeDay ? 'UTC' : timezone;
			return formatter(
				`${locale}\n${timeZone}\n${dateStyle}\n${timeStyle}`,
				() => new Intl.DateTimeFormat(locale, {timeZone, dateStyle, ...(timeStyle && {timeStyle})}),
			)?.format(read.at);
		},
	};
}

function madeOrNull<T>(make: () => T): T | null {
	try {
		return make();
	} catch (error) {
		if (error instanceof RangeError) {
			return null; // Intl does not know the locale, the currency or the zone.
		}
		throw error;
	}
}

function isStyle(value: unknown): value is Style {
	return styles.includes(value as Style);
}

/** Text of digits stays text, so that no cent is lost in a double. */
function decimalOf(amount: unknown): Intl.StringNumericLiteral | number | undefined {
	if (typeof amount === 'number') {
		return Number.isFinite(amount) ? amount : undefined;
	}
	return typeof amount === 'string' && decimal.test(amount) ? (amount as Intl.StringNumericLiteral) : undefined;
}

/**
 * Reads ISO 8601 (without an offset it is UTC) or Unix time in seconds; numbers that would lie beyond the year 5138
 * are milliseconds, as JavaScript writes them.
 */
function momentOf(moment: unknown): {at: number; wholeDay: boolean} | undefined {
	if (typeof moment === 'number') {
		const at = Math.abs(moment) < firstMillisecondsValue ? moment * 1000 : moment;
		return Number.isFinite(new Date(at).getTime()) ? {at, wholeDay: false} : undefined;
	}

	const match = typeof moment === 'string' ? isoDate.exec(moment) : null;
	if (!match) {
		return undefined;
	}

	const [, day = '', time = '00:00', offset = 'Z'] = match;
	const midnight = Date.parse(`${day}T00:00Z`);
	const at = Date.parse(`${day}T${time}${offset.toUpperCase().replace(/^([+-]\d{2})(\d{2})$/, '$1:$2')}`);
	// Date.parse takes 30 February for 2 March.
	const exists = Number.isFinite(at) && new Date(midnight).toISOString().startsWith(day);
	return exists ? {at, wholeDay: match[2] === undefined} : undefined;
}
