import test from 'ava';
import type {Outcome} from '../../src/mail/outcome.ts';
import type {Route} from '../../src/mail/route.ts';
import type {SiteChange} from '../../src/queue/pace/site-state.ts';
import type {Claimed} from '../../src/store/queue/claims.ts';
import {readRecipientFacts} from '../../src/store/queue/queue-summary.ts';
import {readSites} from '../../src/store/queue/sites.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {routeTo} from '../helpers/routes.ts';
import {now, resultOf, schedulerOf} from '../helpers/scheduler.ts';
import {clearOfMidnight, waitFor} from '../helpers/wait.ts';

const hour = 3_600_000;
const many = (count: number, domain: string) => Array.from({length: count}, (_, index) => `u${index}@${domain}`);
const retry = (waits: number[], lifetime = hour) => ({schedule: {waits, repeatLast: true}, lifetime});
const waits = (store: Store) => store.reader('lane_waits').orderBy('destination');
const relayRoute = (name: string): Route => {
	const route = routeTo(name, {connections: 8, startConnections: 8});
	return {...route, terms: {...route.terms, nextHop: {kind: 'relay', relays: [], acceptMeans: 'sent'}}};
};

/** No mail server responded. */
const silence = (recipient: Claimed) => ({
	...resultOf(recipient, {kind: 'deferred', category: 'network', reason: 'connect ETIMEDOUT'} satisfies Outcome),
	sentAt: null,
	attempts: [
		{
			at: now(),
			host: 'mx.test',
			ip: '127.0.0.1',
			tls: null,
			phase: 'connect' as const,
			code: null,
			enhanced: null,
			reply: 'x',
			ms: 1,
			dialogue: null,
		},
	],
});

storeTest(test, 'delays mail of a workspace behind another’s backlog only by what is in progress', async (t, store) => {
	const big = await insertWorkspace(store, 'big');
	const small = await insertWorkspace(store, 'small');
	await insertMessages(store, big.workspaceId, many(3000, 'a.test'), {due: Date.now() - 60_000});
	const order: string[] = [];
	let acceptedAt = -1;
	const {scheduler, recorded} = schedulerOf(
		store,
		async recipient => {
			order.push(recipient.workspace_id);
			await new Promise(resolve => setTimeout(resolve, 2));
			return resultOf(recipient, {kind: 'delivered'});
		},
		{routeOf: async () => relayRoute('relay')},
	);
	await scheduler.start();
	await waitFor('the backlog to run', () => order.length > 300);
	await insertMessages(store, small.workspaceId, ['code@a.test']);
	acceptedAt = order.length;
	scheduler.arriving([{destination: 'a.test', workspaceId: small.workspaceId}]);
	await waitFor('the code', () => recorded.includes('code@a.test'));
	const before = order.indexOf(small.workspaceId) - acceptedAt;
	const stopped = scheduler.stop();
	await stopped;
	t.true(before <= 2 * 8 * 13, `${before} went before it`);
});

storeTest(
	test,
	'spends at most one attempt per recipient on a dead provider, even after a restart',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, many(50, 'dead.test'));
		const tries: string[] = [];
		const options = {
			routeOf: async () => routeTo('mx.dead.test', {failures: 3, startConnections: 2}),
			retry: () => retry([hour]),
		};
		const first = schedulerOf(
			store,
			async recipient => {
				tries.push(recipient.id);
				return silence(recipient);
			},
			options,
		);
		await first.scheduler.start();
		await waitFor('the backoff', async () => (await readSites(store.reader)).get('mx.dead.test') !== undefined);
		// A row written just before may still say that it waits for capacity.
		const wait = await waitFor('what it waits for', async () => {
			const [row] = await waits(store);
			return row?.waits_for === 'suspension' && row;
		});
		t.like(wait, {destination: 'dead.test', workspace_id: workspaceId, site: 'mx.dead.test'});
		t.deepEqual(JSON.parse(wait.detail), {reply: 'connect ETIMEDOUT', probing: false});
		t.true(Date.parse(wait.until) > Date.now());
		await first.scheduler.stop();
		t.true(tries.length >= 3 && tries.length <= 5, `${tries.length} tries`);
		t.is(new Set(tries).size, tries.length);
		t.like(first.scheduler.sites()[0], {site: 'mx.dead.test', connections: 0, waitsFor: 'suspension', inFlight: 0});

		const remembered = await readSites(store.reader);
		t.like(remembered.get('mx.dead.test'), {step: 1, window: 1, waitsFor: 'suspension'});
		const again: string[] = [];
		const second = schedulerOf(
			store,
			async recipient => {
				again.push(recipient.address);
				return resultOf(recipient, {kind: 'delivered'});
			},
			{
				...options,
				remembered: site => remembered.get(site),
				routeOf: async ({destination}) => routeTo(`mx.${destination}`, {failures: 3}),
			},
		);
		await insertMessages(store, workspaceId, ['one@well.test']);
		await second.scheduler.start();
		await waitFor('the other mail', () => second.recorded.length === 1);
		await second.scheduler.stop();
		t.deepEqual(again, ['one@well.test']);
	},
);

