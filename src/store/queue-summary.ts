import type {Knex} from 'knex';
import {idTime} from '../mail/ids.ts';
import {storeTime} from '../mail/time.ts';
import {queuePart, queueParts} from './queue-parts.ts';

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
const counted = (condition: string, name: string) =>
	`cast(sum(case when ${condition} then 1 else 0 end) as integer) ${name}`;

const summaryColumns = `destination,
	${counted('claimed_by is null and held_at is null and next_attempt_at <= ?', 'ready')},
	${counted('claimed_by is null and held_at is null and next_attempt_at > ?', 'deferred')},
	${counted('claimed_by is not null', 'in_flight')},
	${counted('claimed_by is null and held_at is not null', 'held')},
	min(message_id) as oldest,
	max(case when last_reply is not null then next_attempt_at || last_reply end) as replied`;

/** Every destination with mail in the queue, the most first; of one workspace, or of all. */
export async function summarizeQueue(
	reader: Knex,
	{now, workspaceId}: {readonly now: string; readonly workspaceId?: string | undefined},
): Promise<QueueSummary[]> {
	const sums = new Map<string, Row>();
	for (const part of queueParts) {
		const rows: Row[] = await queuePart(reader, part, {workspaceId})
			.select(reader.raw(summaryColumns, [now, now]))
			.groupBy('destination');
		for (const row of rows) {
			const before = sums.get(row.destination);
			sums.set(row.destination, before ? added(before, row) : row);
		}
	}
	return [...sums.values()]
		.map(({replied, oldest, ...row}) => ({
			...row,
			oldest: storeTime(idTime(oldest)),
			last_reply: replied?.slice(timeLength) ?? null,
		}))
		.sort((a, b) => sizeOf(b) - sizeOf(a) || (a.destination < b.destination ? -1 : 1));
}

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
