import {hourMs} from '../kit/time.ts';
import {type Figures, type ReputationLimits, type Span, spans, type Windows} from '../mail/reputation.ts';

export type Kind = 'bounces' | 'complaints';

/** A share of a window that is too high. */
export type Finding = {
	readonly level: 'warn' | 'pause';
	readonly kind: Kind;
	readonly span: Span;
	/** `n` of `of` bounced hard, or complained. */
	readonly n: number;
	readonly of: number;
	readonly share: number;
	/** The share from which on it is too high. */
	readonly limit: number;
};

/** Fewer than these say nothing (R7.2). */
export const minAttempted = 200;
export const minDelivered = 1000;
export const minComplaints = 3;

/** A workspace that was warned of is fine again below this part of the limit: figures waver. */
const fineBelow = 0.8;

const kinds: readonly Kind[] = ['bounces', 'complaints'];

/**
 * What is too high in a workspace's windows; what pauses it comes first. A share pauses only if it is, by the Wilson
 * bound, surely above the level of warnings too: a few bounces of a small mailing are chance.
 */
export function findingsOf(windows: Windows, limits: ReputationLimits): Finding[] {
	const findings = kinds.flatMap(kind => spans.flatMap(span => findingOf(kind, span, windows[span], limits) ?? []));
	return findings.sort((a, b) => Number(b.level === 'pause') - Number(a.level === 'pause'));
}

/** Whether every share that says something is well below the level of warnings. */
export function isCalm(windows: Windows, {warn}: ReputationLimits): boolean {
	return kinds.every(kind =>
		spans.every(span => {
			const {n, of, tells} = countsOf(kind, windows[span]);
			return !tells || n / of < warn[kind] * fineBelow;
		}),
	);
}

function findingOf(kind: Kind, span: Span, figures: Figures, {warn, pause}: ReputationLimits): Finding | null {
	const {n, of, tells} = countsOf(kind, figures);
	const share = of === 0 ? 0 : n / of;
	if (!tells || share < warn[kind]) {
		return null;
	}

	const isSure = share >= pause[kind] && wilsonLowerBound(n, of) > warn[kind];
	const level = isSure ? 'pause' : 'warn';
	return {level, kind, span, n, of, share, limit: isSure ? pause[kind] : warn[kind]};
}

function countsOf(kind: Kind, {attempted, hard, delivered, complained}: Figures) {
	return kind === 'bounces'
		? {n: hard, of: attempted, tells: attempted >= minAttempted}
		: {n: complained, of: delivered, tells: delivered >= minDelivered && complained >= minComplaints};
}

/** The 97.5 % point of the normal distribution: two-sided 95 %. */
const z = 1.959964;

/**
 * The lower bound of Wilson's 95 % interval for the share `hits` of `trials`: the least share that these trials prove.
 * 0 without trials.
 */
export function wilsonLowerBound(hits: number, trials: number): number {
	if (trials <= 0) {
		return 0;
	}

	const share = Math.min(1, hits / trials);
	const centre = share + z ** 2 / (2 * trials);
	const margin = z * Math.sqrt((share * (1 - share)) / trials + z ** 2 / (4 * trials ** 2));
	return Math.max(0, (centre - margin) / (1 + z ** 2 / trials));
}

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

export const spanNames: Readonly<Record<Span, string>> = {day: '24 hours', week: '7 days'};

/** `15%`, `0.35%`: at most two decimals. */
export function percent(share: number): string {
	return `${Number((share * 100).toFixed(2))}%`;
}

/** `30 of 200 bounced in 24 hours (15%, limit 10%)`. */
function findingText({kind, span, n, of, share, limit}: Finding): string {
	const what = kind === 'bounces' ? 'bounced' : 'complained';
	return `${n} of ${of} ${what} in ${spanNames[span]} (${percent(share)}, limit ${percent(limit)})`;
}

/** Of each kind of finding the first. */
export function findingsText(findings: readonly Finding[]): string {
	const first = findings.filter((one, index) => findings.findIndex(({kind}) => kind === one.kind) === index);
	return first.map(findingText).join('; ');
}

/** Why a workspace is paused by its figures; those by hand have the operator's words. */
export function pauseReason(findings: readonly Finding[]): string {
	return `reputation: ${findingsText(findings.filter(({level}) => level === 'pause'))}`;
}
