import {writeFileSync} from 'node:fs';
import type {Knex} from 'knex';
import {schemaName} from './engine/migrate.ts';
import {openStore} from './store.ts';

/**
 * Copies SQLite's store, as it is at this moment, into a new file, while others read and write on. The copy is whole: its last
 * migration. Throws what SQLite throws of a damaged file.
 */
export async function copyStore(reader: Knex, file: string): Promise<string> {
	writeFileSync(file, '', {mode: 0o600, flag: 'wx'});
	await reader.raw('vacuum into ?', [file]);
	const copy = await openStore({file});
	try {
		const [found] = await copy.reader.raw('pragma quick_check(1)');
		if (found.quick_check !== 'ok') {
			throw Object.assign(new Error(found.quick_check), {code: 'SQLITE_CORRUPT'});
		}
		return (await schemaName(copy.reader)) ?? '';
	} finally {
		await copy.close();
	}
}
