import type {Pace, PaceReaction} from '../mail/route.ts';
import {longestPattern, replyPattern} from '../pace/reply-pattern.ts';
import {duration} from './parsers.ts';

/** Tells a fault; `path` is where it is. */
export type Tell = (path: string, fault: string) => void;

const mostReactions = 50;
const wait = duration(1000);

/** The reactions of an entry; each text of one that has several is one of its own. */
export function reactions(path: string, value: unknown, tell: Tell): Pace['reactions'] {
	if (value === undefined) {
		return [];
	}

	if (!Array.isArray(value) || value.length > mostReactions) {
		tell(path, `use a list of at most ${mostReactions} reactions`);
		return [];
	}

	return value.flatMap((item: unknown, index) => reactionsOf(`${path}[${index}]`, item, tell));
}

function reactionsOf(path: string, item: unknown, tell: Tell): Pace['reactions'] {
	const {text, note: _, ...what} = isObject(item) ? item : {};
	const texts = Array.isArray(text) ? text : [text];
	const good = texts.filter((each): each is string => typeof each === 'string' && isPattern(each));
	if (good.length < texts.length || texts.length === 0) {
		tell(
			`${path}.text`,
			`use what the reply says, 3 to ${longestPattern} characters, * for anything between, or a list of such`,
		);
	}

	const reaction = reactionOf(path, what, tell);
	return reaction === undefined ? [] : good.map(each => ({text: replyPattern(each), reaction}));
}

function isPattern(text: string): boolean {
	return text.length <= longestPattern && text.replaceAll('*', '').trim().length >= 3;
}

function reactionOf(path: string, what: Readonly<Record<string, unknown>>, tell: Tell): PaceReaction | undefined {
	const [kind = '', ...others] = Object.keys(what);
	const value = what[kind];
	if (others.length === 0) {
		switch (kind) {
			case 'suspend': {
				const forMs = waitOf(`${path}.suspend`, value, tell);
				return forMs === undefined ? undefined : {kind: 'suspend', forMs};
			}

			case 'slow':
				return slowOf(`${path}.slow`, value, tell);
			case 'mailsPerSession': {
				const mails = numberOf(`${path}.mailsPerSession`, value, tell);
				return mails === undefined ? undefined : {kind: 'mails_per_session', mails};
			}
		}
	}

	tell(path, 'use text and one of suspend, slow, mailsPerSession');
	return undefined;
}

function slowOf(path: string, value: unknown, tell: Tell): PaceReaction | undefined {
	const {perMinute, connections = 1, for: time, ...rest} = isObject(value) ? value : {};
	if (Object.keys(rest).length > 0 || !isObject(value)) {
		tell(path, 'use an object of perMinute, for and perhaps connections');
		return undefined;
	}

	const mails = numberOf(`${path}.perMinute`, perMinute, tell);
	const most = numberOf(`${path}.connections`, connections, tell);
	const forMs = waitOf(`${path}.for`, time, tell);
	return mails === undefined || most === undefined || forMs === undefined
		? undefined
		: {kind: 'slow', perMinute: mails, connections: most, forMs};
}

function numberOf(path: string, value: unknown, tell: Tell): number | undefined {
	if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 1_000_000) {
		return value;
	}

	tell(path, 'use a whole number, 1 to 1000000');
	return undefined;
}

function waitOf(path: string, value: unknown, tell: Tell): number | undefined {
	const parsed = typeof value === 'string' ? wait(value, '') : undefined;
	if (parsed?.ok) {
		return parsed.value;
	}

	tell(path, 'use a time such as "15m" or "2h"');
	return undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}
