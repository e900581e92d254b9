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

/** Applies what is missing, one transaction per migration; answers the names applied. */
export async function migrate(database: Knex): Promise<string[]> {
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
