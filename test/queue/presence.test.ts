import test from 'ava';
import type {Knex} from 'knex';
import {storeTime} from '../../src/mail/time.ts';
import {createPresence} from '../../src/queue/presence.ts';
import {releaseOtherClaims} from '../../src/store/claims.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {waitFor} from '../helpers/wait.ts';
import {insertDue, insertEndpoint} from '../helpers/webhooks.ts';

const start = Date.UTC(2026, 5, 9);

storeTest(
	test,
	'claims of the dead are released: all others on SQLite, the silent ones on PostgreSQL',
	async (t, store, engine) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['one@a.test', 'two@a.test']);
		let time = start;
		const clock = {now: () => time, monotonic: () => 0};
		const presenceOf = (id: string) => {
			const node = {id, host: 'h', pid: 1, roles: ['deliver']};
			const presence = createPresence({
				store,
				node,
				clock,
				onReleased: () => undefined,
				onError: error => t.fail(String(error)),
			});
			t.teardown(() => presence.end());
			return presence;
		};
		const endpoint = await insertEndpoint(store, workspaceId);
		const [one = '', two = ''] = await insertDue(store, workspaceId, endpoint, 2);
		const deliveryOf: Readonly<Record<string, string>> = {'one@a.test': one, 'two@a.test': two};
		const claimAs = (boot: string, address: string) =>
			store.writer.transaction(async trx => {
				await trx('recipients').where({address}).update({claimed_by: boot});
				await trx('webhook_deliveries').where({id: deliveryOf[address]}).update({claimed_by: boot});
			});
		const claims = async () => {
			const copies = await store.reader('recipients').orderBy('address').pluck('claimed_by');
			t.deepEqual(await store.reader('webhook_deliveries').orderBy('id').pluck('claimed_by'), copies, 'webhooks too');
			return copies;
		};

		const [oldBoot, newBoot] = ['boot_old', 'boot_new'];
		await presenceOf(oldBoot).begin();
		await claimAs(oldBoot, 'one@a.test');
		await claimAs(newBoot, 'two@a.test');

		time += 10_000;
		const second = presenceOf(newBoot);
		await second.begin();
		t.deepEqual(
			await claims(),
			[engine === 'sqlite' ? null : oldBoot, newBoot],
			'ten seconds of silence are not death',
		);

		time += 31_000;
		const third = presenceOf(newBoot);
		await third.begin();
		t.deepEqual(await claims(), [null, newBoot]);

		await second.end();
		await third.end();
		t.deepEqual(await claims(), [null, null]);
	},
);

storeTest(test, 'what a node’s lanes wait for goes with it', async (t, store, engine) => {
	let time = start;
	const presenceOf = (id: string) => {
		const presence = createPresence({
			store,
			node: {id, host: 'h', pid: 1, roles: ['deliver']},
			clock: {now: () => time, monotonic: () => 0},
			onReleased: () => undefined,
			onError: error => t.fail(String(error)),
		});
		t.teardown(() => presence.end());
		return presence;
	};
	const lane = {destination: 'a.test', workspace_id: 'ws_1', site: '', waits_for: 'pace', detail: '', updated_at: ''};
	const note = (node: string) => store.database('lane_waits').insert({...lane, node});
	const nodes = async () => await store.reader('lane_waits').orderBy('node').pluck('node');

	const [dead, first, second] = [presenceOf('boot_0'), presenceOf('boot_1'), presenceOf('boot_2')];
	await dead.begin();
	await note('boot_0');
	time += 20_000;
	await first.begin();
	await note('boot_1');
	t.deepEqual(await nodes(), engine === 'sqlite' ? ['boot_1'] : ['boot_0', 'boot_1']);
	time += 20_000;
	await second.begin();
	await note('boot_2');
	t.deepEqual(await nodes(), engine === 'sqlite' ? ['boot_2'] : ['boot_1', 'boot_2']);
	await second.end();
	t.deepEqual(await nodes(), engine === 'sqlite' ? [] : ['boot_1']);
});

storeTest(test, 'after the store was away nobody is taken for dead who could not tell', async (t, store, engine) => {
	if (engine === 'sqlite') {
		t.pass('one daemon only');
		return;
	}
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	let time = start;
	let away = false;
	const failures: unknown[] = [];
	async function transaction<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result> {
		if (away) {
			throw new Error('away');
		}
		return await store.writer.transaction(work);
	}
	const presence = createPresence({
		store: {...store, writer: {...store.writer, transaction}},
		node: {id: 'boot_mine', host: 'h', pid: 1, roles: ['deliver']},
		clock: {now: () => time, monotonic: () => time - start},
		beatMs: 20,
		onReleased: () => undefined,
		onError: error => failures.push(error),
	});
	t.teardown(() => presence.end());
	const holder = async () => (await store.reader('recipients').first('claimed_by')).claimed_by;
	const isSeen = async () => (await store.reader('nodes').where({id: 'boot_mine'}).first()).seen_at === storeTime(time);

	await store.database('nodes').insert({
		id: 'boot_theirs',
		host: 'h',
		pid: 2,
		started_at: storeTime(start),
		seen_at: storeTime(start),
	});
	await store.database('recipients').update({claimed_by: 'boot_theirs'});
	await presence.begin();

	away = true;
	time += 40_000;
	await waitFor('a beat that fails', () => failures.length > 0);
	away = false;
	await waitFor('a beat', isSeen);
	t.is(await holder(), 'boot_theirs');

	for (let n = 0; n < 2; n++) {
		time += 14_000;
		await waitFor('another beat', isSeen);
		t.is(await holder(), 'boot_theirs');
	}

	time += 5000;
	await waitFor('the silent one to be given up', async () => (await holder()) === null);
});

storeTest(
	test,
	'a copy that a report ended during its try is not tried again when its daemon dies',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		await insertMessages(store, workspaceId, ['ended@a.test', 'tried@a.test']);
		await store.writer.transaction(async trx => {
			await trx('recipients').update({claimed_by: 'boot_dead'});
			await trx('recipients').where({address: 'ended@a.test'}).update({state: 'complained', next_attempt_at: null});
			const now = storeTime(start);
			await releaseOtherClaims(trx, 'boot_new', now);
			const rows = await trx('recipients').orderBy('address').select('claimed_by', 'next_attempt_at');
			t.deepEqual(rows, [
				{claimed_by: null, next_attempt_at: null},
				{claimed_by: null, next_attempt_at: now},
			]);
		});
	},
);
