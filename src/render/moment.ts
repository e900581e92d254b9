import {Numeral} from '../kit/exact-json.ts';
import {dateFormat} from './intl.ts';

/** A point of time as a template or its data name it. */
export type Moment = {
	/** Milliseconds since the epoch. */
	readonly at: number;
	/** Nanoseconds of its second. */
	readonly nanoseconds: number;
	/** A day without a time is that day everywhere: moving it between zones would name the day before. */
	readonly wholeDay: boolean;
};

/** A name that Intl knows, or seconds east of UTC. */
export type Zone = string | number;

const firstMillisecondsValue = 100_000_000_000;
const longestText = 100;

const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
// As people write them: `Jun`, `Jun.`, `Sept`, `June`.
const month =
	'(?<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\\.?';
const weekday = '(?:(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:day)?\\.?,?\\s+)?';
const day = '(?<day>\\d{1,2})(?:st|nd|rd|th)?';
const year = '(?<year>\\d{4})';
const time =
	'(?<hour>\\d{1,2})(?::(?<minute>\\d{2})(?::(?<second>\\d{2})(?:[.,](?<fraction>\\d{1,9})\\d*)?)?)?(?:\\s*(?<half>[ap])\\.?m\\.?)?';
// RFC 5322 §4.3 has the American names; `[Europe/Berlin]` and `(CEST)` repeat what the offset says.
const zone =
	'(?:\\s*(?<zone>z|utc?|gmt|[ecmp][sd]t|(?:utc|gmt)?(?<sign>[+-])(?<offsetHour>\\d{2})(?::?(?<offsetMinute>\\d{2}))?)(?:\\s*\\([^()]*\\)|\\[[^[\\]]*\\])?)?';
const clock = `(?:(?:t|,?\\s+(?:at\\s+)?)${time}${zone})?`;

const spellings = [
	`(?<year>\\d{4})(?<separator>[-/.])(?<month>\\d{1,2})(?:\\k<separator>(?<day>\\d{1,2}))?${clock}`,
	`(?<year>\\d{4})(?<month>\\d{2})(?<day>\\d{2})t(?<hour>\\d{2})(?<minute>\\d{2})(?<second>\\d{2})?${zone}`,
	// The slash is American, the dot is not.
	`(?<month>\\d{1,2})/(?<day>\\d{1,2})/${year}${clock}`,
	`(?<day>\\d{1,2})\\.(?<month>\\d{1,2})\\.${year}${clock}`,
	`${weekday}${day}(?:\\s+|-)${month}(?:,?\\s+|-)${year}${clock}`,
	`${weekday}${month}\\s+${day},?\\s+${year}${clock}`,
	// As C's asctime and `date` write it.
	`${weekday}${month}\\s+${day}\\s+${time}${zone}\\s+${year}`,
].map(spelling => new RegExp(`^${spelling}$`, 'i'));

const american: Readonly<Record<string, number>> = {e: -5, c: -6, m: -7, p: -8};

/**
 * Reads `now` and `today`, Unix time in seconds, and the usual spellings of dates: ISO 8601, RFC 5322, `June 9, 2026 5 pm`.
 * Without an offset it is UTC. Numbers that would lie beyond the year 5138 are milliseconds, as JavaScript writes them.
 */
export function readMoment(value: unknown): Moment | undefined {
	const spelling = value instanceof Numeral ? String(value) : value;
	if (typeof value === 'number' || (value instanceof Numeral && /e/i.test(String(value)))) {
		return ofUnixTime(Number(value), undefined);
	}
	const text = typeof spelling === 'string' && spelling.length <= longestText ? spelling.trim() : '';
	if (/^(?:now|today)$/i.test(text)) {
		return momentOf(Date.now(), undefined, false);
	}
	const [, unix, fraction] = /^(-?\d+)(?:\.(\d+))?$/.exec(text) ?? [];
	if (unix !== undefined) {
		return ofUnixTime(Number(text), unix.startsWith('-') ? undefined : fraction);
	}
	for (const spelling of spellings) {
		const fields = spelling.exec(text)?.groups;
		if (fields) {
			return ofFields(fields);
		}
	}
	return undefined;
}

function ofUnixTime(value: number, fraction: string | undefined): Moment | undefined {
	const inSeconds = Math.abs(value) < firstMillisecondsValue;
	return momentOf(inSeconds ? value * 1000 : value, inSeconds ? fraction : undefined, false);
}

