import type {Knex} from 'knex';
import {idFloor, idTime} from '../mail/ids.ts';
import type {Recipient, RecipientState} from '../mail/message.ts';
import type {BounceCategory} from '../mail/outcome.ts';
import {type Figures, figureNames, type Windows} from '../mail/reputation.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {rowSource} from './engine/dialect.ts';
import {alongIndex, among, idsSince} from './engine/rows.ts';
import {scanMessages} from './message-scan.ts';
import {unanswered} from './postgres/postgres-client.ts';

/** An addition to the figures of the hour in which a recipient was first attempted (`at`, in the store's form). */
export type ReputationCount = Figures & {readonly workspaceId: string; readonly at: string};

/**
 * Adds to the figures of hours, in the order of their keys, because two nodes may count the same hours. Recipients
 * first attempted before the workspace was last resumed are left out, because its reputation starts there.
 */
export async function countHours(trx: Knex.Transaction, counts: readonly ReputationCount[]): Promise<void> {
	if (counts.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(trx, counts.map(countRow), 6);
	const statement = trx.raw(
		`insert into reputation_hours (workspace_id, hour, attempted, hard, delivered, complained)
		select w.id, substr(v.column2, 1, 13), sum(cast(v.column3 as integer)), sum(cast(v.column4 as integer)),
			sum(cast(v.column5 as integer)), sum(cast(v.column6 as integer))
		from (${sql}) as v
		join workspaces as w on w.id = v.column1
		where w.reputation_since is null or v.column2 >= w.reputation_since
		group by 1, 2
		order by 1, 2
		on conflict (workspace_id, hour) do update set
			attempted = reputation_hours.attempted + excluded.attempted,
			hard = reputation_hours.hard + excluded.hard,
			delivered = reputation_hours.delivered + excluded.delivered,
			complained = reputation_hours.complained + excluded.complained`,
		bindings as Knex.RawBinding[],
	);
	await statement.options(unanswered);
}

const countRow = ({workspaceId, at, attempted, hard, delivered, complained}: ReputationCount) =>
	[workspaceId, at, attempted, hard, delivered, complained] as const;

/** What is recorded about a recipient's attempts. */
export type EarlierAttempts = {
	/** When the first conversation of a counted attempt began, in the store's form; `null` if there was none. */
	readonly at: string | null;
	/** Whether a mail server accepted the message in a counted attempt. */
	readonly wasAccepted: boolean;
	/** After how many attempts it may have been delivered without our knowledge (`isPossibleDuplicate`). */
	readonly uncertainAttempts: number;
	/** Whether a daemon died while it had the recipient. */
	readonly wasCutOff: boolean;
};

/** Returns earlier attempts by the ids of recipients. Recipients without recorded attempts are missing. */
export async function readEarlier(reader: Knex, ids: readonly string[]): Promise<Map<string, EarlierAttempts>> {
	if (ids.length === 0) {
		return new Map();
	}
	type Row = {recipient_id: string; at: string | null; accepted: number; cut_off: number; uncertain: number | string};
	const rows: Row[] = await reader('attempts')
		.select('recipient_id')
		.min({at: reader.raw('case when n > 0 and position >= 0 then at end')})
		.max({
			accepted: reader.raw("case when n > 0 and phase = 'dot' and code between 200 and 299 then 1 else 0 end"),
			cut_off: reader.raw('case when position < 0 then 1 else 0 end'),
		})
		.sum({uncertain: reader.raw("case when position >= 0 and phase = 'dot' and code is null then 1 else 0 end")})
		.whereIn('recipient_id', ids)
		.groupBy('recipient_id');
	return new Map(
		rows.map(({recipient_id: id, at, accepted, cut_off: cutOff, uncertain}) => [
			id,
			{
				at,
				wasAccepted: accepted === 1,
				uncertainAttempts: Number(uncertain),
				wasCutOff: cutOff === 1,
			},
		]),
	);
}

/** A workspace with its figures. Times are in the store's form. */
export type ReputationStatus = {
	readonly id: string;
	readonly name: string;
	readonly pausedAt: string | null;
	/** When it was last resumed. */
	readonly since: string | null;
	readonly warnedAt: string | null;
	readonly windows: Windows;
};

type StatusQuery = {
	/** The first hours of the windows. */
	readonly starts: {readonly day: string; readonly week: string};
	/** If absent, all workspaces that have figures, were warned or are paused. */
	readonly ids?: readonly string[];
};

type StatusRow = {
	readonly id: string;
	readonly name: string;
	readonly paused_at: string | null;
	readonly reputation_since: string | null;
	readonly reputation_warned_at: string | null;
} & {readonly [column: string]: number | string | null};

/** Returns the figures of workspaces, ordered by id. */
export async function readStatuses(reader: Knex, {starts, ids}: StatusQuery): Promise<ReputationStatus[]> {
	const query = reader('workspaces as w')
		.leftJoin('reputation_hours as h', function () {
			this.on('h.workspace_id', 'w.id').andOn('h.hour', '>=', reader.raw('?', [starts.week]));
		})
		.whereNull('w.deleted_at')
		.select('w.id', 'w.name', 'w.paused_at', 'w.reputation_since', 'w.reputation_warned_at')
		.groupBy('w.id')
		.orderBy('w.id');
	for (const name of figureNames) {
		void query
			.select(reader.raw(`sum(case when h.hour >= ? then h.${name} else 0 end) as day_${name}`, [starts.day]))
			.sum(`h.${name} as week_${name}`);
	}
	const rows: StatusRow[] =
		ids === undefined
			? await query.where(either =>
					either
						.whereNotNull('h.hour')
						.orWhereNotNull('w.reputation_warned_at')
						.orWhereNotNull('w.paused_at'),
				)
			: await query.whereIn('w.id', ids);
	return rows.map(row => ({
		id: row.id,
		name: row.name,
		pausedAt: row.paused_at,
		since: row.reputation_since,
		warnedAt: row.reputation_warned_at,
		windows: {day: toFigures(row, 'day'), week: toFigures(row, 'week')},
	}));
}

/** Returns the figures of a workspace's hours from `since` (`2026-11-21T13`) on, oldest first. */
export async function readReputationHours(
	reader: Knex,
	workspaceId: string,
	since: string,
): Promise<Array<Figures & {readonly hour: string}>> {
	return await reader('reputation_hours')
		.where({workspace_id: workspaceId})
		.where('hour', '>=', since)
		.orderBy('hour')
		.select('hour', ...figureNames);
}

// Refusals that turned out to be our fault are subtracted, perhaps after their row was removed. Hence the minimum of 0.
function toFigures(row: StatusRow, span: string): Figures {
	const get = (name: string) => Math.max(0, Number(row[`${span}_${name}`] ?? 0));
	return {attempted: get('attempted'), hard: get('hard'), delivered: get('delivered'), complained: get('complained')};
}

/** Changes a workspace if it was neither paused nor resumed since it was evaluated; otherwise returns `false`. */
export async function updateJudged(
	trx: Knex.Transaction,
	{id, since}: Pick<ReputationStatus, 'id' | 'since'>,
	changes: {
		readonly paused_at?: string;
		readonly pause_reason?: string;
		readonly reputation_warned_at: string | null;
	},
): Promise<boolean> {
	const changed = await trx('workspaces').where({id, paused_at: null, reputation_since: since}).update(changes);
	return changed === 1;
}

/** Deletes a workspace's figures. */
export async function forgetFigures(trx: Knex.Transaction, workspaceId: string): Promise<void> {
	await trx('reputation_hours').where({workspace_id: workspaceId}).delete();
}

/** Removes figures of hours before this one, at most `limit`; returns how many. */
export async function purgeReputation(trx: Knex.Transaction, firstHour: string, limit: number): Promise<number> {
	const columns = ['workspace_id', 'hour'];
	const old = trx('reputation_hours').where('hour', '<', firstHour).limit(limit).select(columns);
	return await trx('reputation_hours').whereIn(columns, old).delete();
}

// The newest few of millions of messages show well enough how delivery is going, so reads are bounded below.

/** The newest messages of a workspace that were accepted from `since` (milliseconds) on, at most `limit`. */
export type Sample = {
	readonly workspaceId: string;
	readonly since: number;
	readonly limit: number;
	/** Whether to include simulated messages. */
	readonly simulated?: boolean;
};

const isCounted = ({simulated = false}: Sample, destination: string): boolean =>
	simulated || destination !== simulatorDomain;

async function newestIn(
	reader: Knex,
	{workspaceId, since, limit}: Sample,
	status: RecipientState,
): Promise<readonly string[]> {
	return (await scanMessages(reader, {workspaceId, status, since}, {after: null, limit})).ids;
}

/** Queries the `to` recipients of messages of the sample, newest first. */
function selectRecipients(reader: Knex, {since}: Sample, messageIds: readonly string[]): Knex.QueryBuilder {
	return reader('recipients as r')
		.whereRaw(...among(reader, 'r.message_id', messageIds))
		.whereRaw("r.role = 'to'")
		.whereRaw(...idsSince(reader, 'r.id', 'rcp', since))
		.orderBy('r.message_id', 'desc');
}

/** Returns how long the delivery of each of the newest delivered messages took, in milliseconds. */
export async function readDeliveryTimes(reader: Knex, sample: Sample): Promise<number[]> {
	const delivered = await newestIn(reader, sample, 'delivered');
	const rows: Array<{message_id: string; state_at: string; destination: string}> = await selectRecipients(
		reader,
		sample,
		delivered,
	).select('r.message_id', 'r.state_at', 'r.destination');
	return rows
		.filter(({destination}) => isCounted(sample, destination))
		.map(({message_id: id, state_at: at}) => Math.max(0, Date.parse(at) - idTime(id)));
}

/** The recipient's id if it is in the queue. A scalar subquery is looked up for each recipient. */
const queued = '(select q.recipient_id from queue as q where q.recipient_id = r.id)';

/** An error that a mail server returned for a recipient. */
export type Refusal = {
	readonly destination: string;
	readonly category: BounceCategory | null;
	readonly reply: string;
	/** Whether delivery will be attempted again. */
	readonly isQueued: boolean;
};

/** Returns the errors of the newest messages that bounced, and of the newest ones that wait. */
export async function readRefusals(reader: Knex, sample: Sample): Promise<Refusal[]> {
	const [ofSince, since] = idsSince(reader, 'e.message_id', 'msg', sample.since);
	const bounced: Array<{destination: string; detail: string | null}> = await selectRecipients(
		reader,
		sample,
		await newestIn(reader, sample, 'bounced'),
	)
		// The first refusal ended delivery to the recipient.
		.select('r.destination')
		.select(
			reader.raw(
				`(select e.detail from events as e where e.message_id = r.message_id and e.recipient_id = r.id
				and e.type = 'bounced' and ${ofSince} order by e.id limit 1) as detail`,
				since,
			),
		);
	const refusals: Refusal[] = bounced
		.filter(({destination}) => isCounted(sample, destination))
		.map(({destination, detail}) => {
			// A report has no reply from a conversation.
			const {category = null, reply = '', reason = reply} = JSON.parse(detail ?? '{}');
			return {destination, category, reply: reason, isQueued: false};
		});
	for (const state of ['queued', 'sent'] as const) {
		const recipients = selectRecipients(reader, sample, await newestIn(reader, sample, state))
			.select('r.destination', 'r.last_category as category', 'r.last_reply as reply')
			.select(reader.raw(`${queued} as queued`));
		const waiting: Array<Omit<Refusal, 'isQueued'>> = await reader
			.from(recipients.as('rows'))
			.whereNotNull('queued')
			.whereNotNull('reply')
			.select('destination', 'category', 'reply');
		refusals.push(
			...waiting.filter(({destination}) => isCounted(sample, destination)).map(row => ({...row, isQueued: true})),
		);
	}
	return refusals;
}

/** The result of a recipient's last attempt, including `cc` recipients. */
export type LastTry = Pick<Recipient, 'destination' | 'state' | 'attempts'> & {
	/** Whether it is still in the queue. */
	readonly isQueued: boolean;
	readonly host: string | null;
	/** `null` if the connection was not encrypted, or there was no conversation. */
	readonly tls: string | null;
	/** The code of the last reply. */
	readonly code: number | null;
};

function newestMessages(reader: Knex, {workspaceId, since, limit}: Sample): Knex.QueryBuilder {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return alongIndex(reader, 'messages', index, {from: idFloor('msg', since), below: null})
		.limit(limit)
		.select('id');
}

/** A message that never left the machine. */
export type SimulatedMessage = {
	/** When it was accepted, in milliseconds. */
	readonly at: number;
	readonly state: RecipientState;
};

/** Returns the simulated ones among the newest messages. They are not part of usage. */
export async function readSimulated(reader: Knex, sample: Sample): Promise<SimulatedMessage[]> {
	const rows: Array<{id: string; state: RecipientState}> = await reader
		.with('newest', newestMessages(reader, sample))
		.from('newest as rows')
		.join('recipients as r', 'r.message_id', 'rows.id')
		.whereRaw(...idsSince(reader, 'r.id', 'rcp', sample.since))
		.whereRaw("r.role = 'to'")
		.where('r.destination', simulatorDomain)
		.select('rows.id', 'r.state');
	return rows.map(({id, state}) => ({at: idTime(id), state}));
}

/** Returns the last attempt of each recipient of the newest messages, including simulated ones. */
export async function readLastTries(reader: Knex, sample: Sample): Promise<LastTry[]> {
	const {since} = sample;
	const [ofLast, sinceLast] = idsSince(reader, 'b.recipient_id', 'rcp', since);
	const last = `(select b.n from attempts as b where b.recipient_id = r.id and ${ofLast} order by b.n desc limit 1)`;
	const rows: Array<Omit<LastTry, 'isQueued'> & {id: string; queued: string | null}> = await reader
		.with('newest', newestMessages(reader, sample))
		.from('newest as rows')
		.join('recipients as r', 'r.message_id', 'rows.id')
		.leftJoin('attempts as a', function () {
			this.on('a.recipient_id', 'r.id')
				.andOn('a.n', reader.raw(last, sinceLast))
				.andOn(reader.raw(...idsSince(reader, 'a.recipient_id', 'rcp', since)));
		})
		.whereRaw(...idsSince(reader, 'r.id', 'rcp', since))
		.orderBy(['r.id', 'a.position'])
		.select('r.id', 'r.destination', 'r.state', 'r.attempts', 'a.host', 'a.tls', 'a.code')
		.select(reader.raw(`${queued} as queued`));
	// Of several conversations of an attempt, the last one counts.
	const recipients = new Map(
		rows.map(({id, queued: open, ...recipient}) => [id, {...recipient, isQueued: open !== null}]),
	);
	return [...recipients.values()];
}
