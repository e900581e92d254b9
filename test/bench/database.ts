import {randomBytes} from 'node:crypto';
import {chmod, mkdtemp, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import createKnex from 'knex';
import type {Bench} from '../../src/cli/bench/measures.ts';
import {freePort} from '../helpers/free-port.ts';
import {postgresProgram} from '../postgres-program.ts';

export type Database = {readonly settings: Readonly<Record<string, string>>; readonly stop: () => Promise<void>};

/** A PostgreSQL server with an empty database, set as it is when it is installed: what it committed is on the disk. */
export async function startDatabase(): Promise<Database> {
	const folder = await mkdtemp(path.join(tmpdir(), 'mailctl-postgres-'));
	await chmod(folder, 0o777); // As root the server runs as another user.
	const port = await freePort();
	const EmbeddedPostgres = await postgresProgram(folder);
	const server = new EmbeddedPostgres({
		databaseDir: path.join(folder, 'data'),
		port,
		user: 'mailctl',
		password: 'bench',
		persistent: false,
		createPostgresUser: process.getuid?.() === 0,
		postgresFlags: ['-c', `unix_socket_directories=${folder}`],
		onLog: () => undefined,
	});
	await server.initialise();
	await server.start();
	return {
		settings: {
			MAILCTL_DATABASE_URL: `postgres://mailctl:bench@127.0.0.1:${port}/postgres`,
			MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
		},
		async stop() {
			await server.stop();
			await rm(folder, {recursive: true, force: true});
		},
	};
}

/** What mail costs the server: octets of its log and of what is stored, for each of so many messages. */
export function watchDatabase(url: string, messages: number): NonNullable<Bench['beside']> {
	const database = createKnex({client: 'pg', connection: url, pool: {min: 0, max: 1}});
	const look = async (): Promise<{readonly wal: number; readonly stored: number}> => {
		const {rows} = await database.raw(
			`select pg_current_wal_lsn() - '0/0' as wal, pg_database_size(current_database()) as stored`,
		);
		return {wal: Number(rows[0].wal), stored: Number(rows[0].stored)};
	};
	return async () => {
		// Full pages are written once after a checkpoint: as on a server that has run for a while.
		await database.raw('checkpoint');
		const before = await look();
		return async () => {
			const after = await look();
			await database.destroy();
			const each = (octets: number) => `${Math.round(octets / messages)} octets`;
			console.log(`a message: log ${each(after.wal - before.wal)}, stored ${each(after.stored - before.stored)}`);
		};
	};
}
