import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import type {TSchema} from 'typebox';
import type {Api, Routes} from '../api/api-parts.ts';
import {type Description, describe} from '../api/describe.ts';
import {createFailureLimit, type FailureLimit} from '../api/rate-limit.ts';
import type {Links} from '../compose/links/links.ts';
import type {Claims} from '../compose/links/tokens.ts';
import type {Clock} from '../kit/clock.ts';
import {parseAddress} from '../mail/address.ts';
import {Type} from '../mail/type.ts';
import type {Unsubscription} from '../outcome/unsubscribe.ts';
import {findContactLocale} from '../resources/topics/store.ts';
import {findOnlyWorkspace, findWorkspace} from '../resources/workspaces/store.ts';
import {findMessageOfLink} from '../store/messages.ts';
import {type Brand, noticePage, type Page, sendPage, toBrand} from './branded-page.ts';
import {acceptForms, type Field, type Form, formTypes, readFields, type Submitted, toForm} from './form.ts';
import {type Html, html, plainName} from './html.ts';
import {chooseTexts} from './language.ts';
import type {Texts} from './texts/wording.ts';

const forgedLimit = {requests: 120, windowMs: 60_000};
/** Octets of a form without a token in its URL: it is unauthenticated until its body has been read. */
const unprovenFormLimit = 16 * 1024;

/** A valid link, and the language and branding of its page. */
export type Visit = {
	readonly linked: Omit<Unsubscription, 'action' | 'via' | 'at'>;
	/** Submitted again with the page's own form. */
	readonly token: string;
	readonly texts: Texts;
	readonly brand: Brand;
};

type LinkParts = {
	readonly links: Pick<Links, 'openUnsubscribe'>;
	readonly reader: Knex;
	readonly clock: Clock;
	readonly random: (size: number) => Buffer;
};

type Described = Pick<Description, 'summary' | 'description'> & {readonly meaning: string};

/** A page that links in messages open. */
export type LinkPage = {
	readonly path: `/${string}`;
	/** The maximum size in octets of a form that is posted to the URL of a link. */
	readonly formLimit: number;
	/** The API description of the page, and of the form that it posts. */
	readonly show: Described;
	readonly act: Described & {readonly fields: Readonly<Record<string, TSchema>>; readonly example: object};
	/** `form` is `null` for a request that changes nothing. */
	readonly respond: (visit: Visit, form: Form | null, fields: readonly Field[]) => Promise<Page>;
};

/**
 * Returns a function that creates the routes of a page behind links. All these pages share one limit on forged tokens.
 * GET and HEAD change nothing, because mail scanners follow links.
 */
export function createLinkPages(parts: LinkParts): (page: LinkPage) => Routes {
	const visits = new Visits(parts);
	return page => api => {
		api.register(async scope => addPage(scope, page, visits));
	};
}

function addPage(api: Api, {path, formLimit, show, act, respond}: LinkPage, visits: Visits): void {
	acceptForms(api, ({query}) => (parseToken(query) === null ? Math.min(formLimit, unprovenFormLimit) : formLimit));
	// People get a page for invalid input too, so the schemas only describe the route.
	api.setValidatorCompiler(() => () => true);

	api.get(path, {schema: {...toSchema(show), querystring: Type.Object({token})}}, async (request, reply) =>
		visits.send(reply, await visits.open(request, null, visit => respond(visit, null, []))),
	);

	const onRequest = async (request: FastifyRequest, reply: FastifyReply) => visits.refuseForged(request, reply);
	api.post(path, {schema: toActSchema(act), onRequest}, async (request, reply) => {
		const {bytes, type} = (request.body as Submitted | undefined) ?? {bytes: new Uint8Array(), type: ''};
		const fields = readFields(bytes, type);
		const form = toForm(fields);
		return visits.send(reply, await visits.open(request, form, visit => respond(visit, form, fields)));
	});
}

/** Verifies the links that requests come from, and sends their pages. */
class Visits {
	readonly #parts: LinkParts;
	readonly #countForged: FailureLimit;

	constructor(parts: LinkParts) {
		this.#parts = parts;
		this.#countForged = createFailureLimit(parts.clock, () => forgedLimit);
	}

