import type {Knex} from 'knex';

/**
 * The differences between SQLite and PostgreSQL. This folder hides them from queries, groups writes into transactions
 * (`writer.ts`) and migrates the schema. It relies on knex and the drivers, and has no queries about messages. Apart
 * from this file, only `rows.ts` checks which engine is in use.
 */
export type Dialect = {
	readonly name: 'sqlite' | 'postgres';
	/** Whether several nodes may use the store at once. */
	readonly isShared: boolean;
	/** Whether `with` may contain an update, so that one statement claims and reads. */
	readonly canUpdateInWith: boolean;
	/** The end of a select that claims rows: it skips rows that another node is claiming. SQLite has one writer. */
	readonly skipLocked: string;
	/** Whether the error means that the store cannot be written now, so that it is pointless to try item by item. */
	readonly isUnavailable: (error: unknown) => boolean;
	/** Whether the connection was lost: a transaction without a confirmed end has written nothing. */
	readonly isLost: (error: unknown) => boolean;
	/** Whether the engine wants the transaction to be repeated (deadlock, serialization failure). */
	readonly isConflict: (error: unknown) => boolean;
	/**
	 * Whether the error means damaged data or a failing disk, so that the process must not continue. `isFull` is true
	 * if the disk is full.
	 */
	readonly isDamage: (error: unknown, isFull?: boolean) => boolean;
};

const codeOf = (error: unknown): string =>
	typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '';

const sqliteUnavailable = new Set([
	'SQLITE_FULL',
	'SQLITE_READONLY',
	'SQLITE_BUSY',
	'SQLITE_CANTOPEN',
	'SQLITE_LOCKED',
	'SQLITE_NOMEM',
	'SQLITE_IOERR',
	'FILE_DISPLACED',
]);
const sqliteCorrupt = new Set(['SQLITE_CORRUPT', 'SQLITE_NOTADB']);

/** Whether SQLite found that a file is not a valid database any more. A failing disk is something else. */
export function isCorrupt(error: unknown): boolean {
	return sqliteCorrupt.has(codeOf(error));
}

export const sqliteDialect: Dialect = {
	name: 'sqlite',
	isShared: false,
	canUpdateInWith: false,
	skipLocked: '',
	isUnavailable: error => sqliteUnavailable.has(codeOf(error)),
	isLost: () => false,
	isConflict: () => false,
	// If there is no room for its index of the log, SQLite reports SQLITE_IOERR.
	isDamage: (error, isFull = false) => isCorrupt(error) || (codeOf(error) === 'SQLITE_IOERR' && !isFull),
};

// Class 08: connection, 53: resources, 57: operator intervention, 25006: the server is a replica, 25P03 and 55P03:
// limits that a connection sets. The codes that are words come from Node and the pool.
const postgresUnavailable = /^(08|53|57|25006|25P03|55P03)|^E(CONN|TIMEDOUT|PIPE|HOSTUNREACH|NETUNREACH|AI_AGAIN)/;
const connectionEnded = /connection (terminated|ended|error)/i;

// The server's messages are localized, so an error without a code of its own is recognized by the name of the
// PostgreSQL function that raised it.
const isRaisedBy = (error: unknown, routine: string) => codeOf(error) === '0A000' && Object(error).routine === routine;

/**
 * Whether a newer node changed the table since the statement was prepared ("cached plan must not change result type").
 */
export function isStalePlan(error: unknown): boolean {
	return isRaisedBy(error, 'RevalidateCachedQuery');
}

/** Whether the server or the session is read-only, so that nothing was written. */
function isReadOnly(error: unknown): boolean {
	return codeOf(error) === '25006' || isReplica(error);
}

/**
 * Whether a PostgreSQL error affects the connection and not only the statement, so that nothing else may use it. A
 * session that began while the server was read-only stays read-only. A session with a replica stays there until it is
 * closed.
 */
export function isConnectionLost(error: unknown): boolean {
	const {severity} = Object(error);
	const isStatementError =
		severity !== undefined && !/^(FATAL|PANIC)$/.test(severity) && !/^(08|57P)/.test(codeOf(error));
	return !isStatementError || isReadOnly(error);
}

/** Whether a replica rejected `begin read write` ("cannot set transaction read-write mode during recovery"). */
function isReplica(error: unknown): boolean {
	return isRaisedBy(error, 'call_bool_check_hook');
}

