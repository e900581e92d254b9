import test, {type ExecutionContext} from 'ava';
import type {SavedSite} from '../../src/mail/saved-site.ts';
import {
	type NodeTerm,
	readPauses,
	readSites,
	removeShares,
	renewTerm,
	type SiteNote,
	siteWrite,
} from '../../src/store/queue/sites.ts';
import type {Store} from '../../src/store/store.ts';
import {engines, newStore} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';

const termMs = 60_000;
const site = 'mx.example';

/** A PostgreSQL store, which nodes can share. */
async function sharedStore(t: ExecutionContext): Promise<Store | null> {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return null;
	}
	return await newStore(t, 'postgres');
}

const renew = (store: Store, node: string, knows: string | ((terms: readonly NodeTerm[]) => string)) =>
	store.writer.transaction(trx => renewTerm(trx, node, termMs, typeof knows === 'string' ? () => knows : knows));

test('a node publishes the nodes it shares limits with, and reads what the others publish', async t => {
	const store = await sharedStore(t);
	if (!store) {
		return;
	}
	t.deepEqual(await renew(store, 'a', 'a'), [{node: 'a', knows: 'a'}]);
	t.deepEqual(await renew(store, 'b', 'a b'), [
		{node: 'a', knows: 'a'},
		{node: 'b', knows: 'a b'},
	]);
	await renew(store, 'a', terms => terms.map(({node}) => node).join(' '));
	t.deepEqual(await store.reader('lease_terms').orderBy('node').pluck('knows'), ['a b', 'a b']);
	await store.writer.transaction(trx => removeShares(trx, 'a'));
	t.deepEqual(await renew(store, 'b', 'b'), [{node: 'b', knows: 'b'}]);
});

test('removes an expired term by the server’s clock, unless the node is still connected', async t => {
	const store = await sharedStore(t);
	if (!store) {
		return;
	}
	const endAgo = (node: string, ms: number) =>
		store
			.database('lease_terms')
			.where({node})
			.update({until: Date.now() - ms});
	for (const node of ['dead', 'hung', 'self']) {
		await renew(store, node, 'dead hung self');
	}
	await store.hold('hung');
	await endAgo('dead', 1000);
	await endAgo('hung', 1000);
	const nodes = async () => (await renew(store, 'self', 'self')).map(({node}) => node);
	t.deepEqual(await nodes(), ['hung', 'self']);
	await endAgo('hung', 6 * 60_000);
	t.deepEqual(await nodes(), ['self'], 'hosts have ended its sessions');
});

test('concurrent renewals run one after the other', async t => {
	const store = await sharedStore(t);
	if (!store) {
		return;
	}
	const nodes = ['a', 'b', 'c', 'd'];
	// Each one publishes the nodes it finds and itself, so that none is missed.
	const add = (node: string) => (terms: readonly NodeTerm[]) => [...terms.map(term => term.node), node].join(' ');
	const all = await Promise.all(
		nodes.map(node => store.reader.transaction(trx => renewTerm(trx, node, termMs, add(node)))),
	);
	t.deepEqual(all.map(terms => terms.length).sort(), [1, 2, 3, 4]);
});

test('recognizes a node of the previous version, and shows it whether this one holds a share', async t => {
	const store = await sharedStore(t);
	if (!store) {
		return;
	}
	await store.database('lease_terms').insert({node: 'former', until: Date.now() + termMs, alone: 1});
	t.deepEqual(await renew(store, 'new', ''), [
		{node: 'former', knows: null},
		{node: 'new', knows: ''},
	]);
	const alone = () => store.reader('lease_terms').where({node: 'new'}).pluck('alone');
	t.deepEqual(await alone(), [0], 'it has nothing');
	await renew(store, 'new', 'new');
	t.deepEqual(await alone(), [1]);
});

const saved: SavedSite = {
	...{suspendedUntil: null, reason: null, waitsFor: null, advice: null, step: 0, window: 3},
	...{slowUntil: null, slowPerMinute: null, slowConnections: null, slowReason: null, mailsPerSession: null},
};

for (const engine of engines) {
	test(`a node that saves its window does not overwrite a pause saved by another (${engine})`, async t => {
		const store = await newStore(t, engine);
		const note = (one: SavedSite | null, isWindow: boolean): Promise<void> => {
			const row: SiteNote = {site, provider: 'default', saved: one, isWindow, at: '2026-11-21T00:00:00.000Z'};
			return store.writer.submit(siteWrite, [row]);
		};
		const suspendedUntil = Date.parse('2026-11-22T00:00:00Z');
		await note(saved, true);
		t.deepEqual((await readSites(store.reader)).get(site), saved);
		t.is((await readPauses(store.reader)).size, 0);
		await note({...saved, suspendedUntil}, false);
		await note({...saved, window: 5}, true);
		t.deepEqual((await readPauses(store.reader)).get(site), {...saved, suspendedUntil, window: 5});
		await note(null, true);
		t.is((await readPauses(store.reader)).size, 1);
		await note(saved, false);
		t.is((await readPauses(store.reader)).size, 0);
		await note(null, true);
		t.is((await readSites(store.reader)).size, 0);
	});
}
