import type {Knex} from 'knex';

/** Copies in the queue: due now, waiting for a later try, being tried. */
export async function readQueueSize(
	reader: Knex,
	now: string,
): Promise<{ready: number; deferred: number; inFlight: number}> {
	const row: Record<string, number | string | null> | undefined = await reader('recipients')
		.whereNotNull('next_attempt_at')
		.first(
			reader.raw('sum(case when claimed_by is null and next_attempt_at <= ? then 1 else 0 end) as ready', [now]),
			reader.raw('sum(case when claimed_by is null and next_attempt_at > ? then 1 else 0 end) as deferred', [now]),
			reader.raw('sum(case when claimed_by is not null then 1 else 0 end) as claimed'),
		);
	return {ready: Number(row?.ready ?? 0), deferred: Number(row?.deferred ?? 0), inFlight: Number(row?.claimed ?? 0)};
}
