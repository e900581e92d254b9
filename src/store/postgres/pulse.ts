import pg from 'pg';
import type {SharedClock} from '../../kit/clock.ts';
import {channel, nodeLocks, serverMs} from '../engine/dialect.ts';
import {NoAnswerError} from './postgres-client.ts';

export type PulseOptions = {
	readonly url: string;
	/** Follows the server's clock. */
	readonly clock: SharedClock;
	/** The limit for the first connection and its first response, in milliseconds. */
	readonly connectMs: number;
	/** Called when the server stops or resumes responding. */
	readonly onSilent: (isSilent: boolean) => void;
};

const pulseMs = 1000;
const responseMs = 2000;
/** The pause after a failure. It is short, so that recovery is noticed soon. */
const retryMs = 250;
/** The extra time after a stall of this process, so that a response that has already arrived is read first. */
const graceMs = 250;
/** The tolerated difference of two measurements, in addition to the responses' time, in milliseconds. */
const toleratedMs = 50;

const timeQuery = `select ${serverMs} as now`;
const tryLock = 'select pg_try_advisory_lock($1, hashtext($2)) as acquired';

/**
 * Queries the server's time every second, on its own connection. This sets the clock, shows how far this machine's
 * clock is off, and detects a silent server within three seconds.
 */
export class Pulse {
	readonly #options: PulseOptions;
	#client: pg.Client | null = null;
	#held: {readonly name: string; by: pg.Client | null} | null = null;
	#onNotice: ((notice: string | null) => void) | null = null;
	#listening: pg.Client | null = null;
	#isSilent = false;
	#isStopped = false;
	#skew: number | null = null;
	#timer: NodeJS.Timeout | undefined;

	constructor(options: PulseOptions) {
		this.#options = options;
	}

	/** Resolves with the first response. */
	async start(): Promise<void> {
		const {connectMs} = this.#options;
		try {
			await this.#measure(connectMs);
			await refusePooling(await this.#connected(connectMs), this.#newClient(), connectMs);
		} catch (error) {
			this.stop();
			throw error;
		}
		this.#schedule(pulseMs);
	}

	/** Returns how many milliseconds this machine's clock is ahead of the server's. */
	skew(): number {
		return this.#skew ?? 0;
	}

	/** Holds the lock of this name until the server notices that the process or its connection is gone. */
	async hold(name: string): Promise<void> {
		this.#held = {name, by: null};
		await this.#lock(await this.#connected(responseMs));
	}

	/** Receives other nodes' NOTIFY. The notice is `null` on a new connection, as notices may have been missed. */
	async listen(listener: (notice: string | null) => void): Promise<void> {
		this.#onNotice = listener;
		await this.#startListening(await this.#connected(responseMs));
	}

	stop(): void {
		this.#isStopped = true;
		clearTimeout(this.#timer);
		if (this.#client) {
			this.#disconnect(this.#client);
		}
	}

	#newClient(): pg.Client {
		const connectionString = this.#options.url;
		return new pg.Client({connectionString, application_name: 'mailctl pulse', keepAlive: true});
	}

	async #connected(limit: number): Promise<pg.Client> {
		if (this.#client) {
			return this.#client;
		}
		const client = this.#newClient();
		client.on('error', () => this.#disconnect(client));
		client.on('end', () => this.#disconnect(client));
		client.on('notification', ({payload = ''}) => this.#onNotice?.(payload));
		this.#client = client;
		await withinLimit(client, client.connect(), limit);
		return client;
	}

	#disconnect(client: pg.Client): void {
		if (this.#client === client) {
			this.#client = null;
		}
		client.connection.stream.destroy();
	}

	/** `limit` applies to connecting and to the response. */
	async #measure(limit: number): Promise<void> {
		const client = await this.#connected(limit);
		const startedAt = performance.now();
		const {rows} = await withinLimit(client, client.query<{now: string}>(timeQuery), limit);
		// Assumes that the server read its clock halfway through our wait.
		const uncertainty = (performance.now() - startedAt) / 2;
		const now = Number(rows[0]?.now) + uncertainty;
		const {clock} = this.#options;
		if (this.#skew === null || Math.abs(now - clock.now()) > uncertainty + toleratedMs) {
			clock.set(now);
		}
		this.#skew = Date.now() - now;
		await this.#lock(client);
		await this.#startListening(client);
	}

	async #startListening(client: pg.Client): Promise<void> {
		if (this.#onNotice !== null && this.#listening !== client) {
			await withinLimit(client, client.query(`listen ${channel}`), responseMs);
			this.#listening = client;
			this.#onNotice(null);
		}
	}

	/**
	 * Takes the lock of `hold`. The server may still consider a former connection alive, which then holds the lock, so
	 * this is retried at the next beat.
	 */
	async #lock(client: pg.Client): Promise<void> {
		const held = this.#held;
		if (held !== null && held.by !== client) {
			const {rows} = await withinLimit(
				client,
				client.query<{acquired: boolean}>(tryLock, [nodeLocks, held.name]),
				responseMs,
			);
			held.by = rows[0]?.acquired ? client : null;
		}
	}

	async #beat(): Promise<void> {
		try {
			await this.#measure(responseMs);
			this.#setSilent(false);
			this.#schedule(pulseMs);
		} catch (error) {
			if (this.#client) {
				this.#disconnect(this.#client);
			}
			// An error from the server is a response too.
			this.#setSilent(error instanceof NoAnswerError);
			this.#schedule(retryMs);
		}
	}

	#setSilent(isSilent: boolean): void {
		if (this.#isSilent !== isSilent && !this.#isStopped) {
			this.#isSilent = isSilent;
			this.#options.onSilent(isSilent);
		}
	}

	#schedule(ms: number): void {
		if (!this.#isStopped) {
			this.#timer = setTimeout(() => void this.#beat(), ms).unref();
		}
	}
}

/** A pooler assigns each transaction another connection of the server. */
export class TransactionPoolingError extends Error {
	override readonly name = 'TransactionPoolingError';
	readonly code = 'TRANSACTION_POOLING';
}

const ownProcess = 'select pg_backend_pid() as pid';

/**
 * Throws `TransactionPoolingError` behind a pooler that shares server connections, because a session's locks, LISTEN,
 * settings and prepared statements would leak to other sessions. Two simultaneous clients must each have a process of
 * their own and keep it. The order of the queries also detects two connections that alternate. Nothing is set on the
 * connections. `second` must not be connected yet.
 */
async function refusePooling(first: pg.Client, second: pg.Client, limit: number): Promise<void> {
	second.on('error', () => undefined);
	try {
		await withinLimit(second, second.connect(), limit);
		const pids = new Map<pg.Client, number>();
		for (const client of [first, first, second, first, second, second]) {
			const {rows} = await withinLimit(client, client.query<{pid: number}>(ownProcess), limit);
			const pid = rows[0]?.pid ?? 0;
			const otherPids = [...pids].filter(([other]) => other !== client).map(([, otherPid]) => otherPid);
			if (otherPids.includes(pid) || (pids.get(client) ?? pid) !== pid) {
				throw new TransactionPoolingError('transactions of one session run on different server connections');
			}
			pids.set(client, pid);
		}
	} finally {
		second.connection.stream.destroy();
	}
}

async function withinLimit<Result>(client: pg.Client, response: Promise<Result>, limit: number): Promise<Result> {
	const giveUp = () => client.connection.stream.destroy(new NoAnswerError('the PostgreSQL server does not respond'));
	let timer = setTimeout(() => {
		timer = setTimeout(giveUp, graceMs);
	}, limit);
	try {
		return await response;
	} finally {
		clearTimeout(timer);
	}
}
