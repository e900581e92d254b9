import type {Knex} from 'knex';
import {rowSource, rowsOf} from '../engine/dialect.ts';
import {namedIds} from '../engine/near-ids.ts';
import {claimName} from './webhook-claims.ts';

/** The end of an attempt, judged, to be written. Times in the store's form. */
export type DeliveryEnd = {
	readonly id: string;
	readonly generation: number;
	/** Which attempt of the generation it was, from 1. */
	readonly n: number;
	readonly state: string;
	readonly nextAttemptAt: string | null;
	readonly at: string;
	/** Null: it could not begin, and is not kept. */
	readonly end: {
		readonly status: number | null;
		readonly error: string | null;
		readonly answer: string | null;
		readonly ms: number;
	} | null;
};

/**
 * Writes ends of attempts in few statements. Compare-and-set: a delivery that was replayed meanwhile, or that this daemon
 * no longer holds, stays as it is; its attempt is kept all the same. Of a deleted one nothing is written. Answers the ids
 * of those that moved.
 */
export async function writeDeliveryEnds(
	trx: Knex.Transaction,
	boot: string,
	ends: readonly DeliveryEnd[],
): Promise<Set<string>> {
	await keepAttempts(trx, ends);
	const held = await endClaims(trx, boot, ends);
	if (held.length === 0) {
		return new Set();
	}
	const moved = rowSource(
		trx,
		held.map(one => [one.id, one.state, one.n, one.end && one.at]),
		4,
	);
	const [named, ids] = namedIds(
		trx,
		'webhook_deliveries.id',
		held.map(({id}) => id),
	);
	const rows: Array<{id: string}> = await rowsOf(
		trx,
		`update webhook_deliveries set state = v.column2, attempts = cast(v.column3 as integer),
			last_attempt_at = coalesce(v.column4, last_attempt_at)
		from (${moved.sql}) as v where webhook_deliveries.id = v.column1 and ${named}
		returning webhook_deliveries.id`,
		[...moved.bindings, ...ids],
	);
	return new Set(rows.map(({id}) => id));
}

/** Of the attempts whose deliveries this daemon still holds: takes them out of the queue, or lets them wait for the next. */
async function endClaims(
	trx: Knex.Transaction,
	boot: string,
	ends: readonly DeliveryEnd[],
): Promise<readonly DeliveryEnd[]> {
	// Not an index on claims, which would be read as a whole for each row.
	const isHeld = `coalesce(webhook_queue.claimed_by, '') = ?`;
	const last = await changeQueued(
		trx,
		ends.filter(({nextAttemptAt}) => nextAttemptAt === null),
		rows => `delete from webhook_queue where (delivery_id, generation) in (
				select v.column1, cast(v.column2 as integer) from (${rows}) as v) and ${isHeld}`,
		boot,
	);
	const repeated = await changeQueued(
		trx,
		ends.filter(({nextAttemptAt}) => nextAttemptAt !== null),
		rows => `update webhook_queue set next_attempt_at = v.column3, claimed_by = null from (${rows}) as v
			where delivery_id = v.column1 and generation = cast(v.column2 as integer) and ${isHeld}`,
		boot,
	);
	return [...last, ...repeated];
}

/** Those of the ends whose rows the statement changed. */
async function changeQueued(
	trx: Knex.Transaction,
	ends: readonly DeliveryEnd[],
	statement: (rows: string) => string,
	boot: string,
): Promise<readonly DeliveryEnd[]> {
	if (ends.length === 0) {
		return [];
	}
	const {sql, bindings} = rowSource(
		trx,
		ends.map(({id, generation, nextAttemptAt}) => [id, generation, nextAttemptAt]),
		3,
	);
	const [named, ids] = namedIds(
		trx,
		'delivery_id',
		ends.map(({id}) => id),
	);
	const rows: Array<Pick<DeliveryEnd, 'id' | 'generation'>> = await rowsOf(
		trx,
		`${statement(sql)} and ${named} returning delivery_id as "id", generation as "generation"`,
		[...bindings, boot, ...ids],
	);
	const names = new Set(rows.map(claimName));
	return ends.filter(end => names.has(claimName(end)));
}

/** Keeps what came of attempts. */
async function keepAttempts(trx: Knex.Transaction, ends: readonly DeliveryEnd[]): Promise<void> {
	const rows = ends.flatMap(({id, generation, n, at, end}) =>
		end === null ? [] : [[id, generation, n, at, end.status, end.error, end.answer, Math.round(end.ms)]],
	);
	if (rows.length === 0) {
		return;
	}
	const tried = rowSource(trx, rows, 8);
	const [named, ids] = namedIds(
		trx,
		'd.id',
		ends.map(({id}) => id),
	);
	await trx.raw(
		`insert into webhook_attempts (delivery_id, generation, n, at, status, error, answer, ms)
		select v.column1, cast(v.column2 as integer), cast(v.column3 as integer), v.column4, cast(v.column5 as integer),
			v.column6, v.column7, cast(v.column8 as integer)
		from (${tried.sql}) as v join webhook_deliveries as d on d.id = v.column1
		where ${named} on conflict (delivery_id, generation, n) do nothing`,
		[...tried.bindings, ...ids] as Knex.RawBinding[],
	);
}

/** An endpoint whose attempts fail since then, in the store's form, or fail no more (null). */
export type Failing = {readonly endpointId: string; readonly since: string | null};

/** What is noted as failing already stays noted from its first failure on. */
export async function noteFailing(trx: Knex.Transaction, changes: readonly Failing[]): Promise<void> {
	if (changes.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		changes.map(({endpointId, since}) => [endpointId, since]),
		2,
	);
	await trx.raw(
		`update webhook_endpoints
		set failing_since = case when v.column2 is null then null else coalesce(failing_since, v.column2) end
		from (${sql}) as v where webhook_endpoints.id = v.column1`,
		bindings as Knex.RawBinding[],
	);
}
