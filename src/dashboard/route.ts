import type {Readable} from 'node:stream';
import type {FastifyRequest} from 'fastify';
import {type Html, html} from '../hosted/html.ts';
import type {ActTools, Role} from '../mail/operator.ts';
import type {OperationHead} from '../resources/operation.ts';
import type {SignedIn} from '../resources/users/sessions.ts';
import type {Workspace} from '../resources/workspaces/store.ts';
import type {Place} from './places.ts';

/** A page of the dashboard or what one of its forms does: one row of the table that `mount.ts` serves and guards. */
export type Route = {
	readonly method: 'GET' | 'POST';
	/** As Fastify reads it; ids are parameters. */
	readonly path: string;
	/** The least role that may ask for it. */
	readonly role: Role;
	/** Only for users of all workspaces: what is shown or changed is the installation's. */
	readonly everywhere?: true;
	/** Is there before the first workspace is. */
	readonly withoutWorkspace?: true;
	/** Wants a log-in or re-authentication of the last minutes. */
	readonly fresh?: true;
	/** Takes a form with a file (multipart/form-data). */
	readonly file?: true;
	/** The operation that its form performs. */
	readonly operation?: OperationHead;
	readonly answer: (visit: Visit) => Promise<Answer>;
};

/** A request that the visitor may make. */
export type Visit = {
	readonly params: Readonly<Record<string, string>>;
	readonly query: URLSearchParams;
	/** What a form sent; empty with GET. */
	readonly form: URLSearchParams;
	/** The file of a form, where the route takes one and it was chosen. */
	readonly file: {readonly name: string; readonly content: Buffer} | null;
	readonly signedIn: SignedIn;
	/** The one that is looked at. Rows of others do not exist here. */
	readonly workspace: Workspace;
	/** The newest of those that the user may look at (`readWorkspaces`). */
	readonly workspaces: readonly Workspace[];
	readonly may: (role: Role) => boolean;
	/** A user of all workspaces, who may do what is the installation's. */
	readonly everywhere: boolean;
	/** Milliseconds. */
	readonly now: number;
	/** For workflows that change something: the audit trail says that it was this user. */
	readonly tools: ActTools;
	/** For facts about the connection: a stream ends with it. */
	readonly request: FastifyRequest;
};

/** A page for those who are not logged in. It is served to everybody, so it shows nothing of the store. */
export type OpenRoute = Pick<Route, 'method' | 'path'> & {readonly answer: (knock: Knock) => Promise<OpenAnswer>};

/** A request that needs no log-in. */
export type Knock = Pick<Visit, 'params' | 'query' | 'form' | 'now' | 'request'> & {
	/** Who is logged in already, if anybody is. */
	readonly signedIn: SignedIn | null;
};

/** `session`: the token of the session that begins here; null: the one that there was is over. */
export type OpenAnswer = Answer & {readonly session?: string | null};

/** The answer to a visit. */
export type Answer = Page | Redirect | Content | Missing;

export type Page = {
	readonly kind: 'page';
	/** Absent: 200, or 422 if there is a problem. */
	readonly status?: number;
	/** Where the navigation says one is; null: nowhere in it. */
	readonly place: Place | null;
	/** Of the browser's tab and the page's heading. */
	readonly title: string;
	/** Beside the heading: what the visitor can do here. */
	readonly actions?: Html;
	/** What was wrong and how to fix it; shown above the content. */
	readonly problem?: string | null;
	/** With 429 and 503: when it is worth another try, seconds. */
	readonly retryAfter?: number;
	readonly content: Html;
	/** It has charts (charts.ts): the files that draw them are loaded. */
	readonly charts?: true;
};

/** After a form did its work: back to a page (303), which says what was done. */
type Redirect = {readonly kind: 'go'; readonly to: string; readonly notice?: string};

/** What is no page: a download, a mail to be shown in a frame, a stream. */
export type Content = {
	readonly kind: 'content';
	readonly type: string;
	readonly body: string | Buffer | Readable;
	/** The name to be saved by; absent: the browser shows it. */
	readonly saveAs?: string;
	readonly headers?: Readonly<Record<string, string>>;
	/** Absent: 200. */
	readonly status?: number;
	/** Its Content-Security-Policy; absent: `default-src 'none'`. */
	readonly policy?: string;
};

/** It does not exist, or belongs to another workspace: the answer is the same. */
export type Missing = {readonly kind: 'missing'; readonly what: string};

/** A page that everybody who may see the workspace may see. */
export const page = (path: string, answer: Route['answer']): Route => ({method: 'GET', path, role: 'viewer', answer});

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