storeTest(test, 'reports a suspended provider even while all of its mail is due later', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, many(3, 'dead.test'));
	const {scheduler} = schedulerOf(store, async recipient => silence(recipient), {
		routeOf: async () => routeTo('mx.dead.test', {failures: 3, startConnections: 3}),
		retry: () => retry([hour]),
	});
	await scheduler.start();
	// A row written just before may still say that it waits for capacity.
	await waitFor('what it waits for', async () => (await waits(store))[0]?.waits_for === 'suspension');
	t.like((await waits(store))[0], {site: 'mx.dead.test'});
	const ids: string[] = await store.reader('recipients').pluck('id');
	for (const recipient of await readRecipientFacts(store.reader, ids)) {
		t.is(recipient.attempts, 1);
		t.true((recipient.next_attempt_at ?? '') > now(), 'due later');
		t.true((recipient.site_suspended_until ?? '') > now());
	}
	await scheduler.stop();
});

storeTest(test, 'resumes a provider when its probe is accepted', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, many(20, 'a.test'));
	let dead = true;
	const changes: SiteChange[] = [];
	const {scheduler} = schedulerOf(
		store,
		async recipient => (dead ? silence(recipient) : resultOf(recipient, {kind: 'delivered'})),
		{
			routeOf: async () => routeTo('a.test', {failures: 2, startConnections: 2}),
			retry: () => retry([300]),
			observer: {siteChanged: (_site, more) => changes.push(...more)},
		},
	);
	await scheduler.start();
	await waitFor('three backoffs', () => changes.filter(change => change === 'backed_off').length >= 3);
	dead = false;
	await waitFor('all', async () => (await recipientRows(store.reader).where({state: 'delivered'})).length === 20);
	t.true(changes.includes('resumed'));
	await waitFor('no waits', async () => (await waits(store)).length === 0);
	await scheduler.stop();
});

storeTest(
	test,
	'stops the route of a relay that rejects us, without counting attempts or bouncing anything',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, [...many(20, 'a.test'), 'one@direct.test'], {due: Date.now() - hour});
		let wrongPassword = true;
		let tries = 0;
		const changes: SiteChange[] = [];
		const {scheduler, recorded} = schedulerOf(
			store,
			async recipient => {
				if (recipient.destination === 'a.test' && wrongPassword) {
					tries++;
					return {
						...resultOf(recipient, {
							kind: 'deferred',
							category: 'config',
							reason: '535 5.7.8 bad password',
						}),
						sentAt: null,
					};
				}
				return resultOf(recipient, {kind: 'delivered'});
			},
			{
				routeOf: async ({destination}) =>
					destination === 'a.test' ? relayRoute('smarthost') : routeTo(destination),
				// Anything counted as an attempt would be the last one, a minute before the end.
				retry: () => retry([500], hour + 59_000),
				observer: {siteChanged: (_site, more) => changes.push(...more)},
			},
		);
		await scheduler.start();
		await waitFor('the direct mail', () => recorded.includes('one@direct.test'));
		await waitFor('two probes', () => changes.filter(change => change === 'backed_off').length >= 3);
		t.is(changes.filter(change => change === 'route_stopped').length, 1);
		t.true(tries <= 8 + 3, 'one connection each, then one copy each time');
		const rows = await recipientRows(store.reader).where({destination: 'a.test'});
		t.true(rows.every(row => row.attempts === 0 && row.next_attempt_at !== null));
		t.true(rows.some(row => row.last_category === 'config' && row.last_reply === '535 5.7.8 bad password'));
		wrongPassword = false;
		await waitFor('all', async () => (await recipientRows(store.reader).where({state: 'delivered'})).length === 21);
		t.is(changes.filter(change => change === 'route_resumed').length, 1);
		await scheduler.stop();
		t.is((await store.reader('events').where({type: 'bounced'})).length, 0);
	},
);

