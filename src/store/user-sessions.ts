import type {Knex} from 'knex';
import type {Role} from '../mail/user.ts';

/** A row of `user_sessions`. */
export type UserSession = {
	readonly id: string;
	readonly user_id: string;
	/** SHA-256 of the token, hex. */
	readonly token_hash: string;
	/** The workspace that is looked at; null: none was chosen. */
	readonly workspace_id: string | null;
	readonly created_at: string;
	readonly seen_at: string;
	readonly confirmed_at: string;
	/** The client's address, and what its browser calls itself. */
	readonly address: string;
	readonly agent: string;
};

/** A session with what decides who its user is. */
export type OwnedSession = UserSession & {
	readonly email: string;
	readonly role: Role;
	/** The user's own; null: all. */
	readonly of_workspace: string | null;
};

/** Sessions that began and were seen after these times, in the store's form. */
export type SessionLimits = {readonly begun: string; readonly seen: string};

function livingSessions(reader: Knex, {begun, seen}: SessionLimits): Knex.QueryBuilder {
	return reader('user_sessions as s').where('s.created_at', '>', begun).where('s.seen_at', '>', seen);
}

export async function insertUserSession(trx: Knex.Transaction, session: UserSession): Promise<void> {
	await trx('user_sessions').insert(session);
}

/** Undefined: there is none, or it has ended. */
export async function findUserSession(
	reader: Knex,
	tokenHash: string,
	limits: SessionLimits,
): Promise<OwnedSession | undefined> {
	return await livingSessions(reader, limits)
		.join('users as u', 'u.id', 's.user_id')
		.where('s.token_hash', tokenHash)
		.first('s.*', 'u.email', 'u.role', {of_workspace: 'u.workspace_id'});
}

/** Newest first. */
export async function listUserSessions(reader: Knex, userId: string, limits: SessionLimits): Promise<UserSession[]> {
	return await livingSessions(reader, limits).where('s.user_id', userId).orderBy('s.id', 'desc').select('s.*');
}

/** False: there is no such session. */
export async function updateUserSession(
	trx: Knex.Transaction,
	id: string,
	changes: Partial<Pick<UserSession, 'workspace_id' | 'seen_at' | 'confirmed_at'>>,
): Promise<boolean> {
	return (await trx('user_sessions').where({id}).update(changes)) === 1;
}

/** Ends one session of a user, or all but one; how many there were. */
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

/** Removes at most `limit` sessions that have ended; how many there were. */
export async function purgeUserSessions(
	trx: Knex.Transaction,
	{begun, seen}: SessionLimits,
	limit: number,
): Promise<number> {
	const ended = trx('user_sessions').where('created_at', '<=', begun).orWhere('seen_at', '<=', seen);
	return await trx('user_sessions').whereIn('id', ended.limit(limit).select('id')).delete();
}
