import type {Readable} from 'node:stream';
import type {FastifyRequest} from 'fastify';
import {type Html, html} from '../hosted/html.ts';
import type {ActTools, Role} from '../mail/operator.ts';
import type {OperationHead} from '../resources/operation.ts';
import type {SignedIn} from '../resources/users/sessions.ts';
import type {Workspace} from '../resources/workspaces/store.ts';
import type {Place} from './places.ts';

/** A page of the dashboard, or the target of a form. `mount.ts` serves and guards all of them. */
export type Route = {
	readonly method: 'GET' | 'POST';
	/** The path in Fastify's syntax; ids are parameters. */
	readonly path: string;
	/** The lowest role that may request it. */
	readonly role: Role;
	/** Restricts it to users of all workspaces, because it concerns the whole installation. */
	readonly everywhere?: true;
	/** Whether its path names no workspace, because it shows or changes nothing in one. */
	readonly withoutWorkspace?: true;
	/** Requires that the user signed in or re-authenticated within the last minutes. */
	readonly fresh?: true;
	/** Whether it accepts a form with a file (multipart/form-data). */
	readonly file?: true;
	/** The operation that its form performs. */
	readonly operation?: OperationHead;
	readonly answer: (visit: Visit) => Promise<Answer>;
};

/** A request that the visitor is allowed to make. */
export type Visit = {
	readonly params: Readonly<Record<string, string>>;
	readonly query: URLSearchParams;
	/** The submitted form; empty with GET. */
	readonly form: URLSearchParams;
	/** The file of a form, if the route accepts one and the user chose it. */
	readonly file: {readonly name: string; readonly content: Buffer} | null;
	readonly signedIn: SignedIn;
	/** The workspace that the path names. Rows of other workspaces must not be visible. */
	readonly workspace: Workspace;
	/** The newest workspaces that the user may see (`readWorkspaces`). */
	readonly workspaces: readonly Workspace[];
	readonly may: (role: Role) => boolean;
	/** Whether the user may see all workspaces, and so change the installation. */
	readonly everywhere: boolean;
	/** The current time, in milliseconds. */
	readonly now: number;
	/** The tools of an operation, with this user as the actor in the audit trail. */
	readonly tools: ActTools;
	/** The request, for what depends on the connection, such as streams. */
	readonly request: FastifyRequest;
};

/** A page that requires no login. It is served to everyone, so it must not show anything from the store. */
export type OpenRoute = Pick<Route, 'method' | 'path'> & {readonly answer: (knock: OpenVisit) => Promise<OpenAnswer>};

/** A request that requires no login. */
export type OpenVisit = Pick<Visit, 'params' | 'query' | 'form' | 'now' | 'request'> & {
	/** Who is signed in already, if anyone. */
	readonly signedIn: SignedIn | null;
};

/** An answer that may start a session (`session` is its token), or end the current one (`null`). */
export type OpenAnswer = Answer & {readonly session?: string | null};

/** The answer to a visit. */
export type Answer = Page | Redirect | Content | Missing;

export type Page = {
	readonly kind: 'page';
	/** Defaults to 200, or 422 if there is a problem. */
	readonly status?: number;
	/** The page that the navigation marks as current, if any. */
	readonly place: Place | null;
	/** The title of the browser's tab and the heading of the page. */
	readonly title: string;
	/** Shown beside the heading: what the visitor can do here. */
	readonly actions?: Html;
	/** The error and how to fix it; shown above the content. */
	readonly problem?: string | null;
	/** With 429 and 503: after how many seconds to retry. */
	readonly retryAfter?: number;
	readonly content: Html;
	/** Whether it has charts (charts.ts), so that their scripts are loaded. */
	readonly charts?: true;
};

/** A redirect to a page (303) after a form was processed. The page shows the notice. */
type Redirect = {
	readonly kind: 'go';
	readonly to: string;
	readonly notice?: string;
	/** The workspace of the page, if it is not the current one. */
	readonly workspace?: Workspace;
};

/** A response that is not a page: a download, a message in a frame, or a stream. */
export type Content = {
	readonly kind: 'content';
	readonly type: string;
	readonly body: string | Buffer | Readable;
	/** The file name of a download. Without it, the browser shows the content. */
	readonly saveAs?: string;
	readonly headers?: Readonly<Record<string, string>>;
	/** Defaults to 200. */
	readonly status?: number;
	/** The Content-Security-Policy. Defaults to `default-src 'none'`. */
	readonly policy?: string;
};

/** The object does not exist or belongs to another workspace, which get the same response. */
export type Missing = {readonly kind: 'missing'; readonly what: string};

/** Returns the route of a page that everyone with access to the workspace may see. */
export const page = (path: string, answer: Route['answer']): Route => ({method: 'GET', path, role: 'viewer', answer});

/** Marks routes whose paths name no workspace. */
export const withoutWorkspace = (routes: readonly Route[]): readonly Route[] =>
	routes.map(route => ({...route, withoutWorkspace: true}));

export const go = (to: string, notice?: string): Redirect => ({
	kind: 'go',
	to,
	...(notice !== undefined && {notice}),
});
export const notAllowed = (why: string): Page => ({
	kind: 'page',
	status: 403,
	place: null,
	title: 'Not allowed',
	content: html`<p>${why}</p>`,
});
export const missing = (what: string): Missing => ({kind: 'missing', what});
