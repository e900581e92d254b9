import type {Knex} from 'knex';
import type {Mode} from '../../mail/message.ts';
import type {GroupWrite, Writer} from '../../store/engine/writer.ts';
import type {Workspace} from '../workspaces/store.ts';

/** A row of `api_keys`. The key itself is stored nowhere. */
export type ApiKey = {
	readonly id: string;
	readonly workspace_id: string;
	readonly name: string;
	readonly mode: Mode;
	/** SHA-256 of the key, hex. */
	readonly hash: string;
	/** The beginning of the key, by which users recognize it. */
	readonly hint: string;
	readonly scopes: readonly string[];
	/** `requests/seconds`; `null` for the limit in MAILCTL_RATE_LIMIT. */
	readonly rate_limit: string | null;
	readonly expires_at: string | null;
	readonly revoked_at: string | null;
	readonly last_used_at: string | null;
	readonly created_at: string;
};

type Row = Omit<ApiKey, 'scopes'> & {readonly scopes: string};

/** The properties of a key that a request needs. */
export type KeyRow = Pick<
	ApiKey,
	'id' | 'workspace_id' | 'mode' | 'scopes' | 'rate_limit' | 'expires_at' | 'revoked_at'
> &
	Partial<Pick<Workspace, 'max_attachments' | 'max_attachment_bytes'>>;

/** Finds the key of a request, through a cache. */
export async function findKey(reader: Knex, hash: string): Promise<KeyRow | undefined> {
	const row = await reader('api_keys as k')
		.join('workspaces as w', 'w.id', 'k.workspace_id')
		.where({hash})
		.first(
			'k.id',
			'workspace_id',
			'mode',
			'scopes',
			'rate_limit',
			'expires_at',
			'revoked_at',
			'max_attachments',
			'max_attachment_bytes',
		);
	return row && {...row, scopes: JSON.parse(row.scopes)};
}

export async function insertApiKey(trx: Knex.Transaction, key: ApiKey): Promise<void> {
	await trx('api_keys').insert({...key, scopes: JSON.stringify(key.scopes)});
}

/** Returns the keys of a workspace, newest first, including revoked and expired ones. */
export async function listApiKeys(reader: Knex, workspaceId: string): Promise<ApiKey[]> {
	const rows: Row[] = await reader('api_keys').where({workspace_id: workspaceId}).orderBy('id', 'desc');
	return rows.map(fromRow);
}

export async function findApiKey(reader: Knex, workspaceId: string, id: string): Promise<ApiKey | undefined> {
	const row: Row | undefined = await reader('api_keys').where({workspace_id: workspaceId, id}).first();
	return row && fromRow(row);
}

/** Compare-and-set: returns `false` if the key does not exist or is already revoked. */
export async function revokeApiKey(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	at: string,
): Promise<boolean> {
	const key = trx('api_keys').where({workspace_id: workspaceId, id}).whereNull('revoked_at');
	return (await key.update({revoked_at: at})) === 1;
}

/** Makes a key expire at `at`, unless it expires earlier anyway. */
export async function expireApiKey(trx: Knex.Transaction, workspaceId: string, id: string, at: string): Promise<void> {
	await trx('api_keys')
		.where({workspace_id: workspaceId, id})
		.where(query => query.whereNull('expires_at').orWhere('expires_at', '>', at))
		.update({expires_at: at});
}

export type KeyChanges = Partial<Pick<ApiKey, 'scopes' | 'rate_limit' | 'expires_at'>>;

/** Changes a key that is not revoked. Returns `undefined` if it does not exist. */
export async function updateApiKey(
	trx: Knex.Transaction,
	workspaceId: string,
	id: string,
	{scopes, ...rest}: KeyChanges,
): Promise<ApiKey | undefined> {
	const changes = {...rest, ...(scopes && {scopes: JSON.stringify(scopes)})};
	const key = trx('api_keys').where({workspace_id: workspaceId, id}).whereNull('revoked_at');
	const [row]: Row[] = await key.update(changes).returning('*');
	return row && fromRow(row);
}

export async function deleteApiKey(trx: Knex.Transaction, workspaceId: string, id: string): Promise<void> {
	await trx('api_keys').where({workspace_id: workspaceId, id}).delete();
}

function fromRow(row: Row): ApiKey {
	return {...row, scopes: JSON.parse(row.scopes)};
}

/**
 * Stores the time of a key's use a little later. Cached rows do not depend on it, so the generation does not
 * change. A failed write is ignored, because the key's next use will be stored.
 */
export function noteKeyUse(writer: Writer, keyId: string, at: string): void {
	writer.submit(keyUseWrite, {keyId, at}).catch(() => undefined);
}

/** Stores the last use of each key. */
export const keyUseWrite: GroupWrite<{readonly keyId: string; readonly at: string}, void> = {
	name: 'key_use',
	rank: 9,
	async apply(trx, uses) {
		// In the order of their ids, because two nodes may write the same keys.
		for (const {keyId, at} of uses.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1))) {
			await trx('api_keys').where({id: keyId}).update({last_used_at: at});
		}
		return uses.map(() => undefined);
	},
};
