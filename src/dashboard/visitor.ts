import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import type {Sessions, SignedIn} from '../resources/users/sessions.ts';
import {
	findOldestWorkspace,
	findWorkspace,
	findWorkspaceByName,
	findWorkspaces,
	type Workspace,
} from '../resources/workspaces/store.ts';
import {isSlug} from './workspace-paths.ts';

// Identifies who sends a request by the session cookie.

/**
 * Over https, the cookie is limited to this host and to encrypted connections. Over http, which is only for loopback,
 * browsers would not accept such a cookie.
 */
const cookieName = ({protocol}: FastifyRequest): string => (protocol === 'https' ? '__Host-mailctl' : 'mailctl');

export async function readSignedIn(sessions: Sessions, request: FastifyRequest): Promise<SignedIn | null> {
	const token = request.cookies[cookieName(request)];
	return token === undefined ? null : await sessions.find(token);
}

/** Holds the secret from which the tokens of a browser's forms are derived. */
export const csrfCookie = 'mailctl_csrf';
/** A notice that the next page shows once. */
export const noticeCookie = 'mailctl_notice';
const ownCookies: ReadonlySet<string> = new Set(['__Host-mailctl', 'mailctl', csrfCookie, noticeCookie]);

/**
 * Removes cookies of other programs from a request, because decoding one may throw and 16 KiB of headers hold thousands
 * of them.
 */
export function dropForeignCookies({raw: {headers}}: FastifyRequest, _reply: FastifyReply, done: () => void): void {
	const cookies = headers.cookie?.split(';').filter(cookie => ownCookies.has(cookie.split('=', 1)[0]?.trim() ?? ''));
	headers.cookie = cookies?.join(';');
	done();
}

/** Returns the text that binds form tokens to a session. It must not be empty, even on sign-in forms. */
export const formOwner = (visitor: {readonly signedIn: SignedIn} | null): string =>
	visitor?.signedIn.sessionId ?? 'nobody';

/** The options of cookies: scripts cannot read them, and requests from other sites do not include them. */
export const cookieOptions = ({protocol}: FastifyRequest) =>
	({path: '/', httpOnly: true, sameSite: 'strict', secure: protocol === 'https'}) as const;

export function setSession(request: FastifyRequest, reply: FastifyReply, token: string | null): void {
	const name = cookieName(request);
	if (token === null) {
		reply.clearCookie(name, cookieOptions(request));
	} else {
		reply.setCookie(name, token, cookieOptions(request));
	}
}

/** The maximum number of workspaces in the switcher, which is on each page. There may be thousands. */
export const maxOffered = 50;

/**
 * Returns the newest workspaces that a user may see (one more than are offered, if there are more), and the one that
 * they visited last, or `null` if they may see none.
 */
export async function readWorkspaces(
	reader: Knex,
	{user, workspaceId}: SignedIn,
): Promise<{readonly workspaces: readonly Workspace[]; readonly workspace: Workspace | null}> {
	if (user.workspaceId !== null) {
		const own = await findWorkspace(reader, user.workspaceId);
		return {workspaces: own ? [own] : [], workspace: own ?? null};
	}
	const workspaces = await findWorkspaces(reader, {after: null, limit: maxOffered + 1});
	const selected =
		workspaces.find(({id}) => id === workspaceId) ?? (workspaceId && (await findWorkspace(reader, workspaceId)));
	// A user first sees the oldest workspace, which the first start created.
	return {workspaces, workspace: selected || ((await findOldestWorkspace(reader)) ?? null)};
}

/** Returns the workspace that a path names, if it exists and the user may see it. */
export async function findInPath(reader: Knex, {user}: SignedIn, text: string): Promise<Workspace | undefined> {
	const found = isSlug(text)
		? await findWorkspaceByName(reader, text)
		: /^\w{1,80}$/.test(text) && (await findWorkspace(reader, text));
	return found && [null, found.id].includes(user.workspaceId) ? found : undefined;
}
