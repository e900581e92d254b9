import {dayMs} from '../kit/time.ts';
import type {Route} from '../mail/route.ts';

/** How a source that is new is made known to the receivers (R8.4; public guides: a small start, doubled daily). */
export type WarmUp = {
	readonly address: string;
	/** The first UTC day that it sends on, `2026-11-01`. */
	readonly start: string;
	/** Mails a day to one provider at which it counts as known; then there is no limit. */
	readonly target: number;
};

export const defaultTarget = 100_000;

const firstDays = [50, 100, 200, 400, 800, 1500, 3000, 5000];
const growth = 1.5;

/** More deferrals or complaints than this on a day, and the next day's share does not grow. */
const mostDeferred = 0.1;
const mostComplained = 0.001;
/** Shares of less than this many say nothing: one deferral of three mails is no 33 %. */
const fewest = 20;

/** How the conversations and the mail of one day ended. */
export type DayFigures = {
	readonly conversations: number;
	readonly deferred: number;
	readonly delivered: number;
	readonly complained: number;
};

/** The UTC day of a moment, `2026-11-21`. */
export function utcDay(milliseconds: number): string {
	return new Date(milliseconds).toISOString().slice(0, 10);
}

/** The UTC days from `start` on that are over on the day `today`; none where it is still to come. */
export function daysBefore(start: string, today: string): string[] {
	const days: string[] = [];
	for (let at = Date.parse(start); at < Date.parse(today); at += dayMs) {
		days.push(utcDay(at));
	}
	return days;
}

/** Whether a day went so badly that the share stays what it was. */
export function isBad({conversations, deferred, delivered, complained}: DayFigures): boolean {
	return (
		(conversations >= fewest && deferred / conversations > mostDeferred) ||
		(delivered >= fewest && complained / delivered > mostComplained)
	);
}

/** Mails that may go to one provider on a day after `grown` days of growth; null: as many as there are. */
export function dailyShare(grown: number, target: number): number | null {
	const last = firstDays.length - 1;
	const share =
		grown <= last
			? (firstDays[grown] as number)
			: Math.floor((firstDays[last] as number) * growth ** Math.min(grown - last, 100));
	return share >= target ? null : share;
}

/**
 * What a new source may send to one provider on the day `today`: 0 before its start, null once it is known. `figures` are
 * those of the days before, since the start; a day that is not there was a good one.
 */
export function shareOf(
	{start, target}: Pick<WarmUp, 'start' | 'target'>,
	today: string,
	figures: ReadonlyMap<string, DayFigures>,
): number | null {
	if (today < start) {
		return 0;
	}
	const grown = daysBefore(start, today).filter(day => {
		const known = figures.get(day);
		return known === undefined || !isBad(known);
	});
	return dailyShare(grown.length, target);
}

/** A day of a new source: what it sends to a group of sites counts, up to a limit. */
export type WarmUpDay = {
	readonly source: string;
	readonly group: string;
	/** UTC, `2026-11-21`. */
	readonly day: string;
	readonly perDay: number;
};

type DailyShare = Pick<NonNullable<Route['warmUp']>, 'source' | 'group' | 'perDay'>;

/** What new sources have sent today, as far as this process knows; the store's count decides. */
export class SentToday {
	readonly #sent = new Map<string, {readonly day: string; readonly recipients: number}>();

	/** Recipients that the source may still send to the group today. */
	left(warmUp: DailyShare, now: number): number {
		const known = this.#sent.get(keyOf(warmUp));
		return warmUp.perDay - (known?.day === utcDay(now) ? known.recipients : 0);
	}

	dayOf({source, group, perDay}: DailyShare, now: number): WarmUpDay {
		return {source, group, perDay, day: utcDay(now)};
	}

	/** Takes over the store's count; answers whether the day's share is used up. */
	note(day: WarmUpDay, recipients: number): boolean {
		this.#sent.set(keyOf(day), {day: day.day, recipients});
		return recipients >= day.perDay;
	}

	endOfDay(now: number): number {
		return (Math.floor(now / dayMs) + 1) * dayMs;
	}
}

function keyOf({source, group}: Pick<DailyShare, 'source' | 'group'>): string {
	return `${source} ${group}`;
}
