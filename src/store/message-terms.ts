import type {Knex} from 'knex';
import {inParts} from '../kit/collections.ts';
import type {Recipient, RecipientState} from '../mail/message.ts';
import {isListed, listedStates, stateTerm, subjectTerms, type Term, toTerms} from '../mail/terms.ts';
import {type IdRange, lockLists, queryRows, type Row, rowSource} from './engine/dialect.ts';
import {alongIndex, createdNearIds, insertRows} from './engine/rows.ts';

/*
 * An index of messages by terms. A row of `message_terms` lists messages of one second (`secondOf`) that share a term.
 * Messages sent together mostly have the same words, and one row for ten of them costs a tenth. `message_id` is the
 * newest of them. `members` has the ends of all their ids; it is null if there is only the newest.
 */

/** The terms by which a message can be found. */
export type MessageTerms = {
	readonly workspaceId: string;
	readonly messageId: string;
	readonly terms: readonly Term[];
};

/** A list of messages. */
export type TermList = {readonly workspaceId: string; readonly term: Term};

const columns = ['workspace_id', 'term', 'message_id', 'members'];
const keyColumns = columns.slice(0, 3);

const secondLength = 12;
/** Messages whose ids have the same beginning were created within 1,024 ms. A day is a whole number of such spans. */
const secondOf = (messageId: string): string => messageId.slice(0, secondLength);
const endOf = (messageId: string): string => messageId.slice(secondLength);
/** Sorts after all ids of a second. */
const afterSecond = '~';

const combinedMembers = `coalesce(message_terms.members, substr(message_terms.message_id, ${secondLength + 1})) || ' ' || excluded.members`;
const mergeClause = `on conflict (${keyColumns.join(', ')}) do update set members = ${combinedMembers} where excluded.members is not null`;

/** Adds messages to lists that contain none of them. */
export async function insertTerms(trx: Knex.Transaction, messages: readonly MessageTerms[]): Promise<void> {
	await insertRows(trx, 'message_terms', columns, newRows(messages));
}

/** Adds messages to lists, except those that are already in them. */
export async function mergeTerms(trx: Knex.Transaction, messages: readonly MessageTerms[]): Promise<void> {
	await insertRows(trx, 'message_terms', columns, newRows(messages), mergeClause);
}

function newRows(messages: readonly MessageTerms[]): Row[] {
	const lists = new Map<string, {readonly list: TermList; readonly ids: string[]}>();
	for (const {workspaceId, messageId, terms} of messages) {
		for (const term of terms) {
			const name = `${workspaceId} ${secondOf(messageId)} ${term}`;
			const entry = lists.get(name);
			if (entry) {
				entry.ids.push(messageId);
			} else {
				lists.set(name, {list: {workspaceId, term}, ids: [messageId]});
			}
		}
	}
	return [...lists.values()].map(({list: {workspaceId, term}, ids}): Row => {
		const newestFirst = ids.sort().reverse();
		const members = ids.length === 1 ? null : newestFirst.map(endOf).join(' ');
		return [workspaceId, term, newestFirst[0] as string, members];
	});
}

/** Lists the messages whose `to` recipients have reached a state. */
export async function listState(
	trx: Knex.Transaction,
	recipients: ReadonlyArray<Pick<Recipient, 'workspace_id' | 'message_id' | 'role'>>,
	state: RecipientState,
): Promise<void> {
	const terms = isListed(state) ? [stateTerm(state)] : [];
	const mainRecipients = recipients.filter(({role}) => role === 'to');
	await mergeTerms(
		trx,
		mainRecipients.map(({workspace_id: workspaceId, message_id: messageId}) => ({workspaceId, messageId, terms})),
	);
}

/** Queries the rows of a list by their newest messages. */
function listRows(reader: Knex, {workspaceId, term}: TermList, range: IdRange): Knex.QueryBuilder {
	const index = {leading: {'w.workspace_id': workspaceId, 'w.term': term}, id: 'w.message_id'};
	return alongIndex(reader, 'message_terms as w', index, range);
}

const idLength = 30;

/** Rows list up to a hundred messages. A count starts with as few rows as may contain everything to be counted. */
const maxPerRow = 100;

