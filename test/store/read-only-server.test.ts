import test, {type ExecutionContext} from 'ava';
import pg from 'pg';
import {Presence} from '../../src/daemon/peers.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {migrate} from '../../src/store/engine/migrate.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {waitFor} from '../helpers/wait.ts';

/** A PostgreSQL store with its operator's connection; `null` without PostgreSQL. */
async function prepare(t: ExecutionContext) {
	if (!engines.includes('postgres')) {
		return notRunHere(t, 'no PostgreSQL (npm test starts one)');
	}
	const location = await newLocation(t, 'postgres');
	const url = 'url' in location ? location.url : '';
	const name = new URL(url).pathname.slice(1);
	const operator = new pg.Client(url.replace(`/${name}`, '/postgres'));
	await operator.connect();
	t.teardown(() => operator.end());
	const store = await openStore(location);
	t.teardown(() => store.close());
	await migrate(store.database);
	return {
		store,
		/** Simulates a failover: sessions end, and new ones stay read-only for their lifetime. */
		async makeReadOnly() {
			await operator.query(`alter database ${name} set default_transaction_read_only = on`);
			await operator.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
		},
		makeWritable: async () =>
			void (await operator.query(`alter database ${name} reset default_transaction_read_only`)),
	};
}

const insert = (store: Pick<Store, 'agreeing'>) =>
	store.agreeing.transaction(trx => trx('workspaces').update({locale: 'de'}));

test('stops using sessions opened while the server was read-only once it is writable again', async t => {
	const lab = await prepare(t);
	if (!lab) {
		return;
	}
	const {store} = lab;
	const writes = [
		() => insert(store),
		() => store.writer.transaction(trx => trx('workspaces').update({locale: 'en'})),
		() => store.database('workspaces').update({locale: 'fr'}),
		() => store.reader('workspaces').update({locale: 'fr'}),
	];
	for (let round = 0; round < 8; round++) {
		await lab.makeReadOnly();
		await waitFor('the sessions are read-only', () =>
			insert(store).then(
				() => false,
				({code}) => code === '25006',
			),
		);
		const refused = await Promise.allSettled(writes.map(write => write()));
		for (const result of refused) {
			t.true(result.status === 'fulfilled' || store.dialect.isUnavailable(result.reason));
		}
		await lab.makeWritable();
		// The pool may first hand out a read-only session. The writer retries by itself.
		await t.notThrowsAsync(insert(store), `round ${round}`);
		for (const write of writes) {
			await write().catch(() => undefined);
			await t.notThrowsAsync(write(), `round ${round}`);
		}
	}
});

test('a node reports a failing heartbeat until one succeeds', async t => {
	const lab = await prepare(t);
	if (!lab) {
		return;
	}
	const presence = new Presence({
		store: lab.store,
		node: {id: 'node_1', host: 'h', pid: 1, version: '0.1.0', roles: ['deliver']},
		clock: systemClock,
		beatMs: 20,
		onReleased: () => undefined,
		observer: {storeFailed: () => undefined},
	});
	await presence.begin();
	t.teardown(() => presence.end());
	t.false(presence.isFailing());
	await lab.makeReadOnly();
	await waitFor('the beat fails', () => presence.isFailing());
	await lab.makeWritable();
	await waitFor('it beats again', () => !presence.isFailing());
});
