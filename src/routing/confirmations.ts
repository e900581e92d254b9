import {confirmAfterMs} from '../deliver/no-host.ts';
import {cappedWait, type RetrySchedule} from '../mail/retry.ts';
import type {Claimed} from '../store/queue/claims.ts';

/**
 * Whether DNS said at the last try that there is no such domain, or no address, and that was long enough ago for a second
 * such answer to be final. A flush may bring a copy back sooner: then it says nothing.
 */
export function confirmationsOf(
	recipient: Pick<Claimed, 'last_category' | 'state_at'>,
	schedule: RetrySchedule,
	now: number,
): {nxdomainBefore: boolean; noAddressBefore: boolean} {
	const waitedFor = (category: keyof typeof confirmAfterMs): boolean =>
		recipient.last_category === category &&
		now - Date.parse(recipient.state_at) >= cappedWait(confirmAfterMs[category], schedule);
	return {nxdomainBefore: waitedFor('unknown_domain'), noAddressBefore: waitedFor('no_address')};
}
