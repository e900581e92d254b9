import {dayMs, hourMs, storeTime} from '../kit/time.ts';
import type {DkimKey, Domain, DueDomain} from '../store/domains.ts';

/** What a check saw of the records that verify a domain. `unknown`: DNS did not answer, which is no fault of the domain. */
export type Sight = 'shown' | 'absent' | 'unknown';

const minuteMs = 60_000;
/** A domain is given up after this many failures over this long; until then it is checked at least every hour. */
export const patienceMs = 72 * hourMs;
const mostFailures = 3;

type DomainStatus = Pick<Domain, 'state' | 'state_at' | 'verified_at' | 'failures'>;

/** The state after a check (R5.5): pending → verified → degraded → failed, and back by one good check. */
export function nextStatus(now: DomainStatus, sight: Sight, at: string): DomainStatus {
	const {state, state_at, verified_at, failures} = now;
	switch (sight) {
		case 'unknown':
			return {state, state_at, verified_at, failures};
		case 'shown':
			return state === 'verified'
				? {state, state_at, verified_at, failures: 0}
				: {state: 'verified', state_at: at, verified_at: verified_at ?? at, failures: 0};
		case 'absent':
			if (state === 'verified') {
				return {state: 'degraded', state_at: at, verified_at, failures: 1};
			}
			return state !== 'failed' && failures + 1 >= mostFailures && Date.parse(at) - Date.parse(state_at) >= patienceMs
				? {state: 'failed', state_at: at, verified_at: null, failures: failures + 1}
				: {state, state_at, verified_at, failures: failures + 1};
	}
}

/** When the domain is to be checked next, milliseconds; 0 if it never was. */
export function nextCheck(domain: DueDomain, now: number): number {
	if (domain.checked_at === null) {
		return 0;
	}
	const checked = Date.parse(domain.checked_at);
	if (checked > now) {
		return now; // The clock was set back.
	}
	const since = expectedSince(domain);
	return checked + (since === null ? dayMs : pause(checked - Date.parse(since)));
}

/** When the daemon asks DNS next about a domain with these keys, in the store's form. */
export function nextCheckAt(domain: Domain, keys: readonly DkimKey[], now: number): string {
	const pendingAt = keys
		.map(key => (key.seen_at === null && key.retired_at === null ? key.created_at : null))
		.reduce((newest, at) => ((at ?? '') > (newest ?? '') ? at : newest), null);
	return storeTime(Math.max(now, nextCheck({...domain, pending_at: pendingAt}, now)));
}

/** Since when DNS is expected to change: records were shown to be published, or have vanished. */
function expectedSince({state, state_at, return_path_at, pending_at}: DueDomain): string | null {
	const waits = state === 'pending' || state === 'degraded' || (state === 'verified' && return_path_at === null);
	if (!waits || pending_at === null) {
		return waits ? state_at : pending_at;
	}
	return pending_at > state_at ? pending_at : state_at;
}

// Ten times a minute apart, twelve times ten minutes, hourly to 72 hours, then daily.
function pause(ageMs: number): number {
	if (ageMs < 10 * minuteMs) {
		return minuteMs;
	}
	if (ageMs < 130 * minuteMs) {
		return 10 * minuteMs;
	}
	return ageMs < patienceMs ? hourMs : dayMs;
}
