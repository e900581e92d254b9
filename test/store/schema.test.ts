import {existsSync, readFileSync, statSync, truncateSync, writeFileSync} from 'node:fs';
import process from 'node:process';
import test from 'ava';
import {up} from '../../migrations/047_acme_directories.ts';
import {migrations} from '../../migrations/index.ts';
import {ConfigError} from '../../src/config/config-error.ts';
import {storeTime} from '../../src/kit/time.ts';
import {refuseBesideOthers} from '../../src/store/data-folder/open.ts';
import {judgeSchema, migrate, schemaName, schemaState} from '../../src/store/engine/migrate.ts';
import {openStore, openWriter, type Store} from '../../src/store/store.ts';
import {type Engine, engines, newLocation, newStore, storeTest} from '../helpers/databases.ts';
import {fillFormer, formerSchema, makeTooOld} from '../helpers/former-store.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {waitFor} from '../helpers/wait.ts';

/** The schema as text in a fixed order, so that the effect of a changed migration shows in the diff. */
async function dumpOf(store: Store, engine: Engine): Promise<string> {
	if (engine === 'sqlite') {
		const rows: Array<{sql: string}> = await store
			.reader('sqlite_master')
			.select('sql')
			.whereNotNull('sql')
			.whereNot('name', 'like', 'sqlite_%')
			.orderBy(['tbl_name', 'type', 'name']);
		return `${rows.map(({sql}) => `${sql};`).join('\n')}\n`
			.replaceAll('`', '')
			.replaceAll(/, (?=[a-z_]+ )/g, ',\n  ');
	}
	const columns = await store
		.reader('information_schema.columns')
		.select('table_name', 'column_name', 'data_type', 'collation_name', 'is_nullable', 'column_default')
		.where({table_schema: 'public'})
		.orderBy(['table_name', 'ordinal_position']);
	const constraints =
		await store.reader.raw(`select conrelid::regclass::text as name, pg_get_constraintdef(oid) as def from pg_constraint
			where connamespace = 'public'::regnamespace and contype in ('p', 'u', 'f') order by 1, 2`);
	const indexes = await store
		.reader('pg_indexes')
		.select('indexdef')
		.where({schemaname: 'public'})
		.orderBy('indexname');
	return [
		...columns.map(
			column =>
				`${column.table_name}.${column.column_name} ${column.data_type}${column.collation_name ? ` ${column.collation_name}` : ''}${
					column.is_nullable === 'NO' ? ' not null' : ''
				}${column.column_default === null ? '' : ` default ${column.column_default}`}`,
		),
		...constraints.rows.map((row: {name: string; def: string}) => `${row.name}: ${row.def}`),
		...indexes.map(index => index.indexdef),
		'',
	].join('\n');
}

storeTest(test, 'the committed dump matches the schema that the migrations create', async (t, store, engine) => {
	const file = `test/schema.${engine}.sql`;
	const dump = await dumpOf(store, engine);
	if (process.env.UPDATE_GOLDEN) {
		writeFileSync(file, dump);
	}
	t.is(dump, readFileSync(file, 'utf8'), `Run again with UPDATE_GOLDEN=1 and review the change of ${file}.`);
});

for (const engine of engines) {
	test(`tells an empty, a current, an older and a newer schema apart (${engine})`, async t => {
		const store = await openStore(await newLocation(t, engine));
		t.teardown(() => store.close());
		t.is(await schemaState(store.database), 'empty');
		t.deepEqual(
			await migrate(store.database),
			migrations.map(([name]) => name),
		);
		t.is(await schemaState(store.database), 'current');
		t.is(await schemaName(store.database), migrations.at(-1)?.[0]);
		t.deepEqual(await migrate(store.database), []);
		await store
			.database('migrations')
			.where({name: migrations.at(-1)?.[0]})
			.delete();
		t.is(await schemaState(store.database), 'older');
		const future = (values: object) => store.database('migrations').where({name: '999_future'}).update(values);
		await store.database('migrations').insert({name: '999_future', applied_at: '', effect: 'additive'});
		t.is(await schemaState(store.database), 'newer', 'something of ours is missing');
		await store.database('migrations').insert({name: migrations.at(-1)?.[0], applied_at: ''});
		t.is(await schemaState(store.database), 'current', 'what a newer program only added is not in the way');
		await future({effect: 'breaking'});
		t.is(await schemaState(store.database), 'newer');
		await future({effect: null});
		t.is(await schemaState(store.database), 'newer');
		t.is(await schemaName(store.database), '999_future');
		t.is(judgeSchema('001_workspaces'), 'tooOld');
		t.is(judgeSchema(formerSchema), 'known');
		t.is(judgeSchema(migrations[0]?.[0] ?? ''), 'known');
		t.is(judgeSchema('999_future'), 'newer');
	});
}

