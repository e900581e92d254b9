import type {Socket} from 'node:net';
import PostgresDialect, {type PostgresConnection} from 'knex/lib/dialects/postgres/index.js';
import {LRUCache} from 'lru-cache';
import {isStalePlan} from './dialect.ts';

export type PostgresLimits = {
	/** To connect and log in, milliseconds. */
	readonly connectMs: number;
	/** To answer a statement, milliseconds; null: as long as it takes, while the server answers its pulse. */
	readonly statementMs: number | null;
};

type Query = {readonly sql: string; readonly bindings?: readonly unknown[]; options?: {readonly name?: string}};

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
		return name === undefined ? query : Object.assign(query, {options: {name}});
	}

	class LimitedPostgres extends PostgresDialect {
		override async _acquireOnlyConnection(): Promise<PostgresConnection> {
			if (silent) {
				throw new NoAnswerError('the PostgreSQL server does not answer');
			}
			const connection = new this.driver.Client(this.connectionSettings);
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
			const work = super._query(connection, this.config.prepares ? named(query) : query);
			try {
				return await (statementMs === null ? work : within(connection, statementMs, work));
			} catch (error) {
				if (isStalePlan(error)) {
					// The next connection plans anew. Here the statement goes once more, without a plan; within a transaction, which the
					// error has ended, that fails too, and whoever began the transaction repeats it.
					connection.__knex__disposed = error;
					const again = super._query(connection, {...query, options: {}}).catch(() => Promise.reject(error));
					return await (statementMs === null ? again : within(connection, statementMs, again));
				}
				// All that is not the statement's own fault: the connection is gone, also where that is noticed later.
				if (!('severity' in Object(error)) || Object(error).severity === 'FATAL') {
					connection.__knex__disposed ??= error;
				}
				throw error;
			}
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

function cut(connection: PostgresConnection, why: string): void {
	connection.__knex__disposed ??= why;
	(connection.connection.stream as Socket).destroy(new NoAnswerError(why));
}

/** The server did not answer: whether it did what it was asked is not known. The code is the one of TCP. */
export class NoAnswerError extends Error {
	override readonly name = 'NoAnswerError';
	readonly code = 'ETIMEDOUT';
}
