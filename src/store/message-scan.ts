import type {Knex} from 'knex';
import {type IdPrefix, idFloor} from '../mail/ids.ts';
import {type Mode, type RecipientState, readExtras} from '../mail/message.ts';
import {isListed, type SearchCondition, stateTerm, type Term} from '../mail/terms.ts';
import type {IdRange} from './engine/dialect.ts';
import {alongIndex, among, createdNearIds, firstThatFit, newestFirst} from './engine/rows.ts';
import {isReadable} from './erasures.ts';
import {countListed, isInList, readListed, type TermList} from './message-terms.ts';
import {readMessages, type StoredMessage} from './messages.ts';
import {readOpenOf} from './queue/open-recipients.ts';
import {stateOf} from './timeline.ts';

/** Selects messages of a workspace. Absent properties do not restrict the selection. */
export type MessageFilter = {
	readonly workspaceId: string;
	/** Messages sent with live keys, or with test keys. */
	readonly mode?: Mode | undefined;
	/** The state of the `to` recipient. */
	readonly status?: RecipientState | undefined;
	/** In comparison form (mail/address.ts). */
	readonly toKey?: string | undefined;
	readonly fromKey?: string | undefined;
	readonly templateId?: string | undefined;
	/** Words of the subject, metadata and tags, all of which must match. */
	readonly terms?: readonly SearchCondition[] | undefined;
	/** Messages with a recipient that is scheduled for a time after this one (the store's form). */
	readonly scheduledAfter?: string | undefined;
	/** Only this message. */
	readonly id?: string | undefined;
	/** The half-open range of the time of acceptance, in milliseconds. */
	readonly since?: number | undefined;
	readonly until?: number | undefined;
};

/** Ids of messages, newest first. `next` is where the rest begins; `null` if there are no more. */
type Scanned = {readonly ids: readonly string[]; readonly next: string | null};

/** The maximum number of index rows that are read for one page. */
export const maxScanned = 10_000;

/** An index of all messages that match one criterion. It may contain others, which are read and left out. */
type Lead = {
	/** Returns roughly how many messages it has in a range of ids, at most `max`. */
	readonly count: (range: IdRange, max: number) => Promise<number>;
	/** Returns their ids, newest first, at most `max`. */
	readonly read: (range: IdRange, max: number) => Promise<readonly string[]>;
};

/** Returns a lead for a column that an index begins with; with `null`, for all messages of the workspace. */
function byColumn(
	reader: Knex,
	workspaceId: string,
	match: readonly [column: string, value: string] | null,
	restrict = (messages: Knex.QueryBuilder) => messages,
): Lead {
	const leading = {'m.workspace_id': workspaceId, ...(match && {[match[0]]: match[1]})};
	return byRows(reader, range =>
		restrict(alongIndex(reader, 'messages as m', {leading, id: 'm.id'}, range)).select('m.id as id'),
	);
}

/** Returns a lead for scheduled messages. */
function bySchedule(reader: Knex, workspaceId: string): Lead {
	const index = {leading: {'q.workspace_id': workspaceId}, id: 'q.scheduled_message'};
	return byRows(reader, range =>
		alongIndex(reader, 'queue as q', index, range)
			.whereNotNull('q.scheduled_message')
			.distinct('q.workspace_id', 'q.scheduled_message as id'),
	);
}

export function byRows(reader: Knex, rows: (range: IdRange) => Knex.QueryBuilder): Lead {
	return {
		async count(range, max) {
			const counted: {n: number | string} | undefined = await reader
				.from(rows(range).limit(max).as('rows'))
				.count('* as n')
				.first();
			return Number(counted?.n ?? 0);
		},
		read: async (range, max) => (await rows(range).limit(max)).map(({id}: {id: string}) => id),
	};
}

