import type {Attempt, AttemptResult, Phase} from '../mail/outcome.ts';
import type {Way} from '../mail/way.ts';
import type {SiteEnd} from '../pace/site.ts';
import {fromSources} from '../pace/site-name.ts';

/** Before the host has taken us in nothing was said of the mail. */
const handshake: ReadonlySet<Phase> = new Set<Phase>(['route', 'connect', 'greeting', 'ehlo', 'starttls', 'auth']);

/** What the end of a try of a mail to `destination` tells of its site; null: nothing, no host was asked. */
export function siteEnd(
	{outcome, attempts}: AttemptResult,
	{site, terms}: Pick<Way, 'site' | 'terms'>,
	destination: string,
): SiteEnd | null {
	const taken = outcome.kind === 'delivered' || outcome.kind === 'relayed';
	const spoke = taken || attempts.some(({code, phase}) => code !== null || !handshake.has(phase));
	const replies = attempts.filter(({code}) => code !== null && code >= 400).map(replyText);
	const about = (kind: SiteEnd['kind'], reason = ''): SiteEnd => ({kind, spoke, replies, reason});
	if (taken) {
		return about('answered');
	}
	const last = attempts.at(-1);
	if (outcome.kind !== 'deferred') {
		return last && spoke ? about('answered') : null;
	}
	if (outcome.category === 'config' && terms.route.kind === 'relay') {
		return about('locked_out', outcome.reason);
	}
	if (!last) {
		return null;
	}
	// Where DNS does not answer for one domain, the hosts of many are not to blame.
	const isShared = terms.route.kind === 'mx' && site !== fromSources(destination, terms.sources);
	const ofHosts = attempts.filter(attempt => !isForbidden(attempt) && !(isShared && attempt.phase === 'route'));
	if (ofHosts.length === 0) {
		return null;
	}
	if (ofHosts.every(({phase}) => handshake.has(phase))) {
		return about('failed', outcome.reason);
	}
	return about(isThrottled(last, outcome.category) ? 'throttled' : 'answered', outcome.reason);
}

/** A domain's MTA-STS or DANE stood in the way: that says nothing of hosts that serve many domains. */
function isForbidden({tlsResult, phase}: Attempt): boolean {
	const demanded = tlsResult !== undefined && tlsResult.policy !== 'no-policy-found' && tlsResult.result !== 'success';
	return demanded && handshake.has(phase);
}

/** It wants less of us (421, 4.7.x but for greylisting), or hung up (RFC 5321 §3.8, R8.2). */
function isThrottled({code, enhanced}: Attempt, category: string): boolean {
	const limits = code === 421 || category === 'rate' || (enhanced?.startsWith('4.7.') ?? false);
	return code === null || (limits && category !== 'greylist');
}

function replyText({code, reply}: Attempt): string {
	return `${code} ${reply}`.replaceAll('\n', ' ');
}
