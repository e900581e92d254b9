import type {QueueKey, Route} from '../../src/mail/route.ts';
import type {SiteEnd} from '../../src/queue/pace/site-state.ts';
import {routeTo} from '../helpers/routes.ts';
import type {Time} from './time.ts';

export type SimSite = {
	readonly name: string;
	readonly cap: number;
	readonly perMinute: number | null;
	/** Of all mail. */
	readonly share: number;
	readonly route: Route;
	/** What its hosts do now; `throttling`: more than half of its cap is too much for them. */
	mood: 'well' | 'throttling' | 'down';
	/** It was down at some time, and may be left alone since. */
	wasDown: boolean;
	/** Connections of all nodes, idle ones included. */
	open: number;
	maxOpen: number;
	/** Copies that are due and not claimed. */
	waiting: number;
	waitsSince: number;
	maxWait: number;
	delivered: number;
	tries: number;
	/** When mails were claimed, where there is a rate. */
	readonly claimedAt: number[];
	maxPerMinute: number;
};

const minute = 60_000;
/** Every so many sites there is one with a rate. */
const ratedEvery = 50;

/** The sites and the mail for them that all nodes share. `needs`: connections that a mail a second takes. */
export function createWorld(time: Time, count: number, mailsPerSecond: number, needs: number) {
	const weight = (index: number) => 1 / (index + 10);
	const all = Array.from({length: count}, (_, index) => weight(index)).reduce((sum, one) => sum + one, 0);
	const broken: string[] = [];
	const sites = Array.from({length: count}, (_, index): SimSite => {
		const share = weight(index) / all;
		const rated = index % ratedEvery === ratedEvery - 1;
		const cap = Math.max(3, Math.ceil(2 * share * mailsPerSecond * needs));
		const perMinute = rated ? 120 : null;
		const name = `d${index}.example`;
		return {
			...{
				name,
				cap,
				perMinute,
				share,
				mood: 'well',
				wasDown: false,
				open: 0,
				maxOpen: 0,
				waiting: 0,
				waitsSince: 0,
			},
			...{maxWait: 0, delivered: 0, tries: 0, claimedAt: [], maxPerMinute: 0},
			route: routeTo(name, {connections: cap, startConnections: 2, perMinute, failures: 5}),
		};
	});
	const byName = new Map(sites.map(site => [site.name, site]));

	/** The site that a lot between 0 and 1 falls on. */
	const starts = sites.map(() => 0);
	sites.reduce((sum, {share}, index) => {
		starts[index] = sum;
		return sum + share;
	}, 0);
	function pick(lot: number): SimSite {
		let [low, high] = [0, sites.length - 1];
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			[low, high] = (starts[middle] as number) <= lot ? [middle, high] : [low, middle - 1];
		}
		return sites[low] as SimSite;
	}

	function noteWait(site: SimSite): void {
		if (site.waiting > 0 && !site.wasDown && site.perMinute === null) {
			site.maxWait = Math.max(site.maxWait, time.now() - site.waitsSince);
		}
	}

	return {
		sites,
		pick,
		/** What must never be. */
		broken,
		of: (name: string) => byName.get(name) as SimSite,
		keyOf: (site: SimSite): QueueKey => ({destination: site.name, workspaceId: 'ws_1'}),
		arrive(site: SimSite): void {
			if (site.waiting === 0) {
				site.waitsSince = time.now();
			}
			site.waiting++;
		},
		/** So many of those that wait at most. */
		claim(site: SimSite, most: number): number {
			const count = Math.min(most, site.waiting);
			noteWait(site);
			site.waiting -= count;
			site.waitsSince = count > 0 ? time.now() : site.waitsSince;
			if (site.perMinute !== null) {
				const {claimedAt} = site;
				claimedAt.push(...new Array<number>(count).fill(time.now()));
				while ((claimedAt[0] ?? Number.POSITIVE_INFINITY) <= time.now() - minute) {
					claimedAt.shift();
				}
				site.maxPerMinute = Math.max(site.maxPerMinute, claimedAt.length);
			}
			return count;
		},
		opened(site: SimSite): void {
			site.open++;
			site.maxOpen = Math.max(site.maxOpen, site.open);
			if (site.open > site.cap) {
				broken.push(`${Math.round(time.now())} ms: ${site.name} has ${site.open} of ${site.cap}`);
			}
		},
		closed(site: SimSite): void {
			site.open--;
		},
		/** How a try ends there now. */
		end(site: SimSite): SiteEnd {
			site.tries++;
			if (site.mood === 'down') {
				site.wasDown = true;
				return {kind: 'failed', hasReplied: false, replies: [], reason: 'connect ETIMEDOUT'};
			}
			if (site.mood === 'throttling' && site.open > site.cap / 2) {
				return {
					kind: 'throttled',
					hasReplied: true,
					replies: ['421 4.7.0 too busy'],
					reason: '421 4.7.0 too busy',
				};
			}
			site.delivered++;
			return {kind: 'answered', hasReplied: true, replies: [], reason: ''};
		},
	};
}

export type World = ReturnType<typeof createWorld>;
