import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import type {Mode} from '../mail/message.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import type {Term} from '../mail/terms.ts';
import {alongIndex} from './engine/along-index.ts';
import type {IdRange} from './engine/dialect.ts';
import {nearIds, newestFirst} from './engine/near-ids.ts';

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
	/** All of them: words of the subject, metadata, tags. */
	readonly terms?: readonly Term[] | undefined;
	/** This message alone. */
	readonly id?: string | undefined;
	/** Half-open range of acceptance, milliseconds. */
	readonly since?: number | undefined;
	readonly until?: number | undefined;
};

/** Ids of messages, newest first; `next` is where the rest begins, null: there is none. */
export type Scanned = {readonly ids: readonly string[]; readonly next: string | null};

/** Rows of an index that are read for one page, at most. */
export const mostScanned = 10_000;

/** One thing that a message must have: a value of a column, and the table where an index begins with it. */
type Match = {readonly home: keyof typeof homes; readonly column: string; readonly value: string};

/** Where matches are looked up. The terms are an index of their own. */
const homes = {
	messages: {table: 'messages as m', id: 'm.id', workspaceId: 'm.workspace_id'},
	recipients: {table: 'recipients as r', id: 'r.message_id', workspaceId: 'r.workspace_id'},
	terms: {table: 'message_terms as w', id: 'w.message_id', workspaceId: 'w.workspace_id'},
} as const;

const isMode = ({column}: Match) => column === 'm.mode';

/** Usually the narrowest first. Each has an index of its own, but the mode only where it is `test`. */
function matchesOf({toKey, terms = [], status, templateId, fromKey, mode}: MessageFilter): Match[] {
	const given = (home: Match['home'], column: string, value: string | undefined): Match[] =>
		value === undefined ? [] : [{home, column, value}];
	return [
		...given('messages', 'm.to_key', toKey),
		...terms.flatMap(term => given('terms', 'w.term', term)),
		...given('recipients', 'r.state', status),
		...given('messages', 'm.template_id', templateId),
		...given('messages', 'm.from_key', fromKey),
		...given('messages', 'm.mode', mode),
	];
}

/** What a scan asks for; null for `lead`: it runs along all messages of the workspace. */
type Scan = {readonly workspaceId: string; readonly matches: readonly Match[]; readonly range: IdRange};
type Lead = Match | null;

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
	const ids: string[] = [];
	for (const range of newestFirst(reader, 'msg', rangeOf(filter, after))) {
		const part = await scanRange(reader, filter, range, limit - ids.length);
		ids.push(...part.ids);
		if (part.next !== null) {
			return {ids, next: part.next};
		}
	}
	return {ids, next: null};
}

async function scanRange(reader: Knex, filter: MessageFilter, range: IdRange, limit: number): Promise<Scanned> {
	const matches = matchesOf(filter);
	const asked = {workspaceId: filter.workspaceId, matches, range};
	const leads = matches.filter(match => !isMode(match) || match.value === 'test');
	const [lead = null] = leads;
	const isExact = matches.length === (lead === null ? 0 : 1);
	const along = isExact ? {lead, floor: null} : await narrowest(reader, asked, lead === null ? [null] : leads);
	return await scan(reader, asked, along, limit);
}

async function scan(
	reader: Knex,
	asked: Scan,
	{lead, floor}: {readonly lead: Lead; readonly floor: string | null},
	limit: number,
): Promise<Scanned> {
	const range = {...asked.range, from: floor ?? asked.range.from};
	const found: Array<{id: string}> = await scanQuery(reader, {...asked, range}, lead).limit(limit + 1);
	const ids = found.slice(0, limit).map(({id}) => id);
	return {ids, next: found.length > limit ? (ids.at(-1) ?? null) : floor};
}

function rangeOf({since, until, id}: MessageFilter, after: string | null): IdRange {
	// After an id in order comes the id with anything at its end.
	const below = [until === undefined ? null : idFloor('msg', until), id === undefined ? null : `${id}0`, after];
	const from = [since === undefined ? null : idFloor('msg', since), id ?? null];
	return {from: given(from).at(-1) ?? null, below: given(below).at(0) ?? null};
}

const given = (ids: ReadonlyArray<string | null>) => ids.filter(id => id !== null).sort();