/** Returns a lead for the messages that any of these terms lists. */
function byTerms(reader: Knex, workspaceId: string, anyOf: SearchCondition): Lead {
	const lists = toTermLists(workspaceId, anyOf);
	return {
		async count(range, max) {
			let counted = 0;
			for (const list of lists) {
				counted += counted < max ? await countListed(reader, list, range, max - counted) : 0;
			}
			return counted;
		},
		async read(range, max) {
			const ids: string[] = [];
			for (const list of lists) {
				ids.push(...(await readListed(reader, list, range, max)));
			}
			return lists.length === 1 ? ids : [...new Set(ids.sort().reverse())].slice(0, max);
		},
	};
}

function toTermLists(workspaceId: string, anyOf: SearchCondition): TermList[] {
	const terms: readonly Term[] = typeof anyOf === 'string' ? [anyOf] : anyOf;
	return terms.map(term => ({workspaceId, term}));
}

/**
 * Returns a lead for the messages in the queue, or `null` if there are too many to list; the newest messages then
 * contain enough of them.
 */
async function byQueue(reader: Knex, workspaceId: string): Promise<Lead | null> {
	const recipientIds = await readOpenOf(reader, workspaceId, maxScanned + 1);
	if (recipientIds.length > maxScanned) {
		return null;
	}
	const ids: string[] = [];
	for (let start = 0; start < recipientIds.length; start += maxPerStatement) {
		const recipients = reader('recipients').whereRaw(
			...among(reader, 'id', recipientIds.slice(start, start + maxPerStatement)),
		);
		ids.push(...(await recipients.whereRaw("role = 'to'").pluck('message_id')));
	}
	ids.sort().reverse();
	const inRange = ({from, below}: IdRange) => ids.filter(id => id >= (from ?? '') && (below === null || id < below));
	return {
		count: async range => inRange(range).length,
		read: async (range, max) => inRange(range).slice(0, max),
	};
}

/** Returns the indexes that may lead, usually the narrowest first. */
async function findLeads(reader: Knex, filter: MessageFilter): Promise<Lead[]> {
	const {workspaceId, toKey, terms = [], status, scheduledAfter, templateId, fromKey, mode} = filter;
	const byColumns = (...matches: Parameters<typeof byColumn>[2][]) =>
		matches.map(match => byColumn(reader, workspaceId, match));
	const leads: Array<Lead | null> = [
		...(toKey === undefined ? [] : byColumns(['m.to_key', toKey])),
		...(scheduledAfter === undefined ? [] : [bySchedule(reader, workspaceId)]),
		...terms.map(anyOf => byTerms(reader, workspaceId, anyOf)),
		...(status !== undefined && isListed(status) ? [byTerms(reader, workspaceId, stateTerm(status))] : []),
		...(status !== undefined && !isListed(status) ? [await byQueue(reader, workspaceId)] : []),
		...(templateId === undefined ? [] : byColumns(['m.template_id', templateId])),
		...(fromKey === undefined ? [] : byColumns(['m.from_key', fromKey])),
		// The same condition as that of the partial index.
		...(mode === 'test'
			? [byColumn(reader, workspaceId, null, messages => messages.whereRaw("m.mode = 'test'"))]
			: []),
	];
	const usable = leads.filter(lead => lead !== null);
	return usable.length > 0 ? usable : byColumns(null);
}

/**
 * Returns the messages that match and are older than `after` (`null` for all), at most `limit`. The index with the
 * fewest rows leads. At most `maxScanned` of its messages are read, so an empty page may have a next page.
 */
export async function scanMessages(
	reader: Knex,
	filter: MessageFilter,
	{after, limit}: {readonly after: string | null; readonly limit: number},
): Promise<Scanned> {
	const match = isExact(filter) ? null : (ids: readonly string[]) => selectMatching(reader, filter, ids);
	const ranges = newestFirst(reader, 'msg', toRange('msg', filter, after));
	return await scanRanges(ranges, await findLeads(reader, filter), match, limit);
}

/** Returns those of the ids that match, in their order. It is `null` if everything in the index matches. */
type Match = ((ids: readonly string[]) => Promise<readonly string[]>) | null;

