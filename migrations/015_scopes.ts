import type {Knex} from 'knex';

/** All that a key could be given until now without naming it. */
const former = [
	'messages:send',
	'messages:read',
	'suppressions:manage',
	'suppressions:read',
	'unsubscribe_groups:manage',
	'unsubscribe_groups:read',
	'webhooks:manage',
	'webhooks:read',
	'templates:manage',
	'templates:read',
	'senders:manage',
	'senders:read',
	'contacts:manage',
	'contacts:read',
	'usage:read',
];
const added = ['domains:manage', 'domains:read', 'stats:read'];
const isRead = (scope: string) => scope === 'messages:send' || scope.endsWith(':read');

/** Keys that named no scope get the new ones: for them a version with more routes has more of the same. */
export async function up(knex: Knex): Promise<void> {
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