for (const engine of engines) {
	// Serial, because waiting for SQLite's lock blocks three of the four threads that this file's tests share.
	test.serial(`one of several concurrent migrations of an empty store does the work (${engine})`, async t => {
		const location = await newLocation(t, engine);
		const stores = await Promise.all([1, 2, 3, 4].map(() => openStore(location, {isPatient: true})));
		t.teardown(() => Promise.all(stores.map(store => store.close())));
		const applied = await Promise.all(stores.map(store => migrate(store.database)));
		t.deepEqual(
			applied.map(names => names.length).toSorted((a, b) => a - b),
			[0, 0, 0, migrations.length],
		);
	});
}

for (const engine of engines) {
	test(`upgrades a store of commit 2a0e3213 to the schema of a new one (${engine})`, async t => {
		const store = await fillFormer(await newLocation(t, engine));
		t.teardown(() => store.close());
		t.is(await schemaState(store.database), 'older');
		t.is(await schemaName(store.database), formerSchema);
		t.deepEqual(
			await migrate(store.database),
			migrations.slice(1).map(([name]) => name),
		);
		t.is(await schemaState(store.database), 'current');
		// Its messages have a partition of their day.
		const lines = (await dumpOf(store, engine)).split('\n').filter(line => !line.includes('_20261125'));
		t.is(lines.join('\n'), readFileSync(`test/schema.${engine}.sql`, 'utf8'));
	});
}

for (const engine of engines) {
	test(`an unsupported old store is too old, even if a newer program added to it (${engine})`, async t => {
		const store = await fillFormer(await newLocation(t, engine));
		t.teardown(() => store.close());
		await makeTooOld(store);
		t.is(await schemaState(store.database), 'tooOld');
		await store.database('migrations').insert({name: '999_future', applied_at: '', effect: 'additive'});
		t.is(await schemaState(store.database), 'tooOld');
	});
}

for (const engine of engines) {
	test(`an upgrade records which CA issued a certificate, if there was only one (${engine})`, async t => {
		const {database} = await newStore(t, engine);
		const at = '2026-06-09T10:00:00.000Z';
		const [row, account] = [
			{next_try_at: at, tries: 0, updated_at: at},
			{url: 'x', secret: 'x', created_at: at},
		];
		await database('certificates').insert({...row, name: 'a.example', chain: 'x'});
		await database('certificates').insert({...row, name: 'b.example'});
		const upgrade = async () => {
			await database.schema.alterTable('certificates', table =>
				table.dropColumns('directory', 'tried_directory'),
			);
			await database.schema.alterTable('acme_accounts', table => table.dropColumns('email'));
			await up(database);
			const rows = await database('certificates').orderBy('name');
			return rows.map(({directory, tried_directory: tried}) => [directory, tried]);
		};
		await database('acme_accounts').insert({...account, directory: 'https://a'});
		t.deepEqual(await upgrade(), [
			['https://a', 'https://a'],
			[null, 'https://a'],
		]);
		await database('acme_accounts').insert({...account, directory: 'https://b'});
		t.deepEqual(await upgrade(), [
			[null, null],
			[null, null],
		]);
	});

	test(`an upgrade removes unverified return paths, and verified keys keep signing (${engine})`, async t => {
		const store = await fillFormer(await newLocation(t, engine));
		t.teardown(() => store.close());
		const {database} = store;
		await database('domains').delete();
		const at = '2026-06-09T10:00:00.000Z';
		await database('workspaces').insert({id: 'ws_1', name: 'shop', created_at: at});
		const domain = {
			...{workspace_id: 'ws_1', ownership_token: 'x', state_at: at, created_at: at},
			return_path_at: at,
		};
		for (const [name, state, own] of [
			['a.example', 'verified', null],
			['b.example', 'verified', 'bounce.a.example'],
			['c.example', 'pending', 'r.c.example'],
			['d.example', 'verified', 'r.d.example'],
		] as const) {
			const verified_at = state === 'verified' ? at : null;
			await database('domains').insert({...domain, id: name, name, state, verified_at, return_path_domain: own});
			const key = {id: `k.${name}`, domain_id: name, selector: 'mc1', algorithm: 'rsa-sha256', secret: 'x'};
			await database('dkim_keys').insert({...key, public_key: 'x', active_from: at, created_at: at});
		}
		await migrate(database);
		const rows = await database('domains as d')
			.join('dkim_keys as k', 'k.domain_id', 'd.id')
			.orderBy('d.name')
			.select('d.name', 'd.return_path_domain', 'd.return_path_at', 'k.seen_at');
		t.deepEqual(
			rows.map(row => [row.name, row.return_path_domain, row.return_path_at, row.seen_at]),
			[
				['a.example', null, at, at],
				['b.example', null, null, at],
				['c.example', 'r.c.example', null, null],
				['d.example', 'r.d.example', at, at],
			],
		);
	});
}