/** Returns the matches in consecutive ranges, at most `limit`. */
export async function scanRanges(
	ranges: readonly IdRange[],
	leads: readonly Lead[],
	match: Match,
	limit: number,
): Promise<Scanned> {
	const ids: string[] = [];
	for (const range of ranges) {
		// One more than needed shows whether there is a next page.
		const part = await scanRange(leads, match, range, limit + 1 - ids.length);
		ids.push(...part.ids);
		if (ids.length > limit) {
			return {ids: ids.slice(0, limit), next: ids[limit - 1] ?? null};
		}
		if (part.next !== null) {
			return {ids, next: part.next};
		}
	}
	return {ids, next: null};
}

/** The maximum number of messages that one statement reads. */
const maxPerStatement = 2000;

/**
 * Returns at most `limit` messages of a range. `next` is where to continue after one page's share of messages has been
 * read.
 */
async function scanRange(leads: readonly Lead[], match: Match, range: IdRange, limit: number): Promise<Scanned> {
	const lead = await narrowest(leads, range);
	const ids: string[] = [];
	let {below} = range;
	for (let scanned = 0, step = limit; ; step *= 4) {
		const max = Math.min(step, maxPerStatement, maxScanned - scanned);
		const batch = await lead.read({...range, below}, max);
		ids.push(...(match === null ? batch : await match(batch)));
		if (ids.length >= limit || batch.length < max) {
			return {ids: ids.slice(0, limit), next: null};
		}
		scanned += batch.length;
		below = batch.at(-1) ?? null;
		if (scanned === maxScanned) {
			return {ids, next: below};
		}
	}
}

export function toRange(prefix: IdPrefix, {since, until, id}: Partial<MessageFilter>, after: string | null): IdRange {
	// The id followed by any character sorts directly after the id.
	const below = [until === undefined ? null : idFloor(prefix, until), id === undefined ? null : `${id}0`, after];
	const from = [since === undefined ? null : idFloor(prefix, since), id ?? null];
	return {from: sortedIds(from).at(-1) ?? null, below: sortedIds(below).at(0) ?? null};
}

const sortedIds = (ids: ReadonlyArray<string | null>) => ids.filter(id => id !== null).sort();

async function narrowest(leads: readonly Lead[], range: IdRange): Promise<Lead> {
	let [best, ...others] = leads as readonly [Lead, ...Lead[]];
	let fewest = others.length === 0 ? 0 : await best.count(range, maxScanned);
	for (const lead of others) {
		const rows = await lead.count(range, Math.min(fewest, maxScanned));
		if (rows < fewest) {
			best = lead;
			fewest = rows;
		}
	}
	return best;
}

/** Whether everything in the leading index matches: the filter has one column that an index begins with, or none. */
function isExact({toKey, terms = [], status, scheduledAfter, templateId, fromKey, mode}: MessageFilter): boolean {
	const columns = [toKey, templateId, fromKey, mode].filter(value => value !== undefined);
	const others = [...terms, status, scheduledAfter].filter(value => value !== undefined);
	return columns.length <= 1 && mode !== 'live' && others.length === 0;
}

