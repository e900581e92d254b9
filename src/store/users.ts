import type {Knex} from 'knex';
import type {Role} from '../mail/user.ts';

/** A row of `users`. */
export type User = {
	readonly id: string;
	/** In comparison form. */
	readonly email: string;
	readonly role: Role;
	/** Null: all workspaces. */
	readonly workspace_id: string | null;
	readonly password_hash: string | null;
	/** Sealed for the row. */
	readonly totp: string | null;
	readonly totp_step: number | null;
	readonly link_hash: string | null;
	readonly link_expires_at: string | null;
	readonly created_at: string;
	readonly last_login_at: string | null;
};

/** False: there is a user of this address. */
export async function insertUser(trx: Knex.Transaction, user: User): Promise<boolean> {
	return (await trx('users').insert(user).onConflict('email').ignore().returning('id')).length === 1;
}

export async function findUser(reader: Knex, id: string): Promise<User | undefined> {
	return await reader('users').where({id}).first();
}

/** `email` in comparison form. */
export async function findUserByEmail(reader: Knex, email: string): Promise<User | undefined> {
	return await reader('users').where({email}).first();
}

/** A user, the name of their workspace, and how many passkeys they have. */
export type ListedUser = User & {readonly workspace: string | null; readonly passkeys: number};

/** By address. `workspaceId`: those of this workspace alone, without those of all. */
export async function listUsers(reader: Knex, workspaceId?: string): Promise<ListedUser[]> {
	const keys = reader('passkeys').count('*').whereRaw('passkeys.user_id = u.id').as('passkeys');
	const query = reader('users as u')
		.leftJoin('workspaces as w', 'w.id', 'u.workspace_id')
		.orderBy('u.email')
		.select('u.*', {workspace: 'w.name'}, keys);
	if (workspaceId !== undefined) {
		query.where('u.workspace_id', workspaceId);
	}
	const rows: ListedUser[] = await query;
	return rows.map(row => ({...row, passkeys: Number(row.passkeys)}));
}

export type UserChanges = Partial<Omit<User, 'id' | 'email' | 'created_at'>>;

/** Undefined: there is no such user. */
export async function updateUser(trx: Knex.Transaction, id: string, changes: UserChanges): Promise<User | undefined> {
	const [row] = await trx('users').where({id}).update(changes).returning('*');
	return row;
}

/** Removes a user with their sessions and passkeys. Undefined: there is no such user. */
export async function deleteUser(trx: Knex.Transaction, id: string): Promise<User | undefined> {
	const user = await findUser(trx, id);
	return user && (await trx('users').where({id}).delete()) === 1 ? user : undefined;
}

/** Compare-and-set: uses up a link that has not ended by `now`. Undefined: there is none. */
export async function takeLink(trx: Knex.Transaction, hash: string, now: string): Promise<User | undefined> {
	const [row] = await trx('users')
		.where({link_hash: hash})
		.where('link_expires_at', '>', now)
		.update({link_hash: null, link_expires_at: null})
		.returning('*');
	return row;
}

/** Compare-and-set: notes the step of a one-time code. False: a code of this step or of a later one was used before. */
export async function takeTotpStep(trx: Knex.Transaction, id: string, step: number): Promise<boolean> {
	const user = trx('users')
		.where({id})
		.where(query => query.whereNull('totp_step').orWhere('totp_step', '<', step));
	return (await user.update({totp_step: step})) === 1;
}

/** Forgets links that have ended; how many there were. */
export async function purgeLinks(trx: Knex.Transaction, now: string): Promise<number> {
	return await trx('users').where('link_expires_at', '<=', now).update({link_hash: null, link_expires_at: null});
}
