import {LRUCache} from 'lru-cache';
import {Numeral} from '../../kit/exact-json.ts';

/** A point in time from a template or its data. */
type Moment = {
	/** Milliseconds since the epoch. */
	readonly at: number;
	/** Nanoseconds within its second. */
	readonly nanoseconds: number;
	/**
	 * Whether it is a day without a time. It is not converted between zones, which could turn it into the day before.
	 */
	readonly isWholeDay: boolean;
};

/** A time zone name that Intl supports, or seconds east of UTC. */
type Zone = string | number;

const minMilliseconds = 100_000_000_000;
const maxTextLength = 100;

const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
// Month names and abbreviations: `Jun`, `Jun.`, `Sept`, `June`.
const month =
	'(?<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\\.?';
const weekday = '(?:(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:day)?\\.?,?\\s+)?';
const day = '(?<day>\\d{1,2})(?:st|nd|rd|th)?';
const year = '(?<year>\\d{4})';
const time =
	'(?<hour>\\d{1,2})(?::(?<minute>\\d{2})(?::(?<second>\\d{2})(?:[.,](?<fraction>\\d{1,9})\\d*)?)?)?(?:\\s*(?<half>[ap])\\.?m\\.?)?';
// RFC 5322 §4.3 defines the American names. `[Europe/Berlin]` and `(CEST)` only repeat the offset and are ignored.
const zone =
	'(?:\\s*(?<zone>z|utc?|gmt|[ecmp][sd]t|(?:utc|gmt)?(?<sign>[+-])(?<offsetHour>\\d{2})(?::?(?<offsetMinute>\\d{2}))?)(?:\\s*\\([^()]*\\)|\\[[^[\\]]*\\])?)?';
const clock = `(?:(?:t|,?\\s+(?:at\\s+)?)${time}${zone})?`;

const spellings = [
	`(?<year>\\d{4})(?<separator>[-/.])(?<month>\\d{1,2})(?:\\k<separator>(?<day>\\d{1,2}))?${clock}`,
	`(?<year>\\d{4})(?<month>\\d{2})(?<day>\\d{2})t(?<hour>\\d{2})(?<minute>\\d{2})(?<second>\\d{2})?${zone}`,
	// With slashes the month comes first, as in the US; with dots the day does.
	`(?<month>\\d{1,2})/(?<day>\\d{1,2})/${year}${clock}`,
	`(?<day>\\d{1,2})\\.(?<month>\\d{1,2})\\.${year}${clock}`,
	`${weekday}${day}(?:\\s+|-)${month}(?:,?\\s+|-)${year}${clock}`,
	`${weekday}${month}\\s+${day},?\\s+${year}${clock}`,
	// The format of C's asctime and of `date`.
	`${weekday}${month}\\s+${day}\\s+${time}${zone}\\s+${year}`,
].map(spelling => new RegExp(`^${spelling}$`, 'i'));

const usOffsetHours: Readonly<Record<string, number>> = {e: -5, c: -6, m: -7, p: -8};

/**
 * Parses `now` and `today`, Unix time, and common date formats: ISO 8601, RFC 5322, `June 9, 2026 5 pm`. Times without
 * an offset are UTC. Unix time is in seconds, unless that would be after the year 5138: then it is in milliseconds, as
 * in JavaScript.
 */
export function readMoment(value: unknown): Moment | undefined {
	const spelling = value instanceof Numeral ? String(value) : value;
	if (typeof value === 'number' || (value instanceof Numeral && /e/i.test(String(value)))) {
		return fromUnixTime(Number(value), undefined);
	}
	const text = typeof spelling === 'string' && spelling.length <= maxTextLength ? spelling.trim() : '';
	if (/^(?:now|today)$/i.test(text)) {
		return toMoment(Date.now(), undefined, false);
	}
	const [, unix, fraction] = /^(-?\d+)(?:\.(\d+))?$/.exec(text) ?? [];
	if (unix !== undefined) {
		return fromUnixTime(Number(text), unix.startsWith('-') ? undefined : fraction);
	}
	for (const spelling of spellings) {
		const fields = spelling.exec(text)?.groups;
		if (fields) {
			return fromFields(fields);
		}
	}
	return undefined;
}

function fromUnixTime(value: number, fraction: string | undefined): Moment | undefined {
	const isInSeconds = Math.abs(value) < minMilliseconds;
	return toMoment(isInSeconds ? value * 1000 : value, isInSeconds ? fraction : undefined, false);
}

