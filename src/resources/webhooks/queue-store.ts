import type {Knex} from 'knex';
import type {WebhookRetry} from '../../mail/webhook.ts';
import {queryRows, rowSource} from '../../store/engine/dialect.ts';
import {among, insertRows, namedIds, selectInTurns, type TurnLimits} from '../../store/engine/rows.ts';
import type {Claimable} from '../../store/held-claims.ts';

/*
 * The table `webhook_queue` has a row for each delivery that is to be posted, due or claimed. The row is deleted when
 * the delivery finishes. A change of both locks this row before the row of the delivery.
 */

/** A delivery to be posted. `generation` counts its replays. */
type QueuedDelivery = {
	readonly id: string;
	readonly endpointId: string;
	readonly dueAt: string;
	readonly generation: number;
};

/** Enqueues deliveries. A delivery that is queued or claimed already restarts. */
export async function enqueueDeliveries(trx: Knex.Transaction, deliveries: readonly QueuedDelivery[]): Promise<void> {
	await insertRows(
		trx,
		'webhook_queue',
		['delivery_id', 'endpoint_id', 'next_attempt_at', 'generation'],
		deliveries.map(({id, endpointId, dueAt, generation}) => [id, endpointId, dueAt, generation]),
		`on conflict (delivery_id) do update
		set next_attempt_at = excluded.next_attempt_at, generation = excluded.generation, claimed_by = null`,
	);
}

export async function dequeueDeliveries(trx: Knex.Transaction, ids: readonly string[]): Promise<void> {
	if (ids.length > 0) {
		await trx('webhook_queue').whereIn('delivery_id', ids).delete();
	}
}

/** How many attempts an endpoint may start now. */
export type EndpointPermit = {readonly endpointId: string; readonly limit: number};

/** A delivery to be posted, with its endpoint. */
export type ClaimedDelivery = {
	readonly id: string;
	readonly workspaceId: string;
	readonly endpointId: string;
	readonly messageId: string | null;
	readonly eventType: string;
	readonly body: Uint8Array;
	readonly attempts: number;
	readonly generation: number;
	readonly url: string;
	/** Sealed for the endpoint's id, and so is the previous secret, which also signs until `previousUntil`. */
	readonly secret: string;
	readonly previousSecret: string | null;
	readonly previousUntil: string | null;
	/** When the endpoint's attempts began to fail; `null` if the last one succeeded. */
	readonly failingSince: string | null;
	/** `long` if it is retried for days; `null` for the default. */
	readonly retry: WebhookRetry | null;
	/** When the first attempt of its generation began; `null` if there was none. */
	readonly firstAt: string | null;
};

export type ClaimedDeliveries = {
	/** In the order in which they should start. */
	readonly deliveries: readonly ClaimedDelivery[];
	/** When the next delivery of each endpoint is due. Endpoints without deliveries, and disabled ones, are missing. */
	readonly nextDue: ReadonlyMap<string, string>;
};

/** An enabled endpoint with its first deliveries as `<due time> <id>`, separated by commas. */
type DueEndpoint = Pick<
	ClaimedDelivery,
	'endpointId' | 'url' | 'secret' | 'previousSecret' | 'previousUntil' | 'failingSince' | 'retry'
> & {
	readonly first: string | null;
};

/**
 * Claims due deliveries for one daemon until their results are written. The due times stay as they are: changing them
 * would cost as much as the rest of the claim.
 */
export async function claimDeliveries(
	trx: Knex.Transaction,
	boot: string,
	{permits, now}: {readonly permits: readonly EndpointPermit[]; readonly now: string},
): Promise<ClaimedDeliveries> {
	const claimable = new Map<string, DueEndpoint>();
	const nextDue = new Map<string, string>();
	const limitOf = new Map(permits.map(({endpointId, limit}) => [endpointId, limit]));
	for (const endpoint of await findFirst(trx, permits)) {
		const first = (endpoint.first?.split(',') ?? [])
			.sort()
			.map(text => text.split(' ') as [due: string, id: string]);
		const limit = limitOf.get(endpoint.endpointId) ?? 0;
		const due = first.slice(0, limit).filter(([at]) => at <= now);
		for (const [, id] of due) {
			claimable.set(id, endpoint);
		}
		const next = first[due.length];
		if (next) {
			nextDue.set(endpoint.endpointId, next[0]);
		}
	}
	return {deliveries: await markClaimed(trx, boot, claimable), nextDue};
}