storeTest(test, 'does not claim a destination that an operator suspended until it is resumed', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await store.writer.transaction(trx =>
		trx('suspensions').insert({destination: 'a.test', reason: 'asked', created_at: now()}),
	);
	await insertMessages(store, workspaceId, ['one@a.test', 'one@b.test']);
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}));
	await scheduler.start();
	await waitFor('the other', () => recorded.length === 1);
	await waitFor('what it waits for', async () => (await waits(store))[0]?.waits_for === 'operator');
	t.deepEqual(recorded, ['one@b.test']);
	await store.writer.transaction(trx => trx('suspensions').delete());
	await scheduler.rescan();
	await waitFor('the mail', () => recorded.length === 2);
	await waitFor('no waits', async () => (await waits(store)).length === 0);
	await scheduler.stop();
});

storeTest(test, 'enforces the daily limit of a new source across restarts and nodes', async (t, store) => {
	await clearOfMidnight();
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, [...many(20, 'a.test'), ...many(20, 'b.test')]);
	const warm: Route['warmUp'] = {source: '192.0.2.1', group: 'big', perDay: 7, overflow: null};
	const routeOf = async ({destination}: {destination: string}) => ({...routeTo(destination), warmUp: warm});
	const nodes = [1, 2].map(() =>
		schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {routeOf}),
	);
	const sent = () => nodes.reduce((sum, {recorded}) => sum + recorded.length, 0);
	await Promise.all(nodes.map(({scheduler}) => scheduler.start()));
	await waitFor('the share', () => sent() === 7);
	await waitFor('what the rest waits for', async () => {
		const rows = await waits(store);
		const destinations = new Set(rows.map(row => row.destination));
		return destinations.size === 2 && rows.every(row => row.waits_for === 'warm_up');
	});
	t.deepEqual(JSON.parse((await waits(store))[0].detail), {source: '192.0.2.1', group: 'big', perDay: 7});
	await Promise.all(nodes.map(({scheduler}) => scheduler.stop()));
	t.is(sent(), 7);

	const third = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		routeOf: async ({destination}) => ({
			...routeTo(destination),
			warmUp: {...warm, overflow: routeTo('relay')},
		}),
	});
	await third.scheduler.start();
	await waitFor('the overflow', () => third.recorded.length === 33);
	await third.scheduler.stop();
	t.like(await store.reader('warmup_days').first(), {source: '192.0.2.1', provider: 'big', n: 7});
});

storeTest(test, 'does not query mail of a paused workspace and held mail over and over', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const paused = await insertWorkspace(store, 'paused');
	await insertMessages(store, workspaceId, ['one@a.test']);
	await insertMessages(store, paused.workspaceId, ['two@a.test']);
	await store.writer.transaction(async trx => {
		await changeRecipients(trx, all => all.where({address: 'one@a.test'}), {held_at: now()});
		await trx('workspaces').where({id: paused.workspaceId}).update({paused_at: now(), pause_reason: 'test'});
	});
	let claims = 0;
	const {writer} = store;
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		writer: {
			...writer,
			submit(write, item) {
				claims += write.name === 'claim' ? 1 : 0;
				return writer.submit(write, item);
			},
		},
	});
	await scheduler.start();
	scheduler.arriving([
		{destination: 'a.test', workspaceId},
		{destination: 'a.test', workspaceId: paused.workspaceId},
	]);
	await insertMessages(store, workspaceId, ['three@b.test']);
	scheduler.arriving([{destination: 'b.test', workspaceId}]);
	await waitFor('the other mail', () => recorded.length === 1);
	await scheduler.stop();
	t.deepEqual(recorded, ['three@b.test']);
	t.true(claims <= 4, `${claims} claims`);
});