function momentOf(milliseconds: number, fraction: string | undefined, wholeDay: boolean): Moment | undefined {
	const at = Math.floor(milliseconds);
	if (!Number.isFinite(new Date(at).getTime())) {
		return undefined;
	}
	const nanoseconds =
		fraction === undefined ? (((at % 1000) + 1000) % 1000) * 1_000_000 : Number(fraction.slice(0, 9).padEnd(9, '0'));
	return {at, nanoseconds, wholeDay};
}

type Fields = Readonly<Record<string, string | undefined>>;

function ofFields(fields: Fields): Moment | undefined {
	const {hour, half, fraction} = fields;
	const number = (name: string, missing = 0) => Number(fields[name] ?? missing);
	const [ofYear, ofMonth, ofDay] = [number('year'), monthOf(fields), number('day', 1)];
	const hours = half === undefined ? number('hour') : (number('hour') % 12) + (/p/i.test(half) ? 12 : 0);
	const [minutes, seconds] = [number('minute'), number('second')];
	const offset = offsetOf(fields);
	const days = new Date(0);
	days.setUTCFullYear(ofYear, ofMonth - 1, ofDay);
	// A calendar would take 30 February for 2 March.
	const exists = days.getUTCMonth() === ofMonth - 1 && days.getUTCDate() === ofDay;
	// 24:00 is the end of the day, and a second of 60 a leap second.
	const ofClock = (hours * 60 + minutes) * 60 + seconds;
	const ticks = hours <= 24 && minutes < 60 && seconds <= 60 && (hours < 24 || ofClock === 86_400);
	// A lone number is no time.
	const hasTime = hour === undefined || half !== undefined || fields.minute !== undefined;
	const twelve = half === undefined || (number('hour') >= 1 && number('hour') <= 12);
	if (!exists || !ticks || !hasTime || !twelve || offset === undefined) {
		return undefined;
	}
	const milliseconds = Number((fraction ?? '').slice(0, 3).padEnd(3, '0'));
	return momentOf(days.getTime() + (ofClock - offset) * 1000 + milliseconds, fraction, hour === undefined);
}

function monthOf({month, name}: Fields): number {
	return name === undefined ? Number(month) : monthNames.indexOf(name.slice(0, 3).toLowerCase()) + 1;
}

/** In seconds; undefined: there is no such offset. */
function offsetOf({zone, sign, offsetHour, offsetMinute}: Fields): number | undefined {
	const hours = Number(offsetHour ?? 0);
	const minutes = Number(offsetMinute ?? 0);
	if (sign !== undefined) {
		return hours < 24 && minutes < 60 ? (sign === '-' ? -60 : 60) * (hours * 60 + minutes) : undefined;
	}
	const [, region = '', kind] = /^([ecmp])([sd])t$/i.exec(zone ?? '') ?? [];
	return kind === undefined ? 0 : 3600 * ((american[region.toLowerCase()] ?? 0) + (/d/i.test(kind) ? 1 : 0));
}

/** A `±hh:mm`, minutes west of UTC as JavaScript counts them, or a name, which Intl must know. */
export function readZone(value: unknown): Zone | undefined {
	if (typeof value === 'number') {
		return Number.isFinite(value) && Math.abs(value) < 24 * 60 ? Math.trunc(-value) * 60 : undefined;
	}
	if (typeof value !== 'string' || value === '') {
		return undefined;
	}
	const offset = /^(?<sign>[+-])(?<offsetHour>\d{2}):?(?<offsetMinute>\d{2})$/.exec(value)?.groups;
	return offset ? offsetOf(offset) : offsetFormat(value) ? value : undefined;
}

const offsetFormat = (timeZone: string) => dateFormat('en-US', {timeZone, timeZoneName: 'longOffset'});

/** Seconds east of UTC at a moment; that of a zone which Intl does not know is 0. */
export function zoneOffset(at: number, zone: Zone): number {
	if (typeof zone === 'number') {
		return zone;
	}
	const [, sign, hours, minutes, seconds = 0] =
		/GMT([+-])(\d{2}):(\d{2})(?::(\d{2}))?$/.exec(offsetFormat(zone)?.format(at) ?? '') ?? [];
	const size = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
	return sign === undefined ? 0 : sign === '-' ? -size : size;
}
