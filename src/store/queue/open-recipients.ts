import type {Knex} from 'knex';
import {levelOf, type Recipient, type RecipientState, statesBefore} from '../../mail/message.ts';
import {laneText, type QueueKey} from '../../mail/route.ts';
import {type WaitReason, waitParameters} from '../../mail/wait-reason.ts';
import {bumpGeneration} from '../changes.ts';
import {joinOne, packedRows, queryRows, type Row, rowSource} from '../engine/dialect.ts';
import {among, createdNearIds, insertRows, toColumns} from '../engine/rows.ts';
import type {GroupWrite} from '../engine/writer.ts';
import {listState} from '../message-terms.ts';
import {unanswered} from '../postgres/postgres-client.ts';
import {endCutOff, storeQueued, takeClaims} from '../timeline.ts';

/*
 * The delivery queue: which recipients wait, which ones a daemon has claimed, and why they wait. This folder relies on
 * the engine and the timeline; it never connects to mail servers and never decides an outcome.
 *
 * Table `queue` has a row for each recipient that waits or has an attempt in progress, `claims` for each one that a
 * daemon has claimed. Locks are taken in the order claims, `queue`, `recipients`. A claim is created while the
 * recipient's `queue` row is locked. To be sure that there is no claim, lock that row, then read `claims`; lock a claim
 * found there without waiting (`lockLate`).
 */

export type Waiting = QueueKey & {
	readonly recipientId: string;
	readonly nextAttemptAt: string;
	readonly messageId?: string;
	readonly sendAt?: string | null;
	readonly expiresAt?: string | null;
};

export async function enqueue(trx: Knex.Transaction, recipients: readonly Waiting[]): Promise<void> {
	await insertRows(trx, 'queue', insertedColumns, recipients.map(queueRow));
}

const insertedColumns =
	'recipient_id workspace_id destination next_attempt_at priority send_at expires_at scheduled_message'.split(' ');

function queueRow(recipient: Waiting): Row {
	return [
		recipient.recipientId,
		recipient.workspaceId,
		recipient.destination,
		recipient.nextAttemptAt,
		levelOf(recipient.priority),
		recipient.sendAt ?? null,
		recipient.expiresAt ?? null,
		(recipient.sendAt && recipient.messageId) ?? null,
	];
}

/** Moves queued recipients to the times of their next attempts. */
export async function postpone(
	trx: Knex.Transaction,
	recipients: ReadonlyArray<{
		readonly recipientId: string;
		readonly nextAttemptAt: string;
		readonly attempts: number;
	}>,
): Promise<void> {
	if (recipients.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		recipients.map(({recipientId, nextAttemptAt, attempts}) => [recipientId, nextAttemptAt, attempts]),
		3,
	);
	await trx
		.raw(
			`update queue set next_attempt_at = v.column2, attempts = cast(v.column3 as integer) from (${sql}) as v
			where queue.recipient_id = v.column1`,
			bindings as Knex.RawBinding[],
		)
		.options(unanswered);
}

export async function dequeue(trx: Knex.Transaction, ids: readonly string[]): Promise<void> {
	if (ids.length === 0) {
		return;
	}
	const [condition, bindings] = among(trx, 'recipient_id', ids);
	// As text, because the query builder would take longer than the engine.
	await trx.raw(`delete from queue where ${condition}`, bindings).options(unanswered);
}

/** Returns those of the recipients that are in the queue, and locks their rows until the transaction ends. */
export async function lockOpen(trx: Knex.Transaction, ids: readonly string[]): Promise<string[]> {
	return await trx('queue').whereIn('recipient_id', ids).orderBy('recipient_id').forUpdate().pluck('recipient_id');
}

/*
 * Finding the destination queues that have work: the index is sorted by destination queue and time, and a scan jumps
 * from the first recipient of a queue to the next queue. The cost depends on the number of queues, not of recipients.
 */

const order = 'q.destination, q.workspace_id, q.priority, q.next_attempt_at';

const firstColumns = (table: string) =>
	`${table}.destination, ${table}.workspace_id, ${table}.priority, ${table}.next_attempt_at, ${table}.recipient_id`;

/**
 * A recursive query, `firsts`, of a recipient that is due first in each destination queue. `condition` restricts the
 * recipients `q`; its parameters are bound twice.
 */