/** Returns roughly how many messages of a range a list has. Reads as few rows as contain `max`, and stops there. */
export async function countListed(reader: Knex, list: TermList, range: IdRange, max: number): Promise<number> {
	const members = `(length(w.members) + 1) / ${idLength - secondLength + 1}`;
	let counted = 0;
	let {below} = range;
	for (let rowsAtOnce = Math.ceil(max / maxPerRow); counted < max; rowsAtOnce *= 4) {
		const limit = Math.min(rowsAtOnce, max - counted);
		const rows = listRows(reader, list, {...range, below})
			.limit(limit)
			.select('w.message_id', reader.raw(`coalesce(${members}, 1) as n`));
		const totals: {n: number | string | null; rows: number | string; last: string | null} = await reader
			.from(rows.as('rows'))
			.sum('n as n')
			.count('* as rows')
			.min('message_id as last')
			.first();
		counted += Number(totals.n ?? 0);
		below = totals.last;
		if (Number(totals.rows) < limit) {
			break;
		}
	}
	return counted;
}

const maxRows = 200;

/** Returns the messages of a list, newest first, at most `max`. It may contain messages that were removed. */
export async function readListed(
	reader: Knex,
	list: TermList,
	{from, below: before}: IdRange,
	max: number,
): Promise<string[]> {
	const ids = new Set<string>();
	const rowsAtOnce = Math.min(max, maxRows);
	// A row lists messages of one second, so the row that contains `before` may be newer than `before` itself.
	let below = before && secondOf(before) + afterSecond;
	let members: string[] = [];
	do {
		const rows: Listed[] = await listRows(reader, list, {from, below})
			.limit(rowsAtOnce)
			.select('w.message_id', 'w.members');
		below = rows.length < rowsAtOnce ? '' : (rows.at(-1)?.message_id ?? '');
		members = [...members, ...rows.flatMap(parseMembers)].sort().reverse();
		// The remaining rows only contain messages before theirs.
		const settled = members.findIndex(id => id < (below ?? ''));
		for (const id of members.splice(0, settled === -1 ? members.length : settled)) {
			if (id >= (from ?? '') && (before === null || id < before)) {
				ids.add(id);
			}
		}
	} while (below !== '' && ids.size < max);
	return [...ids].slice(0, max);
}

type Listed = {readonly message_id: string; readonly members: string | null};
type ListRow = Listed & {readonly workspace_id: string; readonly term: Term};

function parseMembers({message_id: id, members}: Listed): string[] {
	return members?.split(' ').map(end => secondOf(id) + end) ?? [id];
}

/** An SQL condition: the message of `m`, which is one of these ids, is in the list. */
export function isInList(reader: Knex, {workspaceId, term}: TermList, ids: readonly string[]): Knex.Raw {
	const row = reader('message_terms as o')
		.where({'o.workspace_id': workspaceId, 'o.term': term})
		.whereRaw('o.message_id >= m.id')
		.whereRaw(`o.message_id < substr(m.id, 1, ${secondLength}) || '${afterSecond}'`)
		.whereRaw(
			`coalesce(o.members, substr(o.message_id, ${secondLength + 1})) like '%' || substr(m.id, ${secondLength + 1}) || '%'`,
		)
		.whereRaw(...createdNearIds(reader, 'o.message_id', 'msg', ids));
	// A scalar subquery is looked up for each message. PostgreSQL might implement a join by reading the whole index.
	return reader.raw('coalesce(?, false)', [row.limit(1).select(reader.raw('true'))]);
}

const messagesAtOnce = 500;
/** PostgreSQL allows 65,535 parameters in a statement, and a key has at most four. */
const keysAtOnce = 5000;

/**
 * Removes messages from the lists before they are deleted. Their own rows determine their lists, so no second index is
 * needed. It finds the list rows in which they are the newest message. In other rows they remain until the newest one
 * is removed; readers leave out messages that do not exist.
 */
export async function dropTerms(trx: Knex.Transaction, messageIds: readonly string[]): Promise<void> {
	await lockLists(trx);
	const removed = new Set(messageIds);
	for (const ids of inParts(messageIds, messagesAtOnce)) {
		const keys = (await readTerms(trx, ids)).flatMap(({workspaceId, messageId, terms}) =>
			[...terms, ...listedStates.map(stateTerm)].map(term => [workspaceId, term, messageId] as const),
		);
		for (const batch of inParts(keys, keysAtOnce)) {
			await relistOthers(trx, await deleteRows(trx, batch), removed);
		}
	}
}

/**
 * Removes messages from the lists of everything that may come from a person, before their rows lose it. Tags and states
 * stay.
 */
