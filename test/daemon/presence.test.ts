import test from 'ava';
import type {Knex} from 'knex';
import {Presence} from '../../src/daemon/peers.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {migrate} from '../../src/store/engine/migrate.ts';
import {recipientClaims, releaseOthers} from '../../src/store/held-claims.ts';
import {beat} from '../../src/store/nodes.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {engines, newLocation, newStore, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {waitFor} from '../helpers/wait.ts';
import {insertDue, insertEndpoint} from '../helpers/webhooks.ts';

const start = Date.UTC(2026, 5, 9);
/** Only the first heartbeat: one that came while a test ages nodes would undo that. */
const noBeats = 3_600_000;

/** Ages nodes: moves back the time when they were last seen, because nodes rely on the server's own clock. */
async function age(store: Store, milliseconds: number, where: {id?: string} = {}): Promise<void> {
	const nodes: Array<{id: string; seen_at: string}> = await store.database('nodes').where(where);
	for (const {id, seen_at} of nodes) {
		await store
			.database('nodes')
			.where({id})
			.update({seen_at: storeTime(Date.parse(seen_at) - milliseconds)});
	}
}

storeTest(
	test,
	'releases the claims of dead nodes: of all others on SQLite, of silent ones on PostgreSQL',
	async (t, store, engine) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['one@a.test', 'two@a.test']);
		const clock = {now: () => start, monotonic: () => 0};
		const presenceOf = (id: string) => {
			const node = {id, host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']};
			const presence = new Presence({
				store,
				node,
				clock,
				beatMs: noBeats,
				onReleased: () => undefined,
				observer: {storeFailed: error => t.fail(String(error))},
			});
			t.teardown(() => presence.end());
			return presence;
		};
		const endpoint = await insertEndpoint(store, workspaceId);
		const [one = '', two = ''] = await insertDue(store, workspaceId, endpoint, 2);
		const deliveryOf: Readonly<Record<string, string>> = {'one@a.test': one, 'two@a.test': two};
		const claimAs = (boot: string, address: string) =>
			store.writer.transaction(async trx => {
				await changeRecipients(trx, all => all.where({address}), {claimed_by: boot});
				await trx('webhook_queue').where({delivery_id: deliveryOf[address]}).update({claimed_by: boot});
			});
		const claims = async () => {
			const recipients = await recipientRows(store.reader).orderBy('address').pluck('claimed_by');
			t.deepEqual(
				await store.reader('webhook_queue').orderBy('delivery_id').pluck('claimed_by'),
				recipients,
				'webhooks too',
			);
			return recipients;
		};

		const [oldBoot, newBoot] = ['boot_old', 'boot_new'];
		await presenceOf(oldBoot).begin();
		await claimAs(oldBoot, 'one@a.test');
		await claimAs(newBoot, 'two@a.test');

		await age(store, 10_000);
		const second = presenceOf(newBoot);
		await second.begin();
		t.deepEqual(
			await claims(),
			[engine === 'sqlite' ? null : oldBoot, newBoot],
			'ten seconds of silence are not death',
		);

		await age(store, 31_000);
		const third = presenceOf(newBoot);
		await third.begin();
		t.deepEqual(await claims(), [null, newBoot]);

		await second.end();
		await third.end();
		t.deepEqual(await claims(), [null, null]);
	},
);

