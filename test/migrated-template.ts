import path from 'node:path';
import createKnex from 'knex';
import {migrate} from '../src/store/engine/migrate.ts';
import {openStore, type StoreLocation} from '../src/store/store.ts';

/** The environment's name for the database that those of tests are copied from. */
export const templateVariable = 'TEST_DATABASE_TEMPLATE';

/** The environment's name for the SQLite file that those of tests are copied from. */
export const migratedFileVariable = 'TEST_DATABASE_FILE';

/** Makes a migrated database that others can be copied from, on the server of the URL; returns its name. */
export async function makeMigratedTemplate(adminUrl: string): Promise<string> {
	const name = 'mailctl_migrated';
	const admin = createKnex({client: 'pg', connection: adminUrl, pool: {min: 0, max: 1}});
	await admin.raw(`create database ${name}`);
	await admin.destroy();
	const url = new URL(adminUrl);
	url.pathname = `/${name}`;
	await migrateStore({url: url.href});
	return name;
}

/** Makes a migrated SQLite file in a folder; returns its path. */
export async function makeMigratedFile(folder: string): Promise<string> {
	const file = path.join(folder, 'mailctl.db');
	await migrateStore({file});
	return file;
}

async function migrateStore(location: StoreLocation): Promise<void> {
	const store = await openStore(location);
	await migrate(store.database);
	await store.close();
}
