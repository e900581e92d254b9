import test from 'ava';
import fc from 'fast-check';
import type {Knex} from 'knex';
import type {Row} from '../../../src/store/engine/dialect.ts';
import {insertRows} from '../../../src/store/engine/rows.ts';
import type {Store} from '../../../src/store/store.ts';
import {anyChar} from '../../helpers/any-char.ts';
import {engines, newStore, onWriting} from '../../helpers/databases.ts';
import {waitFor} from '../../helpers/wait.ts';

const columns = ['id', 'amount', 'words', 'bytes'];

/** Strings with a special meaning in the text format of COPY or in UTF-8. */
const pieces = [
	'\\',
	'\t',
	'\n',
	'\r',
	'\0',
	'.',
	'N',
	'x',
	'?',
	'"',
	'\b',
	'\v',
	'\u2028',
	'ä',
	'😀',
	'\ud83d',
	'\ude00',
];
const words = fc.oneof(
	fc.array(fc.constantFrom(...pieces, '\\.', '\\N', '\r\n', '\n\\.\n'), {maxLength: 12}).map(some => some.join('')),
	fc.string({unit: anyChar}),
);
const amount = fc.oneof(fc.integer(), fc.double({noNaN: false}), fc.constantFrom(-0, Number.MAX_VALUE, 2 ** 53));
const orNull = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, {nil: null});
const batchOf = (bytes: fc.Arbitrary<Uint8Array | null>) =>
	fc.array(fc.tuple(orNull(amount), orNull(words), bytes), {minLength: 1, maxLength: 20});
// Rows with bytes are inserted: most batches have none.
const batches = fc.oneof(
	{weight: 4, arbitrary: batchOf(fc.constant(null))},
	{weight: 1, arbitrary: batchOf(orNull(fc.uint8Array()))},
);

/** Creates a partitioned table, like those of messages. */
async function makeTable({database}: Store, name: string): Promise<void> {
	await database.raw(
		`create table ${name} (id integer not null, amount double precision, words text, bytes bytea) partition by list (id)`,
	);
	await database.raw(
		`create table ${name}_odd partition of ${name} (primary key (id)) for values in (1, 3, 5, 7, 9)`,
	);
	await database.raw(`create table ${name}_other partition of ${name} (primary key (id)) default`);
}

const rowsFrom = (first: number, count: number): Row[] =>
	Array.from({length: count}, (_, index) => [first + index, 0, 'a word'.repeat(20), null]);