storeTest(test, 'removes the wait reasons of a node’s queues with the node', async (t, store, engine) => {
	const presenceOf = (id: string) => {
		const presence = new Presence({
			store,
			node: {id, host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']},
			clock: {now: () => start, monotonic: () => 0},
			beatMs: noBeats,
			onReleased: () => undefined,
			observer: {storeFailed: error => t.fail(String(error))},
		});
		t.teardown(() => presence.end());
		return presence;
	};
	const queue = {
		destination: 'a.test',
		workspace_id: 'ws_1',
		site: '',
		waits_for: 'pace',
		detail: '',
		updated_at: '',
	};
	const note = (node: string) => store.database('lane_waits').insert({...queue, node});
	const nodes = async () => await store.reader('lane_waits').orderBy('node').pluck('node');

	const [dead, first, second] = [presenceOf('boot_0'), presenceOf('boot_1'), presenceOf('boot_2')];
	await dead.begin();
	await note('boot_0');
	await age(store, 20_000);
	await first.begin();
	await note('boot_1');
	t.deepEqual(await nodes(), engine === 'sqlite' ? ['boot_1'] : ['boot_0', 'boot_1']);
	await age(store, 20_000);
	await second.begin();
	await note('boot_2');
	t.deepEqual(await nodes(), engine === 'sqlite' ? ['boot_2'] : ['boot_1', 'boot_2']);
	await second.end();
	t.deepEqual(await nodes(), engine === 'sqlite' ? [] : ['boot_1']);
});

storeTest(
	test,
	'does not consider nodes dead for silence while the store was unavailable',
	async (t, store, engine) => {
		if (engine === 'sqlite') {
			t.pass('one daemon only');
			return;
		}
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['one@a.test']);
		let monotonic = 0;
		/** When the last heartbeat that was written began. */
		let told = -1;
		let away = false;
		const failures: unknown[] = [];
		async function transaction<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result> {
			if (away) {
				throw new Error('away');
			}
			const at = monotonic;
			const result = await store.agreeing.transaction(work);
			told = at;
			return result;
		}
		const presence = new Presence({
			store: {...store, agreeing: {...store.agreeing, transaction}},
			node: {id: 'boot_mine', host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']},
			clock: {now: () => start, monotonic: () => monotonic},
			beatMs: 20,
			onReleased: () => undefined,
			observer: {storeFailed: error => failures.push(error)},
		});
		t.teardown(() => presence.end());
		const holder = async () => (await recipientRows(store.reader).first('claimed_by')).claimed_by;
		const hasTold = () => told === monotonic;

		await store.database('nodes').insert({
			id: 'boot_theirs',
			host: 'h',
			pid: 2,
			started_at: storeTime(Date.now()),
			seen_at: storeTime(Date.now()),
		});
		await changeRecipients(store.database, all => all, {claimed_by: 'boot_theirs'});
		await presence.begin();

		away = true;
		monotonic += 40_000;
		await age(store, 40_000, {id: 'boot_theirs'});
		await waitFor('a beat that fails', () => failures.length > 0);
		away = false;
		await waitFor('a beat', hasTold);
		t.is(await holder(), 'boot_theirs');

		for (let n = 0; n < 2; n++) {
			monotonic += 14_000;
			await waitFor('another beat', hasTold);
			t.is(await holder(), 'boot_theirs');
		}

		monotonic += 5000;
		await waitFor('the silent one to be given up', async () => (await holder()) === null);
	},
);

test('a node whose clock is an hour off neither considers others dead nor is considered dead', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const store = await newStore(t, 'postgres');
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	const presenceOf = (id: string, skew: number) => {
		const presence = new Presence({
			store,
			node: {id, host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']},
			clock: {now: () => Date.now() + skew, monotonic: () => 0},
			onReleased: () => t.fail(`${id} released claims`),
			observer: {storeFailed: error => t.fail(String(error))},
		});
		t.teardown(() => presence.end());
		return presence;
	};
	const hour = 3_600_000;
	const nodes: ReadonlyArray<readonly [string, number]> = [
		['boot_right', 0],
		['boot_ahead', hour],
		['boot_behind', -hour],
		['boot_last', 0],
	];
	for (const [id, skew] of nodes) {
		await presenceOf(id, skew).begin();
		await changeRecipients(store.database, all => all.whereNull('claimed_by'), {claimed_by: id});
		t.is((await recipientRows(store.reader).first('claimed_by')).claimed_by, 'boot_right', id);
	}
	t.is((await store.reader('nodes')).length, nodes.length);
});

test('releases the claims of the previous daemon on this data folder at once, unless it is alive', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const location = await newLocation(t, 'postgres');
	const before = await openStore(location);
	await migrate(before.database);
	const {workspaceId} = await insertWorkspace(before);
	await insertMessages(before, workspaceId, ['one@a.test']);
	const endpoint = await insertEndpoint(before, workspaceId);
	await insertDue(before, workspaceId, endpoint, 1);
	await before.hold('boot_before');
	await changeRecipients(before.database, all => all, {claimed_by: 'boot_before'});
	await before.database('webhook_queue').update({claimed_by: 'boot_before'});

	const store = await openStore(location);
	t.teardown(() => store.close());
	const holders = async () => [
		await recipientRows(store.reader).pluck('claimed_by'),
		await store.reader('webhook_queue').pluck('claimed_by'),
	];
	async function startAfter(id: string): Promise<void> {
		const presence = new Presence({
			store,
			node: {id, host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']},
			former: 'boot_before',
			clock: systemClock,
			onReleased: () => undefined,
			observer: {storeFailed: error => t.fail(String(error))},
		});
		t.teardown(() => presence.end());
		await presence.begin();
	}
	await startAfter('boot_copy');
	t.deepEqual((await holders())[0], ['boot_before'], 'a copy of the folder of a daemon that lives');

	// Its connections end, like those of a killed process. The server releases their locks a moment later.
	const held = async () => {
		const {rows} = await store.reader.raw(`select from pg_locks where locktype = 'advisory'
			and database = (select oid from pg_database where datname = current_database())`);
		return rows.length;
	};
	const heldByBoth = await held();
	await before.close();
	await waitFor('its name is free', async () => (await held()) < heldByBoth);
	await startAfter('boot_after');
	t.deepEqual(await holders(), [[null], [null]]);
});

test('nine seconds after its start, a node considers a killed node dead, but not a frozen one', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const location = await newLocation(t, 'postgres');
	const [killed, frozen, store] = [await openStore(location), await openStore(location), await openStore(location)];
	t.teardown(() => Promise.all([frozen.close(), store.close()]));
	await migrate(store.database);
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['killed@a.test', 'frozen@a.test']);
	// In the future, so that both count as alive until the test ages them, however slow this machine is.
	const aheadMs = 60_000;
	const seen = storeTime(Date.now() + aheadMs);
	for (const [id, holder] of [
		['boot_killed', killed],
		['boot_frozen', frozen],
	] as const) {
		await holder.hold(id);
		await store.writer.transaction(trx =>
			beat(trx, {id, host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']}, seen),
		);
		const address = `${id.slice(5)}@a.test`;
		await changeRecipients(store.database, all => all.where({address}), {claimed_by: id});
	}
	let monotonic = 0;
	let [released, begun] = [0, 0];
	const presence = new Presence({
		store,
		node: {id: 'boot_mine', host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']},
		clock: {
			now: Date.now,
			monotonic() {
				begun++;
				return monotonic;
			},
		},
		beatMs: 10,
		onReleased: () => {
			released++;
		},
		observer: {storeFailed: error => t.fail(String(error))},
	});
	t.teardown(() => presence.end());
	await presence.begin();
	t.true(presence.hasPeers());
	await killed.close();
	await age(store, aheadMs + 8000, {id: 'boot_killed'});
	await age(store, aheadMs + 8000, {id: 'boot_frozen'});
	// A node that has just started, or was cut off itself, gives others time for a heartbeat.
	const claims = async () => await recipientRows(store.reader).orderBy('address').pluck('claimed_by');
	t.deepEqual(await claims(), ['boot_frozen', 'boot_killed']);
	const nextBeat = async () => {
		const before = begun;
		await waitFor('a beat', () => begun > before);
		await store.agreeing.transaction(async () => undefined); // Behind that of the beat.
	};
	for (const second of [1, 2, 3, 4, 5, 6, 7, 8]) {
		monotonic = second * 1000;
		await nextBeat();
	}
	t.is(released, 0);
	monotonic = 9000;
	await waitFor('its claims are given back', () => released > 0);
	t.deepEqual(await claims(), ['boot_frozen', null]);
	t.deepEqual((await store.reader('nodes').orderBy('id').pluck('id')).includes('boot_killed'), false);
	t.false(presence.hasPeers(), 'the frozen one says nothing either');
});

storeTest(
	test,
	'does not retry a recipient that a report ended during the attempt of a daemon that died',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['ended@a.test', 'tried@a.test'], {due: start});
		await store.writer.transaction(async trx => {
			await changeRecipients(trx, all => all, {claimed_by: 'boot_dead'});
			await changeRecipients(trx, all => all.where({address: 'ended@a.test'}), {
				state: 'complained',
				next_attempt_at: null,
			});
			const now = storeTime(start);
			await releaseOthers(trx, recipientClaims, 'boot_new', now);
			const rows = await recipientRows(trx).orderBy('address').select('claimed_by', 'next_attempt_at');
			t.deepEqual(rows, [
				{claimed_by: null, next_attempt_at: null},
				{claimed_by: null, next_attempt_at: now},
			]);
		});
	},
);

