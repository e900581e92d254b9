import {CliError} from '../../cli/fault.ts';
import type {Session} from '../../cli/session.ts';
import {shortTime} from '../../cli/terminal-text.ts';
import {type Figures, type ReputationLimits, spans} from '../../mail/reputation.ts';
import {
	findFindings,
	minAttempted,
	minComplaints,
	minDelivered,
	percent,
	spanNames,
	windowStarts,
} from '../../outcome/reputation-findings.ts';
import {type ReputationStatus, readStatuses} from '../../store/reputation.ts';

/** A workspace's figures and the configured limits, which are `null` if reputation is not judged. */
type Reputation = {readonly status: ReputationStatus; readonly limits: ReputationLimits | null};

/** Reads the figures of a workspace. Throws bad data (65) if it no longer exists. */
export async function readReputation(session: Session, id: string): Promise<Reputation> {
	const starts = windowStarts(session.tools.clock.now());
	const [status] = await readStatuses(await session.reader(), {starts, ids: [id]});
	if (status === undefined) {
		throw new CliError('data', `the workspace ${id} no longer exists`, 'see mailctl workspace list');
	}
	return {status, limits: session.settings().reputation};
}

/** Returns a reputation for scripts. Rates are 0 to 1, or `null` if there is nothing to divide by. */
export function reputationView({status, limits}: Reputation) {
	const {since, warnedAt, windows} = status;
	return {
		state: stateOf(status, limits),
		since,
		warned_at: warnedAt,
		windows: Object.fromEntries(spans.map(span => [span, windowView(windows[span])])),
		limits: limits && {
			...limits,
			least: {attempted: minAttempted, delivered: minDelivered, complained: minComplaints},
		},
	};
}

/** Formats a reputation for people. */
export function reputationFields({status, limits}: Reputation): Array<readonly [string, string | null]> {
	const {since, windows} = status;
	const state = stateOf(status, limits);
	return [
		['reputation', since === null ? state : `${state}, counted from ${shortTime(since)} UTC`],
		...spans.map(span => [`  ${spanNames[span]}`, figuresText(windows[span])] as const),
		...(limits === null
			? []
			: ([
					['  warns at', levelText(limits.warn)],
					['  pauses at', levelText(limits.pause)],
				] as const)),
	];
}

function stateOf({pausedAt, warnedAt, windows}: ReputationStatus, limits: ReputationLimits | null): string {
	if (pausedAt !== null) {
		return 'paused';
	}
	if (limits === null) {
		return 'not judged';
	}
	return warnedAt !== null || findFindings(windows, limits).length > 0 ? 'warned' : 'fine';
}

function windowView({attempted, hard, delivered, complained}: Figures) {
	return {
		attempted,
		hard,
		bounce_rate: attempted === 0 ? null : hard / attempted,
		delivered,
		complained,
		complaint_rate: delivered === 0 ? null : complained / delivered,
	};
}

function figuresText({attempted, hard, delivered, complained}: Figures): string {
	if (attempted === 0 && delivered === 0) {
		return 'no messages';
	}
	return `${shareText(hard, attempted)} bounced, ${shareText(complained, delivered)} complained`;
}

function shareText(count: number, total: number): string {
	return total === 0 ? `${count} of 0` : `${count} of ${total} (${percent(count / total)})`;
}

function levelText({bounces, complaints}: {readonly bounces: number; readonly complaints: number}): string {
	return `${percent(bounces)} bounced, ${percent(complaints)} complained`;
}