export function selectFirsts(reader: Knex, condition = 'true'): string {
	const first = (columns: string, after = '') =>
		`(select ${columns} from queue as q where ${after} q.held_at is null and ${condition} order by ${order} limit 1)`;
	// The next queue begins after all times of this one. SQLite compares rows by the index only if one of them contains
	// no table columns, hence the expressions.
	const next = (columns: string) =>
		first(columns, `(${order}) > (p.destination || '', p.workspace_id || '', p.priority + 0, '~') and`);
	return `with recursive firsts as (
		select ${firstColumns('s')} from ${first('q.*')} as s
		union all
		select ${firstColumns('l')} from firsts as p ${joinOne(reader, 'queue', 'recipient_id', next)})`;
}

/** An SQL condition: `q` waits in the destination queue `l`. */
export const ofQueue =
	'q.destination = l.destination and q.workspace_id = l.workspace_id and q.priority = l.priority and q.held_at is null';

/** An SQL condition: the workspace is not paused. Paused workspaces are few, and read once. */
const isNotPaused = 'l.workspace_id not in (select w.id from workspaces as w where w.paused_at is not null)';

/** An SQL expression. Naming priorities in SQL avoids rebuilding each row, which would take a sixth of the time. */
export const namedPriority = `case when priority > 0 then 'high' when priority < 0 then 'low' else 'normal' end`;

type DueQueue = QueueKey & {readonly due: string};

const queueColumns = {
	destination: 'l.destination',
	workspaceId: 'l.workspace_id',
	priority: namedPriority,
	due: 'l.next_attempt_at',
};

/** Returns the destination queues of workspaces that are not paused, each with the due time of its first recipient. */
export async function readWaitingQueues(reader: Knex): Promise<DueQueue[]> {
	return await packedRows(reader, selectFirsts(reader), queueColumns, `from firsts as l where ${isNotPaused}`, []);
}

/** An SQL condition. A scalar subquery looks up each claim; PostgreSQL might implement a join by scanning the queue. */
export const isUnclaimed = (queue: string) =>
	`(select c.recipient_id from claims as c where c.recipient_id = ${queue}.recipient_id) is null`;

const unclaimedDue = `case when l.recipient_id not in (select recipient_id from claims) then l.next_attempt_at else (select q.next_attempt_at from queue as q
	where ${ofQueue} and q.next_attempt_at <= ? and ${isUnclaimed('q')} order by q.next_attempt_at limit 1) end`;

/** Returns the destination queues with recipients that a claim at `until` would get, each with its first due time. */
export async function readDue(reader: Knex, until: string): Promise<DueQueue[]> {
	const source = `from firsts as l where l.next_attempt_at <= ? and ${isNotPaused}`;
	const columns = {...queueColumns, due: unclaimedDue};
	const rows: Array<QueueKey & {readonly due: string | null}> = await packedRows(
		reader,
		selectFirsts(reader),
		columns,
		source,
		[until, until],
	);
	return rows.filter((row): row is DueQueue => row.due !== null);
}

/** Returns at most `limit` ids of a workspace's queued recipients, unordered. Reads only its own destination queues. */
export async function readOpenOf(reader: Knex, workspaceId: string, limit: number): Promise<string[]> {
	const parts = [
		['due', 'q.held_at is null'],
		['held', 'q.held_at is not null'],
	] as const;
	const destinations = parts.map(([name, part]) => {
		const after = (previous: string) =>
			`(select q.destination from queue as q where ${part} and q.destination > ${previous} order by q.destination limit 1)`;
		return `${name} (destination) as (
			select ${after("''")} union all select ${after(`${name}.destination`)} from ${name} where ${name}.destination is not null)`;
	});
	const recipients = parts.map(
		([name, part]) => `select q.recipient_id as id from ${name} cross join queue as q
			where q.destination = ${name}.destination and q.workspace_id = ? and ${part}`,
	);
	const rows: Array<{id: string}> = await queryRows(
		reader,
		`with recursive ${destinations.join(', ')} ${recipients.join(' union all ')} limit ?`,
		[workspaceId, workspaceId, limit],
	);
	return rows.map(({id}) => id);
}

/** Why due messages of a destination queue are not claimed, or what they wait for. Times are in the store's form. */
export type QueueWaitRow = QueueKey & {
	readonly site: string;
	readonly reason: WaitReason;
	/** When the wait ends; `null` if that is not known. */
	readonly until: string | null;
	readonly at: string;
};

