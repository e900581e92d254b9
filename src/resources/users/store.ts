import type {Knex} from 'knex';
import type {Role} from '../../mail/operator.ts';

/** A row of `users`. */
export type User = {
	readonly id: string;
	/** In comparison form. */
	readonly email: string;
	readonly role: Role;
	/** `null` if the user has access to all workspaces. */
	readonly workspace_id: string | null;
	readonly password_hash: string | null;
	/** Sealed for the row's id. */
	readonly totp: string | null;
	readonly totp_step: number | null;
	readonly link_hash: string | null;
	readonly link_expires_at: string | null;
	readonly created_at: string;
	/** `null` if an admin of one workspace added the user, because that admin can enter any address. */
	readonly vouched_at: string | null;
	readonly last_login_at: string | null;
};

/** Returns `false` if a user with this address already exists. */
export async function insertUser(trx: Knex.Transaction, user: User): Promise<boolean> {
	return (await trx('users').insert(user).onConflict('email').ignore().returning('id')).length === 1;
}

export async function findUser(reader: Knex, id: string): Promise<User | undefined> {
	return await reader('users').where({id}).first();
}

/** Finds a user by their address in comparison form. */
export async function findUserByEmail(reader: Knex, email: string): Promise<User | undefined> {
	return await reader('users').where({email}).first();
}

/** A user with the name of their workspace and the number of their passkeys. */
export type ListedUser = User & {readonly workspace: string | null; readonly passkeys: number};

/** Lists users by address. With `workspaceId`, only users of this workspace, without those who have access to all. */
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

type UserChanges = Partial<Omit<User, 'id' | 'email' | 'created_at'>>;

/** Returns `undefined` if the user does not exist. */
export async function updateUser(trx: Knex.Transaction, id: string, changes: UserChanges): Promise<User | undefined> {
	const [row] = await trx('users').where({id}).update(changes).returning('*');
	return row;
}

/** Removes a user with their sessions and passkeys. Returns `undefined` if the user does not exist. */
export async function deleteUser(trx: Knex.Transaction, id: string): Promise<User | undefined> {
	const user = await findUser(trx, id);
	return user && (await trx('users').where({id}).delete()) === 1 ? user : undefined;
}

/** Compare-and-set: consumes a link that has not expired at `now`. Returns `undefined` if there is none. */
export async function takeLink(trx: Knex.Transaction, hash: string, now: string): Promise<User | undefined> {
	const [row] = await trx('users')
		.where({link_hash: hash})
		.where('link_expires_at', '>', now)
		.update({link_hash: null, link_expires_at: null})
		.returning('*');
	return row;
}

/** Compare-and-set: stores the step of a one-time code. Returns `false` if a code of it or a later step was used. */
export async function takeTotpStep(trx: Knex.Transaction, id: string, step: number): Promise<boolean> {
	const user = trx('users')
		.where({id})
		.where(query => query.whereNull('totp_step').orWhere('totp_step', '<', step));
	return (await user.update({totp_step: step})) === 1;
}

/** Removes expired links and returns their number. */
export async function purgeLinks(trx: Knex.Transaction, now: string): Promise<number> {
	return await trx('users').where('link_expires_at', '<=', now).update({link_hash: null, link_expires_at: null});
}

/** A row of `user_sessions`. */
export type UserSession = {
	readonly id: string;
	readonly user_id: string;
	/** SHA-256 of the token, hex. */
	readonly token_hash: string;
	/** The workspace that is displayed; `null` if none was chosen. */
	readonly workspace_id: string | null;
	readonly created_at: string;
	readonly seen_at: string;
	readonly confirmed_at: string;
	/** The client's address, and the browser's `User-Agent`. */
	readonly address: string;
	readonly agent: string;
};

/** A session with the properties of its user that determine access. */
type OwnedSession = UserSession & {
	readonly email: string;
	readonly role: Role;
	/** The user's own workspace; `null` for all. */
	readonly of_workspace: string | null;
};

/** Sessions that began and were last seen after these times, in the store's form. */
export type SessionLimits = {readonly begun: string; readonly seen: string};

function activeSessions(reader: Knex, {begun, seen}: SessionLimits): Knex.QueryBuilder {
	return reader('user_sessions as s').where('s.created_at', '>', begun).where('s.seen_at', '>', seen);
}

