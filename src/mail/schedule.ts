import {dayMs, parseMoment, storeTime} from '../kit/time.ts';

/** How far ahead a mail may wait for its time. */
export const furthestMs = 30 * dayMs;
/** How long a mail must have between its time and its end. */
export const minMs = 60_000;

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

/** What an `expiresAt` must be. */
export const expiresAtRule =
	'must be an RFC 3339 time or a time from now such as +2h, at least a minute after the mail may be sent';

/**
 * After when no longer to send, in the store's form. `sendAt`: in the same form; null: now. Undefined: it is against
 * `expiresAtRule`.
 */
export function readExpiresAt(text: string, now: number, sendAt: string | null): string | undefined {
	const at = parseMoment(text, now);
	return at !== undefined && leavesTime(sendAt === null ? now : Date.parse(sendAt), at) ? storeTime(at) : undefined;
}

/** Whether a mail that may be sent from the one moment on may expire at the other. Milliseconds. */
export const leavesTime = (from: number, expiresAt: number): boolean => expiresAt >= from + minMs;
