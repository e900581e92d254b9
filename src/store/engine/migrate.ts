import type {Knex} from 'knex';
import {lastReplaced, migrations} from '../../../migrations/index.ts';
import {systemClock} from '../../kit/clock.ts';
import {storeTime} from '../../kit/time.ts';
import {lockSchema, postgresDialect} from './dialect.ts';

/**
 * What the store's schema is, compared with what this program knows. `current`: it can be used; `older`: after its
 * migration.
 */
export type SchemaState = 'empty' | 'tooOld' | 'older' | 'current' | 'newer';

/** How to bring up to date what is too old: the program of this commit knows all schemas before its own. */
export const tooOldFix = 'bring it up to date with mailctl of commit 2a0e3213 first';

export type MigrateOptions = {
	/** Before a migration that ends the use of the store by the program of the version before. */
	readonly beforeBreaking?: (trx: Knex.Transaction) => Promise<void>;
	/** At the end, in the same transaction. */
	readonly within?: (trx: Knex.Transaction) => Promise<void>;
	/** What may be missing. */
	readonly steps?: typeof migrations;
};

type Applied = {readonly name: string; readonly effect?: string | null};

/** As often as a node's transaction may be in the way of one that alters several tables. */
const maxRepeats = 5;

/**
 * Applies what is missing, all of it in one transaction: a process that dies over it leaves nothing half-done, and a
 * second one that migrates at the same time waits and finds the work done. If PostgreSQL ends it for a deadlock with
 * others, it is begun again. Where an option rejects, nothing is changed. Answers the names applied.
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

/** With the first migration in place of the last step that it has replaced. */
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
	// What a newer program says it has only added is not in the way of this one.
	const newer = applied.filter(({name}) => judgeSchema(name) === 'newer');
	if (newer.some(({effect}) => effect !== 'additive') || (newer.length > 0 && missing.length > 0)) {
		return 'newer';
	}
	return missing.length > 0 ? 'older' : 'current';
}

/** The last migration of a store, `030_proofs`; undefined for an empty one. */
export async function schemaName(database: Knex): Promise<string | undefined> {
	return (await database('migrations').max({name: 'name'}))[0]?.name ?? undefined;
}

/** Whether a store with this last migration can be opened. */
export function judgeSchema(last: string): 'tooOld' | 'known' | 'newer' {
	if (last === lastReplaced || migrations.some(([name]) => name === last)) {
		return 'known';
	}
	return last < lastReplaced ? 'tooOld' : 'newer';
}
