import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import type {Sessions, SignedIn} from '../resources/users/sessions.ts';
import {findOldestWorkspace, findWorkspace, findWorkspaces, type Workspace} from '../resources/workspaces/store.ts';

// Who asks, by the cookie of a session.

/**
 * Over https the cookie is for this host alone and never leaves it unencrypted; http is for loopback, where browsers
 * would not take such a cookie.
 */
const cookieName = ({protocol}: FastifyRequest): string => (protocol === 'https' ? '__Host-mailctl' : 'mailctl');

export async function readSignedIn(sessions: Sessions, request: FastifyRequest): Promise<SignedIn | null> {
	const token = request.cookies[cookieName(request)];
	return token === undefined ? null : await sessions.find(token);
}

/** What the tokens of a browser's forms are made of. */
export const csrfCookie = 'mailctl_csrf';
/** A notice that the next page shows once. */
export const noticeCookie = 'mailctl_notice';
const ownCookies: ReadonlySet<string> = new Set(['__Host-mailctl', 'mailctl', csrfCookie, noticeCookie]);

/**
 * Removes cookies of other programs from a request, because decoding one may throw and 16 KiB of headers hold thousands
 * of them.
 */
export function dropForeignCookies({raw: {headers}}: FastifyRequest, _reply: FastifyReply, done: () => void): void {
	const cookies = headers.cookie?.split(';').filter(one => ownCookies.has(one.split('=', 1)[0]?.trim() ?? ''));
	headers.cookie = cookies?.join(';');
	done();
}

/** What ties the tokens of forms to a session. Forms of the log-in have none, but the text may not be empty. */
export const formOwner = (visitor: {readonly signedIn: SignedIn} | null): string =>
	visitor?.signedIn.sessionId ?? 'nobody';

/** Cookies of the dashboard: no script reads them, no other site sends them. */
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

/** As many workspaces as a list to choose from offers. There may be thousands, and each page has such a list. */
export const maxOffered = 50;

/**
 * The newest workspaces that a user may see, one more than are offered if there are more, and the chosen one; null:
 * they may see none.
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
	const chosen =
		workspaces.find(({id}) => id === workspaceId) ?? (workspaceId && (await findWorkspace(reader, workspaceId)));
	// Who has chosen none sees the oldest: the one that the first start made.
	return {workspaces, workspace: chosen || ((await findOldestWorkspace(reader)) ?? null)};
}
