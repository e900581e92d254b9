import {storeTime} from '../../kit/time.ts';
import {priorityOf} from '../../mail/message.ts';
import {maxAheadMs, minMs, readSendAt} from '../../mail/schedule.ts';
import type {OfEnvelope, Refusal} from './submit.ts';

type ParsedParameters = {readonly ok: true; readonly envelope: OfEnvelope} | ({readonly ok: false} & Refusal);

/** Returns the EHLO keywords for what `readParameters` supports. */
export const extensionsAt = (now: number): readonly string[] => [
	'MT-PRIORITY',
	`FUTURERELEASE ${maxAheadMs / 1000} ${storeTime(now + maxAheadMs).slice(0, 19)}Z`,
	`DELIVERBY ${minMs / 1000}`,
];

/** Reads the parameters of MAIL: MT-PRIORITY (RFC 6710), HOLDFOR and HOLDUNTIL (RFC 4865), BY (RFC 2852). */
export function readParameters(args: Readonly<Record<string, unknown>>, now: number): ParsedParameters {
	const {'MT-PRIORITY': level, HOLDFOR: holdFor, HOLDUNTIL: holdUntil, BY: by} = args;
	if (level !== undefined && !/^(?:0|-?[1-9])$/.test(String(level))) {
		return refused(501, 'MT-PRIORITY must be from -9 to 9');
	}
	if (holdFor !== undefined && holdUntil !== undefined) {
		return refused(501, 'HOLDFOR and HOLDUNTIL cannot be combined');
	}
	const sendAt = readHold(holdFor, holdUntil, now);
	if (sendAt === undefined) {
		return refused(
			501,
			holdFor === undefined
				? 'HOLDUNTIL must be an RFC 3339 time with an offset, at most 30 days ahead'
				: `HOLDFOR must be 1 to ${maxAheadMs / 1000} seconds`,
		);
	}
	const hold = sendAt === null ? {} : {sendAt};
	const envelope = {...hold, ...(level !== undefined && {priority: priorityOf(Number(level))})};
	if (by === undefined) {
		return {ok: true, envelope};
	}
	const [, seconds, mode] = /^([-+]?\d{1,9});([NR])T?$/i.exec(String(by)) ?? [];
	const end = now + Number(seconds) * 1000;
	// Mode N requests a notification, which is not supported (RFC 2852 §4 requires 555 for what cannot be honored).
	if (mode?.toUpperCase() === 'N') {
		return refused(555, 'BY is supported with mode R only: delay notifications are not sent');
	}
	if (mode === undefined || end <= now) {
		return refused(501, 'BY must be a number of seconds and a mode, such as BY=120;R');
	}
	const start = sendAt === null ? now : Date.parse(sendAt);
	if (end < start) {
		return refused(501, 'BY ends before the message is released');
	}
	return end - start < minMs
		? refused(555, `BY must leave ${minMs / 1000} seconds for delivery`)
		: {ok: true, envelope: {...envelope, expiresAt: storeTime(end)}};
}

/** Returns the time in the store's form, `null` if the message is not held, and `undefined` if the value is invalid. */
function readHold(holdFor: unknown, holdUntil: unknown, now: number): string | null | undefined {
	if (holdFor !== undefined) {
		return /^[1-9]\d{0,8}$/.test(String(holdFor))
			? readSendAt(storeTime(now + Number(holdFor) * 1000), now)
			: undefined;
	}
	if (holdUntil === undefined) {
		return null;
	}
	return /(?:z|[-+]\d\d:\d\d)$/i.test(String(holdUntil)) ? readSendAt(String(holdUntil), now) : undefined;
}

function refused(code: 501 | 555, text: string): ParsedParameters {
	return {ok: false, code, text: `5.5.4 ${text}`, reason: 'malformed'};
}