/** The changes since the last note. */
export type QueueWaitNote = {readonly ended: readonly QueueKey[]; readonly rows: readonly QueueWaitRow[]};

const waitColumns = ['destination', 'workspace_id', 'node', 'site', 'waits_for', 'detail', 'until', 'updated_at'];
const replaced = waitColumns.slice(3).map(name => `${name} = excluded.${name}`);

/** An SQL condition: of several nodes' rows of a destination queue, `l` was written last. */
export const isNewestOfQueue = `not exists (select 1 from lane_waits as n
	where n.destination = l.destination and n.workspace_id = l.workspace_id and (n.updated_at, n.node) > (l.updated_at, l.node))`;

/** Stores what the destination queues of this node, a daemon's boot id, wait for. */
export function createQueueWaitWrite(node: string): GroupWrite<QueueWaitNote, void> {
	return {
		name: 'lane_waits',
		rank: 9,
		size: ({ended, rows}) => ended.length + rows.length,
		async apply(trx, notes) {
			for (const {ended, rows} of notes) {
				await deleteWaits(trx, node, ended.toSorted(byKey));
				await insertRows(
					trx,
					'lane_waits',
					waitColumns,
					rows.toSorted(byKey).map(row => toRow(node, row)),
					`on conflict (destination, workspace_id, node) do update set ${replaced.join(', ')}`,
				);
			}
			return notes.map(() => undefined);
		},
	};
}

function toRow(node: string, row: QueueWaitRow): Array<string | null> {
	const {reason} = row;
	const parameters = waitParameters(reason);
	return [row.destination, row.workspaceId, node, row.site, reason.code, parameters, row.until, row.at];
}

const byKey = (a: QueueKey, b: QueueKey): number => (laneText(a) < laneText(b) ? -1 : 1);

async function deleteWaits(trx: Knex.Transaction, node: string, queues: readonly QueueKey[]): Promise<void> {
	if (queues.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		queues.map(({destination, workspaceId}) => [destination, workspaceId, node]),
		3,
	);
	await trx.raw(
		`delete from lane_waits where (destination, workspace_id, node) in (${sql})`,
		bindings as Knex.RawBinding[],
	);
}

export async function removeOwnQueueWaits(trx: Knex.Transaction, node: string): Promise<void> {
	await trx('lane_waits').where({node}).delete();
}

/** For SQLite, where the lock of the folder proves that the daemons that wrote these rows are dead. */
export async function removeOtherQueueWaits(trx: Knex.Transaction, node: string): Promise<void> {
	await trx('lane_waits').whereNot({node}).delete();
}

/** Removes the notes of nodes that are no longer listed (several machines on PostgreSQL). */
export async function removeGoneQueueWaits(trx: Knex.Transaction): Promise<void> {
	await trx('lane_waits').whereNotIn('node', trx('nodes').select('id')).delete();
}

/** A change by an operator to some hundred queued recipients. Compare-and-set: it returns the recipients it changed. */
export type Step = {
	readonly ids: readonly string[];
	readonly now: string;
	/** Claims of nodes last seen before this time end. If it is `null`, claimed recipients do not change. */
	readonly silentSince: string | null;
};

const rowColumns = toColumns(
	'id workspaceId messageId address addressKey role destination state stateAt attempts sentAt lastReply',
).names;

/** Holds recipients. They stay in the queue and are never claimed. */
export async function holdRecipients(trx: Knex.Transaction, step: Step): Promise<Recipient[]> {
	const untried = await lockUntried(trx, step);
	const held: string[] = await idsOf(
		trx('queue').whereIn('recipient_id', untried).whereNull('held_at').update({held_at: step.now}),
	);
	await endCutOff(trx, trx('claims').whereIn('recipient_id', held), step.now);
	return await readChanged(trx, held);
}

/** Holds all queued recipients of a store that no daemon uses; returns how many of each workspace. */
export async function holdAll(
	trx: Knex.Transaction,
	now: string,
): Promise<ReadonlyArray<{readonly workspaceId: string; readonly recipients: number}>> {
	const unheld = trx('queue').whereNull('held_at');
	const held: Array<{id: string; recipients: number | string}> = await unheld
		.clone()
		.groupBy('workspace_id')
		.select('workspace_id as id')
		.count('* as recipients');
	const ended = await takeClaims(trx, trx('claims'));
	await unheld.update({held_at: now});
	await storeQueued(trx, ended);
	return held.map(({id, recipients}) => ({workspaceId: id, recipients: Number(recipients)}));
}

