import type {Knex} from 'knex';
import type {Mode, Priority} from '../../mail/message.ts';
import {maxPublicTopics} from '../../mail/workspace-limits.ts';
import type {Row} from '../../store/engine/dialect.ts';
import {
	alongIndex,
	insertReturning,
	insertRows,
	type Pair,
	pairKey,
	rowOfAddress,
	selectOfPairs,
	selectPairs,
	toColumns,
} from '../../store/engine/rows.ts';
import {findSuppressed} from '../suppressions/store.ts';

/** A row of `topics`. */
export type Topic = {
	readonly id: string;
	readonly workspace_id: string;
	readonly code: string;
	readonly name: string;
	/** The priority of its messages, unless a send sets one. */
	readonly priority: Priority | null;
	/** When it was listed on the preference page; `null` if it is not listed. */
	readonly public_at: string | null;
	/** When it became required, so that its messages have no opt-out of their own; `null` if it is optional. */
	readonly required_at: string | null;
	/** Shown to the recipients of its messages. */
	readonly description: string | null;
	readonly created_at: string;
};

/** The columns of a topic that can change. */
export type TopicChanges = Partial<Omit<Topic, 'id' | 'workspace_id' | 'code' | 'created_at'>>;

/** The columns of a topic that a send needs. */
export type TopicRow = Pick<Topic, 'id' | 'code' | 'priority'>;

/** Reads a topic for a send, through a cache. */
export async function lookUpTopic(reader: Knex, workspaceId: string, code: string): Promise<TopicRow | undefined> {
	return await reader('topics').where({workspace_id: workspaceId, code}).first('id', 'code', 'priority');
}

/** Returns `false` if the workspace already has a topic with this code. */
export async function insertTopic(trx: Knex.Transaction, topic: Topic): Promise<boolean> {
	const inserted = await trx('topics').insert(topic).onConflict(['workspace_id', 'code']).ignore().returning('id');
	return inserted.length === 1;
}

type TopicPage = {
	readonly workspaceId: string;
	/** Topics after this id; from the newest if `null`. */
	readonly after: string | null;
	readonly limit: number;
};

/** Returns topics, newest first, along `topics_by_workspace`. */
export async function listTopics(reader: Knex, {workspaceId, after, limit}: TopicPage): Promise<Topic[]> {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return await alongIndex(reader, 'topics', index, {below: after}).limit(limit);
}

/** The columns of a topic that recipients see. */
export type PublicTopic = Pick<Topic, 'code' | 'name' | 'description' | 'required_at'>;

/** Returns the topics on the preference page, the newest `maxPublicTopics`. */
export async function listPublicTopics(reader: Knex, workspaceId: string): Promise<PublicTopic[]> {
	return await reader('topics')
		.where({workspace_id: workspaceId})
		.whereNotNull('public_at')
		.orderBy('id', 'desc')
		.limit(maxPublicTopics)
		.select('code', 'name', 'description', 'required_at');
}

/** Returns the codes of the topics that recipients may opt out of. */
export async function listOptionalCodes(reader: Knex, workspaceId: string): Promise<string[]> {
	return await reader('topics').where({workspace_id: workspaceId}).whereNull('required_at').pluck('code');
}

/** Returns the topic, or `undefined` if the workspace has no such topic. */
export async function findTopic(reader: Knex, workspaceId: string, code: string): Promise<Topic | undefined> {
	return await reader('topics').where({workspace_id: workspaceId, code}).first();
}

export async function updateStoredTopic(trx: Knex.Transaction, id: string, changes: TopicChanges): Promise<void> {
	await trx('topics')
		.where({id})
		.update({id, ...changes});
}

/** Removes a topic and returns it; its opt-outs stay. Returns `undefined` if the workspace has no such topic. */
export async function deleteTopic(
	trx: Knex.Transaction,
	workspaceId: string,
	by: {readonly id: string} | {readonly code: string},
): Promise<Topic | undefined> {
	const topic: Topic | undefined = await trx('topics')
		.where({...by, workspace_id: workspaceId})
		.first();
	return topic && (await trx('topics').where({id: topic.id}).delete()) === 1 ? topic : undefined;
}