export async function insertUserSession(trx: Knex.Transaction, session: UserSession): Promise<void> {
	await trx('user_sessions').insert(session);
}

/** Returns `undefined` if the session does not exist or has expired. */
export async function findUserSession(
	reader: Knex,
	tokenHash: string,
	limits: SessionLimits,
): Promise<OwnedSession | undefined> {
	return await activeSessions(reader, limits)
		.join('users as u', 'u.id', 's.user_id')
		.where('s.token_hash', tokenHash)
		.first('s.*', 'u.email', 'u.role', {of_workspace: 'u.workspace_id'});
}

/** Returns a user's sessions, newest first. */
export async function listUserSessions(reader: Knex, userId: string, limits: SessionLimits): Promise<UserSession[]> {
	return await activeSessions(reader, limits).where('s.user_id', userId).orderBy('s.id', 'desc').select('s.*');
}

/** Returns `false` if the session does not exist. */
export async function updateUserSession(
	trx: Knex.Transaction,
	id: string,
	changes: Partial<Pick<UserSession, 'workspace_id' | 'seen_at' | 'confirmed_at'>>,
): Promise<boolean> {
	return (await trx('user_sessions').where({id}).update(changes)) === 1;
}

/** Ends one session of a user, or all but one. Returns how many ended. */
export async function deleteUserSessions(
	trx: Knex.Transaction,
	userId: string,
	which: {readonly id: string} | {readonly except: string | null},
): Promise<number> {
	const sessions = trx('user_sessions').where({user_id: userId});
	if ('id' in which) {
		sessions.where({id: which.id});
	} else if (which.except !== null) {
		sessions.whereNot({id: which.except});
	}
	return await sessions.delete();
}

/** Removes at most `limit` expired sessions and returns their number. */
export async function purgeUserSessions(
	trx: Knex.Transaction,
	{begun, seen}: SessionLimits,
	limit: number,
): Promise<number> {
	const expired = trx('user_sessions').where('created_at', '<=', begun).orWhere('seen_at', '<=', seen);
	return await trx('user_sessions').whereIn('id', expired.limit(limit).select('id')).delete();
}

/** A row of `passkeys`. */
export type Passkey = {
	readonly id: string;
	readonly user_id: string;
	/** The id that the authenticator gave it, base64url. */
	readonly credential_id: string;
	/** In COSE format (RFC 9052 §7). */
	readonly public_key: Uint8Array;
	/** The authenticator's count of uses, a decimal number. */
	readonly counter: string;
	readonly name: string;
	readonly created_at: string;
	readonly used_at: string | null;
};

/** Returns `false` if it already exists. */
export async function insertPasskey(trx: Knex.Transaction, passkey: Passkey): Promise<boolean> {
	const row = {...passkey, public_key: Buffer.from(passkey.public_key)};
	return (await trx('passkeys').insert(row).onConflict('credential_id').ignore().returning('id')).length === 1;
}

export async function findPasskey(reader: Knex, credentialId: string): Promise<Passkey | undefined> {
	return await reader('passkeys').where({credential_id: credentialId}).first();
}

/** Returns a user's passkeys, oldest first. */
export async function listPasskeys(reader: Knex, userId: string): Promise<Passkey[]> {
	return await reader('passkeys').where({user_id: userId}).orderBy('id');
}

/** Compare-and-set: stores a use. Returns `false` if the passkey was used in the meantime, or was removed. */
export async function usePasskey(
	trx: Knex.Transaction,
	{id, counter: before}: Pick<Passkey, 'id' | 'counter'>,
	{counter, used_at}: Pick<Passkey, 'counter' | 'used_at'>,
): Promise<boolean> {
	return (await trx('passkeys').where({id, counter: before}).update({counter, used_at})) === 1;
}

/** Returns `undefined` if the user does not have the passkey. */
export async function deletePasskey(trx: Knex.Transaction, userId: string, id: string): Promise<Passkey | undefined> {
	const passkey: Passkey | undefined = await trx('passkeys').where({user_id: userId, id}).first();
	return passkey && (await trx('passkeys').where({id}).delete()) === 1 ? passkey : undefined;
}
