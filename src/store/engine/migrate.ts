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

/** How to upgrade a store that is too old: the program of this commit knows all schemas before its own. */
export const tooOldFix = 'bring it up to date with mailctl of commit 2a0e3213 first';

export type MigrateOptions = {
	/** Called before a migration that makes the store unusable for the previous version of the program. */
	readonly beforeBreaking?: (trx: Knex.Transaction) => Promise<void>;
	/** Called at the end, in the same transaction. */
	readonly within?: (trx: Knex.Transaction) => Promise<void>;
	/** All steps, of which some may be missing. */
	readonly steps?: typeof migrations;
};

type Applied = {readonly name: string; readonly effect?: string | null};

/** How often another node's transaction may conflict with one that alters several tables. */
const maxRepeats = 5;

/**
 * Applies the missing migrations in one transaction, and returns their names. A process that dies during it leaves
 * nothing half-done. A second process that migrates at the same time waits and finds the work done. If PostgreSQL ends
 * the transaction because of a deadlock, it is repeated. If an option rejects, nothing is changed.
 */
export async function migrate(database: Knex, options: MigrateOptions = {}): Promise<string[]> {
	for (let repeats = 0; ; repeats++) {
		try {
			return await migrateOnce(database, options);
		} catch (error) {
			// PostgreSQL ended the transaction because of a deadlock, so none of it was done.
			if (!postgresDialect.isConflict(error) || repeats === maxRepeats) {
				throw error;
			}
		}
	}
}

async function migrateOnce(
	database: Knex,
	{beforeBreaking, within, steps = migrations}: MigrateOptions,
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
		await within?.(trx);
		return missing.map(([name]) => name);
	});
}

/** Reads the applied migrations. The last step that the first migration replaced counts as that migration. */
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
	// Additive changes by a newer program do not affect this one.
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

/** Returns whether a store with this last migration can be opened. */
export function judgeSchema(last: string): 'tooOld' | 'known' | 'newer' {
	if (last === lastReplaced || migrations.some(([name]) => name === last)) {
		return 'known';
	}
	return last < lastReplaced ? 'tooOld' : 'newer';
}