	/** Returns the page for a valid link from `respond`, and a notice for a forged or expired one. */
	async open(request: FastifyRequest, form: Form | null, respond: (visit: Visit) => Promise<Page>): Promise<Page> {
		const {reader} = this.#parts;
		const token = parseToken(request.query) ?? form?.token ?? '';
		const opened = this.#verify(token);
		const workspace = opened && (await findWorkspace(reader, opened.linked.workspaceId));
		if (!opened || !workspace) {
			return await this.#forgedPage(request);
		}
		const {linked, isExpired} = opened;
		const acceptLanguage = request.headers['accept-language'];

		const message = await findMessageOfLink(reader, linked.workspaceId, linked.messageId);
		const contactLocale = await findContactLocale(reader, [linked.workspaceId, linked.addressKey]);
		const preferred = [message?.locale, contactLocale];
		const texts = chooseTexts({preferred, acceptLanguage, fallback: workspace.locale});
		const brand = toBrand(workspace, message?.from);
		return isExpired ? noticePage('expired', 410, texts, brand) : await respond({linked, token, texts, brand});
	}

	/** Runs before the body is read. Refuses a forged token in the URL, and a client that sent too many of them. */
	async refuseForged(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
		const token = parseToken(request.query);
		const isRefused = token === null ? this.#countForged(request.ip, 0) !== null : this.#verify(token) === null;
		return isRefused ? this.send(reply, await this.#forgedPage(request)) : undefined;
	}

	send(reply: FastifyReply, page: Page): FastifyReply {
		return sendPage(page.status === 429 ? reply.header('retry-after', '60') : reply, this.#parts.random, page);
	}

	/** Returns `null` if the token is forged. */
	#verify(token: string): {readonly linked: Visit['linked']; readonly isExpired: boolean} | null {
		const {links, clock} = this.#parts;
		const opened = links.openUnsubscribe(token, clock.now());
		const linked = opened.ok || opened.fault === 'expired' ? linkedRecipient(opened.claims) : null;
		return linked && {linked, isExpired: !opened.ok};
	}

	/** A forged link does not identify a workspace, so its page has branding only if there is just one workspace. */
	async #forgedPage({ip, headers}: FastifyRequest): Promise<Page> {
		const acceptLanguage = headers['accept-language'];
		if (this.#countForged(ip) !== null) {
			return noticePage('tooMany', 429, chooseTexts({preferred: [], acceptLanguage, fallback: null}), null);
		}
		const workspace = await findOnlyWorkspace(this.#parts.reader);
		const texts = chooseTexts({preferred: [], acceptLanguage, fallback: workspace?.locale});
		const brand = workspace && workspace.branding !== null ? toBrand(workspace, undefined) : null;
		return noticePage('forged', 400, texts, brand);
	}
}

const token = Type.String({description: 'The signed token from the link.'});
/** The responses to links that do not work. */
const linkProblems = {
	400: 'The token is forged or missing.',
	410: 'The token has expired.',
	429: 'Too many forged tokens from this client.',
};

function toSchema({meaning, ...page}: Described, pages = linkProblems) {
	return describe({tag: 'Hosted pages', ...page, answer: [200, meaning, null], pages});
}

function toActSchema({fields, example, ...page}: LinkPage['act']) {
	return {
		...toSchema(page, {...linkProblems, 400: 'The token is forged or missing, or the action does not exist.'}),
		querystring: Type.Object({token: Type.Optional(token)}),
		body: Type.Object({token: Type.Optional(token), ...fields}, {examples: [example]}),
		consumes: [...formTypes],
	};
}

/** Returns `null` if the URL has no token. A repeated token is invalid. */
function parseToken(query: unknown): string | null {
	const token = (query as {token?: unknown}).token;
	return token === undefined ? null : typeof token === 'string' ? token : '';
}

function linkedRecipient(claims: Claims): Omit<Unsubscription, 'action' | 'via' | 'at'> | null {
	const {workspaceId, messageId, topicId, role, address} = claims;
	const parsed = parseAddress(address, {allowsUtf8Local: true});
	return parsed.ok ? {workspaceId, messageId, topicId, role, address, addressKey: parsed.address.key} : null;
}

/** Posts to the URL of the page itself: behind a proxy, only the browser knows what it is. */
export function postForm(token: string, content: Html): Html {
	return html`<form method="post">
<input type="hidden" name="token" value="${token}">
${content}</form>`;
}

export function button(kind: 'main' | 'other', action: string, label: string): Html {
	return html`<button class="${kind}" name="action" value="${action}">${label}</button>\n`;
}

/** Groups controls that belong together. */
export function section(content: Html): Html {
	return html`<section>\n${content}</section>\n`;
}

export function addressMarkup(address: string): Html {
	return html`<bdi class="address">${plainName(address)}</bdi>`;
}
