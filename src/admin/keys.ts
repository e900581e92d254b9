import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {apiKeyHash, createApiKey} from '../mail/api-key.ts';
import type {Mode} from '../mail/message.ts';
import type {ActTools, Tools} from '../mail/operator.ts';
import {
	type ApiKey,
	expireApiKey,
	findApiKey,
	insertApiKey,
	type KeyChanges,
	revokeApiKey,
	updateApiKey,
} from '../store/api-keys.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';

export type KeyInput = {
	readonly workspaceId: string;
	readonly name: string;
	readonly mode: Mode;
	readonly scopes: readonly string[];
	readonly rateLimit: string | null;
	/** In the store's form; null: never. */
	readonly expiresAt: string | null;
};

/** A key's row, and the key itself, which nobody can read again. */
export type CreatedKey = {readonly row: ApiKey; readonly key: string};

const hintLength = 'key_live_'.length + 4;

export async function createKey(trx: Knex.Transaction, tools: ActTools, input: KeyInput): Promise<CreatedKey> {
	const created = await issueKey(trx, tools, input);
	const {id, mode, scopes} = created.row;
	await recordAct(trx, tools, {
		action: 'key.created',
		workspaceId: input.workspaceId,
		target: id,
		detail: {name: input.name, mode, scopes, expires_at: input.expiresAt},
	});
	return created;
}

/** Makes a key that is no act of its own: it is part of another one, or serves one send. */
export async function issueKey(
	trx: Knex.Transaction,
	{clock, newId, random}: Tools,
	input: KeyInput,
): Promise<CreatedKey> {
	const key = createApiKey(input.mode, random);
	const row: ApiKey = {
		id: newId('key'),
		workspace_id: input.workspaceId,
		name: input.name,
		mode: input.mode,
		hash: apiKeyHash(key),
		hint: key.slice(0, hintLength),
		scopes: input.scopes,
		rate_limit: input.rateLimit,
		expires_at: input.expiresAt,
		revoked_at: null,
		last_used_at: null,
		created_at: storeTime(clock.now()),
	};
	await insertApiKey(trx, row);
	await bumpGeneration(trx);
	return {row, key};
}

/** Changes what a key may do; the key itself stays. Undefined: there is no such key, or it is revoked. */
export async function changeKey(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, id, changes}: {readonly workspaceId: string; readonly id: string; readonly changes: KeyChanges},
): Promise<ApiKey | undefined> {
	const row = await updateApiKey(trx, workspaceId, id, changes);
	if (row) {
		const detail = {name: row.name, ...changes};
		await recordAct(trx, tools, {action: 'key.updated', workspaceId, target: id, detail});
		await bumpGeneration(trx);
	}
	return row;
}

/** `already`: it was revoked before, and stays so. */
export async function revokeKey(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	id: string,
): Promise<ApiKey | 'missing' | 'already'> {
	const revoked = await revokeApiKey(trx, workspaceId, id, storeTime(tools.clock.now()));
	await bumpGeneration(trx);
	const row = await findApiKey(trx, workspaceId, id);
	if (row && revoked) {
		await recordAct(trx, tools, {action: 'key.revoked', workspaceId, target: id, detail: {name: row.name}});
	}
	return row ? (revoked ? row : 'already') : 'missing';
}

/** A new key that may do what the old one may; the old one ends after `overlap` milliseconds. `ended`: it had ended already. */
export async function rotateKey(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, id, overlap}: {readonly workspaceId: string; readonly id: string; readonly overlap: number},
): Promise<CreatedKey | 'missing' | 'ended'> {
	const old = await findApiKey(trx, workspaceId, id);
	if (!old) {
		return 'missing';
	}
	const now = tools.clock.now();
	if (old.revoked_at !== null || (old.expires_at !== null && old.expires_at <= storeTime(now))) {
		return 'ended';
	}
	const created = await issueKey(trx, tools, {
		workspaceId,
		name: old.name,
		mode: old.mode,
		scopes: old.scopes,
		rateLimit: old.rate_limit,
		expiresAt: old.expires_at,
	});
	const endsAt = storeTime(now + overlap);
	await expireApiKey(trx, workspaceId, id, endsAt);
	const detail = {name: old.name, new_key: created.row.id, ends_at: endsAt};
	await recordAct(trx, tools, {action: 'key.rotated', workspaceId, target: id, detail});
	return created;
}
