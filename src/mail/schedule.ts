import {dayMs, parseMoment, storeTime} from '../kit/time.ts';

/** How far ahead a message may be scheduled. */
export const maxAheadMs = 30 * dayMs;
/** The minimum time between a message's start and its expiry. */
export const minMs = 60_000;

/** The rule for `sendAt`, as an error message. */
export const sendAtRule = 'must be an RFC 3339 time or a time from now such as +2h, at most 30 days ahead';

/** Parses `sendAt` to the store's form. Returns `null` for a past time (which means now), `undefined` if invalid. */
export function readSendAt(text: string, now: number): string | null | undefined {
	const time = parseMoment(text, now);
	if (time === undefined || time > now + maxAheadMs) {
		return undefined;
	}
	return time > now ? storeTime(time) : null;
}

/** The rule for `expiresAt`, as an error message. */
export const expiresAtRule =
	'must be an RFC 3339 time or a time from now such as +2h, at least a minute after the message may be sent';

/**
 * Parses `expiresAt` to the store's form, or returns `undefined` if it is invalid. `sendAt` is in the same form, or
 * `null` for now.
 */
export function readExpiresAt(text: string, now: number, sendAt: string | null): string | undefined {
	const time = parseMoment(text, now);
	const start = sendAt === null ? now : Date.parse(sendAt);
	return time !== undefined && leavesTime(start, time) ? storeTime(time) : undefined;
}

/** Whether a message that may be sent from one time may expire at the other. In milliseconds. */
export const leavesTime = (from: number, expiresAt: number): boolean => expiresAt >= from + minMs;
