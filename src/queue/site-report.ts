import type {Moment} from '../pace/saved.ts';
import {connectionsOf} from '../pace/site.ts';
import {inFlightOf, type Site} from './site.ts';

/** How a site is doing; times are wall clock, milliseconds. */
export type SiteReport = {
	readonly site: string;
	readonly provider: string;
	/** Connections that it may have now, and at most. */
	readonly connections: number;
	readonly mostConnections: number;
	/** Copies claimed and not yet settled. */
	readonly inFlight: number;
	readonly suspendedUntil: number | null;
	/** Why it is left alone: after failures, or because a smarthost refuses us. */
	readonly waitsFor: 'suspension' | 'route' | null;
	readonly reason: string | null;
	readonly slowUntil: number | null;
	/** Null: no limit. */
	readonly perMinute: number | null;
	readonly mailsPerSession: number;
};

export function reportSites(sites: Iterable<Site>, now: Moment): SiteReport[] {
	return Array.from(sites, site => {
		const {name, provider, state} = site;
		const wall = (at: number) => Math.round(now.now + at - now.monotonic);
		const connections = connectionsOf(state, now.monotonic);
		return {
			site: name,
			provider,
			connections,
			mostConnections: state.pace.connections,
			inFlight: inFlightOf(site),
			suspendedUntil: state.suspension && wall(state.suspension.until),
			waitsFor: state.suspension?.waitsFor ?? null,
			reason: state.suspension?.reason ?? null,
			slowUntil: state.slow && wall(state.slow.until),
			perMinute: state.bucket?.perMinute ?? null,
			mailsPerSession: state.mailsPerSession,
		};
	});
}
