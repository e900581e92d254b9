import {defined, groupBy} from '../../kit/collections.ts';
import type {Scope} from '../../mail/api-key.ts';
import {Type} from '../../mail/type.ts';
import {declaration} from '../apply/declaration.ts';
import {performIn, Refused} from '../operation.ts';
import {changeKey, createKey, keyFields, revokeKey} from './rules.ts';
import {type ApiKey, listApiKeys} from './store.ts';

export const declaredKeys = declaration({
	kind: 'key',
	section: 'keys',
	schema: Type.Object(keyFields, {additionalProperties: false}),
	key: ['name', 'mode'],
	isEnded: ({expires_at: expires}, now) => (expires ?? now) < now,
	read: async (reader, workspaceId, now) => activeKeys(await listApiKeys(reader, workspaceId), now),
	operations: [createKey, changeKey, revokeKey],
	steps: {
		async add({perform}, {declared}) {
			const {row, key} = await perform(createKey, {mode: 'live', ...declared});
			return {id: row.id, key};
		},
		async change({perform}, {declared: {scopes, rate_limit, expires_at}, known}) {
			const rights = defined({scopes, rate_limit, expires_at});
			return await perform(changeKey, {id: known.ids[0], ...rights});
		},
		async remove({write, context}, {known: {ids}}) {
			await write(async trx => {
				for (const id of ids) {
					await performIn(revokeKey, {...context, trx}, {id}).catch(ignoreIfRefused);
				}
			});
			return {};
		},
	},
});

function ignoreIfRefused(error: unknown): void {
	if (!(error instanceof Refused)) {
		throw error;
	}
}

/**
 * Returns one key for each name and mode, with the rights of the newest row. There are several rows during the overlap
 * of a rotation. `rows` are sorted newest first.
 */
function activeKeys(rows: readonly ApiKey[], now: string) {
	const active = rows.filter(row => row.revoked_at === null && (row.expires_at === null || row.expires_at > now));
	return [...groupBy(active, row => `${row.mode} ${row.name}`).values()].map(group => {
		const [{name, mode, scopes, rate_limit, expires_at, id}, ...older] = group as [ApiKey, ...ApiKey[]];
		const ids = [id, ...older.map(row => row.id)] as const;
		return {name, mode, scopes: scopes.toSorted() as Scope[], rate_limit, expires_at, ids};
	});
}
