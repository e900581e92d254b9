import type {Knex} from 'knex';
import {idTime} from '../../mail/ids.ts';
import {storeTime} from '../../mail/time.ts';
import {firstAccepted} from '../engine/dialect.ts';
import {type QueueFilter, queuePart} from './queue-parts.ts';

/** What waits for one destination; counts of copies. */
export type QueueSummary = {
	readonly destination: string;
	/** Due now. */
	readonly ready: number;
	/** Due later. */
	readonly deferred: number;
	/** Claimed by a daemon. */
	readonly in_flight: number;
	/** Held by an operator. */
	readonly held: number;
	/** When the oldest one was accepted. */
	readonly oldest: string;
	/** The reply to the copy that was deferred last. */
	readonly last_reply: string | null;
};

type Row = {
	readonly destination: string;
	readonly ready: number;
	readonly deferred: number;
	readonly in_flight: number;
	readonly held: number;
	readonly oldest: string;
	/** The reply behind the time that it waits for: the latest comes out on top. */
	readonly replied: string | null;
};

const timeLength = storeTime(0).length;
// A filter: SQLite reads a row of an index in two thirds of the time that a sum of cases takes.
const counted = (condition: string, name: string) => `cast(count(*) filter (where ${condition}) as integer) ${name}`;

const summaryColumns = `destination,
	${counted('claimed_by is null and held_at is null and next_attempt_at <= ?', 'ready')},
	${counted('claimed_by is null and held_at is null and next_attempt_at > ?', 'deferred')},
	${counted('claimed_by is not null', 'in_flight')},
	${counted('claimed_by is null and held_at is not null', 'held')},
	min(message_id) as oldest,
	max(case when last_reply is not null then next_attempt_at || last_reply end) as replied`;

/** Every destination with mail in the queue, the most first; or one alone. Of one workspace, or of all. */
export async function summarizeQueue(
	reader: Knex,
	{now, ...filter}: Pick<QueueFilter, 'workspaceId' | 'destination'> & {readonly now: string},
): Promise<QueueSummary[]> {
	const sums = new Map<string, Row>();
	const held: Row[] = await queuePart(reader, 'held', filter)
		.select(reader.raw(summaryColumns, [now, now]))
		.groupBy('destination');
	for (const row of [...(await summarizeDue(reader, now, filter)), ...held]) {
		const before = sums.get(row.destination);
		sums.set(row.destination, before ? added(before, row) : row);
	}
	return [...sums.values()]
		.map(({replied, oldest, ...row}) => ({
			...row,
			oldest: storeTime(idTime(oldest)),
			last_reply: replied?.slice(timeLength) ?? null,
		}))
		.sort((a, b) => sizeOf(b) - sizeOf(a) || (a.destination < b.destination ? -1 : 1));
}

/** So many copies of a lane, those that wait longest, are looked at for its last reply where the first has none. */
const mostRead = 20;

/**
 * By lane. A million copies may wait: they are counted from their index alone, and of each lane only those are read that are
 * shown. What is being tried is in an index of its own.
 */
async function summarizeDue(reader: Knex, now: string, filter: QueueFilter): Promise<Row[]> {
	const first = firstAccepted(reader, 'l.first_one');
	const lanes = queuePart(reader, 'due', filter)
		.select('destination', 'workspace_id')
		.select(reader.raw(`count(*) as n, ${counted('next_attempt_at <= ?', 'due')}, ${first.column} as first_one`, [now]))
		.groupBy('destination', 'workspace_id');
	// As expressions: along the index of what is due all of it would be read.
	const claimed = reader('recipients')
		.whereNotNull('claimed_by')
		.whereRaw("coalesce(next_attempt_at, '') <> '' and coalesce(held_at, '') = ''")
		.select('destination', 'workspace_id')
		.select(reader.raw(`count(*) as n, ${counted('next_attempt_at <= ?', 'due')}`, [now]))
		.groupBy('destination', 'workspace_id');
	return await reader
		.with('lanes', lanes)
		.with('claimed', claimed)
		.from('lanes as l')
		.leftJoin('claimed as c', function () {
			this.on('c.destination', 'l.destination').andOn('c.workspace_id', 'l.workspace_id');
		})
		.select('l.destination', reader.raw('0 as held'), reader.raw(`${first.messageId} as oldest`))
		.select(
			reader.raw(`cast(l.due - coalesce(c.due, 0) as integer) as ready,
				cast(l.n - l.due - coalesce(c.n, 0) + coalesce(c.due, 0) as integer) as deferred,
				cast(coalesce(c.n, 0) as integer) as in_flight,
				coalesce((${longestWaits('r.next_attempt_at || r.last_reply', 1)}), (select max(t.next_attempt_at || t.last_reply)
					from (${longestWaits('r.next_attempt_at, r.last_reply', mostRead)}) as t)) as replied`),
		);
}

/** A query of the copies of lane `l` that wait longest. */
const longestWaits = (columns: string, limit: number) => `select ${columns} from recipients as r
	where r.destination = l.destination and r.workspace_id = l.workspace_id and r.next_attempt_at is not null
		and r.held_at is null and r.claimed_by is null
	order by r.next_attempt_at desc limit ${limit}`;

/** Copies of all kinds. */
export function sizeOf({
	ready,
	deferred,
	in_flight: inFlight,
	held,
}: Pick<QueueSummary, 'ready' | 'deferred' | 'in_flight' | 'held'>): number {
	return ready + deferred + inFlight + held;
}

function added(a: Row, b: Row): Row {
	return {
		destination: a.destination,
		ready: a.ready + b.ready,
		deferred: a.deferred + b.deferred,
		in_flight: a.in_flight + b.in_flight,
		held: a.held + b.held,
		oldest: a.oldest < b.oldest ? a.oldest : b.oldest,
		replied: (a.replied ?? '') > (b.replied ?? '') ? a.replied : b.replied,
	};
}

/** Copies in the queue: due now, waiting for a later try, being tried, held by an operator. */
export type QueueSize = {
	readonly ready: number;
	readonly deferred: number;
	readonly inFlight: number;
	readonly held: number;
};

/**
 * Counts from the indexes alone, for it is asked often and the queue may be long. A claim moves what is being tried past
 * now, so that of what is not due a part is in flight.
 */
export async function readQueueSize(reader: Knex, now: string): Promise<QueueSize> {
	const counts = await Promise.all([
		queuePart(reader, 'due').where('next_attempt_at', '<=', now).count('* as n').first<Count>(),
		queuePart(reader, 'due').where('next_attempt_at', '>', now).count('* as n').first<Count>(),
		reader('recipients').whereNotNull('claimed_by').count('* as n').first<Count>(),
		queuePart(reader, 'held').count('* as n').first<Count>(),
	]);
	const [ready = 0, later = 0, inFlight = 0, held = 0] = counts.map(row => Number(row?.n ?? 0));
	return {ready, deferred: Math.max(0, later - inFlight), inFlight, held};
}

type Count = {readonly n: number | string};
