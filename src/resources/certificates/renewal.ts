import {createHash} from 'node:crypto';
import {hourMs} from '../../kit/time.ts';
import {type Certificate, type ChallengeType, challengeTypes} from './store.ts';

const minuteMs = 60_000;
const [firstWaitMs, maxWaitMs] = [5 * minuteMs, 12 * hourMs];

/**
 * Returns when to renew a certificate, in milliseconds: at a fixed time within the CA's window, or after two thirds of
 * its lifetime. Returns `null` if it has not been issued.
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
	// Limited, because with a window after its expiry the name would be left without a certificate.
	return Math.min(start + (end - start) * share, until - (until - from) / 10);
}

/** The reason why a certificate that nothing needs is not ordered. Stored and compared, so it must not change. */
export const notAsked = 'no setting and no verified domain asks for it, or it leads elsewhere';

/** The reason why a certificate is not ordered yet. Stored and compared, so it must not change. */
export const overBudget = 'its workspace has had as many new names today as it may';

/** Whether a certificate has been ordered or is due, so that its name counts against the limit of its workspace. */
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

/** Returns the wait after this many failed orders, in milliseconds. */
export function waitAfter(attempts: number): number {
	return Math.min(firstWaitMs * 2 ** Math.min(attempts - 1, 20), maxWaitMs);
}

/** Which of the ports that a CA connects to are served by the daemon: 80 (HTTP) and 443 (HTTPS). */
type Served = {readonly isHttpServed: boolean; readonly isHttpsServed: boolean};

/**
 * Returns the challenge types to try, those of ports that are served first. The first order after a success, or on
 * request, tries all types. Later ones alternate, because CAs limit failed validations (Let's Encrypt allows five per
 * hour).
 */
export function challengesFor(
	attempts: number,
	{isHttpServed, isHttpsServed}: Served,
): readonly [ChallengeType, ...ChallengeType[]] {
	const [http, tls] = challengeTypes;
	// HTTP is always tried, because a proxy may forward port 80.
	if (!isHttpsServed) {
		return [http];
	}
	const [first, second] = isHttpServed ? [http, tls] : [tls, http];
	return attempts === 0 ? [first, second] : [attempts % 2 === 0 ? first : second];
}
