import type {Knex} from 'knex';
import type {Store} from '../../src/store/store.ts';
import type {Engine} from './databases.ts';

/** How the engine would run a statement, as one text. */
export async function planOf(
	store: Store,
	engine: Engine,
	sql: string,
	bindings: readonly Knex.RawBinding[],
): Promise<string> {
	if (engine === 'sqlite') {
		const rows: Array<{detail: string}> = await store.reader.raw(`explain query plan ${sql}`, [...bindings]);
		return rows.map(row => row.detail).join('\n');
	}
	// With few rows PostgreSQL would read the table from end to end: ask what it does when it must not.
	return await store.reader.transaction(async trx => {
		await trx.raw('set local enable_seqscan = off');
		const {rows} = await trx.raw(`explain ${sql}`, [...bindings]);
		const plan: string = rows.map((row: Record<string, string>) => row['QUERY PLAN']).join('\n');
		return withoutDays(plan, await listParts(trx));
	});
}

type Part = {readonly name: string; readonly parent: string};

/** The parts of tables and of indexes (`src/store/postgres/days.ts`) with what they are of. */
async function listParts(trx: Knex): Promise<Part[]> {
	const {rows} = await trx.raw(
		'select inhrelid::regclass::text as name, inhparent::regclass::text as parent from pg_inherits',
	);
	return rows;
}

/** A plan by the names of the migrations, whatever part of a table is read. */
function withoutDays(plan: string, parts: readonly Part[]): string {
	const parentOf = new Map(parts.map(({name, parent}) => [name, parent]));
	return plan.replaceAll(/\b\w+\b/g, word => parentOf.get(word) ?? word);
}

/** How the engine would run a query. */
export async function planOfQuery(store: Store, engine: Engine, query: Knex.QueryBuilder): Promise<string> {
	const {sql, bindings} = query.toSQL();
	return await planOf(store, engine, sql, bindings);
}

/** How the engine would run each statement that the work gives to it, in order. */
export async function plansDuring(store: Store, engine: Engine, work: () => Promise<unknown>): Promise<string[]> {
	const statements: Array<{sql: string; bindings: readonly Knex.RawBinding[]}> = [];
	const note = (query: {sql: string; bindings?: readonly Knex.RawBinding[]}) =>
		// PostgreSQL's client has numbered the bindings by then.
		statements.push({sql: query.sql.replaceAll(/\$\d+/g, '?'), bindings: query.bindings ?? []});
	const connections = new Set([store.reader, store.database, ...store.writing]);
	for (const connection of connections) {
		connection.on('query', note);
	}
	await work();
	for (const connection of connections) {
		connection.removeListener('query', note);
	}
	const explained = statements.filter(({sql}) => /^\s*(?:select|with|update|delete|insert into claims)\b/i.test(sql));
	return await Promise.all(
		explained.map(async ({sql, bindings}) => `${sql}\n${await planOf(store, engine, sql, bindings)}`),
	);
}

/** Whether a plan reads one of our tables, or an index of it, from end to end. */
export function readsAll(plan: string): boolean {
	return /\bSCAN (?!jsonb?_each|v\b|\(|CONSTANT|(?:rows|due|held)\b)|\bSeq Scan on\b/.test(plan);
}