if (engines.includes('postgres')) {
	test('PostgreSQL: rows written by COPY read back like inserted ones', async t => {
		const store = await newStore(t, 'postgres');
		await makeTable(store, 'copied');
		await makeTable(store, 'inserted');
		let recipients = 0;
		onWriting(store, 'query', ({sql}) => {
			recipients += sql.startsWith('copy ') ? 1 : 0;
		});
		await fc.assert(
			fc.asyncProperty(batches, async batch => {
				const rows = batch.map((row, index): Row => [index, ...row]);
				await store.writer.transaction(async trx => {
					await trx.raw('truncate copied, inserted');
					await insertRows(trx, 'copied', columns, rows);
					for (const row of rows) {
						await insertRows(trx, 'inserted', columns, [row]);
					}
				});
				const [copied, inserted] = [
					await store.reader('copied').orderBy('id'),
					await store.reader('inserted').orderBy('id'),
				];
				t.deepEqual(copied, inserted);
				t.is(copied.length, rows.length);
			}),
			{numRuns: 300},
		);
		t.true(recipients > 100, `${recipients} batches were copied`);
	});

	const failures: ReadonlyArray<{what: string; code: string; recipient: (trx: Knex.Transaction) => Promise<void>}> = [
		{
			what: 'a row that is there',
			code: '23505',
			recipient: trx => insertRows(trx, 'things', columns, rowsFrom(1, 1000)),
		},
		{
			what: 'a value that the column does not hold',
			code: '22P02',
			// PostgreSQL detects it while most of the rows are still being sent.
			recipient: trx => insertRows(trx, 'things', columns, [['one', 0, null, null], ...rowsFrom(10, 20_000)]),
		},
		{
			what: 'a row without what it needs',
			code: '23502',
			recipient: trx => insertRows(trx, 'things', columns, [...rowsFrom(10, 1000), [null, 0, null, null]]),
		},
		{
			what: 'a table that is not there',
			code: '42P01',
			recipient: trx => insertRows(trx, 'nothing', columns, rowsFrom(10, 1000)),
		},
	];

	test('PostgreSQL: a failed COPY leaves no rows, reports the cause and keeps its connection', async t => {
		const store = await newStore(t, 'postgres');
		await makeTable(store, 'things');
		await store.writer.transaction(trx => insertRows(trx, 'things', columns, rowsFrom(1, 1)));
		const backend = () =>
			store.writer.transaction(async trx => (await trx.raw('select pg_backend_pid() as pid')).rows[0].pid);
		const before = await backend();
		const ends: Array<(trx: Knex.Transaction) => Promise<unknown>> = [
			// Ends with the failure, with another COPY, or with a statement that returns a result.
			async () => undefined,
			trx => insertRows(trx, 'things', columns, rowsFrom(50_000, 1000)),
			trx => trx('things').select('id'),
		];
		for (const {what, code, recipient} of failures) {
			for (const end of ends) {
				const error = await t.throwsAsync<Error & {code?: string}>(
					store.writer.transaction(async trx => {
						await insertRows(trx, 'things', columns, rowsFrom(40_000, 10));
						await recipient(trx);
						await insertRows(trx, 'things', columns, rowsFrom(45_000, 1));
						await end(trx);
					}),
				);
				t.is(error.code, code, what);
				t.regex(error.message, /copy \w+ \(id,amount,words,bytes\) from stdin - /);
				t.deepEqual(await store.reader('things').pluck('id'), [1], what);
			}
			// Without a pipeline.
			const error = await t.throwsAsync<Error & {code?: string}>(store.database.transaction(recipient));
			t.is(error.code, code, what);
		}
		t.is(await backend(), before, 'the same connection');
		await store.writer.transaction(trx => insertRows(trx, 'things', columns, rowsFrom(100, 1000)));
		await store.database.transaction(trx => insertRows(trx, 'things', columns, rowsFrom(2000, 1000)));
		t.is((await store.reader('things').pluck('id')).length, 2001);
	});

	test('PostgreSQL: copies nothing outside a transaction', async t => {
		const store = await newStore(t, 'postgres');
		await makeTable(store, 'things');
		const error = await t.throwsAsync<Error & {code?: string}>(
			store.writer.transaction(async trx => {
				// Simulates a failed BEGIN.
				await trx.raw('rollback');
				await insertRows(trx, 'things', columns, rowsFrom(1, 10));
			}),
		);
		t.is(error.code, '25006');
		t.deepEqual(await store.reader('things').pluck('id'), []);
	});

	test('PostgreSQL: a connection lost during a COPY leaves none of its rows', async t => {
		const store = await newStore(t, 'postgres');
		await makeTable(store, 'things');
		const holder = await store.reader.transaction();
		await holder.raw('lock table things in exclusive mode');
		const copied = store.writer.transaction(async trx => {
			await insertRows(trx, 'things', columns, rowsFrom(1, 1000));
		});
		const failed = t.throwsAsync(copied);
		const waiting = `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and query like 'copy things%' and wait_event_type = 'Lock'`;
		await waitFor('the COPY waits', async () => (await store.reader.raw(waiting)).rows.length === 1);
		t.true(store.dialect.isUnavailable(await failed));
		await holder.rollback();
		t.deepEqual(await store.reader('things').pluck('id'), []);
		await store.writer.transaction(trx => insertRows(trx, 'things', columns, rowsFrom(1, 10)));
		t.is((await store.reader('things').pluck('id')).length, 10);
	});
}
