import type {Socket} from 'node:net';
import PostgresDialect, {type PostgresConnection} from 'knex/lib/dialects/postgres/index.js';
import {LRUCache} from 'lru-cache';
import {isStalePlan} from './dialect.ts';
import {sendCopy} from './postgres-copy.ts';
import {type Statement, sendOn} from './postgres-pipeline.ts';

export type PostgresLimits = {
	/** To connect and log in, milliseconds. */
	readonly connectMs: number;
	/** To answer a statement, milliseconds; null: as long as it takes, while the server answers its pulse. */
	readonly statementMs: number | null;
};

type Query = Statement & {
	readonly bindings?: readonly unknown[];
	options?: Statement['options'] & {readonly name?: string; readonly copied?: string};
};

/** So many statements are prepared at most. */
const mostNamed = 200;

/** So long the server may take to close a connection that says goodbye, milliseconds. */
const partingMs = 1000;

/**
 * knex's client for PostgreSQL with time limits on this side, because a server that went silent enforces none. A connection
 * that reaches a limit is destroyed: its answer may still come, and would be taken for the next statement's.
 */
export function createPostgresClient({connectMs, statementMs}: PostgresLimits) {
	const open = new Set<PostgresConnection>();
	const seen = new LRUCache<string, number>({max: mostNamed});
	const names = new Map<string, string>();
	let silent = false;

	async function within<Result>(connection: PostgresConnection, ms: number, work: Promise<Result>): Promise<Result> {
		const timer = setTimeout(() => cut(connection, `no answer within ${ms / 1000} s`), ms);
		try {
			return await work;
		} finally {
			clearTimeout(timer);
		}
	}

	const waits = new WeakMap<PostgresConnection, {open: number; readonly timer: NodeJS.Timeout}>();

	/** Each answer is waited for from the one before it on: several statements may be under way. */
	async function inTime<Result>(connection: PostgresConnection, answer: Promise<Result>): Promise<Result> {
		if (statementMs === null) {
			return await answer;
		}
		const late = `no answer within ${statementMs / 1000} s`;
		const wait = waits.get(connection) ?? {open: 0, timer: setTimeout(() => cut(connection, late), statementMs)};
		waits.set(connection, wait);
		wait.open++;
		try {
			return await answer;
		} finally {
			wait.open--;
			if (wait.open === 0) {
				clearTimeout(wait.timer);
				waits.delete(connection);
			} else {
				wait.timer.refresh();
			}
		}
	}

	/** Gives a statement that comes again and again a name, under which the connection keeps it parsed and planned. */
	function named(query: Query): Query {
		const {sql, bindings} = query;
		let name = names.get(sql);
		if (name === undefined && bindings && bindings.length > 0 && names.size < mostNamed) {
			const times = (seen.get(sql) ?? 0) + 1;
			seen.set(sql, times);
			if (times >= 3) {
				name = `mailctl_${names.size}`;
				names.set(sql, name);
			}
		}
		return name === undefined ? query : Object.assign(query, {options: {...query.options, name}});
	}

	class LimitedPostgres extends PostgresDialect {
		override async _acquireOnlyConnection(): Promise<PostgresConnection> {
			if (silent) {
				throw new NoAnswerError('the PostgreSQL server does not answer');
			}
			const connection = new this.driver.Client({...this.connectionSettings, pipeline: this.config.pipelines});
			// The pool looks at this mark before it lends a connection.
			connection.on('error', error => {
				connection.__knex__disposed = error;
			});
			connection.on('end', () => {
				connection.__knex__disposed ??= 'Connection ended';
				open.delete(connection);
			});
			open.add(connection);
			await within(connection, connectMs, connection.connect());
			return connection;
		}

		override async _query(connection: PostgresConnection, query: Query): Promise<unknown> {
			const {prepares, pipelines} = this.config;
			const start = (one: Query) =>
				one.options?.copied === undefined
					? super._query(connection, one)
					: sendCopy(connection, this.driver.Query, one, one.options.copied);
			const ask = (one: Query) => inTime(connection, start(one));
			const send = (one: Query) => ask(prepares ? named(one) : one).catch(error => fail(connection, error));
			if (pipelines) {
				// The writer repeats a transaction whose plan was stale.
				return await sendOn(connection, query, send);
			}
			return await send(query).catch(error => {
				// Here it goes once more, without a plan; within a transaction, which the error has ended, that fails too, and whoever
				// began the transaction repeats it.
				return isStalePlan(error)
					? ask({...query, options: {}}).catch(() => Promise.reject(error))
					: Promise.reject(error);
			});
		}

		override async destroyRawConnection(connection: PostgresConnection): Promise<void> {
			await within(connection, partingMs, super.destroyRawConnection(connection)).catch(() => undefined);
		}
	}

	return {
		Client: LimitedPostgres,
		/**
		 * The server is silent: whatever waits for it fails now, and nothing connects until it answers again. Connections from
		 * before are not used again, for their server may be gone.
		 */
		setSilent(is: boolean): void {
			silent = is;
			if (silent) {
				for (const connection of open) {
					cut(connection, 'the PostgreSQL server does not answer');
				}
			}
		},
	};
}

/** Marks a connection that must not be used again after this error. */
function fail(connection: PostgresConnection, error: unknown): never {
	// A stale plan: the next connection plans anew. Else what is not the statement's own fault: the connection is gone, also where that
	// is noticed later.
	if (isStalePlan(error) || !('severity' in Object(error)) || Object(error).severity === 'FATAL') {
		connection.__knex__disposed ??= error;
	}
	throw error;
}

function cut(connection: PostgresConnection, why: string): void {
	connection.__knex__disposed ??= why;
	(connection.connection.stream as Socket).destroy(new NoAnswerError(why));
}

/** The server did not answer: whether it did what it was asked is not known. The code is the one of TCP. */
export class NoAnswerError extends Error {
	override readonly name = 'NoAnswerError';
	readonly code = 'ETIMEDOUT';
}
