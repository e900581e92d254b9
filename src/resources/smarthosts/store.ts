import type {Knex} from 'knex';
import {groupBy} from '../../kit/collections.ts';
import {hourMs, storeTime} from '../../kit/time.ts';
import type {OptionalEvent, ProviderName} from '../../mail/provider.ts';
import type {GroupWrite} from '../../store/engine/writer.ts';

/** A relay that posts events about the messages that it sends for us: a row of `smarthosts`. */
export type Smarthost = {
	readonly id: string;
	/** `null` if it sends the messages of every workspace. */
	readonly workspace_id: string | null;
	readonly provider: ProviderName;
	/** SHA-256 of the token in its URL, hex. */
	readonly token_hash: string;
	/** Sealed for its id; `null` if its posts are signed, or the provider's key is not known yet. */
	readonly secret: string | null;
	/** The only SNS topic that may post; `null` if no subscription was confirmed yet. */
	readonly topic: string | null;
	readonly takes: readonly OptionalEvent[];
	readonly last_event_at: string | null;
	readonly created_at: string;
	/** When it last accepted a message; `null` if never. */
	readonly used_at: string | null;
	/** When it accepted the first message since its last event; `null` if it has accepted none. */
	readonly unreported_since: string | null;
};

type Row = Omit<Smarthost, 'takes'> & {readonly takes: string};

const fromRow = (row: Row): Smarthost => ({...row, takes: JSON.parse(row.takes)});

export async function insertSmarthost(
	trx: Knex.Transaction,
	smarthost: Omit<Smarthost, 'used_at' | 'unreported_since'>,
): Promise<void> {
	await trx('smarthosts').insert({...smarthost, takes: JSON.stringify(smarthost.takes)});
}

/** Returns relays, newest first: the workspace's own, or all of them if `workspaceId` is `null`. */
export async function listSmarthosts(reader: Knex, workspaceId: string | null): Promise<Smarthost[]> {
	const rows: Row[] = await ofWorkspace(reader, workspaceId).orderBy('id', 'desc');
	return rows.map(fromRow);
}

/** Returns the providers of each workspace's relays, and those for every workspace under the key `null`. */
export async function readProviders(reader: Knex): Promise<ReadonlyMap<string | null, readonly ProviderName[]>> {
	const rows: Array<Pick<Smarthost, 'workspace_id' | 'provider'>> = await reader('smarthosts').distinct(
		'workspace_id',
		'provider',
	);
	const groups = groupBy(rows, ({workspace_id: id}) => id);
	return new Map([...groups].map(([id, relays]) => [id, relays.map(({provider}) => provider)]));
}

export async function findSmarthost(
	reader: Knex,
	workspaceId: string | null,
	id: string,
): Promise<Smarthost | undefined> {
	const row: Row | undefined = await ofWorkspace(reader, workspaceId).where({id}).first();
	return row && fromRow(row);
}

function ofWorkspace(reader: Knex, workspaceId: string | null): Knex.QueryBuilder {
	const all = reader('smarthosts');
	return workspaceId === null ? all : all.where({workspace_id: workspaceId});
}

/** Returns the relay with this token in its URL. */
export async function findSmarthostByToken(reader: Knex, tokenHash: string): Promise<Smarthost | undefined> {
	const row: Row | undefined = await reader('smarthosts').where({token_hash: tokenHash}).first();
	return row && fromRow(row);
}

export async function updateSmarthost(
	trx: Knex.Transaction,
	id: string,
	changes: Partial<Pick<Smarthost, 'token_hash' | 'secret' | 'topic'>>,
): Promise<void> {
	await trx('smarthosts').where({id}).update(changes);
}

/** Returns `false` if the relay does not exist. */
export async function deleteSmarthost(trx: Knex.Transaction, id: string): Promise<boolean> {
	return (await trx('smarthosts').where({id}).delete()) === 1;
}

/** An event that a relay posted. */
type PostedEvent = {readonly id: string; readonly at: string};

/** A message that a relay accepted. */
export type RelayUse = {
	readonly workspaceId: string;
	/** The providers that may report on it. */
	readonly providers: readonly ProviderName[];
	readonly at: string;
};

/**
 * A message accepted this soon after an event does not make a relay count as silent, because the times of events are
 * stored only about once a minute.
 */
const recentEventMs = hourMs;

/** Stores when relays last posted events and accepted messages. The newest of each counts. */
export const smarthostNoteWrite: GroupWrite<PostedEvent | RelayUse, void> = {
	name: 'smarthost_note',
	rank: 9,
	async apply(trx, notes) {
		// In the order of their ids, because two nodes may write the same rows.
		const rows: Row[] = await trx('smarthosts').orderBy('id');
		for (const row of rows) {
			const event = notes.findLast(note => 'id' in note && note.id === row.id);
			const use = notes.findLast(note => 'providers' in note && isUseOf(note, row));
			const changes = {
				...(use && {used_at: use.at, unreported_since: firstUnreported(trx, use.at)}),
				...(event && {last_event_at: event.at, unreported_since: null}),
			};
			if (event !== undefined || use !== undefined) {
				await trx('smarthosts').where({id: row.id}).update(changes);
			}
		}
		return notes.map(() => undefined);
	},
};

function isUseOf({workspaceId, providers}: RelayUse, {workspace_id: relayWorkspace, provider}: Row): boolean {
	return (relayWorkspace === null || relayWorkspace === workspaceId) && providers.includes(provider);
}

function firstUnreported(trx: Knex.Transaction, at: string): Knex.Raw {
	const isFirst = 'unreported_since is null and (last_event_at is null or last_event_at < ?)';
	const recent = storeTime(Date.parse(at) - recentEventMs);
	return trx.raw(`case when ${isFirst} then ? else unreported_since end`, [recent, at]);
}
