import {type ChildProcess, execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {chmod, chown, mkdtemp, rm, stat, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import type {ExecutionContext} from 'ava';
import pg from 'pg';
import {postgresBinary, postgresProgram} from '../postgres-program.ts';
import {freePort} from './free-port.ts';
import {waitFor} from './wait.ts';

/** A PostgreSQL server, and a replica that has everything before the server answers a commit. */
export type ReplicatedPostgres = {
	/** Of the primary. */
	readonly url: string;
	/** `kill -9`. */
	readonly killPrimary: () => Promise<void>;
	/** Where the replica listens; until it is promoted it can only be read. */
	readonly replicaPort: number;
	readonly replicaUrl: string;
	readonly promote: () => Promise<void>;
};

const host = '127.0.0.1';
const urlOf = (port: number) => `postgres://mailctl:test@${host}:${port}/postgres`;

export async function startReplicatedPostgres(t: ExecutionContext): Promise<ReplicatedPostgres> {
	const folder = await mkdtemp(join(tmpdir(), 'mailctl-replicated-'));
	await chmod(folder, 0o777); // As root the servers run as another user.
	const [primaryData, replicaData] = [join(folder, 'primary'), join(folder, 'replica')];
	const [port, replicaPort] = [await freePort(), await freePort()];
	const EmbeddedPostgres = await postgresProgram(folder);
	const cluster = new EmbeddedPostgres({
		...{databaseDir: primaryData, user: 'mailctl', password: 'test', persistent: true, onLog: () => undefined},
		createPostgresUser: process.getuid?.() === 0,
	});
	await cluster.initialise();
	const {uid, gid} = await stat(primaryData);
	// The copy of a server that never ran begins where that one begins.
	await promisify(execFile)('cp', ['-a', primaryData, replicaData]);
	const signal = join(replicaData, 'standby.signal');
	await writeFile(signal, '');
	await chown(signal, uid, gid);

	const binary = postgresBinary(folder);
	const serve = (data: string, at: number, settings: readonly string[]): ChildProcess => {
		const all = ['fsync=off', 'max_connections=100', `unix_socket_directories=${folder}`, ...settings];
		const flags = all.flatMap(setting => ['-c', setting]);
		return spawn(binary, ['-D', data, '-p', String(at), ...flags], {uid, gid, stdio: 'ignore'});
	};
	const primary = serve(primaryData, port, ['synchronous_standby_names=*']);
	const replica = serve(replicaData, replicaPort, [
		`primary_conninfo=host=${host} port=${port} user=mailctl password=test`,
	]);
	t.teardown(async () => {
		await Promise.all([primary, replica].map(server => end(server, 'SIGQUIT')));
		await rm(folder, {recursive: true, force: true});
	});
	await waitFor('the replica follows', async () => {
		const sync = "select from pg_stat_replication where sync_state = 'sync'";
		return (await ask(port, sync).catch(() => 0)) > 0;
	});

	return {
		url: urlOf(port),
		killPrimary: () => end(primary, 'SIGKILL'),
		replicaPort,
		replicaUrl: urlOf(replicaPort),
		promote: async () => void (await ask(replicaPort, 'select pg_promote()')),
	};
}

async function end(server: ChildProcess, signal: NodeJS.Signals): Promise<void> {
	if (server.exitCode === null && server.signalCode === null) {
		const ended = once(server, 'exit');
		server.kill(signal);
		await ended;
	}
}

/** Answers how many rows there were. */
async function ask(port: number, sql: string): Promise<number> {
	const client = new pg.Client(urlOf(port));
	await client.connect();
	const {rowCount} = await client.query(sql);
	await client.end();
	return rowCount ?? 0;
}