/** Releases held recipients. Their next attempt is when it would have been. */
export async function releaseHeld(trx: Knex.Transaction, {ids}: Pick<Step, 'ids'>): Promise<Recipient[]> {
	const released = await idsOf(waiting(trx, ids).whereNotNull('held_at').update({held_at: null}));
	return await readChanged(trx, released);
}

/** Makes recipients due now, however long they would have waited, except held and scheduled ones. */
export async function makeDue(trx: Knex.Transaction, {ids, now}: Pick<Step, 'ids' | 'now'>): Promise<Recipient[]> {
	const due = await idsOf(
		waiting(trx, ids)
			.whereNotExists(selectClaim(trx))
			.whereNull('held_at')
			.where('next_attempt_at', '>', now)
			.whereRaw('(send_at is null or send_at <= ?)', [now])
			.update({next_attempt_at: now}),
	);
	return await readChanged(trx, due);
}

/** Takes recipients out of the queue, held or not. */
export async function endWaiting(trx: Knex.Transaction, step: Step, state: RecipientState): Promise<Recipient[]> {
	const untried = await lockUntried(trx, step);
	await endCutOff(trx, trx('claims').whereIn('recipient_id', untried), step.now);
	const ended: Recipient[] = await trx('recipients')
		.whereIn('id', untried)
		.whereIn('state', statesBefore(state))
		.update({state, state_at: step.now})
		.returning([...rowColumns]);
	await listState(trx, ended, state);
	await dequeue(
		trx,
		ended.map(({id}) => id),
	);
	return ended;
}

/**
 * Returns the recipients of a message if no attempt has begun for any of them, and locks them until the transaction
 * ends; otherwise `null`. Recipients that were suppressed from the start do not count. Claims that a daemon gave back
 * without an attempt do not count either.
 */
export async function lockUnbegun(trx: Knex.Transaction, messageId: string): Promise<string[] | null> {
	const near = createdNearIds(trx, 'id', 'rcp', [messageId]);
	const recipients = () =>
		trx('recipients')
			.where({message_id: messageId})
			.whereRaw(...near)
			.whereNot({state: 'suppressed'});
	const ids: string[] = await recipients().pluck('id');
	const untried = await lockUntried(trx, {ids, silentSince: null});
	const isBegun =
		(await recipients().whereRaw(`(state not in ('accepted', 'queued') or attempts > 0)`).first('id')) ??
		// An attempt was in progress when a daemon died.
		(await trx('attempts').whereIn('recipient_id', ids).first('n'));
	return ids.length > 0 && untried.length === ids.length && isBegun === undefined ? ids : null;
}

/**
 * Reschedules unattempted recipients of a message; a `sendAt` of `null` means now. Daemons have to read the queue
 * again only if a recipient becomes due earlier. If it becomes due later, they find nothing at the old time, and learn
 * the next one.
 */
export async function reschedule(
	trx: Knex.Transaction,
	ids: readonly string[],
	{messageId, sendAt, now}: {readonly messageId: string; readonly sendAt: string | null; readonly now: string},
): Promise<void> {
	const next = sendAt ?? now;
	const isEarlier = await waiting(trx, ids).where('next_attempt_at', '>', next).first('recipient_id');
	await waiting(trx, ids).update({send_at: sendAt, scheduled_message: sendAt && messageId, next_attempt_at: next});
	await (isEarlier && bumpGeneration(trx));
}

export async function findClaimed(reader: Knex, ids: readonly string[]): Promise<string[]> {
	return await waiting(reader, ids).whereExists(selectClaim(reader)).pluck('recipient_id');
}

function waiting(connection: Knex, ids: readonly string[]): Knex.QueryBuilder {
	return connection('queue').whereIn('recipient_id', ids);
}

function selectClaim(connection: Knex): Knex.QueryBuilder {
	return connection('claims').whereRaw('claims.recipient_id = queue.recipient_id').select('claims.recipient_id');
}

