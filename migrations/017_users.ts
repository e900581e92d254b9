import type {Knex} from 'knex';
import {columnsFor} from './columns.ts';

/** People who may see the dashboard, their sessions and their passkeys. */
export async function up(knex: Knex): Promise<void> {
	const {text, integer, bytes} = columnsFor(knex);

	await knex.schema.createTable('users', table => {
		text(table, 'id').primary();
		/** In comparison form, so that nobody is there twice. */
		text(table, 'email').notNullable().unique();
		text(table, 'role').notNullable();
		/** Null: all workspaces. */
		text(table, 'workspace_id').references('workspaces.id').onDelete('CASCADE');
		/** Made by scrypt, with its parameters and its salt; null: the user has no password. */
		text(table, 'password_hash');
		/** The secret of one-time codes, sealed for the row; null: none is asked for. */
		text(table, 'totp');
		/** The 30 seconds of the last code that was taken: none is taken twice. */
		integer(table, 'totp_step');
		/** SHA-256 of the token of a link that logs in once. */
		text(table, 'link_hash').unique();
		text(table, 'link_expires_at');
		text(table, 'created_at').notNullable();
		text(table, 'last_login_at');
		table.index(['workspace_id'], 'users_by_workspace');
	});

	await knex.schema.createTable('user_sessions', table => {
		text(table, 'id').primary();
		text(table, 'user_id').notNullable().references('users.id').onDelete('CASCADE');
		/** SHA-256 of the token in the cookie. */
		text(table, 'token_hash').notNullable().unique();
		/** What a user of all workspaces looks at now; null: none was chosen. */
		text(table, 'workspace_id').references('workspaces.id').onDelete('SET NULL');
		text(table, 'created_at').notNullable();
		text(table, 'seen_at').notNullable();
		/** The last time that the user proved who they are. */
		text(table, 'confirmed_at').notNullable();
		text(table, 'address').notNullable();
		text(table, 'agent').notNullable();
		table.index(['user_id', 'id'], 'user_sessions_by_user');
		table.index(['workspace_id'], 'user_sessions_by_workspace');
		table.index(['seen_at'], 'user_sessions_by_seen');
	});

	await knex.schema.createTable('passkeys', table => {
		text(table, 'id').primary();
		text(table, 'user_id').notNullable().references('users.id').onDelete('CASCADE');
		/** What the authenticator calls it, base64url. */
		text(table, 'credential_id').notNullable().unique();
		bytes(table, 'public_key').notNullable();
		/** A number of 32 bits without a sign, for which an integer of PostgreSQL is too small. */
		text(table, 'counter').notNullable();
		text(table, 'name').notNullable();
		text(table, 'created_at').notNullable();
		text(table, 'used_at');
		table.index(['user_id', 'id'], 'passkeys_by_user');
	});
}