export const postgresDialect: Dialect = {
	name: 'postgres',
	isShared: true,
	canUpdateInWith: true,
	skipLocked: 'for update skip locked',
	isUnavailable: error =>
		postgresUnavailable.test(codeOf(error)) ||
		isReplica(error) ||
		(error instanceof Error &&
			(connectionEnded.test(error.message) || /acquiring a connection/i.test(error.message))),
	// A server that stopped responding is not retried immediately.
	isLost: error =>
		isReadOnly(error) ||
		Object(error).severity === 'FATAL' ||
		/^E(CONN|PIPE)/.test(codeOf(error)) ||
		(codeOf(error) === '' && error instanceof Error && connectionEnded.test(error.message)),
	isConflict: error => codeOf(error) === '40P01' || codeOf(error) === '40001' || isStalePlan(error),
	isDamage: error => codeOf(error).startsWith('XX'),
};

/**
 * Whether the tables of messages are partitioned by day (`postgres/days.ts`). PostgreSQL plans a statement for each day
 * that the statement does not exclude.
 */
export function hasDays(database: Knex): boolean {
	return database.client.driverName === 'pg';
}

/** Whether transactions write one after the other, and so commit in the order in which they reserve numbers. */
export function hasOneWriter(database: Knex): boolean {
	return database.client.driverName === 'sqlite3';
}

/**
 * Locks the rows of a query contrary to the order in which others lock, so it never waits: if one of them is locked,
 * the writer repeats the transaction (`isConflict`). SQLite has one writer.
 */
export async function lockLate<Row>(rows: Knex.QueryBuilder): Promise<Row[]> {
	try {
		return await (rows.client.driverName === 'pg' ? rows.forUpdate().noWait() : rows);
	} catch (error) {
		throw isInUse(error)
			? Object.assign(new Error('another transaction has locked the rows', {cause: error}), {code: '40001'})
			: error;
	}
}

/** Whether the error means that others held a lock for longer than the statement was allowed to wait. */
export function isInUse(error: unknown): boolean {
	return codeOf(error) === '55P03';
}

// Any number will do, as long as it never changes.
const schemaLock = 0x6d61696c;

/** Returns the rows of a statement, which each driver returns in its own way. */
export async function queryRows<Row>(database: Knex, sql: string, bindings: readonly unknown[] = []): Promise<Row[]> {
	const result = await database.raw(sql, bindings as Knex.RawBinding[]);
	return Array.isArray(result) ? result : result.rows;
}

/**
 * A query of many columns, which are names or expressions with a name. SQLite's driver spends more time on the columns
 * than the engine does, so there each row is returned as one JSON text.
 */
export function wideRows<Row>(columns: readonly string[], source: string) {
	const sql = `select ${columns.join(', ')} ${source}`;
	const fields = columns.map(column => `'${/\w+$/.exec(column)}', ${column.replace(/ as \w+$/, '')}`);
	return {
		sql,
		async read(database: Knex, condition: string, bindings: readonly unknown[]): Promise<Row[]> {
			if (database.client.driverName === 'pg') {
				return await queryRows(database, `${sql} ${condition}`, bindings);
			}
			const packed = `select json_object(${fields.join(', ')}) as json ${source} ${condition}`;
			return (await queryRows<{json: string}>(database, packed, bindings)).map(({json}) => JSON.parse(json));
		},
	};
}

/**
 * Reads many rows with few columns, each an expression by its name; `before` precedes `select`. On SQLite, all rows are
 * returned as one JSON text.
 */
export async function packedRows<Row>(
	database: Knex,
	before: string,
	columns: Readonly<Record<string, string>>,
	source: string,
	bindings: readonly unknown[],
): Promise<Row[]> {
	const entries = Object.entries(columns);
	if (database.client.driverName === 'pg') {
		const selected = entries.map(([name, column]) => `${column} as "${name}"`);
		return await queryRows(database, `${before} select ${selected.join(', ')} ${source}`, bindings);
	}
	const fields = entries.map(([name, column]) => `'${name}', ${column}`);
	const packed = `${before} select json_group_array(json_object(${fields.join(', ')})) as json ${source}`;
	const [row] = await queryRows<{json: string}>(database, packed, bindings);
	return JSON.parse(row?.json ?? '[]');
}

/**
 * An SQL join: for each row, the row of a table that a query of `q` finds, as `l`. SQLite has no `lateral` and looks
 * the row up by its key; PostgreSQL might read the whole table for that.
 */
