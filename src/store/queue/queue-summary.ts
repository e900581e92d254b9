import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {idFloor, idTime} from '../../mail/ids.ts';
import {type Mode, type Priority, priorityOf, type Recipient} from '../../mail/message.ts';
import type {BounceCategory} from '../../mail/outcome.ts';
import {type FormerWaitReason, readWaitReason, type WaitCode, type WaitReason} from '../../mail/wait-reason.ts';
import {packedRows} from '../engine/dialect.ts';
import {createdNearIds} from '../engine/rows.ts';
import {stateColumns, stateOf, withCurrentState} from '../timeline.ts';
import {isNewestOfQueue, ofQueue, selectFirsts} from './open-recipients.ts';

/** Selects recipients of the queue. Absent properties do not restrict the selection. */
export type QueueFilter = {
	readonly workspaceId?: string | undefined;
	readonly destination?: string | undefined;
	/** Accepted before this time, in milliseconds. */
	readonly before?: number | undefined;
};

/** The queue has two partial indexes: recipients that become due by themselves, and held ones. */
type QueuePart = 'due' | 'held';

const queueParts = ['due', 'held'] as const satisfies readonly QueuePart[];

/** Queries the recipients of one part of the queue, as `q`. */
function queuePart(
	reader: Knex,
	part: QueuePart,
	{workspaceId, destination, before}: QueueFilter = {},
): Knex.QueryBuilder {
	const query = reader('queue as q');
	if (part === 'due') {
		query.whereNull('q.held_at');
	} else {
		query.whereNotNull('q.held_at');
	}
	if (workspaceId !== undefined) {
		query.where('q.workspace_id', workspaceId);
	}
	if (destination !== undefined) {
		query.where('q.destination', destination);
	}
	if (before !== undefined) {
		query.where('q.recipient_id', '<', idFloor('rcp', before));
	}
	return query;
}

export type QueueListing = QueueFilter & {
	/** Only recipients held by an operator. */
	readonly held?: boolean | undefined;
	/** Only recipients of these destinations. */
	readonly destinations?: readonly string[] | undefined;
	readonly limit: number;
};

/** Returns recipients in the queue, in the order in which they are due. */
export async function listQueue(
	reader: Knex,
	listing: QueueListing,
): Promise<
	Array<
		Pick<
			RecipientFacts,
			| 'id'
			| 'workspace_id'
			| 'message_id'
			| 'address'
			| 'destination'
			| 'state'
			| 'attempts'
			| 'claimed_by'
			| 'held_at'
			| 'last_reply'
			| 'accepted_at'
		> & {readonly next_attempt_at: string}
	>
> {
	const {held, destinations, limit, ...filter} = listing;
	const rows: Array<Omit<Awaited<ReturnType<typeof listQueue>>[number], 'accepted_at'>> = [];
	for (const part of held ? (['held'] as const) : queueParts) {
		const earliest = queuePart(reader, part, filter).orderBy(['q.next_attempt_at', 'q.recipient_id']).limit(limit);
		if (destinations !== undefined) {
			earliest.whereIn('q.destination', destinations);
		}
		const matches: typeof rows = await reader
			.from(earliest.select('q.*').as('f'))
			.join('recipients as r', 'r.id', 'f.recipient_id')
			.leftJoin('claims as c', 'c.recipient_id', 'f.recipient_id')
			.select('r.id', 'r.workspace_id', 'r.message_id', 'r.address', 'r.destination', 'r.attempts')
			.select(reader.raw(`${stateOf('r')} as state`))
			.select('f.next_attempt_at', 'c.claimed_by', 'f.held_at', 'r.last_reply');
		rows.push(...matches);
	}
	return rows
		.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1))
		.slice(0, limit)
		.map(row => ({...row, accepted_at: storeTime(idTime(row.message_id))}));
}

const orderOf = ({next_attempt_at: due, id}: {readonly next_attempt_at: string; readonly id: string}) => due + id;

