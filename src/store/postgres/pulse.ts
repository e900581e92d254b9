import pg from 'pg';
import type {SharedClock} from '../../kit/clock.ts';
import {channel, nodeLocks, serverMs} from '../engine/dialect.ts';
import {NoAnswerError} from './postgres-client.ts';

export type PulseOptions = {
	readonly url: string;
	/** Follows the server's clock. */
	readonly clock: SharedClock;
	/** To connect for the first time and to answer then, milliseconds. */
	readonly connectMs: number;
	/** Whether the server answers; called when that changes. */
	readonly onSilent: (silent: boolean) => void;
};

/** What is known of the server from asking it every second. */
export type Pulse = {
	/** Milliseconds that this machine's clock is ahead of the server's. */
	readonly skew: () => number;
	/** Holds the lock of this name for life, or until the server sees that this process or its connection is gone. */
	readonly hold: (name: string) => Promise<void>;
	/** Receives other nodes' NOTIFY. Null: the connection is new, and notices may have been missed. */
	readonly listen: (onNotice: (notice: string | null) => void) => Promise<void>;
	readonly stop: () => void;
};

const pulseMs = 1000;
const answerMs = 2000;
/** After a failure: recovery is noticed soon. */
const retryMs = 250;
/** After a stall of our own: an answer that has come meanwhile is read first. */
const graceMs = 250;
/** Tolerated difference of two measurements, on top of the time that the answers took, milliseconds. */
const toleratedMs = 50;

const timeQuery = `select ${serverMs} as now`;
const tryLock = 'select pg_try_advisory_lock($1, hashtext($2)) as got';

/**
 * Asks the server for its time every second, on a connection of its own. That sets the clock, shows how far this
 * machine's own clock is off, and finds a silent server within three seconds. Resolves with the first answer.
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

	/** `limit`: for connecting, and for the answer. */
	async function measure(limit: number): Promise<void> {
		const asked = await connected(limit);
		const began = performance.now();
		const {rows} = await inTime(asked, asked.query<{now: string}>(timeQuery), limit);
		// The server read its clock in the middle of our waiting, near enough.
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
	 * A connection that the server still takes for alive may hold the lock: then it is asked for again at the next
	 * beat.
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
			// A refusal is an answer.
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

/** A pooler gives each transaction another connection of the server. */
export class TransactionPoolingError extends Error {
	override readonly name = 'TransactionPoolingError';
	readonly code = 'TRANSACTION_POOLING';
}

const ownProcess = 'select pg_backend_pid() as pid';

/**
 * Throws TransactionPoolingError behind a pooler that shares connections of the server: a session's locks, LISTEN,
 * settings and prepared statements would be left to others. Two clients at once must have a process each and keep it;
 * they are asked in an order in which two connections that take turns are found as well. Nothing is set on the
 * connections. `second` is not connected yet.
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
				throw new TransactionPoolingError('the server gives each transaction another connection');
			}
			seen.set(client, pid);
		}
	} finally {
		second.connection.stream.destroy();
	}
}

async function inTime<Result>(asked: pg.Client, answer: Promise<Result>, limit: number): Promise<Result> {
	const giveUp = () => asked.connection.stream.destroy(new NoAnswerError('the PostgreSQL server does not answer'));
	let timer = setTimeout(() => {
		timer = setTimeout(giveUp, graceMs);
	}, limit);
	try {
		return await answer;
	} finally {
		clearTimeout(timer);
	}
}