export function joinOne(database: Knex, table: string, key: string, find: (columns: string) => string): string {
	return database.client.driverName === 'pg'
		? `cross join lateral ${find('q.*')} as l`
		: `join ${table} as l on l.${key} = ${find(`q.${key}`)}`;
}

/**
 * Blocks other changes of the schema until the transaction ends. SQLite's transactions block all other writers anyway.
 */
export async function lockSchema(trx: Knex.Transaction): Promise<void> {
	if (trx.client.driverName === 'pg') {
		// Waits for as long as another process migrates.
		await trx.raw('set local lock_timeout = 0');
		await trx.raw('select pg_advisory_xact_lock(?)', [schemaLock]);
	}
}

/** An SQL expression: PostgreSQL's current time in milliseconds, which the driver returns as text. */
export const serverMs = 'extract(epoch from clock_timestamp()) * 1000';

/** The class of the advisory locks that show which daemons live. The other half of a key is the hash of the boot id. */
export const nodeLocks = schemaLock + 1;

/** The channel of NOTIFY on which nodes announce new work. */
export const channel = 'mailctl';

/** The lock of the node that is dividing providers among nodes. */
export const leaseLock = schemaLock + 2;

const listsLock = schemaLock + 3;

/**
 * Blocks other transactions that remove messages from lists (`message-terms.ts`), until the transaction ends. They
 * rewrite rows, and a statement of PostgreSQL does not see rows that were written while it waited. SQLite has one
 * writer.
 */
export async function lockLists(trx: Knex.Transaction): Promise<void> {
	if (trx.client.driverName === 'pg') {
		await trx.raw('select pg_advisory_xact_lock(?)', [listsLock]);
	}
}

const deletionLock = schemaLock + 4;

/** Called when messages are accepted: blocks workspace deletions until the transaction ends. SQLite has one writer. */
export async function holdOffDeletions(trx: Knex.Transaction): Promise<void> {
	if (trx.client.driverName === 'pg') {
		await trx.raw('select pg_advisory_xact_lock_shared(?)', [deletionLock]);
	}
}

/**
 * Called when a workspace is deleted: waits until messages accepted before are in the store, and prevents more from
 * being accepted until the transaction ends.
 */
export async function holdOffAccepts(trx: Knex.Transaction): Promise<void> {
	if (trx.client.driverName === 'pg') {
		await trx.raw('select pg_advisory_xact_lock(?)', [deletionLock]);
	}
}

const removalLock = schemaLock + 5;

/** Whether this process alone removes deleted and erased data until the transaction ends. SQLite has one writer. */
export async function isSoleRemover(trx: Knex.Transaction): Promise<boolean> {
	if (trx.client.driverName !== 'pg') {
		return true;
	}
	const {rows} = await trx.raw('select pg_try_advisory_xact_lock(?) as free', [removalLock]);
	return rows[0].free;
}

/** Whether no daemon holds this name (`Store.hold`), until the transaction ends. */
export async function isUnheld(trx: Knex.Transaction, name: string): Promise<boolean> {
	const {rows} = await trx.raw('select pg_try_advisory_xact_lock(?, hashtext(?)) as free', [nodeLocks, name]);
	return rows[0].free;
}

/** Raises the time limit of statements until the transaction ends, for changes to many rows in the background. */
export async function takeTime(trx: Knex.Transaction): Promise<void> {
	if (trx.client.driverName === 'pg') {
		await trx.raw(`set local statement_timeout = '50s'`);
	}
}

/** The share of SQLite's file that stays free for new rows. */
const freeShare = 0.1;

/**
 * Returns at most this many free pages of SQLite's file to the file system. `hasReleased` is true if it returned
 * some, `hasMore` if there are more. With PostgreSQL, this is the task of autovacuum.
 */
export async function giveBackPages(
	trx: Knex.Transaction,
	max: number,
): Promise<{readonly hasReleased: boolean; readonly hasMore: boolean}> {
	if (trx.client.driverName === 'pg') {
		return {hasReleased: false, hasMore: false};
	}
	const countOf = async (pragma: string): Promise<number> =>
		Object.values((await trx.raw(`pragma ${pragma}`))[0])[0] as number;
	const [free, pages] = [await countOf('freelist_count'), await countOf('page_count')];
	// Released pages make the file smaller, and so the share that must stay free.
	const surplus = Math.floor((free - pages * freeShare) / (1 - freeShare));
	if (surplus <= 0) {
		return {hasReleased: false, hasMore: false};
	}
	await trx.raw(`pragma incremental_vacuum(${Math.min(surplus, max)})`);
	// A file that was created without `auto_vacuum` does not change.
	const hasReleased = (await countOf('freelist_count')) < free;
	return {hasReleased, hasMore: hasReleased && surplus > max};
}

