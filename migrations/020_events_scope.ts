import type {Knex} from 'knex';
import {added, former} from './015_scopes.ts';
import {addScopes} from './new-scopes.ts';

/** `events:read`, for the stream of events. */
export async function up(knex: Knex): Promise<void> {
	await addScopes(knex, [...former, ...added], ['events:read']);
}
