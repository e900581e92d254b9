import type {Knex} from 'knex';
import {lastReplaced, migrations} from '../../../migrations/index.ts';
import {systemClock} from '../../kit/clock.ts';
import {storeTime} from '../../kit/time.ts';
import {lockSchema, postgresDialect} from './dialect.ts';

/**
 * The state of the store's schema compared with what this program knows. A `current` store can be used; an `older` one
 * can be used after its migration.
 */
export type SchemaState = 'empty' | 'tooOld' | 'older' | 'current' | 'newer';

/** How to upgrade a store that is too old: mailctl at this commit can still migrate every earlier schema. */
export const tooOldHint = 'upgrade it with mailctl at commit 2a0e3213 first';

export type MigrateOptions = {
	/** Called before a migration that makes the store unusable for the previous version of the program. */
	readonly beforeBreaking?: (trx: Knex.Transaction) => Promise<void>;
	/** Called after the migrations, in the same transaction. */
	readonly beforeCommit?: (trx: Knex.Transaction) => Promise<void>;
	/** All migrations in order, whether applied or not. Defaults to those of this program. */
	readonly steps?: typeof migrations;
};

type Applied = {readonly name: string; readonly effect?: string | null};

/** How often a migration that is aborted by a conflict with another node's transaction is repeated. */
const maxRepeats = 5;

/**
 * Applies the missing migrations in one transaction, and returns their names. A process that dies during it leaves
 * nothing half-done. A second process that migrates at the same time waits and then finds nothing to do. If a callback
 * of `options` rejects, nothing is changed.
 */
export async function migrate(database: Knex, options: MigrateOptions = {}): Promise<string[]> {
	for (let repeats = 0; ; repeats++) {
		try {
			return await migrateOnce(database, options);
		} catch (error) {
			// After a deadlock PostgreSQL has rolled back the whole transaction, so it can be repeated.
			if (!postgresDialect.isConflict(error) || repeats === maxRepeats) {
				throw error;
			}
		}
	}
}

async function migrateOnce(
	database: Knex,
	{beforeBreaking, beforeCommit, steps = migrations}: MigrateOptions,
): Promise<string[]> {
	return await database.transaction(async trx => {
		await lockSchema(trx);
		if (!(await trx.schema.hasTable('migrations'))) {
			await trx.schema.createTable('migrations', table => {
				table.text('name').primary();
				table.text('applied_at').notNullable();
				table.text('effect');
			});
		}
		const applied = new Set((await readApplied(trx)).map(({name}) => name));
		const missing = steps.filter(([name]) => !applied.has(name));
		if (applied.size > 0 && missing.some(([, , effect]) => effect === 'breaking')) {
			await beforeBreaking?.(trx);
		}
		for (const [name, load, effect = 'additive'] of missing) {
			const {up} = await load();
			await up(trx);
			await trx('migrations').insert({name, applied_at: storeTime(systemClock.now()), effect});
		}
		await beforeCommit?.(trx);
		return missing.map(([name]) => name);
	});
}

/**
 * Reads the applied migrations. The first migration replaces a series of older ones, the last of which is
 * `lastReplaced`. A store that has applied that one has the same schema, so it counts as the first migration.
 */
async function readApplied(database: Knex): Promise<Applied[]> {
	const rows: Applied[] = await database('migrations');
	return rows.map(row => (row.name === lastReplaced ? {...row, name: migrations[0]?.[0] ?? ''} : row));
}

export async function schemaState(database: Knex): Promise<SchemaState> {
	if (!(await database.schema.hasTable('migrations'))) {
		return 'empty';
	}
	const applied = await readApplied(database);
	const missing = migrations.filter(([name]) => !applied.some(row => row.name === name));
	if (missing[0] === migrations[0] && applied.some(({name}) => judgeSchema(name) === 'tooOld')) {
		return 'tooOld';
	}
	// Additive changes by a newer program do not affect this one, but it must not add its own migrations after them.
	const newer = applied.filter(({name}) => judgeSchema(name) === 'newer');
	if (newer.some(({effect}) => effect !== 'additive') || (newer.length > 0 && missing.length > 0)) {
		return 'newer';
	}
	return missing.length > 0 ? 'older' : 'current';
}

/** Returns the last migration of a store, such as `030_proofs`; `undefined` if the store is empty. */
export async function schemaName(database: Knex): Promise<string | undefined> {
	return (await database('migrations').max({name: 'name'}))[0]?.name ?? undefined;
}

/**
 * Returns whether this program knows a migration, or whether it is older or newer than all that it knows. A store whose
 * last migration is `known` can be opened.
 */
export function judgeSchema(name: string): 'tooOld' | 'known' | 'newer' {
	if (name === lastReplaced || migrations.some(([known]) => known === name)) {
		return 'known';
	}
	// Names begin with a number, so they sort by age.
	return name < lastReplaced ? 'tooOld' : 'newer';
}
