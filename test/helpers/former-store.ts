import {readFileSync} from 'node:fs';
import {openStore, type Store, type StoreLocation} from '../../src/store/store.ts';
import type {Engine} from './databases.ts';

const folder = 'test/fixtures/upgrade/2a0e3213';

/** What opens the stores of the fixture: API keys, and what their secrets are sealed with. */
export const former: {
	readonly sqlite: {readonly key: string; readonly templateId: string; readonly secrets: object};
	readonly postgres: {readonly key: string; readonly templateId: string; readonly secretKey: string};
} = JSON.parse(readFileSync(`${folder}.json`, 'utf8'));

/** The last migration of the fixture. */
export const formerSchema = '029_fewer_event_rows';

/**
 * Fills an empty place with the store that a daemon of commit 2a0e3213 left at `kill -9`: one mail was delivered, a
 * second was deferred at both recipients, a third was under way.
 */
export async function fillFormer(location: StoreLocation): Promise<Store> {
	const store = await openStore(location);
	const engine: Engine = 'file' in location ? 'sqlite' : 'postgres';
	const text = readFileSync(`${folder}.${engine}.sql`, 'utf8');
	// Many statements at once, with question marks in them.
	const {client} = store.database;
	const connection = await client.acquireConnection();
	await (engine === 'postgres'
		? connection.query(text)
		: new Promise<void>((resolve, reject) => {
				connection.exec(text, (error: Error | null) => (error ? reject(error) : resolve()));
			}));
	await client.releaseConnection(connection);
	return store;
}

/** Makes a store one that the program of commit 2a0e3213 would have had to bring up to date. */
export async function makeTooOld({database}: Store): Promise<void> {
	await database('migrations').where('name', '>', '013_webhook_secrets').delete();
}
