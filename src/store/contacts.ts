import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';
import {alongIndex, rowOfAddress} from './engine/along-index.ts';
import {insertRows} from './engine/insert-rows.ts';
import {type Pair, pairKey, selectOfPairs} from './engine/pairs.ts';
import {findSuppressed} from './suppressions.ts';
import {findOptedOut} from './topics.ts';

export type Preferences = {readonly locale: string | null; readonly timezone: string | null};

/** What a send says of its recipient; null: nothing. */
export type Lesson = Preferences & {
	/** Makes the id if the contact is new. */
	readonly id: () => string;
	readonly workspaceId: string;
	readonly address: string;
	readonly addressKey: string;
	/** What the contact prefers; undefined: there is none yet. */
	readonly known: Preferences | undefined;
	/** False: the contact is read, but neither made nor changed. */
	readonly learns: boolean;
};

/**
 * Makes the contacts that are missing, stores what sends say of them, and answers for each lesson the preferences that
 * hold for it: its own, else the contact's.
 */
export async function teachContacts(
	trx: Knex.Transaction,
	lessons: readonly Lesson[],
	now: string,
): Promise<Preferences[]> {
	const held = new Map<string, Preferences>();
	const learned = new Map<string, Lesson>();
	const preferences = lessons.map(lesson => {
		const key = pairKey(lesson.workspaceId, lesson.addressKey);
		const before = held.get(key) ?? lesson.known;
		const after = {
			locale: lesson.locale ?? before?.locale ?? null,
			timezone: lesson.timezone ?? before?.timezone ?? null,
		};
		if (lesson.learns && (!before || before.locale !== after.locale || before.timezone !== after.timezone)) {
			const earlier = learned.get(key);
			held.set(key, after);
			learned.set(key, {
				...lesson,
				locale: lesson.locale ?? earlier?.locale ?? null,
				timezone: lesson.timezone ?? earlier?.timezone ?? null,
			});
		}
		return after;
	});
	await writeContacts(trx, learned, now);
	return preferences;
}

/** The language that a contact prefers; null: it is not known. */
export async function findContactLocale(reader: Knex, [workspaceId, addressKey]: Pair): Promise<string | null> {
	const row = await reader('contacts').where({workspace_id: workspaceId, address_key: addressKey}).first('locale');
	return row?.locale ?? null;
}

// In the order of their keys, for two nodes may write the same contacts; what another one just wrote stays.
async function writeContacts(trx: Knex.Transaction, learned: ReadonlyMap<string, Lesson>, now: string): Promise<void> {
	const contacts = [...learned].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, contact]) => contact);
	await insertRows(
		trx,
		'contacts',
		['id', 'workspace_id', 'address', 'address_key', 'locale', 'timezone', 'created_at', 'updated_at'],
		contacts.map(one => [one.id(), one.workspaceId, one.address, one.addressKey, one.locale, one.timezone, now, now]),
		`on conflict (workspace_id, address_key) do update
			set locale = coalesce(excluded.locale, contacts.locale), timezone = coalesce(excluded.timezone, contacts.timezone),
				updated_at = excluded.updated_at`,
	);
}

/** A recipient that the workspace has mailed, with what keeps it from being mailed again. */
export type Contact = Preferences & {
	readonly id: string;
	/** As its first send spelled it. */
	readonly address: string;
	readonly addressKey: string;
	readonly createdAt: string;
	readonly updatedAt: string;
	/** Codes of the topics it opted out of. */
	readonly topics: readonly string[];
	readonly suppressed: boolean;
};

type Row = Omit<Contact, 'topics' | 'suppressed'>;

const columns = [
	'id',
	'address',
	'address_key as addressKey',
	'locale',
	'timezone',
	'created_at as createdAt',
	'updated_at as updatedAt',
];

export type ContactPart = {
	/** Only the contact with this comparison form of its address. */
	readonly addressKey?: string | undefined;
	/** Those older than the contact with this id; null: all. */
	readonly after: string | null;
	readonly limit: number;
};

/** A workspace's contacts, newest first. */
export async function listContacts(
	reader: Knex,
	workspaceId: string,
	{addressKey, after, limit}: ContactPart,
): Promise<Contact[]> {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	const query =
		addressKey === undefined
			? alongIndex(reader, 'contacts', index, {below: after}).limit(limit)
			: rowOfAddress(reader, 'contacts', {workspace_id: workspaceId, address_key: addressKey}, after);
	return await withBars(reader, workspaceId, await query.select<Row[]>(columns));
}

export async function findContact(reader: Knex, workspaceId: string, id: string): Promise<Contact | undefined> {
	const rows: Row[] = await reader('contacts').where({id, workspace_id: workspaceId}).select(columns);
	return (await withBars(reader, workspaceId, rows))[0];
}

async function withBars(reader: Knex, workspaceId: string, rows: readonly Row[]): Promise<Contact[]> {
	const pairs = rows.map(({addressKey}) => [workspaceId, addressKey] as const);
	const suppressed = await findSuppressed(reader, pairs);
	const optedOut = await findOptedOut(reader, pairs);
	return rows.map(row => {
		const pair = pairKey(workspaceId, row.addressKey);
		return {...row, topics: [...(optedOut.get(pair) ?? [])].sort(), suppressed: suppressed.get(pair) === 'live'};
	});
}

/** Sets what is given, null clears it. False: there is no such contact. */
export async function updateContact(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	changes: Partial<Preferences> & {readonly updated_at: string},
): Promise<boolean> {
	return (await trx('contacts').where({id, workspace_id: workspaceId}).update(changes)) === 1;
}

/** What a workspace knows of an address that it is to mail. */
export type Addressee = {
	/** Of its entry on the suppression list; null: it has none. */
	readonly suppressed: Mode | null;
	/** Of its contact; undefined: there is none yet. */
	readonly preferences: Preferences | undefined;
};

type AddresseeRow = Preferences & {
	readonly workspace_id: string;
	readonly address_key: string;
	readonly suppressed: Mode | null;
	readonly contact: string | null;
};

/** By `pairKey`, all that a send asks of its addresses: one statement. */
export async function readAddressees(trx: Knex, pairs: readonly Pair[]): Promise<Map<string, Addressee>> {
	const rows = await selectOfPairs<AddresseeRow>(
		trx,
		pairs,
		source =>
			`select p.column1 as workspace_id, p.column2 as address_key, s.mode as suppressed, c.id as contact, c.locale, c.timezone
			from (${source}) as p
			left join suppressions as s on s.workspace_id = p.column1 and s.address_key = p.column2
			left join contacts as c on c.workspace_id = p.column1 and c.address_key = p.column2`,
	);
	return new Map(
		rows.map(({workspace_id, address_key, suppressed, contact, locale, timezone}) => [
			pairKey(workspace_id, address_key),
			{suppressed, preferences: contact === null ? undefined : {locale, timezone}},
		]),
	);
}
