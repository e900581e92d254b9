import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {idTime} from '../../mail/ids.ts';
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

/** Every destination with mail in the queue, the most first; or one alone. Of one workspace, or of all. */
export async function summarizeQueue(
	reader: Knex,
	{now, ...filter}: Pick<QueueFilter, 'workspaceId' | 'destination'> & {readonly now: string},
): Promise<QueueSummary[]> {
	const sums = new Map<string, Row>();
	for (const row of [...(await summarizeDue(reader, now, filter)), ...(await summarizeHeld(reader, filter))]) {
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

async function summarizeHeld(reader: Knex, filter: QueueFilter): Promise<Row[]> {
	return await queuePart(reader, 'held', filter)
		.join('recipients as r', 'r.id', 'q.recipient_id')
		.groupBy('q.destination')
		.select('q.destination', reader.raw('0 as ready, 0 as deferred, 0 as in_flight'))
		.select(
			reader.raw(`cast(count(*) as integer) as held, min(r.message_id) as oldest,
				max(case when r.last_reply is not null then q.next_attempt_at || r.last_reply end) as replied`),
		);
}

/** So many copies of a lane, those that wait longest, are looked at for its last reply where the first has none. */
const mostRead = 20;

/**
 * By lane. A million copies may wait: they are counted from their index alone, and of each lane only those are read that are
 * shown. What is being tried is few.
 */
async function summarizeDue(reader: Knex, now: string, filter: QueueFilter): Promise<Row[]> {
	const counts = reader.raw(`count(*) as n, ${counted('q.next_attempt_at <= ?', 'due')}`, [now]);
	const queues = queuePart(reader, 'due', filter)
		.select('q.destination', 'q.workspace_id', counts, reader.raw('min(q.recipient_id) as first_one'))
		.groupBy('q.destination', 'q.workspace_id');
	const claimed = tried(reader)
		.select('q.destination', 'q.workspace_id', counts)
		.groupBy('q.destination', 'q.workspace_id');
	return await reader
		.with('lanes', queues)
		.with('claimed', claimed)
		.from('lanes as l')
		.join('recipients as f', 'f.id', 'l.first_one')
		.leftJoin('claimed as c', function () {
			this.on('c.destination', 'l.destination').andOn('c.workspace_id', 'l.workspace_id');
		})
		.select('l.destination', reader.raw('0 as held'), 'f.message_id as oldest')
		.select(
			reader.raw(`cast(l.due - coalesce(c.due, 0) as integer) as ready,
				cast(l.n - l.due - coalesce(c.n, 0) + coalesce(c.due, 0) as integer) as deferred,
				cast(coalesce(c.n, 0) as integer) as in_flight,
				coalesce((${longestWaits('w.next_attempt_at || r.last_reply', 1)}), (select max(t.next_attempt_at || t.last_reply)
					from (${longestWaits('w.next_attempt_at, r.last_reply', mostRead)}) as t)) as replied`),
		);
}

/** What is being tried, as `q`. SQLite would read all that waits, and not the few claims, but for the order and the expression. */
function tried(reader: Knex): Knex.QueryBuilder {
	return reader('claims as t')
		.crossJoin(reader.raw('queue as q'))
		.whereRaw("q.recipient_id = t.recipient_id and coalesce(q.held_at, '') = ''");
}

/** A query of the copies of lane `l` that wait longest, as `w` and `r`. */
const longestWaits = (columns: string, limit: number) => `select ${columns}
	from (select q.recipient_id, q.next_attempt_at from queue as q
		where q.destination = l.destination and q.workspace_id = l.workspace_id and q.held_at is null
		order by q.next_attempt_at desc limit ${limit}) as w
	join recipients as r on r.id = w.recipient_id`;

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

/** Counts from the indexes alone, for it is asked often and the queue may be long. What is being tried is few. */
export async function readQueueSize(reader: Knex, now: string): Promise<QueueSize> {
	const counts = await Promise.all(
		[
			queuePart(reader, 'due').where('q.next_attempt_at', '<=', now),
			tried(reader).where('q.next_attempt_at', '<=', now),
			queuePart(reader, 'due').where('q.next_attempt_at', '>', now),
			tried(reader).where('q.next_attempt_at', '>', now),
			reader('claims'),
			queuePart(reader, 'held'),
		].map(query => query.count('* as n').first<Count>()),
	);
	const [due = 0, triedDue = 0, later = 0, triedLater = 0, inFlight = 0, held = 0] = counts.map(row =>
		Number(row?.n ?? 0),
	);
	return {ready: Math.max(0, due - triedDue), deferred: Math.max(0, later - triedLater), inFlight, held};
}

type Count = {readonly n: number | string};
