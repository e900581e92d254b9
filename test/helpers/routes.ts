import {noOwnRetry} from '../../src/mail/retry.ts';
import type {Pace, Route} from '../../src/mail/route.ts';

export const defaultPace: Pace = {
	connections: 5,
	startConnections: 5,
	mailsPerSession: 50,
	perMinute: null,
	failures: 5,
	reactions: [],
};

/** A way of a destination to its own site, or to another one, with some of its pace. */
export function routeTo(site: string, pace: Partial<Pace> = {}): Route {
	return {
		site,
		provider: 'default',
		pace: {...defaultPace, ...pace},
		retry: noOwnRetry,
		terms: {nextHop: {kind: 'mx'}, tls: 'opportunistic', mtaSts: null, sources: [], mailsPerSession: 50},
		warmUp: null,
	};
}
