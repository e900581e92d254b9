import test from 'ava';
import {shareNow} from '../../src/cluster/exchange.ts';
import type {SavedSite, ShareRow} from '../../src/mail/saved-site.ts';
import {exchangeShares, readSites, removeShares, renewAlone, type ShareNews} from '../../src/store/queue/sites.ts';
import type {Store} from '../../src/store/store.ts';
import {engines, newStore} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';

const shareMs = 60_000;
const total = 6;
const site = 'mx.example';

/** A node tells what it wants of a site, and gets its share. */
async function exchange(store: Store, node: string, wants: number, slots = 0, ms = shareMs) {
	let got: ShareRow | null = null;
	const news: ShareNews = await store.writer.transaction(trx =>
		exchangeShares(trx, {
			node,
			shareMs: ms,
			sites: [site],
			decide({isBlocked, nodes}, shares) {
				const others = shares.filter(share => share.node !== node);
				const {may, held} = isBlocked
					? {may: 0, held: slots}
					: shareNow({of: site, total, nodes, mine: {node, wants, slots}, others});
				got = {site, node, slots: held, wants, perMinute: null};
				return {shares: [{...got, slots: Math.max(may, held)}], sites: []};
			},
		}),
	);
	return {...news, slots: (got as ShareRow | null)?.slots ?? null};
}

const rows = (store: Store) => store.reader('leases').orderBy('node').select('node', 'slots');

test('a node alone has all; the next one waits until the first has said what it holds', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const store = await newStore(t, 'postgres');
	t.like(await exchange(store, 'a', 9), {isAlone: true, isBlocked: false, wasLost: true, slots: null});
	t.true(await store.writer.transaction(trx => renewAlone(trx, 'a', shareMs)));
	t.like(await exchange(store, 'b', 9), {isAlone: false, isBlocked: true, slots: 0});
	t.false(await store.writer.transaction(trx => renewAlone(trx, 'a', shareMs)), 'it has to tell');
	t.like(await exchange(store, 'a', 9, 4), {isAlone: false, isBlocked: false, wasLost: false, slots: 4});
	t.like(await exchange(store, 'b', 9), {isBlocked: false, slots: 2});
	t.deepEqual(await rows(store), [
		{node: 'a', slots: 4},
		{node: 'b', slots: 2},
	]);
	await store.writer.transaction(trx => removeShares(trx, 'a'));
	t.like(await exchange(store, 'b', 9, 2), {isAlone: true});
	t.deepEqual(await rows(store), []);
});

test('what a silent node had is free when its lease has run out, by the server’s clock', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const store = await newStore(t, 'postgres');
	await exchange(store, 'a', 0);
	await exchange(store, 'b', 9);
	await exchange(store, 'a', 9, 5);
	await exchange(store, 'b', 9);
	await store.database('lease_terms').where({node: 'a'}).update({until: 0});
	t.like(await exchange(store, 'c', 9), {isAlone: false, slots: 3});
	t.deepEqual(await rows(store), [
		{node: 'b', slots: 1},
		{node: 'c', slots: 3},
	]);
	t.false(await store.writer.transaction(trx => renewAlone(trx, 'a', shareMs)));
	t.like(await exchange(store, 'a', 9, 1), {wasLost: true, slots: 2}, 'it is a new one');
});

test('nodes that exchange at once never get more than there is', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const one = await newStore(t, 'postgres');
	const nodes = ['a', 'b', 'c', 'd'];
	for (const node of [...nodes, ...nodes]) {
		await exchange(one, node, 0);
	}
	const slots = new Map<string, number>();
	for (let round = 0; round < 10; round++) {
		await Promise.all(
			nodes.map(async node => {
				await one.reader.transaction(async trx => {
					await exchangeShares(trx, {
						node,
						shareMs,
						sites: [site],
						decide(sharers, shares) {
							const others = shares.filter(share => share.node !== node);
							const mine = {node, wants: 9, slots: round % 3 === 0 ? 0 : (slots.get(node) ?? 0)};
							const {held} = shareNow({of: site, total, nodes: sharers.nodes, mine, others});
							slots.set(node, held);
							return {shares: [{site, node, slots: held, wants: 9, perMinute: null}], sites: []};
						},
					});
				});
			}),
		);
		const told = await rows(one);
		t.true(told.reduce((sum: number, row: {slots: number}) => sum + row.slots, 0) <= total);
	}
});

test('what nodes agreed on is remembered in the same transaction', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const store = await newStore(t, 'postgres');
	const saved: SavedSite = {
		...{suspendedUntil: null, reason: null, waitsFor: null, advice: null, step: 0, window: 3},
		...{slowUntil: null, slowPerMinute: null, slowConnections: null, mailsPerSession: null},
	};
	await exchange(store, 'a', 0);
	await exchange(store, 'b', 0);
	await store.writer.transaction(trx =>
		exchangeShares(trx, {
			...{node: 'a', shareMs, sites: [site]},
			decide: () => ({shares: [], sites: [{site, provider: 'default', saved, at: '2026-11-21T00:00:00.000Z'}]}),
		}),
	);
	t.deepEqual((await readSites(store.reader)).get(site), saved);
});