/** Finds the first deliveries of each endpoint. One more than it may start shows when the next one is due. */
async function findFirst(trx: Knex.Transaction, permits: readonly EndpointPermit[]): Promise<DueEndpoint[]> {
	if (permits.length === 0) {
		return [];
	}
	const {sql, bindings} = rowSource(
		trx,
		permits.map(({endpointId}) => [endpointId]),
		1,
	);
	const max = Math.max(...permits.map(({limit}) => limit));
	return await queryRows(
		trx,
		`select e.id as "endpointId", e.url as "url", e.secret as "secret",
			e.previous_secret as "previousSecret", e.previous_until as "previousUntil", e.failing_since as "failingSince", e.retry as "retry",
			(select string_agg(q.due || ' ' || q.id, ',') from (
				select d.delivery_id as id, d.next_attempt_at as due from webhook_queue as d
				where d.endpoint_id = e.id and d.claimed_by is null
				order by d.next_attempt_at, d.delivery_id limit ${max + 1}) as q) as "first"
		from (${sql}) as g join webhook_endpoints as e on e.id = g.column1
		where e.disabled_at is null and e.deleted_at is null`,
		bindings,
	);
}

type EndpointColumns = Omit<DueEndpoint, 'endpointId' | 'first'>;
type MarkedRow = Pick<ClaimedDelivery, 'id' | 'generation'>;
type DeliveryRow = Omit<ClaimedDelivery, keyof EndpointColumns | 'generation'>;

/** Compare-and-set: skips what another node has claimed in the meantime. */
async function markClaimed(
	trx: Knex.Transaction,
	boot: string,
	claimable: ReadonlyMap<string, DueEndpoint>,
): Promise<ClaimedDelivery[]> {
	if (claimable.size === 0) {
		return [];
	}
	const [unclaimed, due] = among(trx, 'delivery_id', [...claimable.keys()]);
	const marked: MarkedRow[] = await queryRows(
		trx,
		`update webhook_queue set claimed_by = ? where ${unclaimed} and claimed_by is null
		returning delivery_id as "id", generation as "generation"`,
		[boot, ...due],
	);
	const generationOf = new Map(marked.map(({id, generation}) => [id, generation]));
	const rows = await readClaimed(
		trx,
		marked.map(({id}) => id),
	);
	const rowOf = new Map(rows.map(row => [row.id, row]));
	await dequeueDeliveries(
		trx,
		marked.filter(({id}) => !rowOf.has(id)).map(({id}) => id),
	);
	return [...claimable].flatMap(([id, {endpointId: _, first: __, ...endpoint}]) => {
		const [row, generation] = [rowOf.get(id), generationOf.get(id)];
		return row && generation !== undefined ? [{...row, ...endpoint, generation}] : [];
	});
}

async function readClaimed(trx: Knex.Transaction, ids: readonly string[]): Promise<DeliveryRow[]> {
	if (ids.length === 0) {
		return [];
	}
	const [named, bindings] = among(trx, 'id', ids);
	return await queryRows(
		trx,
		`select id as "id", workspace_id as "workspaceId", endpoint_id as "endpointId", message_id as "messageId",
			event_type as "eventType", body as "body", attempts as "attempts",
			case when attempts > 0 then (
				select a.at from webhook_attempts as a where a.delivery_id = webhook_deliveries.id
					and a.generation = webhook_deliveries.generation order by a.n limit 1
			) end as "firstAt" from webhook_deliveries where ${named}`,
		bindings,
	);
}

/** An endpoint with deliveries: when its first one is due, and when its attempts began to fail. */
export type EndpointWork = {readonly endpointId: string; readonly due: string; readonly failingSince: string | null};

/** Returns every enabled endpoint that has deliveries. Each costs one index lookup, however many deliveries wait. */
export async function readEndpointWork(reader: Knex): Promise<EndpointWork[]> {
	const rows: Array<Omit<EndpointWork, 'due'> & {due: string | null}> = await reader('webhook_endpoints as e')
		.whereNull('e.deleted_at')
		.whereNull('e.disabled_at')
		.select('e.id as endpointId', 'e.failing_since as failingSince')
		.select(
			reader.raw(`(select d.next_attempt_at from webhook_queue as d
				where d.endpoint_id = e.id and d.claimed_by is null
				order by d.next_attempt_at limit 1) as due`),
		);
	return rows.filter((row): row is EndpointWork => row.due !== null);
}

