import type {PostgresConnection, PostgresQueryClass} from 'knex/lib/dialects/postgres/index.js';
import type {Row} from './insert-rows.ts';
import type {Statement} from './postgres-pipeline.ts';

const escapes = new Map([
	['\\', '\\\\'],
	['\t', '\\t'],
	['\n', '\\n'],
	['\r', '\\r'],
	// PostgreSQL's text holds no NUL.
	['\0', '\ufffd'],
]);
const special = /[\\\t\n\r\0]/g;

function fieldOf(value: Row[number]): string {
	if (value === null) {
		return '\\N';
	}
	return typeof value === 'string' ? value.replaceAll(special, one => escapes.get(one) as string) : `${value}`;
}

/** Rows without bytes in the text format of COPY: a line for each row, tabs between its values. */
export function copyText(rows: readonly Row[]): string {
	return rows.map(row => `${row.map(fieldOf).join('\t')}\n`).join('');
}

/**
 * Sends `copy … from stdin` together with its rows, so that it costs no round trip. pg would refuse the command when PostgreSQL
 * asks for the rows. If the command fails, PostgreSQL drops the rows that follow (its protocol, "COPY Operations").
 */
export function sendCopy<Sent extends Statement>(
	connection: PostgresConnection,
	Query: PostgresQueryClass,
	statement: Sent,
	text: string,
): Promise<Sent> {
	return new Promise((resolve, reject) => {
		const query = new Query(statement.sql, undefined, (error, response) =>
			error ? reject(error) : resolve(Object.assign(statement, {response})),
		);
		query.submit = wire => {
			// One write for the three messages.
			wire.stream.cork();
			wire.query(statement.sql);
			wire.sendCopyFromChunk(Buffer.from(text));
			wire.endCopyFrom();
			wire.stream.uncork();
			return null;
		};
		// The rows are on their way.
		query.handleCopyInResponse = () => undefined;
		connection.query(query);
	});
}
