import type {Span} from '../mail/reputation.ts';

const hourMs = 3_600_000;
const hours: Readonly<Record<Span, number>> = {day: 24, week: 168};
const keptHours = 8 * 24;

/** The UTC hour of a stored time, the key of its row: `2026-11-21T13`. */
export function hourOf(stored: string): string {
	return stored.slice(0, 13);
}

/** The first hours of the windows that end now (milliseconds): whole hours, and what has passed of this one. */
export function windowStarts(now: number): Readonly<Record<Span, string>> {
	return {day: hoursAgo(now, hours.day), week: hoursAgo(now, hours.week)};
}

/** Hours before this one are in no window any more. */
export function firstKeptHour(now: number): string {
	return hoursAgo(now, keptHours);
}

function hoursAgo(now: number, count: number): string {
	return hourOf(new Date(now - count * hourMs).toISOString());
}
