import type {Knex} from 'knex';
import {parseTime, storeTime} from '../../kit/time.ts';
import {apiKeyHash, createApiKey, defaultScopes, scopes} from '../../mail/api-key.ts';
import type {Mode} from '../../mail/message.ts';
import type {Tools} from '../../mail/operator.ts';
import {Type} from '../../mail/type.ts';
import {field, optionalOrNull} from '../fields.ts';
import {notFound, operation} from '../operation.ts';
import {checkRoom} from '../workspaces/limits.ts';
import {
	type ApiKey,
	expireApiKey,
	findApiKey,
	insertApiKey,
	type KeyChanges,
	revokeApiKey,
	updateApiKey,
} from './store.ts';

/** A key's row, and the key itself, which cannot be retrieved later. */
export type CreatedKey = {readonly row: ApiKey; readonly key: string};

type NewKey = {
	readonly name: string;
	readonly mode: Mode;
	/** Defaults to `defaultScopes` of the mode. */
	readonly scopes?: readonly string[];
	readonly rate_limit?: string | null;
	/** In the store's format. A key without it never expires. */
	readonly expires_at?: string | null;
};

const hintLength = 'key_live_'.length + 4;

/** Creates a key without an audit entry, for callers that record an act of their own or need a key for one send. */
export async function issueKey(
	trx: Knex.Transaction,
	{clock, newId, random}: Tools,
	workspaceId: string,
	{name, mode, scopes: keyScopes = defaultScopes(mode), rate_limit = null, expires_at = null}: NewKey,
): Promise<CreatedKey> {
	const key = createApiKey(mode, random);
	const row: ApiKey = {
		id: newId('key'),
		workspace_id: workspaceId,
		name,
		mode,
		hash: apiKeyHash(key),
		hint: key.slice(0, hintLength),
		scopes: keyScopes,
		rate_limit,
		expires_at,
		revoked_at: null,
		last_used_at: null,
		created_at: storeTime(clock.now()),
	};
	await insertApiKey(trx, row);
	return {row, key};
}

const id = Type.String();
const maxOverlap = 3650 * 86_400;
const defaultOverlap = 86_400;

const rights = {
	scopes: field(
		Type.Optional(Type.Array(Type.Enum([...scopes]), {minItems: 1, maxItems: scopes.length, uniqueItems: true})),
		{
			option: 'scope <scope>',
			description: 'Permissions.',
			default: 'all but messages:submit, for a test key messages:send and read scopes',
		},
	),
	rate_limit: field(optionalOrNull(Type.String({format: 'rate-limit'})), {
		option: 'rate-limit <n/s>',
		description: 'Sends per number of seconds, such as 6000/60; 0 is no limit.',
		default: 'MAILCTL_RATE_LIMIT',
	}),
	expires_at: field(optionalOrNull(Type.String({format: 'time'})), {
		label: 'Expires',
		option: 'expires <time>',
		description: 'When it expires: a duration or an RFC 3339 time.',
		normalize: text => storeTime(parseTime(text) ?? 0),
	}),
};

/** The fields of a key that a document declares. */
export const keyFields = {
	name: field(Type.String({format: 'label'}), {description: 'Its purpose.'}),
	mode: field(Type.Optional(Type.Enum(['live', 'test'])), {
		description: 'Messages of a test key are not sent.',
		default: 'live',
		meanings: {live: 'messages are sent', test: 'nothing is sent'},
	}),
	...rights,
};

const manages = {role: 'admin', fresh: true} as const;
const noKeysByKeys = 'a leaked key could create further keys';
const page = 'This key does not exist, or it has expired or been revoked.';

export const createKey = operation({
	...manages,
	name: 'key create',
	summary: 'Create a key and show it once',
	without: {api: noKeysByKeys},
	input: Type.Object(keyFields),
	async run({trx, tools, workspaceId}, {mode = 'live', ...input}) {
		await checkRoom(trx, tools, workspaceId, 'keys');
		return await issueKey(trx, tools, workspaceId, {...input, mode});
	},
	audit: 'key.created',
	entry: ({row: {id: target, name, mode, scopes: granted, expires_at}}) => ({
		target,
		detail: {name, mode, scopes: granted, expires_at},
	}),
});

/** Changes the rights of a key. The key itself stays the same. */
export const changeKey = operation({
	...manages,
	name: 'key change',
	without: {api: noKeysByKeys, cli: '`mailctl apply` changes keys', dashboard: 'people create a new key'},
	input: Type.Object({id, ...rights}),
	run: async ({trx, workspaceId}, {id: keyId, ...changes}) =>
		(await updateApiKey(trx, workspaceId, keyId, changes as KeyChanges)) ?? notFound('key', keyId),
	audit: 'key.updated',
	entry: ({id: target, name}, {id: _, ...changes}) => ({target, detail: {name, ...changes}}),
});

export const revokeKey = operation({
	...manages,
	name: 'key revoke',
	summary: 'Revoke a key immediately',
	without: {api: noKeysByKeys},
	input: Type.Object({id}),
	async run({trx, tools, workspaceId}, {id: keyId}) {
		const isRevoked = await revokeApiKey(trx, workspaceId, keyId, storeTime(tools.clock.now()));
		const row = (await findApiKey(trx, workspaceId, keyId)) ?? notFound('key', keyId, {page});
		const wrong = `the key ${keyId} is already revoked`;
		return isRevoked ? row : notFound('key', keyId, {wrong, next: 'there is nothing to do', page});
	},
	audit: 'key.revoked',
	entry: ({id: target, name}) => ({target, detail: {name}}),
});

/** Creates a key with the rights of an old one, which expires after the overlap. */
export const rotateKey = operation({
	...manages,
	name: 'key rotate',
	summary: 'Replace a key; the old one expires later',
	without: {api: noKeysByKeys, apply: 'a file has no secrets'},
	input: Type.Object({
		id,
		overlap: field(Type.Optional(Type.Integer({minimum: 0, maximum: maxOverlap})), {
			description: 'How long the old key stays valid.',
			unit: 'seconds',
			default: '24h',
		}),
	}),
	async run({trx, tools, workspaceId}, {id: keyId, overlap = defaultOverlap}) {
		const old = (await findApiKey(trx, workspaceId, keyId)) ?? notFound('key', keyId, {page});
		const now = tools.clock.now();
		if (old.revoked_at !== null || (old.expires_at !== null && old.expires_at <= storeTime(now))) {
			const next = 'create a new one with mailctl key create';
			throw notFound('key', keyId, {wrong: `the key ${keyId} has expired or been revoked`, next, page});
		}
		const endsAt = storeTime(now + overlap * 1000);
		// This comes before `checkRoom`, because without an overlap the old key no longer counts against the limit.
		await expireApiKey(trx, workspaceId, keyId, endsAt);
		await checkRoom(trx, tools, workspaceId, 'keys');
		const created = await issueKey(trx, tools, workspaceId, old);
		return {...created, old, endsAt};
	},
	audit: 'key.rotated',
	entry: ({row, old, endsAt}) => ({target: old.id, detail: {name: old.name, new_key: row.id, ends_at: endsAt}}),
});
