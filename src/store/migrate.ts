import type {Knex} from 'knex';
import {migrations} from '../../migrations/index.ts';

type Step = (typeof migrations)[number];

const source: Knex.MigrationSource<Step> = {
	getMigrations: async () => [...migrations],
	getMigrationName: ([name]) => name,
	getMigration: async ([, up]) => ({
		up,
		down: async () => {
			throw new Error('Migrations are append-only: restore a backup to go back.');
		},
	}),
};

const config: Knex.MigratorConfig = {migrationSource: source, tableName: 'migrations'};

/** What the store's schema is, compared with what this program knows. */
export type SchemaState = 'current' | 'older' | 'newer';

// Of two processes that migrate an empty store at once knex lets both write a row into its lock's table, and the lock can
// then never be taken again: table and row are made in one transaction, before it looks.
async function makeLock(database: Knex): Promise<void> {
	await database.transaction(async trx => {
		if (!(await trx.schema.hasTable('migrations_lock'))) {
			await trx.schema.createTable('migrations_lock', table => {
				table.increments('index').primary();
				table.integer('is_locked');
			});
			await trx('migrations_lock').insert({is_locked: 0});
		}
	});
}

/** Applies what is missing, one transaction per migration; answers the names applied. Throws where another process is at it. */
export async function migrate(database: Knex): Promise<string[]> {
	await makeLock(database);
	const [, applied] = (await database.migrate.latest(config)) as [number, string[]];
	return applied;
}

export async function schemaState(database: Knex): Promise<SchemaState> {
	if (!(await database.schema.hasTable('migrations'))) {
		return 'older';
	}
	const applied: string[] = await database('migrations').pluck('name');
	const known = new Set(migrations.map(([name]) => name));
	if (applied.some(name => !known.has(name))) {
		return 'newer';
	}
	return applied.length < migrations.length ? 'older' : 'current';
}
