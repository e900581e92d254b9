import {hash} from 'node:crypto';
import type {Knex} from 'knex';
import type {Clock} from '../../kit/clock.ts';
import {storeTime} from '../../kit/time.ts';
import {parseAddress} from '../../mail/address.ts';
import {type ActTools, type Operator, roles} from '../../mail/operator.ts';
import {Type} from '../../mail/type.ts';
import {recordAct} from '../audit/store.ts';
import {field} from '../fields.ts';
import {notFound, type OperationContext, operation, Refused, refuseField} from '../operation.ts';
import {findWorkspace} from '../workspaces/store.ts';
import {deleteUser, findUser, insertUser, takeLink, type User, updateUser} from './store.ts';

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
export function toOperator(user: Pick<User, 'email'>, address: string): Operator {
	return {actor: toActor(user), from: address};
}

const toActor = ({email}: Pick<User, 'email'>): string => `user:${email}`;

/** The word for all workspaces, where a workspace is named. */
export const everyWorkspace = 'all';

const workspace = Type.String({format: 'text'});
const fields = {
	email: field(Type.String({format: 'email'}), {label: 'Email', normalize: emailKey}),
	role: field(Type.Optional(Type.Enum([...roles])), {
		description:
			'viewer reads; operator also changes messages, lists and templates; ' +
			'admin also changes the setup, keys and users.',
		default: 'viewer',
	}),
};
const manages = {
	role: 'admin',
	fresh: true,
	without: {api: 'a leaked key could add users', apply: 'a file has no people'},
	// Users and sessions are read from the store each time.
	refreshes: false,
} as const;

/**
 * Adds a user with a login link and no password yet. If the operator is limited to the workspace of the context, so
 * are the users that they add; otherwise they may choose. `src/resources/users` manages the users of the dashboard:
 * links, passwords, one-time codes, passkeys, OpenID Connect and sessions. It relies on `src/store` for its data and on
 * the store's vault for secrets. It never stores a password or token in plain text.
 */
export const addUser = operation({
	...manages,
	name: 'user add',
	input: Type.Object({...fields, workspace}),
	async run(context: UserContext, {email, role = 'viewer', workspace: requested}): Promise<Linked> {
		const {trx, tools} = context;
		const {token, ...link} = createLink(tools);
		const now = storeTime(tools.clock.now());
		const user: User = {
			id: tools.newId('usr'),
			email,
			role,
			workspace_id: await findGrantedWorkspace(context, requested),
			password_hash: null,
			totp: null,
			totp_step: null,
			...link,
			created_at: now,
			vouched_at: context.workspaceId === null ? now : null,
			last_login_at: null,
		};
		if (!(await insertUser(trx, user))) {
			throw new Refused('conflict', {
				wrong: `a user ${email} already exists`,
				next: `for a new link run mailctl user link ${email}`,
				page: `A user with the address ${email} already exists.`,
			});
		}
		return {user, token};
	},
	audit: 'user.added',
	entry: ({user}) => toEntry(user, {role: user.role}),
});

/** Creates a new link and invalidates the previous one. */
export const linkUser = operation({
	...manages,
	name: 'user link',
	input: Type.Object({id: Type.String()}),
	async run(context: UserContext, {id}): Promise<Linked> {
		const {token, ...link} = createLink(context.tools);
		return {user: await updateOther(context, id, link), token};
	},
	audit: 'user.linked',
	entry: ({user}) => toEntry(user),
});

/** Changes a user's role and workspace, also in their sessions. */
export const changeUser = operation({
	...manages,
	without: {...manages.without, cli: 'a user is removed and added again'},
	name: 'user update',
	input: Type.Object({id: Type.String(), role: Type.Enum([...roles]), workspace}),
	async run(context: UserContext, {id, role, workspace: requested}): Promise<User> {
		const workspace_id = await findGrantedWorkspace(context, requested);
		return await updateOther(context, id, {role, workspace_id});
	},
	audit: 'user.updated',
	entry: user => toEntry(user, {role: user.role, workspace_id: user.workspace_id}),
});

/** Removes a user and ends their sessions. */
export const removeUser = operation({
	...manages,
	name: 'user remove',
	input: Type.Object({id: Type.String()}),
	async run(context: UserContext, {id}): Promise<User> {
		await findOther(context.trx, context, id);
		return (await deleteUser(context.trx, id)) ?? notFound('user', id);
	},
	audit: 'user.removed',
	entry: user => toEntry(user),
});

type UserContext = OperationContext<string | null>;

/**
 * Returns a user that the operator may change: one of their workspace, and not themselves, so that they cannot lock
 * themselves out. Throws `Refused` for all others.
 */
export async function findOther(
	reader: Knex,
	{workspaceId, tools}: Pick<UserContext, 'workspaceId' | 'tools'>,
	id: string,
): Promise<User> {
	const user = await findUser(reader, id);
	const isManaged = workspaceId === null || user?.workspace_id === workspaceId;
	return user && isManaged && tools.operator.actor !== toActor(user)
		? user
		: notFound('user', id, {page: 'This user does not exist, or you cannot change it.'});
}

async function updateOther(context: UserContext, id: string, changes: Parameters<typeof updateUser>[2]): Promise<User> {
	await findOther(context.trx, context, id);
	return (await updateUser(context.trx, id, changes)) ?? notFound('user', id);
}

/** Returns the workspace that a user gets, or `null` for all. Admins of one workspace can only grant that one. */
async function findGrantedWorkspace({trx, workspaceId}: UserContext, requested: string): Promise<string | null> {
	if (workspaceId !== null || requested === everyWorkspace) {
		return workspaceId;
	}
	const workspace = await findWorkspace(trx, requested);
	return workspace?.id ?? refuseField('workspace', `must be the id of a workspace, or ${everyWorkspace}`);
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

/** Records an act on a user's account, by an operator or by the user. */
export async function recordUserAct(
	trx: Knex.Transaction,
	tools: Pick<ActTools, 'clock' | 'newId' | 'operator'>,
	user: AuditedUser,
	act: string,
	detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
	await recordAct(trx, tools, {action: `user.${act}`, ...toEntry(user, detail)});
}

type AuditedUser = Pick<User, 'id' | 'email' | 'workspace_id'>;

const toEntry = ({id, email, workspace_id}: AuditedUser, detail: Readonly<Record<string, unknown>> = {}) => ({
	workspaceId: workspace_id,
	target: id,
	detail: {email, ...detail},
});

/** Creates a one-time login link, and the columns that store it. */
function createLink({random, clock}: Pick<ActTools, 'random' | 'clock'>) {
	const token = createToken(random);
	return {token, link_hash: tokenHash(token), link_expires_at: storeTime(clock.now() + linkMs)};
}

const tokenBytes = 32;

/** Creates the secret of a link or cookie: 43 characters of base64url. */
export function createToken(random: (size: number) => Buffer): string {
	return random(tokenBytes).toString('base64url');
}

/** Returns the stored form of a token: its SHA-256 in hexadecimal. 256 random bits do not need a slow hash. */
export function tokenHash(token: string): string {
	return hash('sha256', token);
}