/** The lead with the fewest rows in its index, and the oldest row that may be looked at if there are too many of them. */
async function narrowest(
	reader: Knex,
	asked: Scan,
	leads: readonly Lead[],
): Promise<{lead: Lead; floor: string | null}> {
	let lead: Lead = null;
	let fewest = Number.POSITIVE_INFINITY;
	for (const each of leads) {
		const rows = await countQuery(reader, leadQuery(reader, asked, each).limit(Math.min(fewest, mostScanned)));
		if (rows < fewest) {
			lead = each;
			fewest = rows;
		}
	}
	const oldest: {id: string} | undefined =
		fewest < mostScanned
			? undefined
			: await leadQuery(reader, asked, lead)
					.offset(mostScanned - 1)
					.first();
	return {lead, floor: oldest?.id ?? null};
}

async function countQuery(reader: Knex, rows: Knex.QueryBuilder): Promise<number> {
	const counted: {n: number | string} | undefined = await reader.from(rows.as('rows')).count('* as n').first();
	return Number(counted?.n ?? 0);
}

/** Ids of what matches the lead, newest first, from its index alone. */
function leadQuery(reader: Knex, {workspaceId, range}: Scan, lead: Lead): Knex.QueryBuilder {
	const {table, id, ...home} = homes[lead?.home ?? 'messages'];
	const leading = {
		[home.workspaceId]: workspaceId,
		...(lead !== null && !isMode(lead) && {[lead.column]: lead.value}),
	};
	const query = alongIndex(reader, table, {leading, id}, range).select(`${id} as id`);
	// As the partial indexes have it.
	if (lead !== null && isMode(lead)) {
		query.whereRaw("m.mode = 'test'");
	}
	return lead?.home === 'recipients' ? query.whereRaw("r.role = 'to'") : query;
}

/** The same, with all that is asked for. */
function scanQuery(reader: Knex, asked: Scan, lead: Lead): Knex.QueryBuilder {
	const query = leadQuery(reader, asked, lead);
	const here = lead?.home ?? 'messages';
	const {id} = homes[here];
	const others = asked.matches.filter(match => match !== lead);
	for (const home of ['messages', 'recipients'] as const) {
		const conditions = others.filter(match => match.home === home).map(match => matching(reader, match));
		if (home === here) {
			for (const condition of conditions) {
				query.where(condition);
			}
		} else if (conditions.length > 0) {
			const row = reader(homes[home].table).whereRaw('?? = ??', [homes[home].id, id]);
			const ofCopy = home === 'recipients' ? row.whereRaw("r.role = 'to'") : row;
			const all = reader.raw(conditions.map(() => '?').join(' and '), conditions);
			// As a value it is looked up for each row of the lead: PostgreSQL might join by reading all of the other table.
			query.whereRaw('?', [ofCopy.select(all)]);
		}
	}
	for (const {value} of others.filter(({home}) => home === 'terms')) {
		const term = reader('message_terms as o')
			.where({'o.workspace_id': asked.workspaceId, 'o.term': value})
			.whereRaw('o.message_id = ??', [id]);
		query.whereRaw('coalesce(?, false)', [term.select(reader.raw('true'))]);
	}
	return query;
}

/**
 * As an expression it can use no index of its own, only the leading one is bounded. PostgreSQL holds such a one to be true
 * of every second row, so that it looks row by row for the few that are asked for.
 */
function matching(reader: Knex, {column, value}: Match): Knex.Raw {
	return reader.raw('coalesce(?? = ?, false)', [column, value]);
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

/** The lines of these messages, newest first. */
export async function readLines(reader: Knex, ids: readonly string[]): Promise<ListedMessage[]> {
	if (ids.length === 0) {
		return [];
	}
	return await reader('messages as m')
		.join('recipients as r', 'r.message_id', 'm.id')
		.whereRaw("r.role = 'to'")
		.whereIn('m.id', ids)
		.whereRaw(...nearIds(reader, 'r.id', 'rcp', ids))
		.orderBy('m.id', 'desc')
		.select('m.id', 'm.mode', 'r.state as status', 'm.from_address as from', 'm.to_address as to', 'r.subject')
		.select('m.created_at');
}