/** The code of opt-outs from messages without a topic. */
export const noTopic = '';

export type OptOut = {
	readonly source: string;
	/** When the opt-out ends if it is a pause; `null` if it does not end. */
	readonly until: string | null;
};

/** Whether an opt-out applies at a time in the store's form. A pause that has ended blocks no messages. */
export const isInForce = ({until}: Pick<OptOut, 'until'>, now: string): boolean => until === null || until > now;

/** Returns what blocks messages to an address, given its opt-outs and a time in the store's form. */
export function toBars(optOuts: ReadonlyMap<string, OptOut> | undefined, now: string) {
	const active = [...(optOuts ?? [])].filter(([, optOut]) => isInForce(optOut, now));
	return {
		topics: active.flatMap(([code]) => (code === noTopic ? [] : [code])).sort(),
		leftOther: active.some(([code]) => code === noTopic),
		pausedUntil:
			active
				.flatMap(([, {until}]) => until ?? [])
				.sort()
				.at(-1) ?? null,
	};
}

/** Returns each address's opt-outs, by `pairKey` and code, including ended pauses. An opt-out outlives its topic. */
export async function findOptedOut(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Map<string, OptOut>>> {
	const optOuts = new Map<string, Map<string, OptOut>>();
	const columns = ['code', 'source', 'until'];
	for (const row of await selectPairs<OptOut & {code: string}>(trx, 'topic_optouts', columns, pairs)) {
		const key = pairKey(row.workspace_id, row.address_key);
		optOuts.set(key, (optOuts.get(key) ?? new Map()).set(row.code, {source: row.source, until: row.until}));
	}
	return optOuts;
}

type NewOptOut = OptOut & {
	readonly workspaceId: string;
	readonly code: string;
	readonly address: string;
	readonly addressKey: string;
	readonly createdAt: string;
};

const optOutColumns = toColumns('workspaceId code addressKey address source createdAt until');

/** Opts an address out of topics. It replaces pauses, but not opt-outs. Returns the added or changed codes. */
export async function insertOptOuts(trx: Knex.Transaction, optOuts: readonly NewOptOut[]): Promise<string[]> {
	const added = await insertReturning<{code: string}>(
		trx,
		'topic_optouts',
		optOutColumns.names,
		optOuts.map(optOutColumns.valuesOf),
		`on conflict (workspace_id, address_key, code) do update
			set source = excluded.source, created_at = excluded.created_at, until = excluded.until
			where topic_optouts.until is not null returning code`,
	);
	return added.map(({code}) => code);
}

/** Removes opt-outs of an address: those with these codes, from this source, or only pauses. */
export async function deleteOptOuts(
	trx: Knex.Transaction,
	[workspaceId, addressKey]: Pair,
	{codes, source, pauses}: {readonly codes?: readonly string[]; readonly source?: string; readonly pauses?: true},
): Promise<void> {
	const query = trx('topic_optouts').where({workspace_id: workspaceId, address_key: addressKey});
	if (codes) {
		query.whereIn('code', [...codes]);
	}
	if (source !== undefined) {
		query.where(condition => condition.where({source}).orWhere('source', 'like', `${source}:%`));
	}
	if (pauses) {
		query.whereNotNull('until');
	}
	await query.delete();
}

/** Removes pauses that have ended; returns how many. */
export async function purgePauses(trx: Knex.Transaction, now: string, limit: number): Promise<number> {
	const key = ['workspace_id', 'address_key', 'code'];
	const ended = trx('topic_optouts').where('until', '<=', now).select(key).limit(limit);
	return await trx('topic_optouts').whereIn(key, ended).delete();
}

/** Returns how many addresses opted out permanently, by code, including codes of removed topics. */
export async function countOptOuts(reader: Knex, workspaceId: string): Promise<Map<string, number>> {
	const rows: Array<{code: string; addresses: number | string}> = await reader('topic_optouts')
		.where({workspace_id: workspaceId})
		.whereNull('until')
		.whereNot('code', noTopic)
		.groupBy('code')
		.select('code')
		.count('* as addresses');
	return new Map(rows.map(({code, addresses}) => [code, Number(addresses)]));
}

/** Removes at most `limit` opt-outs of a code; returns how many. */
export async function purgeOptOuts(
	trx: Knex.Transaction,
	workspaceId: string,
	code: string,
	limit: number,
): Promise<number> {
	const batch = trx('topic_optouts').where({workspace_id: workspaceId, code}).select('address_key').limit(limit);
	return await trx('topic_optouts').where({workspace_id: workspaceId, code}).whereIn('address_key', batch).delete();
}

export type Preferences = {readonly locale: string | null; readonly timezone: string | null};

/** What a send specifies about its recipient. Properties that it does not set are `null`. */
type Update = Preferences & {
	/** Creates the id if the contact is new. */
	readonly id: () => string;
	readonly workspaceId: string;
	readonly address: string;
	readonly addressKey: string;
	/** The preferences of the contact; `undefined` if there is none. */
	readonly known: Preferences | undefined;
	/** If `false`, the contact is read, but neither created nor changed. */
	readonly shouldUpdate: boolean;
};

/**
 * Creates missing contacts and stores the preferences that sends specify. Returns the preferences that apply to each
 * send: its own, otherwise the contact's.
 */
export async function recordContacts(
	trx: Knex.Transaction,
	updates: readonly Update[],
	now: string,
): Promise<Preferences[]> {
	const current = new Map<string, Preferences>();
	const changed = new Map<string, Update>();
	const preferences: Preferences[] = [];
	for (const update of updates) {
		const key = pairKey(update.workspaceId, update.addressKey);
		const before = current.get(key) ?? update.known;
		const after = {
			locale: update.locale ?? before?.locale ?? null,
			timezone: update.timezone ?? before?.timezone ?? null,
		};
		preferences.push(after);
		if (update.shouldUpdate && (!before || before.locale !== after.locale || before.timezone !== after.timezone)) {
			const earlier = changed.get(key);
			current.set(key, after);
			changed.set(key, {
				...update,
				locale: update.locale ?? earlier?.locale ?? null,
				timezone: update.timezone ?? earlier?.timezone ?? null,
			});
		}
	}
	await writeContacts(trx, changed, now);
	return preferences;
}

/** Returns the preferred language of a contact; `null` if it is not known. */
export async function findContactLocale(reader: Knex, [workspaceId, addressKey]: Pair): Promise<string | null> {
	const row = await reader('contacts').where({workspace_id: workspaceId, address_key: addressKey}).first('locale');
	return row?.locale ?? null;
}

const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);