if (engines.includes('postgres')) {
	test('outcomes are written while the heartbeat waits for other nodes', async t => {
		const store = await newStore(t, 'postgres');
		const other = await store.reader.transaction();
		t.teardown(() => (other.isCompleted() ? undefined : other.rollback()));
		await other.raw('lock table nodes, leases in exclusive mode');
		const node = {id: 'boot', host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']};
		const observer = {storeFailed: (error: unknown) => t.fail(String(error))};
		const presence = new Presence({store, node, clock: systemClock, onReleased: () => undefined, observer});
		const begun = presence.begin();
		await waitFor('the node to wait', async () => {
			const waiting = store.reader('pg_stat_activity').whereRaw('datname = current_database()');
			return (await waiting.where({wait_event_type: 'Lock'})).length > 0;
		});
		const {rows} = await store.writer.transaction(trx => trx.raw('select 1 as written'));
		t.deepEqual(rows, [{written: 1}]);
		await other.commit();
		await begun;
		await presence.end();
	});

	test('no heartbeat starts while the previous one waits for the store', async t => {
		const store = await newStore(t, 'postgres');
		const node = {id: 'boot', host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']};
		const observer = {storeFailed: (error: unknown) => t.fail(String(error))};
		let begun = 0;
		const monotonic = () => {
			begun++;
			return 0;
		};
		const clock = {now: Date.now, monotonic};
		const presence = new Presence({store, node, clock, beatMs: 1, onReleased: () => undefined, observer});
		await presence.begin();
		const held = await store.agreeing.transaction(async () => {
			// One may wait behind this transaction already.
			const before = begun;
			for (let n = 0; n < 20; n++) {
				await store.reader.raw('select pg_sleep(0.005)');
			}
			return begun - before;
		});
		t.true(held <= 1, String(held));
		await presence.end();
	});
}
