import type {Knex} from 'knex';
import {addScopes} from './new-scopes.ts';

/** All that a key could be given until now without naming it. */
export const former = [
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
export const added = ['domains:manage', 'domains:read', 'stats:read'];

/** Of domains and statistics. */
export async function up(knex: Knex): Promise<void> {
	await addScopes(knex, former, added);
}