/** Returns the recipients that no live daemon is attempting. Locks their rows and the claims of dead daemons. */
async function lockUntried(trx: Knex.Transaction, {ids, silentSince}: Omit<Step, 'now'>): Promise<string[]> {
	const claims = () => trx('claims').whereIn('recipient_id', ids);
	const dead: string[] = [];
	if (silentSince !== null) {
		const alive = trx('nodes').select('id').where('seen_at', '>=', silentSince);
		dead.push(
			...(await claims()
				.whereNotIn('claimed_by', alive)
				.orderBy('recipient_id')
				.forUpdate()
				.pluck('recipient_id')),
		);
	}
	const open = await lockOpen(trx, ids);
	const claimed: string[] = await claims().pluck('recipient_id');
	const inProgress = new Set(claimed.filter(id => !dead.includes(id)));
	return open.filter(id => !inProgress.has(id));
}

async function idsOf(update: Knex.QueryBuilder): Promise<string[]> {
	const rows: Array<{recipient_id: string}> = await update.returning('recipient_id');
	return rows.map(({recipient_id: id}) => id);
}

async function readChanged(trx: Knex.Transaction, ids: readonly string[]): Promise<Recipient[]> {
	return await trx('recipients')
		.whereIn('id', ids)
		.select([...rowColumns]);
}

/** A destination to which an operator has suspended delivery. */
export type Suspension = {readonly destination: string; readonly reason: string; readonly created_at: string};

export async function listSuspensions(reader: Knex): Promise<Suspension[]> {
	return await reader('suspensions').select('destination', 'reason', 'created_at').orderBy('destination');
}

/** Creates a suspension. An existing one keeps its time and gets the new reason. */
export async function upsertSuspension(trx: Knex.Transaction, suspension: Suspension): Promise<Suspension> {
	const {reason} = suspension;
	const rows: Suspension[] = await trx('suspensions')
		.insert(suspension)
		.onConflict('destination')
		.merge({reason})
		.returning(['destination', 'reason', 'created_at']);
	return rows[0] ?? suspension;
}

export async function readSuspension(reader: Knex, destination: string): Promise<Suspension | undefined> {
	return await reader('suspensions').where({destination}).first('destination', 'reason', 'created_at');
}

/** Returns the deleted suspension, if there was one. */
export async function deleteSuspension(trx: Knex.Transaction, destination: string): Promise<Suspension | undefined> {
	const suspension = await readSuspension(trx, destination);
	await trx('suspensions').where({destination}).delete();
	return suspension;
}

/** Returns the names of the suspended destinations. */
export async function readSuspensions(reader: Knex): Promise<string[]> {
	return await reader('suspensions').pluck('destination');
}

/** A provider that backs off, and a destination with messages waiting for it. */
type SiteSuspension = {
	readonly destination: string;
	readonly site: string;
	readonly reason: string | null;
	/** `route` if it is a relay that refuses us. */
	readonly waits_for: 'suspension' | 'route' | null;
	/** What the operator can do if the provider blocks our address. */
	readonly advice: string | null;
	readonly suspended_until: string;
};

/** Returns the providers that back off at `now`, for each destination with messages that wait for one. */
export async function listSiteSuspensions(
	reader: Knex,
	now: string,
	{destination}: {readonly destination?: string | undefined} = {},
): Promise<SiteSuspension[]> {
	const query = reader('lane_waits as l')
		.join('sites as s', 's.site', 'l.site')
		.where('s.suspended_until', '>', now)
		.distinct('l.destination', 's.site', 's.reason', 's.waits_for', 's.advice', 's.suspended_until')
		.orderBy('l.destination');
	if (destination !== undefined) {
		query.where('l.destination', destination);
	}
	return await query;
}

/** Allows one message to probe each of the providers that back off at `now`; returns their names. */
export async function resumeSites(trx: Knex.Transaction, sites: readonly string[], now: string): Promise<string[]> {
	const resumed: Array<{site: string}> = await trx('sites')
		.whereIn('site', sites)
		.where('suspended_until', '>', now)
		.update({suspended_until: now, resumed_at: now})
		.returning('site');
	return resumed.map(({site}) => site).sort();
}

/** Returns when an operator last resumed each provider, as far as that is stored. */
export async function readResumed(reader: Knex): Promise<Map<string, string>> {
	const rows: Array<{site: string; resumed_at: string}> = await reader('sites')
		.whereNotNull('resumed_at')
		.select('site', 'resumed_at');
	return new Map(rows.map(row => [row.site, row.resumed_at]));
}
