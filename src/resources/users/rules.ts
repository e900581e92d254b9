import {hash} from 'node:crypto';
import type {Knex} from 'knex';
import type {Clock} from '../../kit/clock.ts';
import {storeTime} from '../../kit/time.ts';
import {parseAddress} from '../../mail/address.ts';
import type {ActTools, Operator, Role} from '../../mail/operator.ts';
import {recordAct} from '../audit/store.ts';
import {deleteUser, insertUser, takeLink, type User, updateUser} from './store.ts';

/** The lifetime of a one-time login link, in milliseconds. */
const linkMs = 3_600_000;

/** A user, and the token of a link that signs them in once, within an hour. */
export type Linked = {readonly user: User; readonly token: string};

/** Returns the normalized form of an address that a person typed. */
export function emailKey(text: string): string {
	const parsed = parseAddress(text.trim(), {allowsUtf8Local: false});
	return parsed.ok ? parsed.address.key : text.trim().toLowerCase().slice(0, 254);
}

/** Returns the user as the audit trail names them. `address` is the IP address of their client. */
export function toOperator({email}: Pick<User, 'email'>, address: string): Operator {
	return {actor: `user:${email}`, from: address};
}

type NewUser = {
	/** In normalized form. */
	readonly email: string;
	readonly role: Role;
	readonly workspaceId: string | null;
	/** Whether an operator of the installation adds the user. */
	readonly isVouched?: boolean;
};

/**
 * Adds a user with a login link and no password yet, or returns `undefined` if the address is in use. `src/resources/users`
 * manages the users of the dashboard: links, passwords, one-time codes, passkeys, OpenID Connect and sessions. It
 * relies on `src/store` for its data and on the store's vault for secrets. It never stores a password or token in plain
 * text.
 */
export async function addUser(
	trx: Knex.Transaction,
	tools: ActTools,
	{email, role, workspaceId, isVouched = false}: NewUser,
): Promise<Linked | undefined> {
	const token = createToken(tools.random);
	const now = tools.clock.now();
	const user: User = {
		id: tools.newId('usr'),
		email,
		role,
		workspace_id: workspaceId,
		password_hash: null,
		totp: null,
		totp_step: null,
		link_hash: tokenHash(token),
		link_expires_at: storeTime(now + linkMs),
		created_at: storeTime(now),
		vouched_at: isVouched ? storeTime(now) : null,
		last_login_at: null,
	};
	if (!(await insertUser(trx, user))) {
		return undefined;
	}
	await recordUserAct(trx, tools, user, 'added', {role});
	return {user, token};
}

/** Creates a new link and invalidates the previous one. Returns `undefined` if the user does not exist. */
export async function linkFor(trx: Knex.Transaction, tools: ActTools, {id}: User): Promise<Linked | undefined> {
	const token = createToken(tools.random);
	const link_expires_at = storeTime(tools.clock.now() + linkMs);
	const user = await updateUser(trx, id, {link_hash: tokenHash(token), link_expires_at});
	if (user) {
		await recordUserAct(trx, tools, user, 'linked');
	}
	return user && {user, token};
}

/**
 * Consumes a link and returns its user, as whom the bearer is signed in. Returns `undefined` if the link is invalid,
 * has expired, or was used before.
 */
export async function useLink(
	trx: Knex.Transaction,
	{clock}: {readonly clock: Pick<Clock, 'now'>},
	token: string,
): Promise<User | undefined> {
	return await takeLink(trx, tokenHash(token), storeTime(clock.now()));
}

/** Changes a user's role or workspace, also in their sessions. Returns `undefined` if the user does not exist. */
export async function changeUser(
	trx: Knex.Transaction,
	tools: ActTools,
	id: string,
	changes: Partial<Pick<User, 'role' | 'workspace_id'>>,
): Promise<User | undefined> {
	const user = await updateUser(trx, id, changes);
	if (user) {
		await recordUserAct(trx, tools, user, 'updated', changes);
	}
	return user;
}

/** Removes a user and ends their sessions. Returns `undefined` if the user does not exist. */
export async function removeUser(trx: Knex.Transaction, tools: ActTools, id: string): Promise<User | undefined> {
	const user = await deleteUser(trx, id);
	if (user) {
		await recordUserAct(trx, tools, user, 'removed');
	}
	return user;
}

/** Records an act on a user's account, by an operator or by the user. */
export async function recordUserAct(
	trx: Knex.Transaction,
	tools: Pick<ActTools, 'clock' | 'newId' | 'operator'>,
	{id, email, workspace_id}: Pick<User, 'id' | 'email' | 'workspace_id'>,
	act: string,
	detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
	await recordAct(trx, tools, {
		action: `user.${act}`,
		workspaceId: workspace_id,
		target: id,
		detail: {email, ...detail},
	});
}

const bytes = 32;

/** Creates the secret of a link or cookie: 43 characters of base64url. */
export function createToken(random: (size: number) => Buffer): string {
	return random(bytes).toString('base64url');
}

/** Returns the stored form of a token: its SHA-256 in hexadecimal. 256 random bits do not need a slow hash. */
export function tokenHash(token: string): string {
	return hash('sha256', token);
}
