import {dayMs, parseMoment, storeTime} from '../kit/time.ts';

/** How far ahead a mail may wait for its time. */
export const furthestMs = 30 * dayMs;

/** What a `sendAt` must be. */
export const sendAtRule = 'must be an RFC 3339 time or a time from now such as +2h, at most 30 days ahead';

/** When to send, in the store's form; null: now, as for a time that is past. Undefined: it is against `sendAtRule`. */
export function readSendAt(text: string, now: number): string | null | undefined {
	const at = parseMoment(text, now);
	if (at === undefined || at > now + furthestMs) {
		return undefined;
	}
	return at > now ? storeTime(at) : null;
}
