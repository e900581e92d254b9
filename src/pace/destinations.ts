import {longestWait, type OwnRetry, type RetrySchedule} from '../mail/retry.ts';
import type {Pace, RouteChoice, Terms} from '../mail/route.ts';

/** What holds for one group of destinations: an entry of the destinations file over the defaults. */
export type Provider = {
	/** The name of the entry, `default` where none matches. */
	readonly name: string;
	readonly pace: Pace;
	readonly tls: Terms['tls'];
	/** Null: as the workspace or the settings say. */
	readonly route: RouteChoice | null;
	/** A pool of MAILCTL_SOURCE_POOLS; null: as the workspace says. */
	readonly pool: string | null;
	readonly retry: OwnRetry;
};

/** The destinations file, parsed. Names are lower case, without a final dot. */
export type Destinations = {
	readonly byDomain: ReadonlyMap<string, Provider>;
	readonly byMx: ReadonlyMap<string, Provider>;
	readonly other: Provider;
	/** For every smarthost. */
	readonly smarthost: Pace;
};

/**
 * What holds for a destination: the entry that names the domain, else the one that names its first MX host (in order of
 * preference), each or what it is under, the longest name first; else the default.
 */
export function effectivePace(destinations: Destinations, domain: string, mxHosts: readonly string[]): Provider {
	return domainProvider(destinations, domain) ?? mxProvider(destinations, mxHosts[0] ?? domain);
}

/** The entry that names a domain. */
export function domainProvider({byDomain}: Destinations, domain: string): Provider | undefined {
	return longestMatch(byDomain, domain);
}

/** The entry that names a mail host, else the default. */
export function mxProvider({byMx, other}: Destinations, host: string): Provider {
	return longestMatch(byMx, host) ?? other;
}

/** Whether entries that name mail hosts have rules for retries that others lack: then DNS decides which rules apply. */
export function hostsDecideRetry({byMx, other}: Destinations): boolean {
	return [...byMx.values()].some(({retry}) => retry !== other.retry);
}

/** The longest wait of any schedule in use, milliseconds; `usual` is the settings'. */
export function longestWaitOfAll(destinations: Destinations, usual: RetrySchedule): number {
	return Math.max(...ownRetries(destinations).map(({schedule}) => longestWait(schedule ?? usual)), longestWait(usual));
}

/** The shortest lifetime that a destination has of its own, milliseconds; `usual` if none is shorter. */
export function shortestLifetimeOf(destinations: Destinations, usual: number): number {
	return Math.min(...ownRetries(destinations).map(({lifetime}) => lifetime ?? usual), usual);
}

function ownRetries({byDomain, byMx, other}: Destinations): OwnRetry[] {
	return [other, ...byDomain.values(), ...byMx.values()].map(({retry}) => retry);
}

function longestMatch(entries: ReadonlyMap<string, Provider>, name: string): Provider | undefined {
	for (let rest = name; rest !== ''; rest = rest.slice(rest.indexOf('.') + 1)) {
		const found = entries.get(rest);
		if (found !== undefined || !rest.includes('.')) {
			return found;
		}
	}
	return undefined;
}

/** Longer patterns are refused: no reply needs them. */
export const longestPattern = 200;

/**
 * A pattern of the destinations file: text anywhere in a reply, in any case; `*` is anything between.
 * What comes back matches in time linear in the reply: it is anchored, and each part is looked for once, from where the one
 * before it ended, in a lookahead that the engine never enters again.
 */
export function replyPattern(text: string): RegExp {
	const parts = text.split('*').filter(part => part !== '');
	const sought = parts.map((part, index) => `(?=([^]*?${escaped(part)}))\\${index + 1}`);
	return new RegExp(`^${sought.join('')}`, 'i');
}

function escaped(text: string): string {
	return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

/** The pattern that `replyPattern` was made of, runs of `*` as one. */
export function patternText({source}: RegExp): string {
	const parts = [...source.matchAll(/\(\?=\(\[\^\]\*\?((?:\\.|[^\\)])*)\)\)/g)];
	return parts.map(([, part = '']) => part.replace(/\\(.)/g, '$1')).join('*');
}