/** Returns the ids of all queued recipients that match. */
export async function findWaiting(reader: Knex, filter: QueueFilter): Promise<string[]> {
	const parts = await Promise.all(
		queueParts.map(part => queuePart(reader, part, filter).pluck('q.recipient_id') as Promise<string[]>),
	);
	return parts.flat().sort();
}

const idsAtOnce = 500;

/** Returns the recipients with these ids (`rcp_…`, `msg_…`), queued or not, of one workspace or of all. */
export async function findNamed(
	reader: Knex,
	ids: readonly string[],
	workspaceId: string | undefined,
): Promise<Array<Pick<Recipient, 'id' | 'message_id'> & {readonly isQueued: boolean}>> {
	const matches: Awaited<ReturnType<typeof findNamed>> = [];
	for (let start = 0; start < ids.length; start += idsAtOnce) {
		const batch = ids.slice(start, start + idsAtOnce);
		for (const column of ['r.id', 'r.message_id']) {
			const query = reader('recipients as r')
				.leftJoin('queue as q', 'q.recipient_id', 'r.id')
				.whereIn(column, batch)
				.whereRaw(...createdNearIds(reader, 'r.id', 'rcp', batch))
				.select('r.id', 'r.message_id', 'q.recipient_id as queued');
			if (workspaceId !== undefined) {
				query.where('r.workspace_id', workspaceId);
			}
			const rows: Array<{id: string; message_id: string; queued: string | null}> = await query;
			matches.push(...rows.map(({queued, ...row}) => ({...row, isQueued: queued !== null})));
		}
	}
	return matches;
}

/** What waits for one destination. The numbers count recipients. */
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
	/** Due now or later. */
	readonly by_priority: Readonly<Record<Priority, number>>;
	/** When the oldest one was accepted. */
	readonly oldest: string;
	/** The reply to the most recently deferred recipient. */
	readonly last_reply: string | null;
};

type Row = {
	readonly destination: string;
	readonly ready: number;
	readonly deferred: number;
	readonly in_flight: number;
	readonly held: number;
	/** The priority of those that are due now or later; `null` for held ones. */
	readonly level: number | null;
	readonly oldest: string;
	/** The time of the next attempt followed by the reply, so that the latest reply sorts last. */
	readonly replied: string | null;
};

const timeLength = storeTime(0).length;

/** Returns every destination in the queue, the largest first, or only one; of one workspace or of all. */
export async function summarizeQueue(
	reader: Knex,
	{now, ...filter}: Pick<QueueFilter, 'workspaceId' | 'destination'> & {readonly now: string},
): Promise<QueueSummary[]> {
	const sums = new Map<string, Row>();
	const waiting = new Map<string, Record<Priority, number>>();
	for (const row of [...(await summarizeDue(reader, now, filter)), ...(await summarizeHeld(reader, filter))]) {
		const {destination, level, ready, deferred} = row;
		const before = sums.get(destination);
		sums.set(destination, before ? addRows(before, row) : row);
		const counts = waiting.get(destination) ?? noPriorities();
		counts[priorityOf(level ?? 0)] += ready + deferred;
		waiting.set(destination, counts);
	}
	return [...sums.values()]
		.map(({replied, oldest, level: _, ...row}) => ({
			...row,
			by_priority: waiting.get(row.destination) ?? noPriorities(),
			oldest: storeTime(idTime(oldest)),
			last_reply: replied?.slice(timeLength) ?? null,
		}))
		.sort((a, b) => sizeOf(b) - sizeOf(a) || (a.destination < b.destination ? -1 : 1));
}

/** Returns zero for each priority. */
export const noPriorities = (): Record<Priority, number> => ({high: 0, normal: 0, low: 0});

async function summarizeHeld(reader: Knex, filter: QueueFilter): Promise<Row[]> {
	return await queuePart(reader, 'held', filter)
		.join('recipients as r', 'r.id', 'q.recipient_id')
		.groupBy('q.destination')
		.select('q.destination', reader.raw('0 as ready, 0 as deferred, 0 as in_flight, null as level'))
		.select(
			reader.raw(`cast(count(*) as integer) as held, min(r.message_id) as oldest,
				max(case when r.last_reply is not null then q.next_attempt_at || r.last_reply end) as replied`),
		);
}

