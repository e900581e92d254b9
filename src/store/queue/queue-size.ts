import type {Knex} from 'knex';
import {queuePart} from './queue-parts.ts';

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
