import type {Knex} from 'knex';
import {migrations} from '../../../migrations/index.ts';
import {systemClock} from '../../mail/clock.ts';
import {storeTime} from '../../mail/time.ts';
import {lockSchema, postgresDialect} from './dialect.ts';

/** What the store's schema is, compared with what this program knows. `current`: it can be used. */
export type SchemaState = 'empty' | 'older' | 'current' | 'newer';

export type MigrateOptions = {
	/** Before a migration that ends the use of the store by the program of the version before. */
	readonly beforeBreaking?: (trx: Knex.Transaction) => Promise<void>;
	/** At the end, in the same transaction. */
	readonly within?: (trx: Knex.Transaction) => Promise<void>;
	/** Hears what takes long before it begins: lines of text. */
	readonly tell?: (line: string) => void;
};

/** As often as a node's transaction may be in the way of one that alters several tables. */
const maxRepeats = 5;

/**
 * Applies what is missing, all of it in one transaction: a process that dies over it leaves nothing half-done, and a second
 * one that migrates at the same time waits and finds the work done. If PostgreSQL ends it for a deadlock with others, it is
 * begun again. Where an option rejects, nothing is changed. Answers the names applied.
 */
export async function migrate(database: Knex, options: MigrateOptions = {}): Promise<string[]> {
	for (let repeats = 0; ; repeats++) {
		try {
			return await migrateOnce(database, options);
		} catch (error) {
			// PostgreSQL ended the transaction for a deadlock: nothing of it was done.
			if (!postgresDialect.isConflict(error) || repeats === maxRepeats) {
				throw error;
			}
		}
	}
}

async function migrateOnce(database: Knex, {beforeBreaking, within, tell}: MigrateOptions): Promise<string[]> {
	return await database.transaction(async trx => {
		await lockSchema(trx);
		if (!(await trx.schema.hasTable('migrations'))) {
			await trx.schema.createTable('migrations', table => {
				table.text('name').primary();
				table.text('applied_at').notNullable();
			});
		}
		if (!(await trx.schema.hasColumn('migrations', 'effect'))) {
			await trx.schema.alterTable('migrations', table => table.text('effect'));
		}
		const applied = new Set<string>(await trx('migrations').pluck('name'));
		const missing = migrations.filter(([name]) => !applied.has(name));
		if (applied.size > 0 && missing.some(([, , effect]) => effect === 'breaking')) {
			await beforeBreaking?.(trx);
		}
		for (const [name, load, effect = 'additive'] of missing) {
			const {up} = await load();
			await up(trx, tell);
			await trx('migrations').insert({name, applied_at: storeTime(systemClock.now()), effect});
		}
		await within?.(trx);
		return missing.map(([name]) => name);
	});
}

export async function schemaState(database: Knex): Promise<SchemaState> {
	if (!(await database.schema.hasTable('migrations'))) {
		return 'empty';
	}
	const applied: ReadonlyArray<{readonly name: string; readonly effect?: string | null}> = await database('migrations');
	const known = new Set(migrations.map(([name]) => name));
	const newer = applied.filter(({name}) => !known.has(name));
	const isMissing = applied.length - newer.length < migrations.length;
	// What a newer program says it has only added is not in the way of this one.
	if (newer.some(({effect}) => effect !== 'additive') || (newer.length > 0 && isMissing)) {
		return 'newer';
	}
	return isMissing ? 'older' : 'current';
}

/** The last migration of a store, `014_secrets`; undefined for an empty one. */
export async function schemaName(database: Knex): Promise<string | undefined> {
	return (await database('migrations').max({name: 'name'}))[0]?.name ?? undefined;
}

/** Whether a store whose last migration this is can be opened. */
export function knowsSchema(last: string): boolean {
	return migrations.some(([name]) => name === last);
}