if (engines.includes('postgres')) {
	test('refuses a breaking migration until nodes of older versions are stopped', async t => {
		const {database} = await newStore(t, 'postgres');
		const breaking = async () => ({up: async () => undefined});
		const steps = [...migrations, ['999_breaking', breaking, 'breaking'] as const];
		const options = {beforeBreaking: refuseBesideOthers, steps};
		const now = storeTime(Date.now());
		await database('nodes').insert({id: 'req_1', host: 'mail2', pid: 7, started_at: now, seen_at: now});
		const error = await t.throwsAsync(migrate(database, options), {
			instanceOf: ConfigError,
			message: /changes the store so that older ones cannot use it: stop process 7 on mail2 first/,
		});
		t.is(error.exitCode, 75);
		t.is(await schemaState(database), 'current');
		await database('nodes').delete();
		t.deepEqual(await migrate(database, options), ['999_breaking']);
	});

	test('repeats a migration aborted by a deadlock with a node', async t => {
		const store = await openStore(await newLocation(t, 'postgres'));
		t.teardown(() => store.close());
		await migrate(store.database);
		let tries = 0;
		const node = await store.writing[0]?.transaction();
		// The migration detects the deadlock first and is aborted.
		await node?.raw(`set local deadlock_timeout = '60s'`);
		await node?.raw('lock table api_keys');
		let waiting: PromiseLike<unknown> | undefined;
		const isWaiting = async () => {
			const mine = store.reader('pg_stat_activity').whereRaw('datname = current_database()');
			return (await mine.where({wait_event_type: 'Lock'})).length > 0;
		};
		await migrate(store.database, {
			async beforeCommit(trx) {
				await trx.raw('lock table workspaces');
				tries++;
				if (!waiting) {
					waiting = node?.raw('lock table workspaces').then(() => node.commit());
					await waitFor('the node to wait', isWaiting);
				}
				await trx.raw('lock table api_keys');
			},
		});
		await waiting;
		t.is(tries, 2);
	});
}

test('SQLite is configured to survive power loss and to distrust its file', async t => {
	const store = await openStore(await newLocation(t, 'sqlite'));
	t.teardown(() => store.close());
	await migrate(store.database);
	for (const connection of [store.database, store.reader]) {
		const pragma = async (name: string) => Object.values((await connection.raw(`pragma ${name}`))[0])[0];
		t.is(await pragma('journal_mode'), 'wal');
		t.is(await pragma('synchronous'), 2);
		t.is(await pragma('foreign_keys'), 1);
		t.is(await pragma('busy_timeout'), 5000);
		t.is(await pragma('auto_vacuum'), 2);
		t.is(await pragma('trusted_schema'), 0);
	}
});

test('refuses a truncated file, however little is missing', async t => {
	const {file} = (await newLocation(t, 'sqlite')) as {file: string};
	const store = await openStore({file});
	await migrate(store.database);
	await store.close();
	const {size} = statSync(file);
	for (const lost of [1, 4096, size / 2]) {
		truncateSync(file, size - lost);
		await t.throwsAsync(openStore({file}), {code: 'SQLITE_CORRUPT'}, String(lost));
	}
});

test('opening a store twice in one process keeps the locks of the first connection', async t => {
	if (!existsSync('/proc/locks')) {
		notRunHere(t, 'this system does not list locks');
		return;
	}
	const store = await newStore(t, 'sqlite');
	const file = store.wal?.file.replace(/-wal$/, '') ?? '';
	const {ino} = statSync(file);
	const locks = () =>
		readFileSync('/proc/locks', 'utf8')
			.split('\n')
			.filter(line => line.includes(` ${process.pid} `) && line.includes(`:${ino} `)).length;
	await store.wal?.checkpoint();
	const before = locks();
	t.true(before > 0);
	await (await openStore({file})).close();
	await (await openWriter(file)).close();
	t.is(locks(), before);
});