function toMoment(milliseconds: number, fraction: string | undefined, isWholeDay: boolean): Moment | undefined {
	const at = Math.floor(milliseconds);
	if (!Number.isFinite(new Date(at).getTime())) {
		return undefined;
	}
	const nanoseconds =
		fraction === undefined
			? (((at % 1000) + 1000) % 1000) * 1_000_000
			: Number(fraction.slice(0, 9).padEnd(9, '0'));
	return {at, nanoseconds, isWholeDay};
}

type Fields = Readonly<Record<string, string | undefined>>;

function fromFields(fields: Fields): Moment | undefined {
	const {hour, half, fraction} = fields;
	const number = (name: string, missing = 0) => Number(fields[name] ?? missing);
	const [yearNumber, monthNumber, dayNumber] = [number('year'), toMonth(fields), number('day', 1)];
	const hours = half === undefined ? number('hour') : (number('hour') % 12) + (/p/i.test(half) ? 12 : 0);
	const [minutes, seconds] = [number('minute'), number('second')];
	const offset = toOffset(fields);
	const midnight = new Date(0);
	midnight.setUTCFullYear(yearNumber, monthNumber - 1, dayNumber);
	// `Date` would turn 30 February into 2 March.
	const isRealDay = midnight.getUTCMonth() === monthNumber - 1 && midnight.getUTCDate() === dayNumber;
	// 24:00 is the end of the day, and a second of 60 a leap second.
	const secondOfDay = (hours * 60 + minutes) * 60 + seconds;
	const isValidTime = hours <= 24 && minutes < 60 && seconds <= 60 && (hours < 24 || secondOfDay === 86_400);
	// An hour alone is not a time.
	const hasTime = hour === undefined || half !== undefined || fields.minute !== undefined;
	const isValidHour = half === undefined || (number('hour') >= 1 && number('hour') <= 12);
	if (!isRealDay || !isValidTime || !hasTime || !isValidHour || offset === undefined) {
		return undefined;
	}
	const milliseconds = Number((fraction ?? '').slice(0, 3).padEnd(3, '0'));
	return toMoment(midnight.getTime() + (secondOfDay - offset) * 1000 + milliseconds, fraction, hour === undefined);
}

function toMonth({month, name}: Fields): number {
	return name === undefined ? Number(month) : monthNames.indexOf(name.slice(0, 3).toLowerCase()) + 1;
}

/** Returns the offset in seconds, or `undefined` if it is invalid. */
function toOffset({zone, sign, offsetHour, offsetMinute}: Fields): number | undefined {
	const hours = Number(offsetHour ?? 0);
	const minutes = Number(offsetMinute ?? 0);
	if (sign !== undefined) {
		return hours < 24 && minutes < 60 ? (sign === '-' ? -60 : 60) * (hours * 60 + minutes) : undefined;
	}
	const [, region = '', kind] = /^([ecmp])([sd])t$/i.exec(zone ?? '') ?? [];
	return kind === undefined ? 0 : 3600 * ((usOffsetHours[region.toLowerCase()] ?? 0) + (/d/i.test(kind) ? 1 : 0));
}

/** Parses `±hh:mm`, minutes west of UTC as in JavaScript, or a name that Intl supports. */
export function readZone(value: unknown): Zone | undefined {
	if (typeof value === 'number') {
		return Number.isFinite(value) && Math.abs(value) < 24 * 60 ? Math.trunc(-value) * 60 : undefined;
	}
	if (typeof value !== 'string' || value === '') {
		return undefined;
	}
	const offset = /^(?<sign>[+-])(?<offsetHour>\d{2}):?(?<offsetMinute>\d{2})$/.exec(value)?.groups;
	return offset ? toOffset(offset) : offsetFormatter(value) ? value : undefined;
}

const offsetFormatter = (timeZone: string) => dateFormat('en-US', {timeZone, timeZoneName: 'longOffset'});

/** Returns the offset of a zone at a moment, in seconds east of UTC. It is 0 for an unknown zone. */
function zoneOffset(at: number, zone: Zone): number {
	if (typeof zone === 'number') {
		return zone;
	}
	const [, sign, hours, minutes, seconds = 0] =
		/GMT([+-])(\d{2}):(\d{2})(?::(\d{2}))?$/.exec(offsetFormatter(zone)?.format(at) ?? '') ?? [];
	const distance = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
	return sign === undefined ? 0 : sign === '-' ? -distance : distance;
}

type DateTerms = {
	/** The language of month and day names. */
	readonly locale: string;
	readonly zone: Zone;
	/** Called with the number of characters that are about to be produced. Throws if they are too many. */
	readonly use: (characters: number) => void;
};

