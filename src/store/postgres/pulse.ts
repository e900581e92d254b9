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
	readonly onSilent: (silent: boolean) => void;
};

/** The state of the server, which is queried every second. */
export type Pulse = {
	/** Returns how many milliseconds this machine's clock is ahead of the server's. */
	readonly skew: () => number;
	/** Holds the lock of this name for life, or until the server notices that the process or its connection is gone. */
	readonly hold: (name: string) => Promise<void>;
	/** Receives other nodes' NOTIFY. The notice is `null` on a new connection, as notices may have been missed. */
	readonly listen: (onNotice: (notice: string | null) => void) => Promise<void>;
	readonly stop: () => void;
};

const pulseMs = 1000;
const answerMs = 2000;
/** The pause after a failure. It is short, so that recovery is noticed soon. */
const retryMs = 250;
/** The extra time after a stall of this process, so that a response that has already arrived is read first. */
const graceMs = 250;
/** The tolerated difference of two measurements, in addition to the responses' time, in milliseconds. */
const toleratedMs = 50;

const timeQuery = `select ${serverMs} as now`;
const tryLock = 'select pg_try_advisory_lock($1, hashtext($2)) as got';

/**
 * Starts to query the server's time every second, on its own connection. This sets the clock, shows how far this
 * machine's clock is off, and detects a silent server within three seconds. Resolves with the first response.
 */
export async function startPulse({url, clock, connectMs, onSilent}: PulseOptions): Promise<Pulse> {
	let client: pg.Client | null = null;
	let held: {readonly name: string; by: pg.Client | null} | null = null;
	let onNotice: ((notice: string | null) => void) | null = null;
	let listening: pg.Client | null = null;
	let silent = false;
	let stopped = false;
	let skew: number | null = null;
	let timer: NodeJS.Timeout | undefined;

	const newClient = () => new pg.Client({connectionString: url, application_name: 'mailctl pulse', keepAlive: true});

	async function connected(limit: number): Promise<pg.Client> {
		if (client) {
			return client;
		}
		const fresh = newClient();
		fresh.on('error', () => leave(fresh));
		fresh.on('end', () => leave(fresh));
		fresh.on('notification', ({payload = ''}) => onNotice?.(payload));
		client = fresh;
		await inTime(fresh, fresh.connect(), limit);
		return fresh;
	}

	function leave(gone: pg.Client): void {
		if (client === gone) {
			client = null;
		}
		gone.connection.stream.destroy();
	}

	/** `limit` applies to connecting and to the response. */
	async function measure(limit: number): Promise<void> {
		const asked = await connected(limit);
		const began = performance.now();
		const {rows} = await inTime(asked, asked.query<{now: string}>(timeQuery), limit);
		// Assumes that the server read its clock halfway through our wait.
		const doubt = (performance.now() - began) / 2;
		const now = Number(rows[0]?.now) + doubt;
		if (skew === null || Math.abs(now - clock.now()) > doubt + toleratedMs) {
			clock.set(now);
		}
		skew = Date.now() - now;
		await lock(asked);
		await hear(asked);
	}

	async function hear(asked: pg.Client): Promise<void> {
		if (onNotice !== null && listening !== asked) {
			await inTime(asked, asked.query(`listen ${channel}`), answerMs);
			listening = asked;
			onNotice(null);
		}
	}

	/**
	 * Takes the lock of `hold`. The server may still consider a former connection alive, which then holds the lock, so
	 * this is retried at the next beat.
	 */
	async function lock(asked: pg.Client): Promise<void> {
		if (held !== null && held.by !== asked) {
			const {rows} = await inTime(asked, asked.query<{got: boolean}>(tryLock, [nodeLocks, held.name]), answerMs);
			held.by = rows[0]?.got ? asked : null;
		}
	}

	async function beat(): Promise<void> {
		try {
			await measure(answerMs);
			tell(false);
			next(pulseMs);
		} catch (error) {
			if (client) {
				leave(client);
			}
			// An error from the server is a response too.
			tell(error instanceof NoAnswerError);
			next(retryMs);
		}
	}

	function tell(is: boolean): void {
		if (silent !== is && !stopped) {
			silent = is;
			onSilent(is);
		}
	}

	function next(ms: number): void {
		if (!stopped) {
			timer = setTimeout(() => void beat(), ms).unref();
		}
	}

	function stop(): void {
		stopped = true;
		clearTimeout(timer);
		if (client) {
			leave(client);
		}
	}

	try {
		await measure(connectMs);
		await refusePooling(await connected(connectMs), newClient(), connectMs);
	} catch (error) {
		stop();
		throw error;
	}
	next(pulseMs);
	return {
		skew: () => skew ?? 0,
		async hold(name) {
			held = {name, by: null};
			await lock(await connected(answerMs));
		},
		async listen(listener) {
			onNotice = listener;
			await hear(await connected(answerMs));
		},
		stop,
	};
}

/** A pooler assigns each transaction another connection of the server. */
export class TransactionPoolingError extends Error {
	override readonly name = 'TransactionPoolingError';
	readonly code = 'TRANSACTION_POOLING';
}

const ownProcess = 'select pg_backend_pid() as pid';

/**
 * Throws `TransactionPoolingError` behind a pooler that shares server connections, because a session's locks, LISTEN,
 * settings and prepared statements would leak to others. Two simultaneous clients must each have a process of their own
 * and keep it. The order of the queries also detects two connections that alternate. Nothing is set on the connections.
 * `second` must not be connected yet.
 */
async function refusePooling(first: pg.Client, second: pg.Client, limit: number): Promise<void> {
	second.on('error', () => undefined);
	try {
		await inTime(second, second.connect(), limit);
		const seen = new Map<pg.Client, number>();
		for (const client of [first, first, second, first, second, second]) {
			const {rows} = await inTime(client, client.query<{pid: number}>(ownProcess), limit);
			const pid = rows[0]?.pid ?? 0;
			const others = [...seen].filter(([other]) => other !== client).map(([, taken]) => taken);
			if (others.includes(pid) || (seen.get(client) ?? pid) !== pid) {
				throw new TransactionPoolingError('transactions of one session run on different server connections');
			}
			seen.set(client, pid);
		}
	} finally {
		second.connection.stream.destroy();
	}
}

async function inTime<Result>(asked: pg.Client, answer: Promise<Result>, limit: number): Promise<Result> {
	const giveUp = () => asked.connection.stream.destroy(new NoAnswerError('the PostgreSQL server does not respond'));
	let timer = setTimeout(() => {
		timer = setTimeout(giveUp, graceMs);
	}, limit);
	try {
		return await answer;
	} finally {
		clearTimeout(timer);
	}
}
