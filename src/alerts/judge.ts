import {type AlertKind, alertKinds, type Condition} from '../mail/alert.ts';
import type {KnownCondition} from '../store/alerts.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** A condition that is not seen for this long ends, the first time. */
const calmMs = minuteMs;
/** Each time that it comes again it takes this much longer to end, up to the longest. */
const growth = 4;
const longestCalmMs = 4 * hourMs;
/** After this it begins as if it had never been. */
const forgetMs = 6 * hourMs;
/** Others are to see it before anything is written again. */
const touchMs = 15_000;

/** What is to be written of one condition. */
export type Change =
	| {
			readonly kind: 'seen';
			readonly condition: Condition;
			/** Null: it is new. */
			readonly known: KnownCondition | null;
			/** It begins with this look, for the first time or again. */
			readonly begins: boolean;
			/** Its alerts say so. */
			readonly announced: boolean;
	  }
	| {readonly kind: 'ended'; readonly known: KnownCondition}
	| {readonly kind: 'forgotten'; readonly known: KnownCondition};

type Seen = {
	/** What was looked for with success: what else is known stays as it is. */
	readonly kinds: ReadonlySet<AlertKind>;
	readonly conditions: readonly Condition[];
};

const keyOf = ({kind, subject}: Pick<Condition, 'kind' | 'subject'>) => `${kind} ${subject}`;

/**
 * What is new by a look. A condition is announced once it lasts, and ends once it is not seen for a while: the more often it
 * comes and goes, the longer that is, so that what changes all the time says little.
 * `watchedMs`: for how long this process looks. What needs time to be seen again after a restart does not end before.
 */
export function judge(
	known: readonly KnownCondition[],
	{kinds, conditions}: Seen,
	now: number,
	watchedMs: number,
): readonly Change[] {
	const before = new Map(known.map(one => [keyOf(one), one]));
	const seen = new Set(conditions.map(keyOf));
	const present = conditions.flatMap(condition => changeOf(condition, before.get(keyOf(condition)) ?? null, now));
	const absent = known
		.filter(one => kinds.has(one.kind) && !seen.has(keyOf(one)))
		.flatMap(one => absence(one, now, watchedMs));
	return [...present, ...absent];
}

function changeOf(condition: Condition, known: KnownCondition | null, now: number): readonly Change[] {
	const {holdMs} = alertKinds[condition.kind];
	const begins = known === null || known.ended_at !== null;
	const lastsMs = begins ? 0 : Math.abs(now - Date.parse(known.began_at));
	const announced = (begins || known.announced_at === null) && lastsMs >= holdMs;
	const isOld = known === null || Math.abs(now - Date.parse(known.seen_at)) >= touchMs;
	return begins || announced || isOld ? [{kind: 'seen', condition, known, begins, announced}] : [];
}

function absence(known: KnownCondition, now: number, watchedMs: number): readonly Change[] {
	if (known.ended_at !== null) {
		return now - Date.parse(known.ended_at) >= forgetMs ? [{kind: 'forgotten', known}] : [];
	}
	const calm = Math.min(calmMs * growth ** Math.max(0, known.rings - 1), longestCalmMs);
	// A clock that was set back leaves times in the future.
	if (Math.abs(now - Date.parse(known.seen_at)) < calm || watchedMs < calm) {
		return [];
	}
	return [{kind: known.announced_at === null ? 'forgotten' : 'ended', known}];
}
