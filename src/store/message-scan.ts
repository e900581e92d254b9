import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import type {RecipientState} from '../mail/recipient-state.ts';

/** Which messages of a workspace are meant; what is left out does not matter. */
export type MessageFilter = {
	readonly workspaceId: string;
	/** The state of the `to` copy. */
	readonly status?: RecipientState | undefined;
	/** Comparison forms (mail/address.ts). */
	readonly toKey?: string | undefined;
	readonly fromKey?: string | undefined;
	readonly templateId?: string | undefined;
	/** Half-open range of acceptance, milliseconds. */
	readonly since?: number | undefined;
	readonly until?: number | undefined;
};

/** Ids of messages, newest first; `next` is where the rest begins, null: there is none. */
export type Scanned = {readonly ids: readonly string[]; readonly next: string | null};

/** Rows of an index that are read for one page, at most. */
export const mostScanned = 10_000;

/** The filters that have an index of their own, usually the narrowest first. */
const indexed = ['toKey', 'status', 'templateId', 'fromKey'] as const;
/** The filter along whose index a scan runs; null: along all messages of the workspace. */
type Lead = (typeof indexed)[number] | null;
/** Half-open range of ids. */
type Range = {readonly from: string; readonly below: string};

/** Where each filter's column is, and the key of the index that begins a scan along it. */
const columns = {toKey: 'm.to_key', status: 'r.state', templateId: 'm.template_id', fromKey: 'm.from_key'} as const;

/**
 * The messages that match and are older than `after` (null: all), at most `limit`. With several filters the index with the
 * fewest rows leads and no more than `mostScanned` of its rows are looked at, so that there may be a next page after an
 * empty one.
 */
export async function scanMessages(
	reader: Knex,
	filter: MessageFilter,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Scanned> {
	const given = indexed.filter(name => filter[name] !== undefined);
	const range = rangeOf(filter, after);
	const {lead, floor} =
		given.length > 1 ? await narrowest(reader, filter, given, range) : {lead: given[0] ?? null, floor: null};
	const found: Array<{id: string}> = await scanQuery(reader, filter, lead, {...range, from: floor ?? range.from}).limit(
		limit + 1,
	);
	const ids = found.slice(0, limit).map(({id}) => id);
	return {ids, next: found.length > limit ? (ids.at(-1) ?? null) : floor};
}

function rangeOf({since, until}: MessageFilter, after: string | null): Range {
	// The character after `_`, where the ids end.
	const below = until === undefined ? 'msg`' : idFloor('msg', until);
	return {
		from: since === undefined ? '' : idFloor('msg', since),
		below: after !== null && after < below ? after : below,
	};
}

/** The filter with the fewest rows in its index, and the oldest row that may be looked at if there are too many of them. */
async function narrowest(
	reader: Knex,
	filter: MessageFilter,
	given: readonly Exclude<Lead, null>[],
	range: Range,
): Promise<{lead: Lead; floor: string | null}> {
	let lead: Lead = null;
	let fewest = mostScanned;
	for (const name of given) {
		const rows = await countQuery(reader, leadQuery(reader, filter, name, range).limit(fewest));
		if (lead === null || rows < fewest) {
			lead = name;
			fewest = rows;
		}
	}
	const oldest: {id: string} | undefined =
		fewest < mostScanned
			? undefined
			: await leadQuery(reader, filter, lead, range)
					.offset(mostScanned - 1)
					.first();
	return {lead, floor: oldest?.id ?? null};
}

async function countQuery(reader: Knex, rows: Knex.QueryBuilder): Promise<number> {
	const counted: {n: number | string} | undefined = await reader.from(rows.as('rows')).count('* as n').first();
	return Number(counted?.n ?? 0);
}

/** Ids of what matches the leading filter, newest first, from its index alone. */
function leadQuery(reader: Knex, filter: MessageFilter, lead: Lead, {from, below}: Range): Knex.QueryBuilder {
	const table = lead === 'status' ? 'recipients as r' : 'messages as m';
	const id = lead === 'status' ? 'r.message_id' : 'm.id';
	const key = [id.replace(/\.\w+$/, '.workspace_id'), ...(lead === null ? [] : [columns[lead]]), id];
	const values = [filter.workspaceId, ...(lead === null ? [] : [filter[lead] as string])];
	// Compared and ordered by its whole key, so that no other index will do: PostgreSQL would walk along the ids alone where
	// it believes that matches are everywhere.
	const places = key.map(() => '?').join(', ');
	const query = reader(table)
		.whereRaw(`(${key.join(', ')}) >= (${places})`, [...values, from])
		.whereRaw(`(${key.join(', ')}) < (${places})`, [...values, below])
		.orderByRaw(key.map(column => `${column} desc`).join(', '))
		.select(`${id} as id`);
	return lead === 'status' ? query.whereRaw("r.role = 'to'") : query;
}

/** The same, with all filters. */
function scanQuery(reader: Knex, filter: MessageFilter, lead: Lead, range: Range): Knex.QueryBuilder {
	const query = leadQuery(reader, filter, lead, range);
	const others = indexed.filter(name => name !== lead && filter[name] !== undefined);
	if (lead === 'status' && others.length > 0) {
		query.join('messages as m', 'm.id', 'r.message_id');
	} else if (others.includes('status')) {
		query.join('recipients as r', 'r.message_id', 'm.id').whereRaw("r.role = 'to'");
	}
	for (const name of others) {
		// As an expression it can use no index of its own: only the leading one is bounded.
		query.whereRaw(`${columns[name]} || '' = ?`, [filter[name] as string]);
	}
	return query;
}
