import type {Knex} from 'knex';

/** Octets that the store takes: of its file without the write-ahead log, or of the database. */
export async function readStoreSize(reader: Knex): Promise<number> {
	const row =
		reader.client.driverName === 'pg'
			? (await reader.raw('select pg_database_size(current_database()) as bytes')).rows[0]
			: (await reader.raw('select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()'))[0];
	return Number(row.bytes);
}
