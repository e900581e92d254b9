import test, {type ExecutionContext} from 'ava';
import type {Knex} from 'knex';
import {unanswered} from '../../../src/store/postgres/postgres-client.ts';
import {newStore} from '../../helpers/databases.ts';

// The statements of an SQLite transaction whose results are not awaited, which run as one.

async function newThings(t: ExecutionContext) {
	const store = await newStore(t, 'sqlite');
	await store.database.raw('create table things (id integer primary key, text text)');
	const insert = (trx: Knex.Transaction, id: number, text = '') =>
		trx.raw('insert into things (id, text) values (?, ?)', [id, text]).options(unanswered);
	const append = (trx: Knex.Transaction, text: string) =>
		trx.raw(`update things set text = text || '${text}' where id > ?`, [0]).options(unanswered);
	const read = async () => (await store.reader('things').orderBy('id').select('id', 'text')).map(Object.values);
	return {writer: store.writer, insert, append, read};
}

test('statements run together take effect in order, before the next one that is awaited', async t => {
	const {writer, insert, append, read} = await newThings(t);
	const seen = await writer.transaction(async trx => {
		await insert(trx, 1, 'a?');
		await append(trx, 'b');
		await insert(trx, 2);
		await append(trx, 'c');
		const texts = await trx('things').orderBy('id').pluck('text');
		await append(trx, 'd');
		return texts;
	});
	t.deepEqual(seen, ['a?bc', 'c']);
	t.deepEqual(await read(), [
		[1, 'a?bcd'],
		[2, 'cd'],
	]);
});

test('a combination of statements that first ran in a transaction that was rolled back runs in the next', async t => {
	const {writer, insert, append, read} = await newThings(t);
	const both = async (trx: Knex.Transaction, id: number) => {
		await insert(trx, id);
		await append(trx, 'x');
		// Runs them.
		await trx.raw('select 1');
	};
	const error = await t.throwsAsync(
		writer.transaction(async trx => {
			await both(trx, 1);
			throw new Error('undo');
		}),
	);
	t.is(error.message, 'undo');
	await writer.transaction(trx => both(trx, 2));
	await writer.transaction(trx => both(trx, 3));
	t.deepEqual(await read(), [
		[2, 'xx'],
		[3, 'x'],
	]);
});

test('statements that wait when a transaction is rolled back do not run', async t => {
	const {writer, insert, read} = await newThings(t);
	await t.throwsAsync(
		writer.transaction(async trx => {
			await insert(trx, 1);
			await insert(trx, 2);
			throw new Error('undo');
		}),
	);
	await writer.transaction(trx => insert(trx, 3));
	t.deepEqual(await read(), [[3, '']]);
});

test('statements that are issued at once take effect in the order in which they were issued', async t => {
	const {writer, insert, append, read} = await newThings(t);
	const [before, after] = await writer.transaction(async trx => {
		const issued = [
			insert(trx, 1, 'a'),
			append(trx, 'b'),
			trx('things').pluck('text'),
			append(trx, 'c'),
			insert(trx, 2),
			trx('things').orderBy('id').pluck('text'),
		];
		const results = await Promise.all(issued);
		return [results[2], results[5]];
	});
	t.deepEqual(before, ['ab']);
	t.deepEqual(after, ['abc', '']);
	t.is((await read()).length, 2);
});

test('after a failure nothing of the transaction is written, even if its error is ignored', async t => {
	const {writer, insert, read} = await newThings(t);
	const error = await t.throwsAsync(
		writer.transaction(async trx => {
			await insert(trx, 1);
			await insert(trx, 1);
			await trx.raw('select 1').catch(() => undefined);
			await insert(trx, 2);
		}),
	);
	t.regex(error.message, /UNIQUE/);
	t.deepEqual(await read(), []);
	await writer.transaction(trx => insert(trx, 3));
	t.deepEqual(await read(), [[3, '']]);
});

test('rows with bytes and many parameters run alone, in order', async t => {
	const {writer, insert, append, read} = await newThings(t);
	const ids = Array.from({length: 1500}, (_, index) => index + 10);
	const values = ids.map(() => '(?, ?)').join(', ');
	await writer.transaction(async trx => {
		await insert(trx, 1);
		const bindings = ids.flatMap(id => [id, Buffer.from('b')]);
		await trx.raw(`insert into things (id, text) values ${values}`, bindings).options(unanswered);
		await append(trx, 'x');
		await append(trx, 'y');
	});
	const rows = await read();
	t.is(rows.length, 1501);
	t.deepEqual(rows[0], [1, 'xy']);
	t.is(String(rows[1]?.[1]), 'bxy');
});

test('large parameters and any number of combinations are run too', async t => {
	const {writer, insert, append, read} = await newThings(t);
	const large = 'l'.repeat(200 * 1024);
	await writer.transaction(async trx => {
		await insert(trx, 1, large);
		await insert(trx, 2, large);
		await insert(trx, 3, large);
	});
	t.deepEqual(
		(await read()).map(([, text]) => (text as string).length),
		[large.length, large.length, large.length],
	);
	await writer.transaction(trx => trx('things').delete());
	await writer.transaction(trx => insert(trx, 1));
	await writer.transaction(async trx => {
		await trx.raw("update things set text = '>'").options(unanswered);
		await trx.raw("update things set text = text || '>'").options(unanswered);
	});
	for (let n = 0; n < 130; n++) {
		await writer.transaction(async trx => {
			await append(trx, `${n},`);
			await append(trx, ';');
		});
	}
	t.is((await read())[0]?.[1], `>>${Array.from({length: 130}, (_, n) => `${n},;`).join('')}`);
});
