import type {Knex} from 'knex';
import {quiet} from './dialect.ts';
import {writesInTransactions} from './postgres-pipeline.ts';

/**
 * What PostgreSQL may take, milliseconds. A server that answers its pulse ends statements by itself: the limit for them here is
 * for a connection that died alone, and above all that the server is allowed.
 */
export const postgresLimits = {connectMs: 10_000, statementMs: 60_000};

// A node that hangs within a transaction holds rows that others wait for (an Idempotency-Key, a month's figures): the server
// ends its transaction before they give up.
const hurried = `set idle_in_transaction_session_timeout = '7s'; set lock_timeout = '8s'; set statement_timeout = '10s'`;
const patient = `set idle_in_transaction_session_timeout = '7s'; set lock_timeout = '30s'`;

// To compile a statement, or to start other processes for it, takes longer than most of ours, and tables of many days invite both.
const plain = 'set jit = off; set max_parallel_workers_per_gather = 0';

type PostgresConnection = {query: (sql: string, done: (error: Error | null) => void) => void};

/** What a pool of connections is for: many that read, one for maintenance, one on which a group writer writes. */
export type Use = 'reading' | 'maintenance' | 'writing';

export type PostgresOptions = {
	readonly client: unknown;
	readonly connections: number;
	readonly use: Use;
	/** Statements may take as long as they need. */
	readonly isPatient: boolean;
};

export function postgresConfig(url: string, {client, connections, use, isPatient}: PostgresOptions) {
	const session = [isPatient ? patient : hurried, plain, ...(use === 'writing' ? [writesInTransactions] : [])].join(
		'; ',
	);
	return {
		client: client as typeof Knex.Client,
		connection: {connectionString: url, application_name: 'mailctl', keepAlive: true},
		compileSqlOnError: false,
		log: quiet,
		acquireConnectionTimeout: 10_000,
		// Statements that come again are prepared: not those of lists, whose best plan depends on the values of filters.
		prepares: use !== 'reading',
		pipelines: use === 'writing',
		pool: {
			min: 0,
			max: connections,
			afterCreate: (
				connection: PostgresConnection,
				done: (error: Error | null, connection: PostgresConnection) => void,
			) => connection.query(session, error => done(error, connection)),
		},
	} satisfies Knex.Config & {readonly prepares: boolean; readonly pipelines: boolean};
}
