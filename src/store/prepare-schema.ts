import {setTimeout as wait} from 'node:timers/promises';
import type {Knex} from 'knex';
import {migrate, type SchemaState, schemaState} from './migrate.ts';

const firstWait = 50;
const longestWait = 15_000;

/**
 * Gives an empty store its tables, also where several processes meet it at once: one makes them, the others wait. A store
 * that has tables is left as it is. `migrating`: somebody else still is at it, or died over it.
 */
export async function prepareSchema(database: Knex): Promise<SchemaState | 'migrating'> {
	for (let pause = firstWait, waited = 0; ; pause *= 2) {
		const state = await schemaState(database);
		if (state !== 'older') {
			return state;
		}
		const untouched = await isUntouched(database);
		if (untouched) {
			// What fails here fails because another one was quicker; the next turn tells.
			const failed = await migrate(database).then(
				() => undefined,
				(error: unknown) => ({error}),
			);
			if (!failed) {
				continue;
			}
			if (waited > longestWait) {
				throw failed.error;
			}
		} else if (!(await isLocked(database))) {
			return (await schemaState(database)) === 'older' ? 'older' : 'current';
		} else if (waited > longestWait) {
			return 'migrating';
		}
		await wait(pause);
		waited += pause;
	}
}

async function isUntouched(database: Knex): Promise<boolean> {
	return !(await database.schema.hasTable('migrations')) || (await database('migrations').first('id')) === undefined;
}

async function isLocked(database: Knex): Promise<boolean> {
	const row: {is_locked: number} | undefined = await database('migrations_lock').first('is_locked');
	return row?.is_locked === 1;
}
