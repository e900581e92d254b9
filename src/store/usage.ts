import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {domainOf, hasDays, jsonField, queryRows, readBy, rowSource} from './engine/dialect.ts';
import {createdBetween, insertRows, maxIdLagMs} from './engine/rows.ts';
import {unanswered} from './postgres/postgres-client.ts';

/** The figures of a day in the API. */
export const usageStatuses = ['accepted', 'delivered', 'bounced', 'complained'] as const;

/** What is counted by hour and by day. `opened` counts the first open of a message. */
export const countedStatuses = [...usageStatuses, 'opened'] as const;
export type CountedStatus = (typeof countedStatuses)[number];

/** An increment of a status at a time, in the store's form. */
type UsageCount = {
	readonly workspaceId: string;
	readonly at: string;
	readonly status: CountedStatus;
	readonly n: number;
};

/** The tables of figures, each with its time column and how many characters of a stored time that column holds. */
export const usageSpans = {days: ['usage_days', 'day', 10], hours: ['usage_hours', 'hour', 13]} as const;
export type UsageSpan = keyof typeof usageSpans;

/** Adds to the figures of hours and days. */
export async function countUsage(trx: Knex.Transaction, counts: readonly UsageCount[]): Promise<void> {
	for (const [table, column, length] of Object.values(usageSpans)) {
		const sums = new Map<string, readonly [workspaceId: string, time: string, status: CountedStatus, n: number]>();
		for (const {workspaceId, at, status, n} of counts) {
			const key = `${workspaceId} ${at.slice(0, length)} ${status}`;
			sums.set(key, [workspaceId, at.slice(0, length), status, n + (sums.get(key)?.[3] ?? 0)]);
		}
		// In the order of their keys, because two nodes may count for the same times.
		const rows = [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
		await insertRows(
			trx,
			table,
			['workspace_id', column, 'status', 'n'],
			rows,
			`on conflict (workspace_id, ${column}, status) do update set n = ${table}.n + excluded.n`,
		);
	}
}

/** The count of a status on a UTC day (`2026-11-05`) or in an hour of it (`2026-11-05T13`). */
type UsageFigure = {readonly time: string; readonly status: CountedStatus; readonly n: number};

/** Returns the figures of a workspace's days or hours from `since` on. Those of hours are retained for some days. */
export async function readUsage(
	reader: Knex,
	workspaceId: string,
	span: UsageSpan,
	since: string,
): Promise<UsageFigure[]> {
	const [table, column] = usageSpans[span];
	return await reader(table)
		.where({workspace_id: workspaceId})
		.where(column, '>=', since)
		.select(`${column} as time`, 'status', 'n');
}

/** Removes figures of hours before this one, at most `limit`; returns how many. */
export async function purgeUsageHours(trx: Knex.Transaction, firstHour: string, limit: number): Promise<number> {
	const columns = ['workspace_id', 'hour', 'status'];
	const old = trx('usage_hours').where('hour', '<', firstHour).limit(limit).select(columns);
	return await trx('usage_hours').whereIn(columns, old).delete();
}

/** Sends of a workspace to be counted in a month (`2026-11`), with simulated ones counted separately. */
export type MonthCount = {readonly workspaceId: string; readonly accepted: number; readonly test: number};

/** Adds to the figures of a month. */
export async function addToMonth(trx: Knex.Transaction, month: string, counts: readonly MonthCount[]): Promise<void> {
	if (counts.length > 0) {
		await trx.raw(...toMonthInsert(trx, month, counts)).options(unanswered);
	}
}

/**
 * Adds to the figures of a month and returns the new values of `accepted` by workspace. The rows stay locked until the
 * transaction ends, so that decisions based on them are exact.
 */
export async function countMonth(
	trx: Knex.Transaction,
	month: string,
	counts: readonly MonthCount[],
): Promise<Map<string, number>> {
	const [sql, bindings] = toMonthInsert(trx, month, counts);
	const counted: Array<{workspace_id: string; accepted: number}> = await queryRows(
		trx,
		`${sql} returning workspace_id, accepted`,
		bindings,
	);
	return new Map(counted.map(row => [row.workspace_id, row.accepted]));
}

function toMonthInsert(
	trx: Knex.Transaction,
	month: string,
	counts: readonly MonthCount[],
): [sql: string, bindings: Knex.RawBinding[]] {
	// In the order of their keys, because two nodes may count for the same workspaces.
	const rows = counts
		.toSorted((a, b) => (a.workspaceId < b.workspaceId ? -1 : 1))
		.map(({workspaceId, accepted, test}) => [workspaceId, month, accepted, test]);
	const {sql, bindings} = rowSource(trx, rows, 4);
	const statement = `insert into usage_months (workspace_id, month, accepted, test) ${sql}
		on conflict (workspace_id, month) do update
			set accepted = usage_months.accepted + excluded.accepted, test = usage_months.test + excluded.test`;
	return [statement, bindings as Knex.RawBinding[]];
}

/** Subtracts what `countMonth` added in excess in the same transaction. */
export async function subtractFromMonth(
	trx: Knex.Transaction,
	month: string,
	excess: ReadonlyArray<{readonly workspaceId: string; readonly n: number}>,
): Promise<void> {
	for (const {workspaceId, n} of excess) {
		await trx('usage_months').where({workspace_id: workspaceId, month}).decrement('accepted', n);
	}
}

/** Returns how many messages workspaces had accepted in a month. Workspaces with none are missing. */
export async function readAccepted(
	reader: Knex,
	workspaceIds: readonly string[],
	month: string,
): Promise<Map<string, number>> {
	const rows: Array<{id: string; accepted: number}> = await reader('usage_months')
		.whereIn('workspace_id', workspaceIds)
		.where({month})
		.select('workspace_id as id', 'accepted');
	return new Map(rows.map(({id, accepted}) => [id, accepted]));
}

/** Returns the figures of a workspace's month. */
export async function readMonth(
	reader: Knex,
	workspaceId: string,
	month: string,
): Promise<{readonly accepted: number; readonly test: number}> {
	const row = await reader('usage_months').where({workspace_id: workspaceId, month}).first('accepted', 'test');
	return row ?? {accepted: 0, test: 0};
}

/** What messages can be grouped by: `domain` is the sender's domain, `category` that of the bounce. */
export const statsGroups = ['workspace', 'domain', 'template', 'destination', 'category'] as const;
export type StatsGroup = (typeof statsGroups)[number];

export const statsFigures = ['accepted', 'delivered', 'bounced', 'complained', 'opened', 'clicked', 'errored'] as const;
export type StatsFigures = {readonly [Figure in (typeof statsFigures)[number]]: number};

/**
 * The figures of a group. `key` is the id of the workspace or template, the domain or the category; `null` for the
 * total.
 */
export type StatsRow = StatsFigures & {readonly key: string | null};

export type StatsQuery = {
	/** All workspaces if `undefined`. */
	readonly workspaceId?: string | undefined;
	/** `null` for a single row with the totals. */
	readonly by: StatsGroup | null;
	/** The half-open range of the time of acceptance, in milliseconds. */
	readonly from: number;
	readonly to: number;
	/** Only this many groups, the largest ones. */
	readonly limit?: number;
};

// A complaint concerns a message that was delivered.
const outcomes = {
	delivered: ['delivered', 'complained'],
	bounced: ['bounced'],
	complained: ['complained'],
	errored: ['errored'],
} as const;

/**
 * Counts messages by their outcome so far, the largest groups first. Only real messages count, because simulated ones
 * never leave the machine. Ids are in the order of time, so this reads only the recipients of the range.
 */
export async function countStats(reader: Knex, query: StatsQuery): Promise<StatsRow[]> {
	const [cancelled, bindings] = isCancelled(reader, query);
	const state = reader.raw(`case when ${cancelled} then null else r.state end as state`, bindings);
	const recipients = selectRecipients(reader, query, toTables(reader, query)).select(state);
	const sums = Object.entries(outcomes).map(
		([name, states]) =>
			`sum(case when state in (${states.map(state => `'${state}'`).join()}) then 1 else 0 end) as ${name}`,
	);
	const groups = reader
		.from(recipients.as('copies'))
		.select('key', reader.raw(`count(*) as accepted, ${sums.join(', ')}`))
		.groupBy('key')
		.orderBy([{column: 'accepted', order: 'desc'}, 'key']);
	const counted: Array<Record<string, string | number | null>> =
		query.limit === undefined ? await groups : await groups.limit(query.limit);
	const engaged = await countEngaged(reader, query);
	return counted.map(({key, ...numbers}) => {
		const figures = Object.fromEntries(Object.entries(numbers).map(([name, n]) => [name, Number(n)]));
		return {key, ...figures, ...(engaged.get(key as string) ?? {opened: 0, clicked: 0})} as StatsRow;
	});
}

/** An SQL condition: the message was cancelled, which is no error although it has the same state. */
function isCancelled(reader: Knex, {from, to}: StatsQuery): [sql: string, bindings: Knex.RawBinding[]] {
	// Limits the partitions that are read.
	const [near, bindings] = hasDays(reader) ? createdBetween('e.message_id', 'msg', from, to) : ['1 = 1', []];
	const sql = `r.state = 'errored' and exists (select 1 from events as e
		where e.message_id = r.message_id and e.recipient_id = r.id and e.type = 'errored' and ${near}
		and ${jsonField(reader, 'e.detail', 'reason')} = 'cancelled')`;
	return [sql, bindings];
}

type Engaged = {readonly opened: number; readonly clicked: number};

async function countEngaged(reader: Knex, query: StatsQuery): Promise<Map<string | null, Engaged>> {
	const recipients = toTables(reader, query);
	// Starts with whatever is smaller: the recipients of one workspace, or the engagement of all workspaces.
	const tables =
		query.workspaceId === undefined ? ['engagement as e', ...recipients] : [...recipients, 'engagement as e'];
	const engaged = selectRecipients(reader, query, tables)
		.whereRaw('e.recipient_id = r.id')
		.whereBetween('e.recipient_id', [idFloor('rcp', query.from), idFloor('rcp', query.to + maxIdLagMs)])
		.select('e.recipient_id', 'e.kind');
	const distinct = (kind: string) => `count(distinct case when kind = '${kind}' then recipient_id end) as ${kind}`;
	const rows: Array<{key: string | null} & Record<'opened' | 'clicked', string | number>> = await reader
		.from(engaged.as('engaged'))
		.select('key', reader.raw(`${distinct('opened')}, ${distinct('clicked')}`))
		.groupBy('key');
	return new Map(rows.map(({key, opened, clicked}) => [key, {opened: Number(opened), clicked: Number(clicked)}]));
}

const messages = 'messages as m';

/** Returns the tables of recipients in the order in which SQLite reads them. Only messages are indexed by workspace. */
function toTables(reader: Knex, {workspaceId, by}: StatsQuery): string[] {
	if (workspaceId !== undefined) {
		// With an index that covers more columns, SQLite would read all messages of the workspace.
		return [readBy(reader, messages, 'messages_by_workspace'), 'recipients as r'];
	}
	return by === 'domain' || by === 'template' ? ['recipients as r', messages] : ['recipients as r'];
}

/** Queries the `to` recipients of the messages, with the key of their group. */
function selectRecipients(reader: Knex, query: StatsQuery, tables: readonly string[]): Knex.QueryBuilder {
	const {workspaceId, by, from, to} = query;
	const range = {from: idFloor('msg', from), below: idFloor('msg', to)};
	const recipients = reader
		.from(reader.raw(tables.join(' cross join ')))
		.whereRaw("r.role = 'to'")
		.whereNot('r.destination', simulatorDomain);
	if (hasDays(reader)) {
		// Limits the partitions that are read.
		void recipients.whereBetween('r.id', [idFloor('rcp', from), idFloor('rcp', to + maxIdLagMs)]);
	}
	if (by === 'category') {
		void recipients.where('r.state', 'bounced');
	}
	if (workspaceId === undefined) {
		void recipients.where('r.message_id', '>=', range.from).where('r.message_id', '<', range.below);
	} else {
		void recipients.where('m.workspace_id', workspaceId);
	}
	if (workspaceId !== undefined || tables.includes(messages)) {
		// With the range of their ids, PostgreSQL reads them from the index and not the whole table.
		void recipients.whereRaw('r.message_id = m.id').where('m.id', '>=', range.from).where('m.id', '<', range.below);
	}
	return recipients.select(reader.raw(`${by === null ? 'null' : keys[by](reader)} as key`));
}

const keys: Readonly<Record<StatsGroup, (reader: Knex) => string>> = {
	workspace: () => 'r.workspace_id',
	domain: reader => domainOf(reader, 'm.from_key'),
	template: () => 'm.template_id',
	destination: () => 'r.destination',
	// The category of the first refusal, which ended delivery. The details of an erased person are gone.
	category: reader => `coalesce((
		select ${jsonField(reader, 'e.detail', 'category')} from events as e
		where e.message_id = r.message_id and e.recipient_id = r.id and e.type = 'bounced'
		order by e.id limit 1), 'undetermined')`,
};
