import {hash} from 'node:crypto';
import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import type {ActTools, Operator, Role} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import {deleteUser, insertUser, takeLink, type User, updateUser} from '../store/users.ts';

/** How long a link that logs in once holds, milliseconds. */
const linkMs = 3_600_000;

/** A user, and the token of a link that logs them in once, within an hour. */
export type Linked = {readonly user: User; readonly token: string};

/** The comparison form of a typed address. */
export function emailKey(text: string): string {
	const parsed = parseAddress(text.trim(), {utf8Local: false});
	return parsed.ok ? parsed.address.key : text.trim().toLowerCase().slice(0, 254);
}

/** What a user does, as the audit trail names them. `address`: that of their client. */
export function operatorOf({email}: Pick<User, 'email'>, address: string): Operator {
	return {actor: `user:${email}`, from: address};
}

type NewUser = {
	/** In comparison form. */
	readonly email: string;
	readonly role: Role;
	readonly workspaceId: string | null;
	/** An operator of the installation adds the user. */
	readonly isVouched?: boolean;
};

/** Adds a user who has no password yet, only a link. Undefined: there is a user of this address. */
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

/** Makes a new link; the former one no longer works. Undefined: the user is gone. */
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
 * Uses up a link: anyone who has it is logged in as its user. Undefined: it was used before, has ended, or was never
 * made.
 */
export async function useLink(
	trx: Knex.Transaction,
	{clock}: {readonly clock: Pick<Clock, 'now'>},
	token: string,
): Promise<User | undefined> {
	return await takeLink(trx, tokenHash(token), storeTime(clock.now()));
}

/** Changes what a user may do and where, their sessions included. Undefined: there is no such user. */
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

/** Removes a user; their sessions end. Undefined: there is no such user. */
export async function removeUser(trx: Knex.Transaction, tools: ActTools, id: string): Promise<User | undefined> {
	const user = await deleteUser(trx, id);
	if (user) {
		await recordUserAct(trx, tools, user, 'removed');
	}
	return user;
}

/** Records what was done to a user, or what a user did to their own account. */
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

/** A secret that a link or a cookie carries: 43 characters of base64url. */
export function createToken(random: (size: number) => Buffer): string {
	return random(bytes).toString('base64url');
}

/** What the store keeps of a token: SHA-256, hexadecimal (256 random bits need no slow hash). */
export function tokenHash(token: string): string {
	return hash('sha256', token);
}
