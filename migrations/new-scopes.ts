import type {Knex} from 'knex';

const isRead = (scope: string) => scope === 'messages:send' || scope.endsWith(':read');

/**
 * Keys that named no scope, and so have all `former` ones of their mode, get the `added` ones: for them a version with more
 * routes has more of the same.
 */
export async function addScopes(knex: Knex, former: readonly string[], added: readonly string[]): Promise<void> {
	for (const mode of ['live', 'test']) {
		const usual = (scopes: readonly string[]) => (mode === 'live' ? scopes : scopes.filter(isRead));
		const keys: Array<{id: string; scopes: string}> = await knex('api_keys').where({mode}).select('id', 'scopes');
		for (const {id, scopes: text} of keys) {
			const scopes: string[] = JSON.parse(text);
			if (usual(former).every(scope => scopes.includes(scope))) {
				await knex('api_keys')
					.where({id})
					.update({scopes: JSON.stringify([...new Set([...scopes, ...usual(added)])])});
			}
		}
	}
}