/** Returns PostgreSQL's time, which is the same for all daemons however their clocks are set. */
export async function readServerTime(trx: Knex.Transaction): Promise<number> {
	const {rows} = await trx.raw(`select ${serverMs} as now`);
	return Number(rows[0].now);
}

// Errors are thrown; knex would also print them.
export const quiet = {
	warn: () => undefined,
	error: () => undefined,
	deprecate: () => undefined,
	debug: () => undefined,
};

/**
 * Runs independent queries: PostgreSQL gets all of them at once and responds in this order, SQLite one after the other.
 */
export async function queryTogether<Queries extends ReadonlyArray<() => Promise<unknown>>>(
	trx: Knex,
	...queries: Queries
): Promise<{-readonly [Index in keyof Queries]: Awaited<ReturnType<Queries[Index]>>}> {
	const results: unknown[] = [];
	if (trx.client.driverName === 'pg') {
		results.push(...(await Promise.all(queries.map(query => query()))));
	} else {
		for (const query of queries) {
			results.push(await query());
		}
	}
	return results as {-readonly [Index in keyof Queries]: Awaited<ReturnType<Queries[Index]>>};
}

type Value = string | number | Uint8Array | null;
export type Row = readonly Value[];

/** Whether a row contains bytes. JSON cannot contain them, and in the text of COPY they are twice as long. */
export function hasBytes(rows: readonly Row[]): boolean {
	return rows.some(row => row.some(value => typeof value === 'object' && value !== null));
}

/**
 * Many rows as the source of an insert, or (in parentheses) of an update: a SELECT or VALUES with `width` columns,
 * which both engines name column1, column2 and so on. SQLite gets them as one JSON text, so the statement stays short.
 * Binding thousands of single values would cost the main thread five times as much. JSON cannot contain bytes, so rows
 * with bytes are bound value by value.
 */
export function rowSource(database: Knex, rows: readonly Row[], width: number): {sql: string; bindings: Value[]} {
	if (database.client.driverName === 'sqlite3' && !hasBytes(rows)) {
		const columns = Array.from({length: width}, (_, index) => `value->>${index} as column${index + 1}`);
		// Without `where true`, SQLite would parse `on conflict` as the start of a join's constraint.
		return {sql: `select ${columns.join(',')} from jsonb_each(?) where true`, bindings: [JSON.stringify(rows)]};
	}
	// PostgreSQL's text cannot contain NUL, but the replies of mail servers can.
	const bindable = (value: Value) => (typeof value === 'string' ? value.replaceAll('\0', '\ufffd') : value);
	const row = `(${new Array(width).fill('?').join(',')})`;
	return {sql: `values ${new Array(rows.length).fill(row).join(',')}`, bindings: rows.flat().map(bindable)};
}

/** A table of the texts of a JSON array, which is its parameter: `key`, from 0, and `value`. */
export function eachText(database: Knex): string {
	return database.client.driverName === 'sqlite3'
		? 'json_each(?)'
		: `(select cast(ordinality - 1 as integer) as key, value
			from json_array_elements_text(cast(? as json)) with ordinality as one (value, ordinality)) as each_text`;
}

/** An SQL expression: for each row the next text of a JSON array, which is its parameter, and null after the last. */
export function textInTurn(database: Knex): string {
	// Without the subquery, PostgreSQL would parse the array again for each row.
	const texts = database.client.driverName === 'sqlite3' ? '?' : '(select cast(? as jsonb))';
	return `${texts} ->> cast(row_number() over () - 1 as integer)`;
}

/** An SQL expression: the bytes (UTF-8) of a text. Rows that are sent as JSON cannot contain bytes. */
export function textAsBytes(database: Knex, expression: string): string {
	return database.client.driverName === 'sqlite3'
		? `cast(${expression} as blob)`
		: `convert_to(${expression}, 'UTF8')`;
}

/**
 * An SQL condition: a column of bytes contains the bound bytes, whose ASCII letters must be in lower case. The case of
 * the column is ignored. SQLite's functions also see the bytes after a NUL.
 */
