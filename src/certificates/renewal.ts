import {createHash} from 'node:crypto';
import {hourMs} from '../kit/time.ts';
import {type Certificate, type ChallengeType, challengeTypes} from '../store/certificates.ts';

const minuteMs = 60_000;
const [firstWaitMs, maxWaitMs] = [5 * minuteMs, 12 * hourMs];

/**
 * When a certificate is renewed, milliseconds: at a moment of the CA's window that stays the same, else at two thirds
 * of its life; null: there is none.
 */
export function renewAt(
	row: Pick<Certificate, 'name' | 'not_before' | 'not_after' | 'window_start' | 'window_end'>,
): number | null {
	if (row.not_before === null || row.not_after === null) {
		return null;
	}
	const [from, until] = [Date.parse(row.not_before), Date.parse(row.not_after)];
	if (row.window_start === null || row.window_end === null) {
		return from + (until - from) * (2 / 3);
	}
	const share = createHash('sha256').update(`${row.name} ${row.not_after}`).digest().readUInt32BE() / 2 ** 32;
	const [start, end] = [Date.parse(row.window_start), Date.parse(row.window_end)];
	// A window after the end would leave the name without a certificate.
	return Math.min(start + (end - start) * share, until - (until - from) / 10);
}

/** Why a certificate is not ordered, where nothing is wrong. */
export const notAsked = 'no setting and no verified domain asks for it, or it leads elsewhere';

/** Why it is not ordered yet. */
export const overBudget = 'its workspace has had as many new names today as it may';

/** Whether it has been ordered, or is to be at once: such a name counts as one of its workspace. */
export function isBegun({unused, not_after, tries, taken_until}: Certificate): boolean {
	return unused === null || not_after !== null || tries > 0 || taken_until !== null;
}

export function stateOf(row: Certificate, now: number): 'valid' | 'due' | 'waiting' | 'failed' | 'unused' {
	if (row.unused !== null) {
		return row.unused === overBudget ? 'waiting' : 'unused';
	}
	if (row.fault !== null) {
		return 'failed';
	}
	const at = renewAt(row);
	return at === null ? 'waiting' : at <= now ? 'due' : 'valid';
}

/** How long to wait after this many failed orders, milliseconds. */
export function waitAfter(tries: number): number {
	return Math.min(firstWaitMs * 2 ** Math.min(tries - 1, 20), maxWaitMs);
}

/** What is served at the ports of CAs, as far as is known here: HTTP at 80, and https. */
type Served = {readonly redirects: boolean; readonly https: boolean};

/**
 * By what a name is proved: ports that are open here first. The first order after a success, or for an operator, tries
 * all ways at once; later ones take turns, for a CA limits the proofs that fail (Let's Encrypt allows five an hour).
 */
export function challengesFor(tries: number, {redirects, https}: Served): readonly [ChallengeType, ...ChallengeType[]] {
	const [http, tls] = challengeTypes;
	// A proxy may pass port 80 on, so that HTTP is tried in any case.
	if (!https) {
		return [http];
	}
	const [first, second] = redirects ? [http, tls] : [tls, http];
	return tries === 0 ? [first, second] : [tries % 2 === 0 ? first : second];
}