const dayMs = 86_400_000;
const directive = /%([-_0^#]*)(\d*)(:{1,3}(?=z))?(?:E(?=[cCxXyY])|O(?=[deHkIlmMSuUVwWy]))?(.)/gsu;
const compositeFormats: Readonly<Record<string, string>> = {
	c: '%a %b %e %H:%M:%S %Y',
	D: '%m/%d/%y',
	F: '%Y-%m-%d',
	r: '%I:%M:%S %p',
	R: '%H:%M',
	T: '%H:%M:%S',
	v: '%e-%^b-%4Y',
	x: '%m/%d/%y',
	X: '%H:%M:%S',
	'+': '%a %b %e %H:%M:%S %Z %Y',
};

type LocalTime = {
	readonly moment: Moment;
	/** A date whose UTC fields show the local time of the zone. */
	readonly wall: Date;
	/** Seconds east of UTC. */
	readonly offset: number;
	readonly terms: DateTerms;
};
/** A number with its minimum width, or a text. */
type Part = {readonly number: number; readonly width: number; readonly pad?: ' '} | {readonly text: string};

/** Formats a moment like Ruby's `Time#strftime`, with `%q` for the English ordinal suffix of the day (`st`). */
export function strftime(moment: Moment, format: string, terms: DateTerms): string {
	const zone = moment.isWholeDay ? 0 : terms.zone;
	const offset = zoneOffset(moment.at, zone);
	terms.use(format.length);
	return fill(format, {moment, wall: new Date(moment.at + offset * 1000), offset, terms: {...terms, zone}});
}

function fill(format: string, local: LocalTime): string {
	return format.replace(
		directive,
		(match, flags: string, digits: string, colons: string | undefined, conversion: string) => {
			const width = Number(digits);
			local.terms.use(width);
			const inner = compositeFormats[conversion];
			if (inner !== undefined) {
				const text = fill(inner, local);
				return (flags.includes('^') ? text.toUpperCase() : text).padStart(width, padding(flags, ' '));
			}
			if (conversion === 'z') {
				return offsetText(local.offset, flags, width, colons?.length ?? 0);
			}
			if (conversion === 'N' || conversion === 'L') {
				const places = width || (conversion === 'N' ? 9 : 3);
				return String(local.moment.nanoseconds).padStart(9, '0').slice(0, places).padEnd(places, '0');
			}
			const part = conversions[conversion]?.(local);
			if (part === undefined) {
				return match;
			}
			if ('number' in part) {
				return numberText(part.number, flags, width || part.width, part.pad ?? '0');
			}
			const text = changeCase(part.text, conversion, flags);
			return flags.includes('-') ? text : text.padStart(width, padding(flags, ' '));
		},
	);
}

const conversions: Readonly<Record<string, (local: LocalTime) => Part>> = {
	Y: ({wall}) => yearPart(wall.getUTCFullYear()),
	C: ({wall}) => ({number: Math.floor(wall.getUTCFullYear() / 100), width: 2}),
	y: ({wall}) => ({number: modulo(wall.getUTCFullYear(), 100), width: 2}),
	m: ({wall}) => ({number: wall.getUTCMonth() + 1, width: 2}),
	B: ({wall, terms}) => ({text: nameIn(terms.locale, wall, {month: 'long'})}),
	b: ({wall, terms}) => ({text: nameIn(terms.locale, wall, {month: 'short'})}),
	h: ({wall, terms}) => ({text: nameIn(terms.locale, wall, {month: 'short'})}),
	d: ({wall}) => ({number: wall.getUTCDate(), width: 2}),
	e: ({wall}) => ({number: wall.getUTCDate(), width: 2, pad: ' '}),
	q: ({wall}) => ({text: ordinal(wall.getUTCDate())}),
	j: ({wall}) => ({number: dayOfYear(wall) + 1, width: 3}),
	H: ({wall}) => ({number: wall.getUTCHours(), width: 2}),
	k: ({wall}) => ({number: wall.getUTCHours(), width: 2, pad: ' '}),
	I: ({wall}) => ({number: wall.getUTCHours() % 12 || 12, width: 2}),
	l: ({wall}) => ({number: wall.getUTCHours() % 12 || 12, width: 2, pad: ' '}),
	M: ({wall}) => ({number: wall.getUTCMinutes(), width: 2}),
	S: ({wall}) => ({number: wall.getUTCSeconds(), width: 2}),
	p: ({wall}) => ({text: wall.getUTCHours() < 12 ? 'AM' : 'PM'}),
	P: ({wall}) => ({text: wall.getUTCHours() < 12 ? 'am' : 'pm'}),
	A: ({wall, terms}) => ({text: nameIn(terms.locale, wall, {weekday: 'long'})}),
	a: ({wall, terms}) => ({text: nameIn(terms.locale, wall, {weekday: 'short'})}),
	u: ({wall}) => ({number: wall.getUTCDay() || 7, width: 1}),
	w: ({wall}) => ({number: wall.getUTCDay(), width: 1}),
	U: ({wall}) => ({number: weekOfYear(wall, wall.getUTCDay()), width: 2}),
	W: ({wall}) => ({number: weekOfYear(wall, modulo(wall.getUTCDay() - 1, 7)), width: 2}),
	V: ({wall}) => ({number: 1 + Math.floor(dayOfYear(isoThursday(wall)) / 7), width: 2}),
	G: ({wall}) => yearPart(isoThursday(wall).getUTCFullYear()),
	g: ({wall}) => ({number: modulo(isoThursday(wall).getUTCFullYear(), 100), width: 2}),
	s: ({moment}) => ({number: Math.floor(moment.at / 1000), width: 1}),
	Q: ({moment}) => ({number: moment.at, width: 1}),
	Z: ({moment, terms, offset}) => ({text: zoneName(moment.at, terms, offset)}),
	n: () => ({text: '\n'}),
	t: () => ({text: '\t'}),
	'%': () => ({text: '%'}),
};

/** The width of a year before 0 includes its sign. */
function yearPart(year: number): Part {
	return {number: year, width: year < 0 ? 5 : 4};
}

const modulo = (value: number, divisor: number): number => ((value % divisor) + divisor) % divisor;

/** Returns the day of the year, counted from 0. */
function dayOfYear(wall: Date): number {
	const first = new Date(wall);
	first.setUTCMonth(0, 1);
	return Math.round((wall.getTime() - first.getTime()) / dayMs);
}

/**
 * Returns the week of the year. `daysIn` is the number of days since the week started. Week 0 precedes the first one.
 */
function weekOfYear(wall: Date, daysIn: number): number {
	return Math.floor((dayOfYear(wall) + 7 - daysIn) / 7);
}

/** Returns the Thursday of the week, whose year is the year of the week in ISO 8601. */
function isoThursday(wall: Date): Date {
	return new Date(wall.getTime() + (4 - (wall.getUTCDay() || 7)) * dayMs);
}

function ordinal(day: number): string {
	const suffixes = ['th', 'st', 'nd', 'rd'];
	return (day > 10 && day < 14 ? undefined : suffixes[day % 10]) ?? 'th';
}

/** Applies `^` (upper case) and `#`, which makes `AM` and zone names lower case and everything else upper case. */
function changeCase(text: string, conversion: string, flags: string): string {
	if (flags.includes('#')) {
		return 'pZ'.includes(conversion) ? text.toLowerCase() : text.toUpperCase();
	}
	return flags.includes('^') ? text.toUpperCase() : text;
}

/** Returns the padding character. The last padding flag counts. */
function padding(flags: string, defaultPad: string): string {
	const padFlag = [...flags].findLast(flag => '-0_'.includes(flag));
	return padFlag === '_' ? ' ' : padFlag === '0' ? '0' : defaultPad;
}

function numberText(value: number, flags: string, width: number, defaultPad: string): string {
	const pad = padding(flags, defaultPad);
	const sign = value < 0 && pad === '0' ? '-' : '';
	const digits = sign === '' ? String(value) : String(-value);
	return flags.includes('-') ? sign + digits : sign + digits.padStart(width - sign.length, pad);
}

/** Returns `+hhmm`; with one colon `+hh:mm`, with two `+hh:mm:ss`, and with three the shortest of them. */
function offsetText(offset: number, flags: string, width: number, colons: number): string {
	const distance = Math.abs(offset);
	const twoDigits = (value: number) => String(Math.floor(value)).padStart(2, '0');
	const minutes = twoDigits((distance % 3600) / 60);
	const seconds = twoDigits(distance % 60);
	const shortest = distance % 3600 === 0 ? '' : distance % 60 === 0 ? `:${minutes}` : `:${minutes}:${seconds}`;
	const tail = [minutes, `:${minutes}`, `:${minutes}:${seconds}`, shortest][colons] as string;
	const hours = String(Math.floor(distance / 3600));
	const sign = offset < 0 ? '-' : '+';
	const hourWidth = Math.max(2, width - 1 - tail.length);
	return padding(flags, '0') === ' '
		? (sign + hours).padStart(hourWidth + 1) + tail
		: sign + hours.padStart(hourWidth, '0') + tail;
}

function nameIn(locale: string, wall: Date, options: Intl.DateTimeFormatOptions): string {
	const formatOptions = {...options, timeZone: 'UTC', calendar: 'gregory'};
	return (dateFormat(locale, formatOptions) ?? dateFormat('en', formatOptions))?.format(wall) ?? '';
}

/** Locales in which Intl abbreviates the zones of their regions: `EST`, `CET`, `AEST`, `JST`. */
const abbreviatingLocales = ['en-US', 'en-GB', 'en-AU', 'en-IN', 'en-CA', 'en-IE', 'en-ZA', 'ja'];

/** Returns the abbreviation of a zone, or its offset if it has none. */
function zoneName(at: number, {locale, zone}: DateTerms, offset: number): string {
	if (zone === 0 || zone === 'UTC') {
		return 'UTC';
	}
	const locales = typeof zone === 'string' ? [locale, ...abbreviatingLocales] : [];
	for (const nameLocale of locales) {
		const parts = dateFormat(nameLocale, {timeZone: zone as string, timeZoneName: 'short'})?.formatToParts(at);
		const name = parts?.find(({type}) => type === 'timeZoneName')?.value;
		if (name !== undefined && !/[+\u2212-]/.test(name)) {
			return name;
		}
	}
	return offsetText(offset, '', 0, 0);
}

/** The language and time zone of a message: a BCP 47 tag and an IANA zone. */
export type Place = {readonly locale: string; readonly timezone: string};

const styles = ['short', 'medium', 'long', 'full'] as const;
type Style = (typeof styles)[number];

const decimal = /^-?\d{1,30}(?:\.\d{1,20})?$/;

/** Formats an amount. Returns `undefined` if the amount or the currency is invalid. */
export function formatCurrency({locale}: Place, amount: unknown, code: unknown): string | undefined {
	const value = toDecimal(amount);
	if (value === undefined || typeof code !== 'string' || !/^[a-z]{3}$/i.test(code)) {
		return undefined;
	}
	return currencyFormat(locale, code)?.format(value);
}

/** Formats a moment, without its time if `timeStyle` is `undefined`. Returns `undefined` if an argument is invalid. */
export function formatDate(
	{locale, timezone}: Place,
	moment: unknown,
	dateStyle: unknown,
	timeStyle: unknown,
): string | undefined {
	const parsed = readMoment(moment);
	if (!parsed || !isStyle(dateStyle) || !(timeStyle === undefined || isStyle(timeStyle))) {
		return undefined;
	}
	const timeZone = parsed.isWholeDay ? 'UTC' : timezone;
	return dateFormat(locale, {timeZone, dateStyle, ...(timeStyle && {timeStyle})})?.format(parsed.at);
}

function isStyle(value: unknown): value is Style {
	return styles.includes(value as Style);
}

/** Returns digits as text, so that large amounts do not lose precision as doubles. */
function toDecimal(amount: unknown): Intl.StringNumericLiteral | number | undefined {
	const text = amount instanceof Numeral ? String(amount) : amount;
	if (typeof text === 'string' && decimal.test(text)) {
		return text as Intl.StringNumericLiteral;
	}
	const value = amount instanceof Numeral ? amount.valueOf() : amount;
	return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

type Formatter = Intl.NumberFormat | Intl.DateTimeFormat;

/** Recently used formatters, because an Intl formatter takes about 50 µs to create and 1 µs to use. */
const formatters = new LRUCache<string, {readonly formatter: Formatter | null}>({max: 500});

/** Returns the cached formatter, or `null` if Intl does not support the locale, currency or zone. */
function cachedFormatter<T extends Formatter>(key: string, create: () => T): T | null {
	let entry = formatters.get(key);
	if (!entry) {
		entry = {formatter: createOrNull(create)};
		formatters.set(key, entry);
	}
	return entry.formatter as T | null;
}

function createOrNull<T>(create: () => T): T | null {
	try {
		return create();
	} catch (error) {
		if (error instanceof RangeError) {
			return null;
		}
		throw error;
	}
}

function currencyFormat(locale: string, currency: string): Intl.NumberFormat | null {
	return cachedFormatter(
		`${locale}\n${currency}`,
		() =>
			// An amount that rounds to zero is shown without a sign.
			new Intl.NumberFormat(locale, {style: 'currency', currency, signDisplay: 'negative'}),
	);
}

/** Callers pass `options` in the same order each time, because they are part of the cache key. */
function dateFormat(locale: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat | null {
	return cachedFormatter(`${locale}\n${JSON.stringify(options)}`, () => new Intl.DateTimeFormat(locale, options));
}
