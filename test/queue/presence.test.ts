import test from 'ava';
import {createPresence} from '../../src/queue/presence.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
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
			const node = {id, host: 'h', pid: 1};
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