// Sorted by key, because two nodes may write the same contacts. Another node's values stay unless they are set here.
async function writeContacts(trx: Knex.Transaction, changed: ReadonlyMap<string, Update>, now: string): Promise<void> {
	const rows: Row[] = [];
	for (const [, update] of [...changed].sort(byKey)) {
		const {workspaceId, address, addressKey, locale, timezone} = update;
		rows.push([update.id(), workspaceId, address, addressKey, locale, timezone, now, now]);
	}
	await insertRows(
		trx,
		'contacts',
		['id', 'workspace_id', 'address', 'address_key', 'locale', 'timezone', 'created_at', 'updated_at'],
		rows,
		`on conflict (workspace_id, address_key) do update
			set locale = coalesce(excluded.locale, contacts.locale), timezone = coalesce(excluded.timezone, contacts.timezone),
				updated_at = excluded.updated_at`,
	);
}

/** A recipient that the workspace has sent to, and what blocks further messages to it. */
export type Contact = Preferences & {
	readonly id: string;
	/** As spelled in the first send. */
	readonly address: string;
	readonly addressKey: string;
	readonly createdAt: string;
	readonly updatedAt: string;
	/** The codes of the topics that it opted out of, including paused ones. */
	readonly topics: readonly string[];
	/** Whether it opted out of messages without a topic. */
	readonly leftOther: boolean;
	/** When the pause that it requested ends; `null` if there is none. */
	readonly pausedUntil: string | null;
	readonly suppressed: boolean;
};

type ContactRow = Omit<Contact, 'topics' | 'leftOther' | 'pausedUntil' | 'suppressed'>;

const {selected: columns} = toColumns('id address addressKey locale timezone createdAt updatedAt');