export async function eraseTerms(trx: Knex.Transaction, messageIds: readonly string[]): Promise<void> {
	await lockLists(trx);
	const removed = new Set(messageIds);
	for (const ids of inParts(messageIds, messagesAtOnce)) {
		const keys = (await readTerms(trx, ids, {tags: null})).flatMap(({workspaceId, messageId, terms}) =>
			terms.map(term => [workspaceId, term, messageId, secondOf(messageId) + afterSecond] as const),
		);
		for (const batch of inParts(keys, keysAtOnce)) {
			const rows = (await readRows(trx, batch)).filter(row => parseMembers(row).some(id => removed.has(id)));
			await relistOthers(
				trx,
				await deleteRows(
					trx,
					rows.map(row => [row.workspace_id, row.term, row.message_id] as const),
				),
				removed,
			);
		}
	}
}

/** Returns the list rows that may contain these messages: those of their second, from the message on. */
async function readRows(
	trx: Knex.Transaction,
	keys: ReadonlyArray<readonly [workspaceId: string, term: Term, from: string, below: string]>,
): Promise<ListRow[]> {
	const {sql, bindings} = rowSource(trx, keys, 4);
	const [near, nearBindings] = createdNearIds(
		trx,
		'w.message_id',
		'msg',
		keys.map(([, , id]) => id),
	);
	return await queryRows(
		trx,
		`select distinct ${columns.map(column => `w.${column}`).join(', ')} from (${sql}) as v join message_terms as w
			on w.workspace_id = v.column1 and w.term = v.column2 and w.message_id >= v.column3 and w.message_id < v.column4
		where ${near}`,
		[...bindings, ...nearBindings],
	);
}

/** Deletes rows of lists and returns them. */
async function deleteRows(
	trx: Knex.Transaction,
	keys: ReadonlyArray<readonly [workspaceId: string, term: Term, messageId: string]>,
): Promise<ListRow[]> {
	if (keys.length === 0) {
		return [];
	}
	const {sql, bindings} = rowSource(trx, keys, keyColumns.length);
	const [near, nearBindings] = createdNearIds(
		trx,
		'message_id',
		'msg',
		keys.map(([, , id]) => id),
	);
	return await queryRows(
		trx,
		`delete from message_terms where (${keyColumns.join(', ')}) in (select column1, column2, column3 from (${sql}) as v)
			and ${near} returning ${columns.join(', ')}`,
		[...bindings, ...nearBindings],
	);
}

/** Lists the messages of deleted rows again if they still exist. */
async function relistOthers(
	trx: Knex.Transaction,
	rows: readonly ListRow[],
	removed: ReadonlySet<string>,
): Promise<void> {
	const others = rows.flatMap(({workspace_id: workspaceId, term, ...row}) =>
		parseMembers(row)
			.filter(id => !removed.has(id))
			.map(messageId => ({workspaceId, messageId, terms: [term]})),
	);
	const existing = new Set<string>();
	for (const ids of inParts([...new Set(others.map(({messageId}) => messageId))], messagesAtOnce)) {
		const found: string[] = await trx('messages')
			.whereIn('id', [...ids])
			.pluck('id');
		for (const id of found) {
			existing.add(id);
		}
	}
	await mergeTerms(
		trx,
		others.filter(({messageId}) => existing.has(messageId)),
	);
}

type TermSource = {
	readonly id: string;
	readonly workspace_id: string;
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly subject: string | null;
	/** The name of the first attachment; null if there is none. */
	readonly filename?: string | null;
	readonly content_type?: string | null;
};

/** Returns the terms of stored messages, except their states. */
async function readTerms(
	trx: Knex.Transaction,
	messageIds: readonly string[],
	without: Partial<Pick<TermSource, 'tags'>> = {},
): Promise<MessageTerms[]> {
	const rows: TermSource[] = await trx('messages as m')
		.join('recipients as r', 'r.message_id', 'm.id')
		.leftJoin('attachments as a', join => join.on('a.message_id', 'm.id').andOnVal('a.position', 0))
		.whereRaw("r.role = 'to'")
		.whereIn('r.message_id', messageIds)
		.whereRaw(...createdNearIds(trx, 'm.id', 'msg', messageIds))
		.whereRaw(...createdNearIds(trx, 'r.id', 'rcp', messageIds))
		.select('m.id', 'm.workspace_id', 'm.metadata', 'm.tags', 'r.subject', 'a.filename', 'a.content_type');
	return rows.map(row => storedTerms({...row, ...without}));
}

/** Returns all terms of a stored message, except its state. */
function storedTerms({id, workspace_id: workspaceId, subject, ...row}: TermSource): MessageTerms {
	const attachments = row.filename ? [{filename: row.filename, contentType: row.content_type ?? ''}] : [];
	return {workspaceId, messageId: id, terms: [...toTerms({...row, attachments}), ...subjectTerms(subject ?? '')]};
}
