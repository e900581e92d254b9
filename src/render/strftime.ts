import {dateFormat} from './intl.ts';
import {type Moment, type Zone, zoneOffset} from './moment.ts';

type DateTerms = {
	/** Rules the names of months and days. */
	readonly locale: string;
	readonly zone: Zone;
	/** Is given how many characters will be made; throws where they are too many. */
	readonly use: (characters: number) => void;
};

const dayMs = 86_400_000;
const directive = /%([-_0^#]*)(\d*)(:{1,3}(?=z))?(?:E(?=[cCxXyY])|O(?=[deHkIlmMSuUVwWy]))?(.)/gsu;
const composed: Readonly<Record<string, string>> = {
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

type Shown = {
	readonly moment: Moment;
	/** Its UTC fields are those of the wall clock. */
	readonly wall: Date;
	/** Seconds east of UTC. */
	readonly offset: number;
	readonly terms: DateTerms;
};
/** A number with the width to which it is padded, or a text. */
type Part = {readonly number: number; readonly width: number; readonly pad?: ' '} | {readonly text: string};

/** Writes a moment in the form of Ruby's `Time#strftime`, and `%q`: the day's English ordinal (`st`). */
export function strftime(moment: Moment, format: string, terms: DateTerms): string {
	const zone = moment.wholeDay ? 0 : terms.zone;
	const offset = zoneOffset(moment.at, zone);
	terms.use(format.length);
	return filled(format, {moment, wall: new Date(moment.at + offset * 1000), offset, terms: {...terms, zone}});
}

function filled(format: string, shown: Shown): string {
	return format.replace(
		directive,
		(whole, flags: string, digits: string, colons: string | undefined, conversion: string) => {
			const width = Number(digits);
			shown.terms.use(width);
			const inner = composed[conversion];
			if (inner !== undefined) {
				const text = filled(inner, shown);
				return (flags.includes('^') ? text.toUpperCase() : text).padStart(width, padding(flags, ' '));
			}
			if (conversion === 'z') {
				return offsetText(shown.offset, flags, width, colons?.length ?? 0);
			}
			if (conversion === 'N' || conversion === 'L') {
				const places = width || (conversion === 'N' ? 9 : 3);
				return String(shown.moment.nanoseconds).padStart(9, '0').slice(0, places).padEnd(places, '0');
			}
			const part = partOf(conversion, shown);
			if (part === undefined) {
				return whole;
			}
			if ('number' in part) {
				return numberText(part.number, flags, width || part.width, part.pad ?? '0');
			}
			const text = cased(part.text, conversion, flags);
			return flags.includes('-') ? text : text.padStart(width, padding(flags, ' '));
		},
	);
}

function partOf(conversion: string, {moment, wall, offset, terms}: Shown): Part | undefined {
	const year = wall.getUTCFullYear();
	const hour = wall.getUTCHours();
	const weekday = wall.getUTCDay();
	const half = hour < 12 ? 'AM' : 'PM';
	switch (conversion) {
		case 'Y':
			return yearPart(year);
		case 'C':
			return {number: Math.floor(year / 100), width: 2};
		case 'y':
			return {number: modulo(year, 100), width: 2};
		case 'm':
			return {number: wall.getUTCMonth() + 1, width: 2};
		case 'B':
			return {text: nameIn(terms.locale, wall, {month: 'long'})};
		case 'b':
		case 'h':
			return {text: nameIn(terms.locale, wall, {month: 'short'})};
		case 'd':
			return {number: wall.getUTCDate(), width: 2};
		case 'e':
			return {number: wall.getUTCDate(), width: 2, pad: ' '};
		case 'q':
			return {text: ordinal(wall.getUTCDate())};
		case 'j':
			return {number: dayOfYear(wall) + 1, width: 3};
		case 'H':
			return {number: hour, width: 2};
		case 'k':
			return {number: hour, width: 2, pad: ' '};
		case 'I':
			return {number: hour % 12 || 12, width: 2};
		case 'l':
			return {number: hour % 12 || 12, width: 2, pad: ' '};
		case 'M':
			return {number: wall.getUTCMinutes(), width: 2};
		case 'S':
			return {number: wall.getUTCSeconds(), width: 2};
		case 'p':
			return {text: half};
		case 'P':
			return {text: half.toLowerCase()};
		case 'A':
			return {text: nameIn(terms.locale, wall, {weekday: 'long'})};
		case 'a':
			return {text: nameIn(terms.locale, wall, {weekday: 'short'})};
		case 'u':
			return {number: weekday || 7, width: 1};
		case 'w':
			return {number: weekday, width: 1};
		case 'U':
			return {number: weekOfYear(wall, weekday), width: 2};
		case 'W':
			return {number: weekOfYear(wall, modulo(weekday - 1, 7)), width: 2};
		case 'V':
			return {number: 1 + Math.floor(dayOfYear(isoThursday(wall)) / 7), width: 2};
		case 'G':
			return yearPart(isoThursday(wall).getUTCFullYear());
		case 'g':
			return {number: modulo(isoThursday(wall).getUTCFullYear(), 100), width: 2};
		case 's':
			return {number: Math.floor(moment.at / 1000), width: 1};
		case 'Q':
			return {number: moment.at, width: 1};
		case 'Z':
			return {text: zoneName(moment.at, terms, offset)};
		case 'n':
			return {text: '\n'};
		case 't':
			return {text: '\t'};
		case '%':
			return {text: '%'};
		default:
			return undefined;
	}
}

/** A year before 0 uses one digit for its sign. */
function yearPart(year: number): Part {
	return {number: year, width: year < 0 ? 5 : 4};
}

const modulo = (value: number, by: number): number => ((value % by) + by) % by;

/** From 0. */
function dayOfYear(wall: Date): number {
	const first = new Date(wall);
	first.setUTCMonth(0, 1);
	return Math.round((wall.getTime() - first.getTime()) / dayMs);
}

/** Weeks begin with the day from which `daysIn` counts; the days before the first such day are in week 0. */
function weekOfYear(wall: Date, daysIn: number): number {
	return Math.floor((dayOfYear(wall) + 7 - daysIn) / 7);
}

/** A week of ISO 8601 belongs to the year of its Thursday. */
function isoThursday(wall: Date): Date {
	return new Date(wall.getTime() + (4 - (wall.getUTCDay() || 7)) * dayMs);
}

function ordinal(day: number): string {
	const suffixes = ['th', 'st', 'nd', 'rd'];
	return (day > 10 && day < 14 ? undefined : suffixes[day % 10]) ?? 'th';
}

/** `#` changes the case: that of `AM` and of zones to lower case, all others to upper case. */
function cased(text: string, conversion: string, flags: string): string {
	if (flags.includes('#')) {
		return 'pZ'.includes(conversion) ? text.toLowerCase() : text.toUpperCase();
	}
	return flags.includes('^') ? text.toUpperCase() : text;
}

/** The last of the flags that say how to pad wins. */
function padding(flags: string, usual: string): string {
	const asked = [...flags].findLast(flag => '-0_'.includes(flag));
	return asked === '_' ? ' ' : asked === '0' ? '0' : usual;
}

function numberText(value: number, flags: string, width: number, usual: string): string {
	const pad = padding(flags, usual);
	const sign = value < 0 && pad === '0' ? '-' : '';
	const digits = sign === '' ? String(value) : String(-value);
	return flags.includes('-') ? sign + digits : sign + digits.padStart(width - sign.length, pad);
}

/** `+hhmm`, with one colon `+hh:mm`, with two `+hh:mm:ss`, and with three the shortest of those. */
function offsetText(offset: number, flags: string, width: number, colons: number): string {
	const size = Math.abs(offset);
	const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
	const minutes = two((size % 3600) / 60);
	const seconds = two(size % 60);
	const short = size % 3600 === 0 ? '' : size % 60 === 0 ? `:${minutes}` : `:${minutes}:${seconds}`;
	const tail = [minutes, `:${minutes}`, `:${minutes}:${seconds}`, short][colons] as string;
	const hours = String(Math.floor(size / 3600));
	const sign = offset < 0 ? '-' : '+';
	const room = Math.max(2, width - 1 - tail.length);
	return padding(flags, '0') === ' '
		? (sign + hours).padStart(room + 1) + tail
		: sign + hours.padStart(room, '0') + tail;
}

function nameIn(locale: string, wall: Date, options: Intl.DateTimeFormatOptions): string {
	const form = {...options, timeZone: 'UTC', calendar: 'gregory'};
	return (dateFormat(locale, form) ?? dateFormat('en', form))?.format(wall) ?? '';
}

/** Each of them has the abbreviations that its readers know: `EST`, `CET`, `AEST`, `JST`. */
const abbreviating = ['en-US', 'en-GB', 'en-AU', 'en-IN', 'en-CA', 'en-IE', 'en-ZA', 'ja'];

/** The abbreviation; the offset if the zone has no abbreviation. */
function zoneName(at: number, {locale, zone}: DateTerms, offset: number): string {
	if (zone === 0 || zone === 'UTC') {
		return 'UTC';
	}
	const named = typeof zone === 'string' ? [locale, ...abbreviating] : [];
	for (const reader of named) {
		const parts = dateFormat(reader, {timeZone: zone as string, timeZoneName: 'short'})?.formatToParts(at);
		const name = parts?.find(({type}) => type === 'timeZoneName')?.value;
		if (name !== undefined && !/[+\u2212-]/.test(name)) {
			return name;
		}
	}
	return offsetText(offset, '', 0, 0);
}