type ContactPart = {
	/** Only the contact with this comparison form of its address. */
	readonly addressKey?: string | undefined;
	/** Contacts older than the one with this id; `null` for all. */
	readonly after: string | null;
	readonly limit: number;
	/** The current time, in the store's form. */
	readonly now: string;
};

/** Returns a workspace's contacts, newest first. */
export async function listContacts(
	reader: Knex,
	workspaceId: string,
	{addressKey, after, limit, now}: ContactPart,
): Promise<Contact[]> {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	const query =
		addressKey === undefined
			? alongIndex(reader, 'contacts', index, {below: after}).limit(limit)
			: rowOfAddress(reader, 'contacts', {workspace_id: workspaceId, address_key: addressKey}, after);
	return await withBars(reader, workspaceId, await query.select<ContactRow[]>(columns), now);
}

export async function findContact(
	reader: Knex,
	workspaceId: string,
	id: string,
	now: string,
): Promise<Contact | undefined> {
	const rows: ContactRow[] = await reader('contacts').where({id, workspace_id: workspaceId}).select(columns);
	return (await withBars(reader, workspaceId, rows, now))[0];
}

async function withBars(
	reader: Knex,
	workspaceId: string,
	rows: readonly ContactRow[],
	now: string,
): Promise<Contact[]> {
	const pairs = rows.map(({addressKey}) => [workspaceId, addressKey] as const);
	const suppressed = await findSuppressed(reader, pairs);
	const optedOut = await findOptedOut(reader, pairs);
	return rows.map(row => {
		const pair = pairKey(workspaceId, row.addressKey);
		const {topics, leftOther, pausedUntil} = toBars(optedOut.get(pair), now);
		return {
			...row,
			topics,
			leftOther,
			pausedUntil,
			suppressed: suppressed.get(pair) === 'live',
		};
	});
}

/** Sets the given preferences; null clears one. Returns `false` if there is no such contact. */
export async function updateContact(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	changes: Partial<Preferences> & {readonly updated_at: string},
): Promise<boolean> {
	return (await trx('contacts').where({id, workspace_id: workspaceId}).update(changes)) === 1;
}

/** What a workspace knows about an address that it is about to send to. */
export type Addressee = {
	/** The mode of its entry on the suppression list; `null` if there is none. */
	readonly suppressed: Mode | null;
	/** Its opt-out from messages without a topic; `undefined` if there is none. */
	readonly left: Pick<OptOut, 'until'> | undefined;
	/** The preferences of its contact; `undefined` if there is none. */
	readonly preferences: Preferences | undefined;
	/** Whether the workspace was deleted, so that it may no longer send. */
	readonly isWorkspaceDeleted: boolean;
};

type AddresseeRow = Preferences & {
	readonly workspace_id: string;
	readonly address_key: string;
	readonly deleted_at: string | null;
	readonly suppressed: Mode | null;
	readonly left: string | null;
	readonly until: string | null;
	readonly contact: string | null;
};

/** Reads everything that a send needs about its addresses in one statement, by `pairKey`. */
export async function readAddressees(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Addressee>> {
	const rows = await selectOfPairs<AddresseeRow>(
		trx,
		pairs,
		source =>
			`select p.column1 as workspace_id, p.column2 as address_key, w.deleted_at, s.mode as suppressed,
				o.code as "left", o.until, c.id as contact, c.locale, c.timezone
			from (${source}) as p
			left join workspaces as w on w.id = p.column1
			left join suppressions as s on s.workspace_id = p.column1 and s.address_key = p.column2
			left join topic_optouts as o on o.workspace_id = p.column1 and o.address_key = p.column2 and o.code = '${noTopic}'
			left join contacts as c on c.workspace_id = p.column1 and c.address_key = p.column2`,
	);
	return new Map(rows.map(toAddressee));
}

function toAddressee(row: AddresseeRow): readonly [pair: string, Addressee] {
	const {suppressed, left, until, contact, locale, timezone} = row;
	return [
		pairKey(row.workspace_id, row.address_key),
		{
			suppressed,
			left: left === null ? undefined : {until},
			preferences: contact === null ? undefined : {locale, timezone},
			isWorkspaceDeleted: row.deleted_at !== null,
		},
	];
}
