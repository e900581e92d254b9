import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import type {Mode} from '../mail/message.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {alongIndex} from './engine/along-index.ts';
import type {IdRange} from './engine/dialect.ts';

/** Which messages of a workspace are meant; what is left out does not matter. */
export type MessageFilter = {
	readonly workspaceId: string;
	/** Of live keys, or of test keys. */
	readonly mode?: Mode | undefined;
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

/** Usually the narrowest first. Each has an index of its own, but the mode only where it is `test`. */
const filters = ['toKey', 'status', 'templateId', 'fromKey', 'mode'] as const;
/** The filter along whose index a scan runs; null: along all messages of the workspace. */
type Lead = (typeof filters)[number] | null;

/** Where each filter's column is, and the key of the index that begins a scan along it. */
const columns = {
	toKey: 'm.to_key',
	status: 'r.state',
	templateId: 'm.template_id',
	fromKey: 'm.from_key',
	mode: 'm.mode',
} as const;

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
	const given = filters.filter(name => filter[name] !== undefined);
	const range = rangeOf(filter, after);
	const leads = given.filter(name => name !== 'mode' || filter.mode === 'test');
	const [lead = null] = leads;
	const isExact = given.length === (lead === null ? 0 : 1);
	const along = isExact ? {lead, floor: null} : await narrowest(reader, filter, lead === null ? [null] : leads, range);
	return await scan(reader, filter, along, {range, limit});
}

async function scan(
	reader: Knex,
	filter: MessageFilter,
	{lead, floor}: {readonly lead: Lead; readonly floor: string | null},
	{range, limit}: {readonly range: IdRange; readonly limit: number},
): Promise<Scanned> {
	const found: Array<{id: string}> = await scanQuery(reader, filter, lead, {...range, from: floor ?? range.from}).limit(
		limit + 1,
	);
	const ids = found.slice(0, limit).map(({id}) => id);
	return {ids, next: found.length > limit ? (ids.at(-1) ?? null) : floor};
}

function rangeOf({since, until}: MessageFilter, after: string | null): IdRange {
	const below = until === undefined ? null : idFloor('msg', until);
	return {
		from: since === undefined ? null : idFloor('msg', since),
		below: after !== null && (below === null || after < below) ? after : below,
	};
}

/** The lead with the fewest rows in its index, and the oldest row that may be looked at if there are too many of them. */
async function narrowest(
	reader: Knex,
	filter: MessageFilter,
	leads: readonly Lead[],
	range: IdRange,
): Promise<{lead: Lead; floor: string | null}> {
	let lead: Lead = null;
	let fewest = Number.POSITIVE_INFINITY;
	for (const name of leads) {
		const rows = await countQuery(reader, leadQuery(reader, filter, name, range).limit(Math.min(fewest, mostScanned)));
		if (rows < fewest) {
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
function leadQuery(reader: Knex, filter: MessageFilter, lead: Lead, range: IdRange): Knex.QueryBuilder {
	const isState = lead === 'status';
	const id = isState ? 'r.message_id' : 'm.id';
	const leading = {
		[isState ? 'r.workspace_id' : 'm.workspace_id']: filter.workspaceId,
		...(lead !== null && lead !== 'mode' && {[columns[lead]]: filter[lead] as string}),
	};
	const table = isState ? 'recipients as r' : 'messages as m';
	const query = alongIndex(reader, table, {leading, id}, range).select(`${id} as id`);
	// As the partial indexes have it.
	if (lead === 'mode') {
		query.whereRaw("m.mode = 'test'");
	}
	return isState ? query.whereRaw("r.role = 'to'") : query;
}

/** The same, with all filters. */
function scanQuery(reader: Knex, filter: MessageFilter, lead: Lead, range: IdRange): Knex.QueryBuilder {
	const query = leadQuery(reader, filter, lead, range);
	const others = filters.filter(name => name !== lead && filter[name] !== undefined);
	const elsewhere = others.filter(name => name === 'status' || lead === 'status');
	for (const name of others.filter(each => !elsewhere.includes(each))) {
		query.where(matching(reader, filter, name));
	}
	if (elsewhere.length > 0) {
		const row =
			lead === 'status'
				? reader('messages as m').whereRaw('m.id = r.message_id')
				: reader('recipients as r').whereRaw("r.message_id = m.id and r.role = 'to'");
		const matches = elsewhere.map(name => matching(reader, filter, name));
		// As a value it is looked up for each row of the lead: PostgreSQL might join by reading all of the other table.
		query.whereRaw('?', [row.select(reader.raw(matches.map(() => '?').join(' and '), matches))]);
	}
	return query;
}

/**
 * As an expression it can use no index of its own, only the leading one is bounded. PostgreSQL holds such a one to be true
 * of every second row, so that it looks row by row for the few that are asked for.
 */
function matching(reader: Knex, filter: MessageFilter, name: (typeof filters)[number]): Knex.Raw {
	return reader.raw('coalesce(?? = ?, false)', [columns[name], filter[name] as string]);
}

/** A line of `mailctl message list`. */
export type ListedMessage = {
	readonly id: string;
	readonly mode: Mode;
	readonly status: RecipientState;
	readonly from: string;
	readonly to: string;
	readonly subject: string | null;
	readonly created_at: string;
};

const linesAtOnce = 500;

/** The newest messages that match, newest first. */
export async function listMessages(reader: Knex, filter: MessageFilter, limit: number): Promise<ListedMessage[]> {
	const lines: ListedMessage[] = [];
	let after: string | null = null;
	do {
		const {ids, next} = await scanMessages(reader, filter, {after, limit: Math.min(limit - lines.length, linesAtOnce)});
		lines.push(...(await readLines(reader, ids)));
		after = next;
	} while (after !== null && lines.length < limit);
	return lines;
}

async function readLines(reader: Knex, ids: readonly string[]): Promise<ListedMessage[]> {
	if (ids.length === 0) {
		return [];
	}
	return await reader('messages as m')
		.join('recipients as r', 'r.message_id', 'm.id')
		.whereRaw("r.role = 'to'")
		.whereIn('m.id', ids)
		.orderBy('m.id', 'desc')
		.select('m.id', 'm.mode', 'r.state as status', 'm.from_address as from', 'm.to_address as to', 'r.subject')
		.select('m.created_at');
}
