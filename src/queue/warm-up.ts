import {storeTime} from '../mail/time.ts';
import type {Way} from '../mail/way.ts';

/** A day of a new source: what it sends to a group of sites counts, up to a limit. */
export type WarmUpDay = {
	readonly source: string;
	readonly group: string;
	/** UTC, YYYY-MM-DD. */
	readonly day: string;
	readonly perDay: number;
};

type DailyShare = Pick<NonNullable<Way['warmUp']>, 'source' | 'group' | 'perDay'>;

const dayMs = 86_400_000;

/** What new sources have sent today, as far as this process knows; the store's count is what holds. */
export function createWarmUp() {
	const sent = new Map<string, {day: string; copies: number}>();

	const dayAt = (now: number): string => storeTime(now).slice(0, 10);
	const keyOf = ({source, group}: Pick<DailyShare, 'source' | 'group'>): string => `${source} ${group}`;

	return {
		/** Copies that the source may still send to the group today. */
		left(warmUp: DailyShare, now: number): number {
			const known = sent.get(keyOf(warmUp));
			return warmUp.perDay - (known?.day === dayAt(now) ? known.copies : 0);
		},
		dayOf: ({source, group, perDay}: DailyShare, now: number): WarmUpDay => ({source, group, perDay, day: dayAt(now)}),
		/** The store's count; answers whether the day's share is used up. */
		note(day: WarmUpDay, copies: number): boolean {
			sent.set(keyOf(day), {day: day.day, copies});
			return copies >= day.perDay;
		},
		endOfDay: (now: number): number => (Math.floor(now / dayMs) + 1) * dayMs,
	};
}

export type WarmUp = ReturnType<typeof createWarmUp>;
