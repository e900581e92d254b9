import type {Knex} from 'knex';
import {migrations} from '../../../migrations/index.ts';
import {systemClock} from '../../mail/clock.ts';
import {storeTime} from '../../mail/time.ts';
import {lockSchema} from './dialect.ts';

/** What the store's schema is, compared with what this program knows. */
export type SchemaState = 'empty' | 'older' | 'current' | 'newer';

/**
 * Applies what is missing, all of it in one transaction: a process that dies over it leaves nothing half-done, and a second
 * one that migrates at the same time waits and finds the work done. Where `within` rejects, nothing is changed. Answers the
 * names applied.
 */
export async function migrate(
	database: Knex,
	within: (trx: Knex.Transaction) => Promise<void> = async () => undefined,
): Promise<string[]> {
	return await database.transaction(async trx => {
		await lockSchema(trx);
		if (!(await trx.schema.hasTable('migrations'))) {
			await trx.schema.createTable('migrations', table => {
				table.text('name').primary();
				table.text('applied_at').notNullable();
			});
		}
		const applied = new Set<string>(await trx('migrations').pluck('name'));
		const missing = migrations.filter(([name]) => !applied.has(name));
		for (const [name, load] of missing) {
			const {up} = await load();
			await up(trx);
			await trx('migrations').insert({name, applied_at: storeTime(systemClock.now())});
		}
		await within(trx);
		return missing.map(([name]) => name);
	});
}

export async function schemaState(database: Knex): Promise<SchemaState> {
	if (!(await database.schema.hasTable('migrations'))) {
		return 'empty';
	}
	const applied: string[] = await database('migrations').pluck('name');
	const known = new Set(migrations.map(([name]) => name));
	if (applied.some(name => !known.has(name))) {
		return 'newer';
	}
	return applied.length < migrations.length ? 'older' : 'current';
}

/** The last migration of a store, `014_secrets`; undefined for an empty one. */
export async function schemaName(database: Knex): Promise<string | undefined> {
	return (await database('migrations').max({name: 'name'}))[0]?.name ?? undefined;
}

/** Whether a store whose last migration this is can be opened. */
export function knowsSchema(last: string): boolean {
	return migrations.some(([name]) => name === last);
}
