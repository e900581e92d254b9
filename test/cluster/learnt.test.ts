import test from 'ava';
import {adopt, joined} from '../../src/cluster/learnt.ts';
import type {SavedSite} from '../../src/mail/saved-site.ts';
import {
	allConnectionsOf,
	isProbing,
	newSite,
	type SiteChange,
	type SiteState,
	savedSite,
	tried,
} from '../../src/pace/site-state.ts';
import {usualPace} from '../helpers/routes.ts';

const minute = 60_000;
const longest = 240 * minute;
const pace = {...usualPace, connections: 20, startConnections: 8, failures: 2};
const at = (ms: number) => ({now: ms, monotonic: ms});

/** Nodes that exchange what they learn of a site in turn, through one row. */
function nodes(count: number) {
	let row: SavedSite | null = null;
	const all = Array.from({length: count}, () => ({
		site: newSite(pace),
		base: undefined as SavedSite | null | undefined,
		changes: new Set<SiteChange>(),
	}));
	return {
		all,
		try(index: number, kind: 'answered' | 'throttled' | 'failed' | 'slowed', now: number): void {
			const node = all[index] as (typeof all)[number];
			const replies = kind === 'slowed' ? ['421 4.7.0 IP reputation: temporarily deferred due to user complaints'] : [];
			const end = kind === 'slowed' ? 'throttled' : kind;
			for (const change of tried(
				node.site,
				{kind: end, spoke: kind !== 'failed', replies, reason: 'x'},
				now,
				longest,
			)) {
				node.changes.add(change);
			}
		},
		exchange(now: number): void {
			for (const node of all) {
				const mine = savedSite(node.site, at(now));
				row = joined(
					{mine, base: node.base, changes: node.changes, most: pace.connections},
					row,
					row === null && node === all[0],
				);
				adopt(node.site, mine, row, new Set(), at(now), longest);
				node.base = row;
				node.changes = new Set();
			}
		},
		row: () => row,
	};
}

const windows = (all: ReadonlyArray<{site: SiteState}>, now = 0) => all.map(({site}) => allConnectionsOf(site, now));

test('a throttle that one node sees slows all, and once where several see it', t => {
	const {all, exchange, try: tries} = nodes(3);
	exchange(0);
	tries(0, 'throttled', 0);
	exchange(0);
	exchange(0);
	t.deepEqual(windows(all), [4, 4, 4]);
	for (const index of [0, 1, 2]) {
		tries(index, 'throttled', 0);
	}
	exchange(0);
	exchange(0);
	t.true(windows(all).every(window => window >= 2));
	t.is(new Set(windows(all)).size, 1);
});

test('success of all nodes together makes the window grow', t => {
	const {all, exchange, try: tries} = nodes(2);
	exchange(0);
	for (let round = 0; round < 40; round++) {
		tries(round % 2, 'answered', 0);
		exchange(0);
	}
	exchange(0);
	t.true(
		windows(all).every(window => window >= 10),
		windows(all).join(' '),
	);
	t.true(
		windows(all).every(window => window <= 14),
		windows(all).join(' '),
	);
});

test('a site that one node leaves alone is left alone by all, and all go on once one has been answered', t => {
	const {all, exchange, try: tries, row} = nodes(3);
	exchange(0);
	tries(1, 'failed', 0);
	tries(1, 'failed', 0);
	exchange(0);
	exchange(0);
	t.deepEqual(windows(all), [0, 0, 0]);
	t.is(row()?.step, 1);
	const later = 2 * minute;
	t.true(all.every(({site}) => isProbing(site, later)));
	t.deepEqual(windows(all, later), [1, 1, 1], 'one for all of them');
	tries(2, 'answered', later);
	exchange(later);
	exchange(later);
	t.true(all.every(({site}) => site.backoff === null));
	t.deepEqual(windows(all, later), [8, 8, 8]);
});

test('a reply that slows one node slows all, until that ends', t => {
	const {all, exchange, try: tries} = nodes(2);
	exchange(0);
	tries(0, 'slowed', 0);
	exchange(0);
	exchange(0);
	t.deepEqual(windows(all), [1, 1]);
	t.deepEqual(
		all.map(({site}) => site.slow?.perMinute),
		[1, 1],
	);
	const later = 91 * minute;
	t.true(windows(all, later).every(window => window > 1));
});

test('what happened here while it was agreed on stays', t => {
	const site = newSite(pace);
	const said = savedSite(site, at(0));
	tried(site, {kind: 'failed', spoke: false, replies: [], reason: 'x'}, 0, longest);
	tried(site, {kind: 'failed', spoke: false, replies: [], reason: 'x'}, 0, longest);
	adopt(site, said, {...(said as SavedSite), window: 3}, new Set(['backed_off']), at(0), longest);
	t.truthy(site.backoff);
});
