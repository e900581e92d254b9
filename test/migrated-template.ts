import createKnex from 'knex';
import {migrate} from '../src/store/engine/migrate.ts';
import {openStore} from '../src/store/store.ts';

/** The environment's name for the database that those of tests are copied from. */
export const templateVariable = 'TEST_DATABASE_TEMPLATE';

/** Makes a migrated database that others can be copied from, on the server of the URL; returns its name. */
export async function makeMigratedTemplate(adminUrl: string): Promise<string> {
	const name = 'mailctl_migrated';
	const admin = createKnex({client: 'pg', connection: adminUrl, pool: {min: 0, max: 1}});
	await admin.raw(`create database ${name}`);
	await admin.destroy();
	const url = new URL(adminUrl);
	url.pathname = `/${name}`;
	const store = await openStore({url: url.href});
	await migrate(store.database);
	await store.close();
	return name;
}
