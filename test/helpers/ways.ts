import type {Pace, Way} from '../../src/mail/way.ts';

export const usualPace: Pace = {
	connections: 5,
	startConnections: 5,
	mailsPerSession: 50,
	perMinute: null,
	failures: 5,
	reactions: [],
};

/** A way of a destination to its own site, or to another one, with some of its pace. */
export function wayTo(site: string, pace: Partial<Pace> = {}): Way {
	return {
		site,
		provider: 'default',
		pace: {...usualPace, ...pace},
		terms: {route: {kind: 'mx'}, tls: 'opportunistic', mtaSts: null, sources: [], mailsPerSession: 50},
		warmUp: null,
	};
}
