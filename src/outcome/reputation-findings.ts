import {hourMs} from '../kit/time.ts';
import {type Figures, type ReputationLimits, type Span, spans, type Windows} from '../mail/reputation.ts';

export type Kind = 'bounces' | 'complaints';

/** A rate in a window that is too high. */
export type Finding = {
	readonly level: 'warn' | 'pause';
	readonly kind: Kind;
	readonly span: Span;
	/** `n` of `of` messages bounced hard, or received a complaint. */
	readonly n: number;
	readonly of: number;
	readonly share: number;
	/** The limit that the rate reached. */
	readonly limit: number;
};

/** The sample sizes below which a rate means nothing (R7.2). */
export const minAttempted = 200;
export const minDelivered = 1000;
export const minComplaints = 3;

/** A warning clears below this fraction of the limit, so that fluctuating figures do not repeat it. */
const clearFraction = 0.8;

const kinds: readonly Kind[] = ['bounces', 'complaints'];

/**
 * Returns the rates of a workspace that are too high, with those that pause it first. A rate pauses only if its Wilson
 * lower bound exceeds the warning limit, too: a few bounces of a small mailing may be chance.
 */
export function findFindings(windows: Windows, limits: ReputationLimits): Finding[] {
	const findings = kinds.flatMap(kind => spans.flatMap(span => toFinding(kind, span, windows[span], limits) ?? []));
	return findings.sort((a, b) => Number(b.level === 'pause') - Number(a.level === 'pause'));
}

/** Whether every meaningful rate is well below the warning limit. */
export function isCalm(windows: Windows, {warn}: ReputationLimits): boolean {
	return kinds.every(kind =>
		spans.every(span => {
			const {n, of, isMeaningful} = toCounts(kind, windows[span]);
			return !isMeaningful || n / of < warn[kind] * clearFraction;
		}),
	);
}

function toFinding(kind: Kind, span: Span, figures: Figures, {warn, pause}: ReputationLimits): Finding | null {
	const {n, of, isMeaningful} = toCounts(kind, figures);
	const share = of === 0 ? 0 : n / of;
	if (!isMeaningful || share < warn[kind]) {
		return null;
	}

	const isCertain = share >= pause[kind] && wilsonLowerBound(n, of) > warn[kind];
	const level = isCertain ? 'pause' : 'warn';
	return {level, kind, span, n, of, share, limit: isCertain ? pause[kind] : warn[kind]};
}

function toCounts(kind: Kind, {attempted, hard, delivered, complained}: Figures) {
	return kind === 'bounces'
		? {n: hard, of: attempted, isMeaningful: attempted >= minAttempted}
		: {n: complained, of: delivered, isMeaningful: delivered >= minDelivered && complained >= minComplaints};
}

/** The 97.5 % point of the normal distribution, for a two-sided 95 % interval. */
const z = 1.959964;

/**
 * Returns the lower bound of Wilson's 95 % interval for `hits` out of `trials`: the smallest rate that they prove, or 0
 * without trials.
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
const retainedHours = 8 * 24;

/** Returns the UTC hour of a stored time, which is the key of its row: `2026-11-21T13`. */
export function hourOf(stored: string): string {
	return stored.slice(0, 13);
}

/** Returns the first hour of each window ending now (milliseconds): whole hours, and the current one so far. */
export function windowStarts(now: number): Readonly<Record<Span, string>> {
	return {day: hoursAgo(now, hours.day), week: hoursAgo(now, hours.week)};
}

/** Returns the earliest hour that can still be part of a window. */
export function firstKeptHour(now: number): string {
	return hoursAgo(now, retainedHours);
}

function hoursAgo(now: number, count: number): string {
	return hourOf(new Date(now - count * hourMs).toISOString());
}

export const spanNames: Readonly<Record<Span, string>> = {day: '24 hours', week: '7 days'};

/** Formats with at most two decimals: `15%`, `0.35%`. */
export function percent(share: number): string {
	return `${Number((share * 100).toFixed(2))}%`;
}

/** Returns `30 of 200 bounced in 24 hours (15%, limit 10%)`. */
function findingText({kind, span, n, of, share, limit}: Finding): string {
	const verb = kind === 'bounces' ? 'bounced' : 'complained';
	return `${n} of ${of} ${verb} in ${spanNames[span]} (${percent(share)}, limit ${percent(limit)})`;
}

/** Describes the first finding of each kind. */
export function findingsText(findings: readonly Finding[]): string {
	const firsts = findings.filter(({kind}, index) => findings.findIndex(other => other.kind === kind) === index);
	return firsts.map(findingText).join('; ');
}

/** Returns the reason for an automatic pause. A manual pause has the operator's reason. */
export function pauseReason(findings: readonly Finding[]): string {
	return `reputation: ${findingsText(findings.filter(({level}) => level === 'pause'))}`;
}