/** Returns endpoints with deliveries that a claim would get now. */
export async function readDueEndpoints(reader: Knex, now: string): Promise<string[]> {
	return await reader('webhook_endpoints as e')
		.whereNull('e.deleted_at')
		.whereNull('e.disabled_at')
		.whereExists(
			reader('webhook_queue as d')
				.select(reader.raw('1'))
				.whereRaw('d.endpoint_id = e.id')
				.where('d.next_attempt_at', '<=', now)
				.whereNull('d.claimed_by'),
		)
		.pluck('e.id');
}

const giveBack: Claimable['giveBack'] = (trx, claims, now) =>
	claims.update({
		claimed_by: null,
		next_attempt_at: trx.raw('case when next_attempt_at > :now then :now else next_attempt_at end', {now}),
	});

/** Claims of deliveries. A released delivery keeps its due time, and so its place, unless the clock was set back. */
export const deliveryClaims: Claimable = {
	table: 'webhook_queue',
	name: "delivery_id || ' ' || generation",
	giveBack,
	giveBackOfDead: giveBack,
	identifiedBy: ['endpoint_id'],
};

/** Queries the deliveries that are not claimed. The claim of the others ends with their result. */
export function waitingDeliveries(trx: Knex.Transaction): Knex.QueryBuilder {
	return trx(deliveryClaims.table).whereNull('claimed_by');
}

/** Names a claim. A replay starts a new generation, whose attempt may run while one of the previous generation does. */
export function claimName({id, generation}: Pick<ClaimedDelivery, 'id' | 'generation'>): string {
	return `${id} ${generation}`;
}

/** Releases the claims of nodes that are unknown or were silent for too long (several machines on PostgreSQL). */
export async function releaseSilentDeliveries(
	trx: Knex.Transaction,
	silentSince: string,
	now: string,
): Promise<number> {
	const alive = trx('nodes').select('id').where('seen_at', '>=', silentSince);
	const silent = trx(deliveryClaims.table).whereNotNull('claimed_by').whereNotIn('claimed_by', alive);
	return await deliveryClaims.giveBack(trx, silent, now);
}

/** Returns how many deliveries wait for an attempt. */
export async function countPending(reader: Knex): Promise<number> {
	const row: {n: number | string} | undefined = await reader(deliveryClaims.table).first(reader.raw('count(*) as n'));
	return Number(row?.n ?? 0);
}

/** The outcome of an attempt, to be written. Times are in the store's form. */
export type DeliveryOutcome = {
	readonly id: string;
	readonly generation: number;
	/** The number of the attempt within its generation, from 1. */
	readonly n: number;
	readonly state: string;
	readonly nextAttemptAt: string | null;
	readonly at: string;
	/** `null` if the attempt could not begin; it is not stored then. */
	readonly end: {
		readonly status: number | null;
		readonly error: string | null;
		readonly answer: string | null;
		readonly ms: number;
	} | null;
};

/**
 * Writes outcomes in a few statements. Compare-and-set: a delivery that was replayed in the meantime, or that this
 * daemon no longer holds, does not change, but its attempt is stored. Nothing is written about a deleted delivery.
 * Returns the ids of the deliveries that changed.
 */
export async function writeDeliveryOutcomes(
	trx: Knex.Transaction,
	boot: string,
	outcomes: readonly DeliveryOutcome[],
): Promise<Set<string>> {
	await insertAttempts(trx, outcomes);
	const held = await endClaims(trx, boot, outcomes);
	if (held.length === 0) {
		return new Set();
	}
	const changes = rowSource(
		trx,
		held.map(({id, state, n, end, at}) => [id, state, n, end && at]),
		4,
	);
	const [named, ids] = namedIds(
		trx,
		'webhook_deliveries.id',
		held.map(({id}) => id),
	);
	const rows: Array<{id: string}> = await queryRows(
		trx,
		`update webhook_deliveries set state = v.column2, attempts = cast(v.column3 as integer),
			last_attempt_at = coalesce(v.column4, last_attempt_at)
		from (${changes.sql}) as v where webhook_deliveries.id = v.column1 and ${named}
		returning webhook_deliveries.id`,
		[...changes.bindings, ...ids],
	);
	return new Set(rows.map(({id}) => id));
}

