import type {Knex} from 'knex';
import {groupBy} from '../kit/collections.ts';
import {idTime} from '../mail/ids.ts';
import type {OptionalEvent, ProviderName} from '../mail/provider.ts';
import type {GroupWrite} from './engine/writer.ts';

/** A service that sends mail for us and posts its events: a row of `smarthosts`. */
export type Smarthost = {
	readonly id: string;
	/** Null: mail of every workspace goes there. */
	readonly workspace_id: string | null;
	readonly provider: ProviderName;
	/** SHA-256 of the token in its URL, hex. */
	readonly token_hash: string;
	/** Sealed for its id; null: its posts are signed, or the provider's key is not known yet. */
	readonly secret: string | null;
	/** The only SNS topic that may post; null: no subscription was confirmed yet. */
	readonly topic: string | null;
	readonly takes: readonly OptionalEvent[];
	readonly last_event_at: string | null;
	readonly created_at: string;
};

type Row = Omit<Smarthost, 'takes'> & {readonly takes: string};

const fromRow = (row: Row): Smarthost => ({...row, takes: JSON.parse(row.takes)});

export async function insertSmarthost(trx: Knex.Transaction, smarthost: Smarthost): Promise<void> {
	await trx('smarthosts').insert({...smarthost, takes: JSON.stringify(smarthost.takes)});
}

/** Newest first; `workspaceId`: its own, and those of every workspace; null: all. */
export async function listSmarthosts(reader: Knex, workspaceId: string | null): Promise<Smarthost[]> {
	const rows: Row[] = await ofWorkspace(reader, workspaceId).orderBy('id', 'desc');
	return rows.map(fromRow);
}

/** The providers of the smarthosts of each workspace; null: those of every workspace. */
export async function readProviders(reader: Knex): Promise<ReadonlyMap<string | null, readonly ProviderName[]>> {
	const rows: Array<Pick<Smarthost, 'workspace_id' | 'provider'>> = await reader('smarthosts').distinct(
		'workspace_id',
		'provider',
	);
	const groups = groupBy(rows, ({workspace_id: id}) => id);
	return new Map([...groups].map(([id, its]) => [id, its.map(({provider}) => provider)]));
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

/** The smarthost with this token in its URL. */
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

/** False: there is no such smarthost. */
export async function deleteSmarthost(trx: Knex.Transaction, id: string): Promise<boolean> {
	return (await trx('smarthosts').where({id}).delete()) === 1;
}

/** Notes when events came last, the last time of each. */
export const lastEventWrite: GroupWrite<{readonly id: string; readonly at: string}, void> = {
	name: 'last_event',
	rank: 9,
	async apply(trx, seen) {
		// In the order of their ids, for two nodes may note the same ones.
		for (const {id, at} of seen.toSorted((a, b) => (a.id < b.id ? -1 : 1))) {
			await trx('smarthosts').where({id}).update({last_event_at: at});
		}
		return seen.map(() => undefined);
	},
};

/** When the newest live mail was accepted, milliseconds since the epoch; null: none is there. */
export async function readNewestMail(reader: Knex): Promise<number | null> {
	const row: {id: string} | undefined = await reader('messages')
		.where({mode: 'live'})
		.orderBy('id', 'desc')
		.first('id');
	return row === undefined ? null : idTime(row.id);
}
