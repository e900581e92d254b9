import type {TlsResult} from '../mail/tls-result.ts';
import type {Plan} from './plan.ts';
import type {Route} from './route.ts';
import type {Tls} from './smtp-connection.ts';
import type {Stop} from './stop.ts';
import type {Accepted} from './transaction.ts';

/** The TLS of an attempt for people: `TLSv1.3 TLS_AES_256_GCM_SHA384 verified (MTA-STS)`, null in plain text. */
export function tlsText({tlsPolicy: policy}: Route, tls: Tls | null): string | null {
	if (tls === null) {
		return null;
	}

	const judged = policy?.kind !== 'tlsa' || policy.records.length > 0;
	const verified = judged && tls.failure === null ? 'verified' : 'unverified';
	const by =
		policy === undefined
			? ''
			: policy.kind === 'tlsa'
				? ' (DANE)'
				: policy.enforce
					? ' (MTA-STS)'
					: ' (MTA-STS testing)';
	return `${tls.text} ${verified}${by}`;
}

/** How starting TLS ended, as RFC 8460 counts it; undefined: it was not reached, or not asked for. */
export function tlsResult(
	plan: Pick<Plan, 'route' | 'hello'>,
	tls: Tls | null,
	end: Accepted | Stop,
): TlsResult | undefined {
	const policy = plan.route.tlsPolicy;
	const type = policy?.kind ?? 'no-policy-found';
	if (end.by === 'tls') {
		return {policy: type, result: end.failure};
	}

	if (tls !== null) {
		const wrong = policy?.kind === 'sts' ? (policy.names ? tls.failure : 'validation-failure') : null;
		return {policy: type, result: wrong ?? 'success'};
	}

	const before = end.phase === 'connect' || end.phase === 'greeting' || end.phase === 'ehlo';
	return before || plan.hello === 'none' ? undefined : {policy: type, result: 'starttls-not-supported'};
}
