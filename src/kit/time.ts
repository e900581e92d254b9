export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/**
 * Returns a time as the store writes it: UTC text of fixed width with milliseconds (`2026-06-09T10:15:30.123Z`), so
 * that text order is time order.
 */
export function storeTime(milliseconds: number): string {
	return new Date(milliseconds).toISOString();
}

/**
 * Converts a stored time to the API's form: `2026-06-09T10:15:30+00:00` (docs/reference/interface.md, Every request).
 */
export function apiTime(stored: string): string {
	return `${stored.slice(0, 19)}+00:00`;
}

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d(?:\.\d+)?)([Zz]|[+-]\d\d:\d\d)?)?$/;
const maxTimeLength = 60;

/**
 * Parses an RFC 3339 date or date-time, checked against the calendar, to milliseconds. Without an offset it is UTC.
 * Returns `undefined` for anything else.
 */
export function parseTime(text: string): number | undefined {
	const match = text.length <= maxTimeLength ? rfc3339.exec(text) : null;
	const [, year, month, day, hour = '00', minute = '00', second = '00', offset = 'Z'] = match ?? [];
	const dayStart = Date.parse(`${year}-${month}-${day}T00:00:00Z`);
	const isDay = !Number.isNaN(dayStart) && new Date(dayStart).getUTCDate() === Number(day);
	const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${offset.toUpperCase()}`);
	return isDay && !Number.isNaN(time) && Number(hour) < 24 ? time : undefined;
}

/** Parses a time from a query string, where an unencoded `+` has become a space. */
export function parseQueryTime(text: string): number | undefined {
	return parseTime(text.replace(/ (?=\d\d:\d\d$)/, '+'));
}

const units: Readonly<Record<string, number>> = {ms: 1, s: 1000, m: 60_000, h: hourMs, d: dayMs};

/** Parses `500ms`, `90s`, `5m`, `4h`, `4d` or plain seconds to milliseconds. Returns `undefined` if it is invalid. */
export function parseDuration(text: string): number | undefined {
	const [, digits, unit = 's'] = /^(\d{1,12})(ms|s|m|h|d)?$/.exec(text) ?? [];
	return digits === undefined ? undefined : Number(digits) * (units[unit] as number);
}

/** Parses `+90m`, `+2h` or `+3d` relative to now, or whatever `parseTime` accepts, to milliseconds. */
export function parseMoment(text: string, now: number): number | undefined {
	return /^\+\d{1,6}[smhd]$/.test(text) ? now + (parseDuration(text.slice(1)) as number) : parseTime(text);
}

/** Writes a duration in its largest whole unit, as `parseDuration` reads it: `90m`, `4d`. */
export function durationText(milliseconds: number): string {
	const [unit, length] = Object.entries(units).findLast(([, length]) => milliseconds % length === 0) as [
		string,
		number,
	];
	return `${milliseconds / length}${unit}`;
}

/** A calendar month in UTC. */
type Month = {
	/** `2026-11`. */
	readonly name: string;
	/** The first moment of the month and of the next one, in milliseconds since the epoch. */
	readonly start: number;
	readonly end: number;
};

export function monthOf(milliseconds: number): Month {
	const date = new Date(milliseconds);
	const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
	return {name: date.toISOString().slice(0, 7), start: Date.UTC(year, month), end: Date.UTC(year, month + 1)};
}