/** Returns those of the messages that match, newest first. Removed messages match nothing. */
async function selectMatching(
	reader: Knex,
	{workspaceId, toKey, terms = [], status, scheduledAfter, templateId, fromKey, mode}: MessageFilter,
	ids: readonly string[],
): Promise<string[]> {
	if (ids.length === 0) {
		return [];
	}
	const query = reader('messages as m').orderBy('m.id', 'desc');
	const columns = [
		['m.workspace_id', workspaceId],
		['m.to_key', toKey],
		['m.template_id', templateId],
		['m.from_key', fromKey],
		['m.mode', mode],
	] as const;
	for (const [column, value] of columns) {
		if (value !== undefined) {
			query.where(equalsUnindexed(reader, column, value));
		}
	}
	if (status === undefined) {
		query.whereRaw(...among(reader, 'm.id', ids));
	} else {
		// The ids select the recipients: without statistics of a table, PostgreSQL would compare each of its rows with
		// each id.
		query
			.join('recipients as r', 'r.message_id', 'm.id')
			.whereRaw(...among(reader, 'r.message_id', ids))
			.whereRaw(...createdNearIds(reader, 'm.id', 'msg', ids))
			.whereRaw("r.role = 'to'")
			.whereRaw(...createdNearIds(reader, 'r.id', 'rcp', ids))
			.whereRaw(`coalesce(${stateOf('r')} = ?, false)`, [status]);
	}
	if (scheduledAfter !== undefined) {
		const waiting = reader('queue as q')
			.where({'q.workspace_id': workspaceId})
			.where('q.send_at', '>', scheduledAfter)
			.whereRaw(...among(reader, 'q.scheduled_message', ids));
		query.whereIn('m.id', waiting.select('q.scheduled_message'));
	}
	for (const anyOf of terms) {
		const inLists = toTermLists(workspaceId, anyOf).map(list => isInList(reader, list, ids));
		query.where(reader.raw(`(${inLists.map(() => '?').join(' or ')})`, inLists));
	}
	return (await query.select('m.id as id')).map(({id}: {id: string}) => id);
}

/** An expression that no index can be used for, because the messages should be looked up by id. */
function equalsUnindexed(reader: Knex, column: string, value: string): Knex.Raw {
	return reader.raw('coalesce(?? = ?, false)', [column, value]);
}

/** A line of `mailctl message list`. */
export type ListedMessage = Pick<StoredMessage, 'id' | 'mode' | 'status' | 'from' | 'to' | 'subject'> & {
	readonly created_at: string;
	/** `null` if it was not scheduled. */
	readonly send_at: string | null;
};

const linesAtOnce = 500;

/** Returns the newest messages that match, newest first. `read` returns the messages for ids. */
export async function listMessages<Message>(
	reader: Knex,
	filter: MessageFilter,
	limit: number,
	read: (ids: readonly string[]) => Promise<Message[]>,
): Promise<Message[]> {
	const messages: Message[] = [];
	let after: string | null = null;
	do {
		const {ids, next} = await scanMessages(reader, filter, {
			after,
			limit: Math.min(limit - messages.length, linesAtOnce),
		});
		messages.push(...(await read(ids)));
		after = next;
	} while (after !== null && messages.length < limit);
	return messages;
}

/** Returns a page of whole messages, newest first. It ends early if they are large. */
export async function pageMessages(
	reader: Knex,
	filter: MessageFilter,
	part: Parameters<typeof scanMessages>[2],
): Promise<{readonly rows: readonly StoredMessage[]; readonly next: string | null}> {
	const {ids, next} = await scanMessages(reader, filter, part);
	const fitting = await firstThatFit(reader, 'messages', ids);
	const rows = await readMessages(reader, filter.workspaceId, fitting);
	return {rows, next: fitting.length < ids.length ? (fitting.at(-1) ?? null) : next};
}

/** Returns the lines of these messages, newest first. */
export async function readLines(reader: Knex, ids: readonly string[]): Promise<ListedMessage[]> {
	if (ids.length === 0) {
		return [];
	}
	const rows: Array<Omit<ListedMessage, 'send_at'> & {extras: string | null}> = await reader('messages as m')
		.join('recipients as r', 'r.message_id', 'm.id')
		.whereRaw("r.role = 'to'")
		.whereIn('r.message_id', ids)
		.whereRaw(isReadable('m'))
		.whereRaw(...createdNearIds(reader, 'm.id', 'msg', ids))
		.whereRaw(...createdNearIds(reader, 'r.id', 'rcp', ids))
		.orderBy('m.id', 'desc')
		.select(
			'm.id',
			'm.mode',
			reader.raw(`${stateOf('r')} as status`),
			'm.from_address as from',
			'm.to_address as to',
			'r.subject',
		)
		.select('m.created_at', 'm.extras');
	return rows.map(({extras, ...row}) => ({...row, send_at: readExtras(extras).sendAt ?? null}));
}
