import type {SqliteConnection, SqliteDriver, SqliteQuery, SqliteStatement} from 'knex/lib/dialects/sqlite3/index.js';
import {LRUCache} from 'lru-cache';

const maxStatements = 100;
/**
 * A cached statement keeps its last parameters. It is not cached if they are larger than this, in characters or octets.
 */
const maxBoundBytes = 256 * 1024;
/** A statement with more parameters has rows with bytes, and another text for each number of rows. It runs alone. */
const maxParameters = 16;
/** More combinations of statements than code can produce in practice. Others are run one by one. */
const maxBatches = 100;

/**
 * The statements of one connection. Each is prepared once: preparing takes a round trip to the driver's threads and as
 * much time as a small insert.
 *
 * The results of `unanswered` statements of a transaction are not awaited. They wait for the next statement whose
 * result is, and then run as one statement: the instead-of trigger of a temporary view, whose columns are their
 * parameters. So they take a single round trip to the driver's threads. If one of them fails, every later statement of
 * the transaction, at the latest COMMIT, rejects with its error (docs/internals/decisions/0024-statements-sent-on.md).
 */
export class SqliteStatements {
	readonly #connection: SqliteConnection;
	readonly #driver: SqliteDriver;
	readonly #prepared = new LRUCache<string, SqliteStatement>({
		max: maxStatements,
		dispose: statement => void statement.finalize(),
	});
	/** The statements that insert into the views, by the statements that their triggers run. */
	readonly #batches = new Map<string, string>();
	/** The batches that the current transaction created. A rollback removes their views. */
	readonly #newBatches = new Set<string>();
	#batchCount = 0;
	#isInTransaction = false;
	#waiting: SqliteQuery[] = [];
	#waitingBytes = 0;
	/** The error of an unanswered statement of the current transaction. */
	#failure: {readonly error: unknown} | null = null;
	/** Statements take effect in the order in which they were issued, also if several are issued at once. */
	#last: Promise<unknown> = Promise.resolve();

	constructor(connection: SqliteConnection, driver: SqliteDriver) {
		this.#connection = connection;
		this.#driver = driver;
	}

	/** Runs a statement, and adds its response to it. */
	async run(query: SqliteQuery): Promise<unknown> {
		if (this.#isInTransaction && query.options?.unanswered) {
			this.#postpone(query);
			return Object.assign(query, {response: []});
		}
		return await this.after(query, () => this.#execute(query));
	}

	/** Runs what waits, and then a statement by `execute`. */
	async after(query: SqliteQuery, execute: () => Promise<unknown>): Promise<unknown> {
		const before = this.#takeWaiting();
		return await this.#inTurn(async () => {
			if (query.sql.startsWith('ROLLBACK')) {
				return await this.#rollBack(execute);
			}
			await this.#runTogether(before);
			const result = await execute();
			if (query.sql.startsWith('BEGIN')) {
				this.#isInTransaction = true;
			} else if (query.sql.startsWith('COMMIT')) {
				this.#endTransaction();
			}
			return result;
		});
	}

	finalize(): void {
		this.#prepared.clear();
	}

	#inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
		const turn = this.#last.then(work);
		this.#last = turn.catch(() => undefined);
		return turn;
	}

	#postpone(query: SqliteQuery): void {
		const {bindings = []} = query;
		const bytes = toBytes(bindings);
		const isAlone = bindings.length > maxParameters;
		if (isAlone || this.#waitingBytes + bytes > maxBoundBytes) {
			this.#start(this.#takeWaiting());
		}
		if (isAlone) {
			this.#start([query]);
			return;
		}
		this.#waiting.push(query);
		this.#waitingBytes += bytes;
	}

	#takeWaiting(): readonly SqliteQuery[] {
		const queries = this.#waiting;
		this.#waiting = [];
		this.#waitingBytes = 0;
		return queries;
	}

	/** Runs statements without waiting for them. The next statement that is awaited reports a failure. */
	#start(queries: readonly SqliteQuery[]): void {
		this.#inTurn(() => this.#runTogether(queries)).catch(() => undefined);
	}

	async #rollBack(execute: () => Promise<unknown>): Promise<unknown> {
		for (const batch of this.#newBatches) {
			this.#batches.delete(batch);
		}
		try {
			return await execute();
		} finally {
			this.#endTransaction();
		}
	}

	#endTransaction(): void {
		this.#isInTransaction = false;
		this.#failure = null;
		this.#newBatches.clear();
	}

	async #runTogether(queries: readonly SqliteQuery[]): Promise<void> {
		if (this.#failure !== null) {
			throw this.#failure.error;
		}
		try {
			const sql = queries.length > 1 ? await this.#prepareBatch(queries) : undefined;
			if (sql !== undefined) {
				await this.#execute({sql, bindings: queries.flatMap(({bindings = []}) => bindings)});
				return;
			}
			for (const query of queries) {
				await this.#execute(query);
			}
		} catch (error) {
			this.#failure = {error};
			throw error;
		}
	}

	/** Returns the statement that runs all of these, or `undefined` if they must run one by one. */
	async #prepareBatch(queries: readonly SqliteQuery[]): Promise<string | undefined> {
		const batch = queries.map(({sql}) => sql).join(';\n');
		const known = this.#batches.get(batch);
		if (known !== undefined || this.#batches.size >= maxBatches) {
			return known;
		}
		const columns: string[] = [];
		const body = batch.replaceAll('?', () => {
			const column = `p${columns.length}`;
			columns.push(column);
			return `new.${column}`;
		});
		if (columns.length === 0) {
			return undefined; // A view has at least one column.
		}
		const name = `batch_${++this.#batchCount}`;
		await this.#execute({
			sql: `create temp view ${name} as select ${columns.map(column => `null as ${column}`).join(', ')}`,
		});
		await this.#execute({
			sql: `create temp trigger run_${name} instead of insert on ${name} begin ${body}; end`,
		});
		const sql = `insert into ${name} values (${columns.map(() => '?').join(', ')})`;
		this.#batches.set(batch, sql);
		this.#newBatches.add(batch);
		return sql;
	}

	#execute(query: SqliteQuery): Promise<unknown> {
		const {sql, bindings} = query;
		const statements = this.#prepared;
		return new Promise((resolve, reject) => {
			const cached = statements.get(sql);
			let isCached = cached !== undefined;
			const statement = cached ?? new this.#driver.Statement(this.#connection, sql, onPrepared);

			// After a failure, nothing else is called.
			function onPrepared(error: Error | null): void {
				if (error) {
					reject(error);
				} else if (!statements.has(sql)) {
					statements.set(sql, statement);
					isCached = true;
				}
			}

			statement.all(bindings, function (this: unknown, error, response) {
				if (!isCached) {
					statement.finalize();
				} else if ((error || toBytes(bindings) > maxBoundBytes) && statements.peek(sql) === statement) {
					statements.delete(sql);
				}
				if (error) {
					reject(error);
				} else {
					resolve(Object.assign(query, {response, context: this}));
				}
			});
		});
	}
}

function toBytes(bindings: SqliteQuery['bindings']): number {
	let size = 0;
	for (const value of bindings ?? []) {
		size += typeof value === 'string' || value instanceof Uint8Array ? value.length : 0;
	}
	return size;
}
