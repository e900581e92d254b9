import {hourMs, storeTime} from '../../kit/time.ts';
import {type AlertKind, alertKinds, type Condition} from '../../mail/alert.ts';
import type {KnownCondition} from './store.ts';

/** A condition that occurs for the first time clears once it has been absent for this long. */
const clearAfterMs = 60_000;
/** Each time the condition returns, that period is multiplied by this factor, up to the maximum. */
const clearGrowth = 4;
const maxClearMs = 4 * hourMs;
/** The history of a condition is forgotten this long after it ended. */
const forgetMs = 6 * hourMs;
/** How often a lasting condition is saved, so that other nodes see it. */
const touchMs = 15_000;

/** The change of one condition. */
export type Change = {
	/** The row as it was read, or `null` if there is none. */
	readonly known: KnownCondition | null;
	/** The new row, or `null` if it is removed. */
	readonly next: KnownCondition | null;
	/** What is reported to operators, if anything. */
	readonly news: News | null;
};

export type News = 'began' | 'ended';

type Reading = {
	/** The kinds that could be read. Conditions of other kinds stay as they are. */
	readonly kinds: ReadonlySet<AlertKind>;
	readonly conditions: readonly Condition[];
};

/**
 * Returns the changes caused by a reading. A condition begins once it has lasted as long as its kind requires, and
 * clears once it has been absent for a while. The more often it comes and goes, the longer that takes, so a flapping
 * condition sends few messages. A process that has just started must also have been reading for that long
 * (`watchedMs`) before it clears anything.
 */
export function judge(
	known: readonly KnownCondition[],
	{kinds, conditions}: Reading,
	now: number,
	watchedMs: number,
): readonly Change[] {
	const rows = new Map(known.map(row => [keyOf(row), row]));
	const present = new Set(conditions.map(keyOf));
	const absent = known.filter(row => kinds.has(row.kind) && !present.has(keyOf(row)));
	return [
		...conditions.flatMap(condition => judgePresent(condition, rows.get(keyOf(condition)) ?? null, now)),
		...absent.flatMap(row => judgeAbsent(row, now, watchedMs)),
	];
}

const keyOf = ({kind, subject}: Pick<Condition, 'kind' | 'subject'>) => `${kind} ${subject}`;

function judgePresent(condition: Condition, known: KnownCondition | null, now: number): readonly Change[] {
	const at = storeTime(now);
	const open = known?.ended_at === null ? known : null;
	const began_at = open?.began_at ?? at;
	const announced_at = open?.announced_at ?? null;
	const shouldAnnounce = announced_at === null && elapsed(began_at, now) >= alertKinds[condition.kind].holdMs;
	if (open !== null && !shouldAnnounce && elapsed(open.seen_at, now) < touchMs) {
		return [];
	}
	const {workspaceId: workspace_id, ...rest} = condition;
	const next: KnownCondition = {
		...rest,
		workspace_id,
		began_at,
		seen_at: at,
		announced_at: shouldAnnounce ? at : announced_at,
		ended_at: null,
		rings: (known?.rings ?? 0) + (shouldAnnounce ? 1 : 0),
	};
	return [{known, next, news: shouldAnnounce ? 'began' : null}];
}

function judgeAbsent(known: KnownCondition, now: number, watchedMs: number): readonly Change[] {
	const removed: Change = {known, next: null, news: null};
	if (known.ended_at !== null) {
		return now - Date.parse(known.ended_at) >= forgetMs ? [removed] : [];
	}
	const clearMs = Math.min(clearAfterMs * clearGrowth ** Math.max(0, known.rings - 1), maxClearMs);
	if (elapsed(known.seen_at, now) < clearMs || watchedMs < clearMs) {
		return [];
	}
	return [known.announced_at === null ? removed : {known, next: {...known, ended_at: storeTime(now)}, news: 'ended'}];
}

/** Absolute, because a clock that was set back leaves times in the future. */
const elapsed = (time: string, now: number) => Math.abs(now - Date.parse(time));