/**
 * How many recipients of a destination queue, those that wait longest, are searched for a reply if the first one has
 * none.
 */
const maxRead = 20;

/** A query of the recipients of destination queue `l` whose next attempt is the latest, as `w` and `r`. */
const longestWaits = (columns: string, limit: number) => `select ${columns}
	from (select q.recipient_id, q.next_attempt_at from queue as q where ${ofQueue} order by q.next_attempt_at desc limit ${limit}) as w
	join recipients as r on r.id = w.recipient_id`;

/**
 * An SQL condition: the recipient has an attempt in progress. Without the expression and the order of a cross join,
 * SQLite would read all waiting recipients instead of the few claims.
 */
const isInFlight = `q.recipient_id = t.recipient_id and coalesce(q.held_at, '') = ''`;

/**
 * The id of the oldest recipient of destination queue `l` that meets the condition, and their number; `null` if there
 * is none.
 */
const idAndCount = (condition: string) =>
	`(select min(q.recipient_id) || ' ' || count(*) from queue as q where ${ofQueue} and ${condition})`;
const idLength = idFloor('rcp', 0).length;
const countOf = (column: string) => `cast(coalesce(substr(${column}, ${idLength + 2}), '0') as integer)`;

const summaryColumns = {
	destination: 'l.destination',
	level: 'l.priority',
	ready: `${countOf('l.due')} - coalesce(c.due, 0)`,
	deferred: `${countOf('l.later')} - coalesce(c.n - c.due, 0)`,
	in_flight: 'coalesce(c.n, 0)',
	held: '0',
	oldest: `(select r.message_id from recipients as r where r.id =
		substr(case when l.due < l.later or l.later is null then l.due else l.later end, 1, ${idLength}))`,
	replied: `coalesce((${longestWaits('w.next_attempt_at || r.last_reply', 1)}), (select max(t.next_attempt_at || t.last_reply)
		from (${longestWaits('w.next_attempt_at, r.last_reply', maxRead)}) as t))`,
};

/**
 * Summarizes by destination queue. A million recipients may wait, so each queue is counted within its index, and only
 * displayed recipients are read. Those with an attempt in progress are few.
 */
async function summarizeDue(reader: Knex, now: string, {workspaceId, destination}: QueueFilter): Promise<Row[]> {
	const [destinationCondition, destinationBindings] =
		destination === undefined ? ['true', []] : ['q.destination = ?', [destination]];
	const [workspaceCondition, workspaceBindings] =
		workspaceId === undefined ? ['true', []] : ['l.workspace_id = ?', [workspaceId]];
	return await packedRows(
		reader,
		`${selectFirsts(reader, destinationCondition)},
		lanes as materialized (select l.destination, l.workspace_id, l.priority, ${idAndCount('q.next_attempt_at <= ?')} as due,
			${idAndCount('q.next_attempt_at > ?')} as later from firsts as l where ${workspaceCondition}),
		claimed as (select q.destination, q.workspace_id, q.priority, cast(count(*) as integer) as n,
				cast(count(*) filter (where q.next_attempt_at <= ?) as integer) as due
			from claims as t cross join queue as q where ${isInFlight} group by q.destination, q.workspace_id, q.priority)`,
		summaryColumns,
		`from lanes as l
			left join claimed as c on c.destination = l.destination and c.workspace_id = l.workspace_id and c.priority = l.priority`,
		[...destinationBindings, ...destinationBindings, now, now, ...workspaceBindings, now],
	);
}

/** Returns the number of all recipients. */
export function sizeOf({
	ready,
	deferred,
	in_flight: inFlight,
	held,
}: Pick<QueueSummary, 'ready' | 'deferred' | 'in_flight' | 'held'>): number {
	return ready + deferred + inFlight + held;
}