/** Dequeues or reschedules the deliveries that this daemon still holds, and returns their outcomes. */
async function endClaims(
	trx: Knex.Transaction,
	boot: string,
	outcomes: readonly DeliveryOutcome[],
): Promise<readonly DeliveryOutcome[]> {
	// `coalesce` keeps the engine from using the index on claims, which it would scan entirely for each row.
	const isHeld = `coalesce(webhook_queue.claimed_by, '') = ?`;
	const finished = await changeQueued(
		trx,
		outcomes.filter(({nextAttemptAt}) => nextAttemptAt === null),
		rows => `delete from webhook_queue where (delivery_id, generation) in (
				select v.column1, cast(v.column2 as integer) from (${rows}) as v) and ${isHeld}`,
		boot,
	);
	const rescheduled = await changeQueued(
		trx,
		outcomes.filter(({nextAttemptAt}) => nextAttemptAt !== null),
		rows => `update webhook_queue set next_attempt_at = v.column3, claimed_by = null from (${rows}) as v
			where delivery_id = v.column1 and generation = cast(v.column2 as integer) and ${isHeld}`,
		boot,
	);
	return [...finished, ...rescheduled];
}

/** Returns the outcomes whose rows the statement changed. */
async function changeQueued(
	trx: Knex.Transaction,
	outcomes: readonly DeliveryOutcome[],
	statement: (rows: string) => string,
	boot: string,
): Promise<readonly DeliveryOutcome[]> {
	if (outcomes.length === 0) {
		return [];
	}
	const {sql, bindings} = rowSource(
		trx,
		outcomes.map(({id, generation, nextAttemptAt}) => [id, generation, nextAttemptAt]),
		3,
	);
	const [named, ids] = namedIds(
		trx,
		'delivery_id',
		outcomes.map(({id}) => id),
	);
	const rows: Array<Pick<DeliveryOutcome, 'id' | 'generation'>> = await queryRows(
		trx,
		`${statement(sql)} and ${named} returning delivery_id as "id", generation as "generation"`,
		[...bindings, boot, ...ids],
	);
	const names = new Set(rows.map(claimName));
	return outcomes.filter(end => names.has(claimName(end)));
}

async function insertAttempts(trx: Knex.Transaction, outcomes: readonly DeliveryOutcome[]): Promise<void> {
	const rows = outcomes.flatMap(({id, generation, n, at, end}) =>
		end === null ? [] : [[id, generation, n, at, end.status, end.error, end.answer, Math.round(end.ms)]],
	);
	if (rows.length === 0) {
		return;
	}
	const source = rowSource(trx, rows, 8);
	const [named, ids] = namedIds(
		trx,
		'd.id',
		outcomes.map(({id}) => id),
	);
	await trx.raw(
		`insert into webhook_attempts (delivery_id, generation, n, at, status, error, answer, ms)
		select v.column1, cast(v.column2 as integer), cast(v.column3 as integer), v.column4, cast(v.column5 as integer),
			v.column6, v.column7, cast(v.column8 as integer)
		from (${source.sql}) as v join webhook_deliveries as d on d.id = v.column1
		where ${named} on conflict (delivery_id, generation, n) do nothing`,
		[...source.bindings, ...ids] as Knex.RawBinding[],
	);
}

/** When an endpoint's attempts began to fail, in the store's form; `null` if they no longer fail. */
export type Failing = {readonly endpointId: string; readonly since: string | null};

/** Records when endpoints began to fail. An endpoint that is already failing keeps its first time. */
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

/** Returns endpoints that have failed since `since` or longer, or were disabled for that, taking workspaces in turn. */
export async function listDeadEndpoints(
	reader: Knex,
	since: string,
	limits: TurnLimits,
): Promise<Array<Record<'id' | 'url' | 'workspace_id' | 'deadSince', string>>> {
	const dead = reader('webhook_endpoints')
		.whereNull('deleted_at')
		.where(failing =>
			failing
				.whereNotNull('disabled_reason')
				.orWhere(query => query.whereNull('disabled_at').where('failing_since', '<=', since)),
		)
		.select('id', 'url', 'workspace_id', reader.raw('coalesce(disabled_at, failing_since) as "deadSince"'));
	return await selectInTurns(reader, dead, 'id', limits);
}

/** A stored attempt. `generation` counts replays. */
export type StoredPost = {
	readonly generation: number;
	readonly n: number;
	readonly at: string;
	readonly status: number | null;
	readonly error: string | null;
	/** The beginning of the response body, if the response was a refusal. */
	readonly answer: string | null;
	readonly ms: number;
};

/** Returns the attempts of a delivery, oldest first. */
export async function listPosts(reader: Knex, deliveryId: string): Promise<StoredPost[]> {
	return await reader('webhook_attempts')
		.where({delivery_id: deliveryId})
		.orderBy(['generation', 'n'])
		.select('generation', 'n', 'at', 'status', 'error', 'answer', 'ms');
}