export function holdsBytes(database: Knex, column: string): string {
	return database.client.driverName === 'sqlite3'
		? `instr(lower(${column}), cast(? as text)) > 0`
		: `position(encode(?::bytea, 'escape') in lower(encode(${column}, 'escape') collate "C")) > 0`;
}

/** A half-open range of ids. A bound that is null or absent does not limit it. */
export type IdRange = {readonly from?: string | null | undefined; readonly below: string | null};

/**
 * An SQL condition: a text column has this value, and the id is in the range. If rows are ordered by both columns, only
 * an index that ends with them is suitable.
 *
 * PostgreSQL drops a column that equals a constant from `order by`. It would then use an index without the column and
 * read the ids of all rows, even past a year of rows without the value. `like` counts as an equality only when an index
 * is read. If two columns were compared as one row, PostgreSQL before 18 would read beyond the lower bound; SQLite does
 * not.
 */
export function isWithin(
	database: Knex,
	[column, value]: readonly [string, string],
	id: string,
	{from = null, below}: IdRange,
): Knex.Raw {
	if (database.client.driverName === 'sqlite3') {
		// `~` sorts after all characters of ids.
		const bounds = [value, from ?? '', column, id, value, below ?? '~'];
		return database.raw('(??, ??) >= (?, ?) and (??, ??) < (?, ?)', [column, id, ...bounds]);
	}
	const conditions: Array<readonly [sql: string, end: string | null]> = [
		['?? >= ?', from],
		['?? < ?', below],
	];
	const idConditions = conditions.flatMap(([sql, end]) => (end === null ? [] : [database.raw(sql, [id, end])]));
	const equality = database.raw('?? like ?', [column, value.replaceAll(/[\\%_]/g, '\\$&')]);
	return database.raw([equality, ...idConditions].map(() => '?').join(' and '), [equality, ...idConditions]);
}

/** Returns the size of the store in octets: of its file without the write-ahead log, or of the database. */
export async function readStoreSize(reader: Knex): Promise<number> {
	const row =
		reader.client.driverName === 'pg'
			? (await reader.raw('select pg_database_size(current_database()) as bytes')).rows[0]
			: (
					await reader.raw(
						'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
					)
				)[0];
	return Number(row.bytes);
}

/** A table that SQLite must read by this index, which it would not choose. */
export function readBy(database: Knex, table: string, index: string): string {
	return database.client.driverName === 'sqlite3' ? `${table} indexed by ${index}` : table;
}

/** An SQL expression: the domain of an address in a column. */
export function domainOf(database: Knex, column: string): string {
	return `substr(${column}, ${database.client.driverName === 'sqlite3' ? 'instr' : 'strpos'}(${column}, '@') + 1)`;
}

/** An SQL expression: a field of a JSON column, as text. */
export function jsonField(database: Knex, column: string, field: string): string {
	return `${column}${database.client.driverName === 'sqlite3' ? '' : '::json'} ->> '${field}'`;
}

/**
 * Prepares connections for writing very many rows while nothing else uses the store. With `isEmpty`, a power loss may
 * damage the store. `endBulk` restores the settings.
 */
export async function beginBulk(database: Knex, reader: Knex, isEmpty: boolean): Promise<void> {
	if (database.client.driverName === 'pg') {
		await database.raw('set synchronous_commit = off');
		return;
	}
	// New pages are then written directly to the file, not to the log. SQLite allows that only for its sole connection.
	await reader.destroy();
	const journal = [
		'locking_mode = exclusive',
		'journal_mode = truncate',
		`synchronous = ${isEmpty ? 'off' : 'normal'}`,
	];
	for (const pragma of [...journal, 'temp_store = memory', 'cache_size = -262144', 'foreign_keys = off']) {
		await database.raw(`pragma ${pragma}`);
	}
}

export async function endBulk(database: Knex, reader: Knex): Promise<void> {
	if (database.client.driverName === 'pg') {
		await database.raw('reset synchronous_commit');
		return;
	}
	// Changing the journal mode syncs everything that was written.
	const journal = ['synchronous = full', 'locking_mode = normal', 'journal_mode = wal'];
	for (const pragma of [...journal, 'cache_size = -2000', 'foreign_keys = on']) {
		await database.raw(`pragma ${pragma}`);
	}
	reader.initialize();
}