function addRows(a: Row, b: Row): Row {
	return {
		destination: a.destination,
		ready: a.ready + b.ready,
		deferred: a.deferred + b.deferred,
		in_flight: a.in_flight + b.in_flight,
		held: a.held + b.held,
		level: null,
		oldest: a.oldest < b.oldest ? a.oldest : b.oldest,
		replied: (a.replied ?? '') > (b.replied ?? '') ? a.replied : b.replied,
	};
}

/** How many recipients are due now, wait for a later attempt, have one in progress, or are held by an operator. */
export type QueueSize = {
	readonly ready: number;
	/** The ready recipients by priority. */
	readonly byPriority: Readonly<Record<Priority, number>>;
	readonly deferred: number;
	readonly inFlight: number;
	readonly held: number;
};

// With a filter, SQLite reads an index row in two thirds of the time that a sum of cases takes.
const countWhere = (condition: string, name: string) => `cast(count(*) filter (where ${condition}) as integer) ${name}`;

/** Queries the recipients with an attempt in progress, as `q`. */
const queryInFlight = (reader: Knex) => reader('claims as t').crossJoin(reader.raw('queue as q')).whereRaw(isInFlight);

/** Counts within the indexes, because this runs often and the queue may be long. Attempts in progress are few. */
export async function readQueueSize(reader: Knex, now: string): Promise<QueueSize> {
	const columns = `count(*) as n, ${countWhere('q.priority > 0', 'high')}, ${countWhere('q.priority < 0', 'low')}`;
	const due = [queuePart(reader, 'due'), queryInFlight(reader)].map(query =>
		query.where('q.next_attempt_at', '<=', now).select(reader.raw(columns)).first<Due>(),
	);
	const counts = await Promise.all(
		[
			queuePart(reader, 'due').where('q.next_attempt_at', '>', now),
			queryInFlight(reader).where('q.next_attempt_at', '>', now),
			reader('claims'),
			queuePart(reader, 'held'),
		].map(query => query.count('* as n').first<Count>()),
	);
	const [later = 0, inFlightLater = 0, inFlight = 0, held = 0] = counts.map(row => Number(row?.n ?? 0));
	const [allDue, inFlightDue] = await Promise.all(due);
	const waiting = (name: keyof Due) => Math.max(0, Number(allDue?.[name] ?? 0) - Number(inFlightDue?.[name] ?? 0));
	const [ready, high, low] = [waiting('n'), waiting('high'), waiting('low')];
	const byPriority = {high, normal: Math.max(0, ready - high - low), low};
	return {ready, byPriority, deferred: Math.max(0, later - inFlightLater), inFlight, held};
}

type Due = Count & {readonly high: number; readonly low: number};

type Count = {readonly n: number | string};

/** Everything that decides when the next attempt for a recipient is made. Properties that do not apply are `null`. */
export type RecipientFacts = Omit<Recipient, 'address_key' | 'sent_at'> & {
	readonly next_attempt_at: string | null;
	readonly priority: Priority | null;
	readonly claimed_by: string | null;
	/** When the claim expires if its daemon is unknown. */
	readonly claimed_until: string | null;
	readonly held_at: string | null;
	readonly last_category: BounceCategory | null;
	/** For a scheduled message, its scheduled time. */
	readonly accepted_at: string;
	readonly expires_at: string | null;
	readonly mode: Mode;
	readonly workspace_name: string;
	readonly paused_at: string | null;
	readonly pause_reason: string | null;
	readonly queue_lifetime_s: number | null;
	/** When an operator suspended the destination, and why. */
	readonly suspended_at: string | null;
	readonly suspension_reason: string | null;
	/** What the daemon reports about the destination queue if it is due but not claimed, or its provider backs off. */
	readonly site: string | null;
	readonly queue_reason: WaitReason | FormerWaitReason | null;
	readonly queue_until: string | null;
	/** When the suspension of the provider ends, and why it is suspended. */
	readonly site_suspended_until: string | null;
	readonly site_reason: string | null;
	/** `route` if it is a relay that refuses us; `null` means `suspension`. */
	readonly site_waits_for: 'suspension' | 'route' | null;
	/** What the operator can do if the provider blocks our address. */
	readonly site_advice: string | null;
	/** When the last conversation about the recipient began. */
	readonly tried_at: string | null;
	/** The mail server of the last conversation, if there was one. */
	readonly tried_host: string | null;
	/** The detail of the event that ended delivery to the recipient: JSON text. */
	readonly end_detail: string | null;
};

