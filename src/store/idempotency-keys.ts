import type {Knex} from 'knex';
import type {Mode} from '../mail/message.ts';
import {queryRows, rowSource} from './engine/dialect.ts';

/** The scope in which an Idempotency-Key is unique, and the key. */
export type KeyName = {readonly workspaceId: string; readonly mode: Mode; readonly key: string};

/** A key with its first send and the response to it. */
export type KeyUse = KeyName & {
	readonly fingerprint: string;
	/** A digest of what the fingerprint leaves out; `null` if it is not known. */
	readonly others: string | null;
	/** The body of the response, byte for byte. */
	readonly response: string;
	readonly messageId: string;
	readonly createdAt: string;
};

type StoredUse = Pick<KeyUse, 'fingerprint' | 'others' | 'response' | 'messageId'>;
type NameRow = {workspace_id: string; mode: Mode; key: string};
type UseRow = NameRow & {
	fingerprint: string;
	others: string | null;
	response: string;
	message_id: string;
	created_at: string;
};

/** Returns one text for a name, for maps and sorting. The key is the only part that can contain a space. */
export function keyNameText({workspaceId, mode, key}: KeyName): string {
	return `${workspaceId} ${mode} ${key}`;
}

/**
 * Takes keys that are free or were taken before `expiredBefore`, and returns them as `keyNameText`. If another node is
 * taking a key, this waits until that transaction ends.
 */
export async function takeKeys(
	trx: Knex.Transaction,
	uses: readonly KeyUse[],
	expiredBefore: string,
): Promise<Set<string>> {
	// In the order of their names, because two nodes may take the same keys.
	const rows = uses
		.map(use => [keyNameText(use), use] as const)
		.sort(([a], [b]) => (a < b ? -1 : 1))
		.map(([, use]) => [
			use.workspaceId,
			use.mode,
			use.key,
			use.fingerprint,
			use.others,
			use.response,
			use.messageId,
			use.createdAt,
		]);
	const {sql, bindings} = rowSource(trx, rows, 8);
	const claimed: NameRow[] = await queryRows(
		trx,
		`insert into idempotency_keys (workspace_id, mode, key, fingerprint, others, response, message_id, created_at) ${sql}
			on conflict (workspace_id, mode, key) do update set fingerprint = excluded.fingerprint, others = excluded.others,
				response = excluded.response, message_id = excluded.message_id, created_at = excluded.created_at
				where idempotency_keys.created_at <= ?
			returning workspace_id, mode, key`,
		[...bindings, expiredBefore],
	);
	return new Set(claimed.map(row => keyNameText({workspaceId: row.workspace_id, mode: row.mode, key: row.key})));
}

/** Returns what is stored about keys that have not expired, by `keyNameText`. */
export async function findKeyUses(
	reader: Knex,
	names: readonly KeyName[],
	expiredBefore: string,
): Promise<Map<string, StoredUse>> {
	const {sql, bindings} = rowSource(reader, names.map(nameRow), 3);
	const rows: UseRow[] = await queryRows(
		reader,
		`select workspace_id, mode, key, fingerprint, others, response, message_id, created_at from idempotency_keys
			where (workspace_id, mode, key) in (${sql})`,
		bindings,
	);
	return new Map(
		rows
			// Filtered here, because PostgreSQL might otherwise read all keys that have not expired.
			.filter(row => row.created_at > expiredBefore)
			.map(row => [
				keyNameText({workspaceId: row.workspace_id, mode: row.mode, key: row.key}),
				{fingerprint: row.fingerprint, others: row.others, response: row.response, messageId: row.message_id},
			]),
	);
}

/** Releases keys that were just taken for sends that are rejected after all. */
export async function releaseKeys(trx: Knex.Transaction, names: readonly KeyName[]): Promise<void> {
	const {sql, bindings} = rowSource(trx, names.map(nameRow), 3);
	await trx.raw(
		`delete from idempotency_keys where (workspace_id, mode, key) in (${sql})`,
		bindings as Knex.RawBinding[],
	);
}

/** Removes at most `limit` keys that were first used before `before`, the oldest first; returns how many. */
export async function purgeIdempotencyKeys(trx: Knex.Transaction, before: string, limit: number): Promise<number> {
	return await trx('idempotency_keys')
		.whereIn(
			['workspace_id', 'mode', 'key'],
			trx('idempotency_keys')
				.select('workspace_id', 'mode', 'key')
				.where('created_at', '<=', before)
				.orderBy('created_at')
				.limit(limit),
		)
		.delete();
}

function nameRow({workspaceId, mode, key}: KeyName): readonly [string, Mode, string] {
	return [workspaceId, mode, key];
}