type FactsRow = Omit<RecipientFacts, 'queue_reason' | 'priority'> & {
	readonly level: number | null;
	readonly waits_for: WaitCode | null;
	readonly wait_detail: string | null;
	readonly queued_event: string | null;
};

const lastAttempt = (column: string, near: string) =>
	`(select a.${column} from attempts as a where a.recipient_id = r.id and ${near} order by a.n desc, a.position desc limit 1)`;

/** The columns, given conditions that restrict attempts and events to nearby days. */
const columnsNear = (
	nearAttempts: string,
	nearEvents: string,
) => `r.id, r.workspace_id, r.message_id, r.address, r.role, r.destination, ${stateColumns('r')}, r.attempts,
	q.next_attempt_at, q.priority as level, q.held_at, c.claimed_by, c.until as claimed_until, r.last_category, r.last_reply,
	coalesce(q.send_at, m.created_at) as accepted_at, q.expires_at, m.mode, w.name as workspace_name, w.paused_at, w.pause_reason, w.queue_lifetime_s,
	o.created_at as suspended_at, o.reason as suspension_reason,
	l.site, l.waits_for, l.detail as wait_detail, l.until as queue_until,
	s.suspended_until as site_suspended_until, s.reason as site_reason, s.waits_for as site_waits_for, s.advice as site_advice,
	${lastAttempt('at', nearAttempts)} as tried_at, ${lastAttempt('host', nearAttempts)} as tried_host,
	case when q.recipient_id is null then (select e.detail from events as e where e.message_id = r.message_id
		and ${nearEvents} and e.recipient_id = r.id and e.type = r.state order by e.id desc limit 1) end as end_detail`;

const recipientsAtOnce = 500;

/** Returns the facts about recipients, ordered by id. */
export async function readRecipientFacts(reader: Knex, ids: readonly string[]): Promise<RecipientFacts[]> {
	const facts: RecipientFacts[] = [];
	for (let start = 0; start < ids.length; start += recipientsAtOnce) {
		const batch = ids.slice(start, start + recipientsAtOnce);
		const [nearAttempts, attemptBindings] = createdNearIds(reader, 'a.recipient_id', 'rcp', batch);
		const [nearEvents, eventBindings] = createdNearIds(reader, 'e.message_id', 'msg', batch);
		const bindings = [...attemptBindings, ...attemptBindings, ...eventBindings];
		const rows: FactsRow[] = await reader('recipients as r')
			.select(reader.raw(columnsNear(nearAttempts, nearEvents), bindings))
			.join('messages as m', 'm.id', 'r.message_id')
			.join('workspaces as w', 'w.id', 'r.workspace_id')
			.leftJoin('queue as q', 'q.recipient_id', 'r.id')
			.leftJoin('claims as c', 'c.recipient_id', 'r.id')
			.leftJoin('suspensions as o', 'o.destination', 'r.destination')
			.leftJoin('lane_waits as l', function () {
				this.on('l.destination', 'r.destination')
					.andOn('l.workspace_id', 'r.workspace_id')
					.andOn(reader.raw(isNewestOfQueue));
			})
			.leftJoin('sites as s', 's.site', 'l.site')
			.whereIn('r.id', batch)
			.whereRaw(...createdNearIds(reader, 'm.id', 'msg', batch))
			.orderBy('r.id');
		facts.push(...rows.map(toFacts));
	}
	return facts;
}

function toFacts({waits_for: code, wait_detail: detail, level, ...row}: FactsRow): RecipientFacts {
	return {
		...withCurrentState(row),
		priority: level === null ? null : priorityOf(level),
		queue_reason: code === null || detail === null ? null : readWaitReason(code, detail),
	};
}
