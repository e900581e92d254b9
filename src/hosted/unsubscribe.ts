import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import {type Api, isPlain, type Routes, refuseOtherBodies} from '../api/api-parts.ts';
import {describe} from '../api/describe.ts';
import {apiError, formExpected} from '../api/errors.ts';
import {createFailureLimit} from '../api/rate-limit.ts';
import type {Clock} from '../kit/clock.ts';
import {splitParts} from '../kit/multipart.ts';
import {utf8Text} from '../kit/text.ts';
import {storeTime} from '../kit/time.ts';
import type {Links} from '../links/links.ts';
import type {Claims} from '../links/tokens.ts';
import {parseAddress} from '../mail/address.ts';
import {Type} from '../mail/type.ts';
import {
	changes,
	type OptOutAction,
	readStatus,
	type SubscriptionStatus,
	type Unsubscription,
} from '../outcome/unsubscribe.ts';
import {findLinked} from '../store/messages.ts';
import {findContactLocale} from '../store/topics.ts';
import {findOnlyWorkspace, findWorkspace} from '../store/workspaces.ts';
import {type Brand, brandOf, type Icon, noticePage, type Page, sendPage} from './branded-page.ts';
import {type Html, html, nameMarkup, plainName} from './html.ts';
import {chooseTexts} from './language.ts';
import type {Texts} from './texts/wording.ts';

/** The fields of a form that count here; absent ones are null. What else it has is of no interest. */
type Form = {
	readonly token: string | null;
	readonly action: string | null;
};

const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/** A longer body is no form of ours, nor a one-click request. */
const formLimit = 8 * 1024;

/**
 * Reads a submitted form of one of `formTypes`; the first of fields of one name counts. One that cannot be read counts as
 * empty: what a mail provider posts says no more than the URL that it posts to (RFC 8058 §3.1), and must unsubscribe
 * however it spells that.
 */
export function readForm(body: Uint8Array, contentType: string): Form {
	if (!/^\s*multipart\//i.test(contentType)) {
		const fields = new URLSearchParams(utf8Text(body));
		return {token: fields.get('token'), action: fields.get('action')};
	}
	const fields = readMultipart(body, contentType) ?? [];
	const textOf = (name: string) => {
		const field = fields.find(one => one.name === name);
		// A file is no text: it counts as a text that fits nothing.
		return field === undefined ? null : (field.value ?? '');
	};
	return {token: textOf('token'), action: textOf('action')};
}

/** A field of a form; one that came as a file has no value. */
type Field = {readonly name: string; readonly value: string | null};

/**
 * The fields of a multipart/form-data body (RFC 7578), in their order; null if the type names no boundary. Reads what HTTP
 * clients and hand-written requests send: any boundary that is in use, also one that occurs in a value; a preamble; names
 * without quotes; further header fields; lines that end in LF only. The platform's parser refuses each of these.
 */
export function readMultipart(body: Uint8Array, contentType: string): Field[] | null {
	const boundary = parameterOf(contentType, 'boundary');
	if (boundary === undefined || boundary === '') {
		return null;
	}
	// A part without an end was cut off on its way.
	const parts = splitParts(Buffer.from(body), boundary, {unclosed: false});
	return parts.flatMap(part => fieldOf(part.toString().split('\n')) ?? []);
}

function fieldOf(lines: readonly string[]): Field | undefined {
	const empty = lines.findIndex(line => line === '' || line === '\r');
	const head = empty === -1 ? [] : lines.slice(0, empty);
	const disposition = head.find(line => /^content-disposition:/i.test(line));
	const name = disposition && parameterOf(disposition, 'name');
	if (disposition === undefined || name === undefined) {
		return undefined;
	}
	const isFile = parameterOf(disposition, 'filename') !== undefined;
	// The line end before a delimiter belongs to the delimiter.
	const value = lines
		.slice(empty + 1)
		.join('\n')
		.replace(/\r$/, '');
	return {name, value: isFile ? null : value};
}

function parameterOf(header: string, name: string): string | undefined {
	const [, quoted, plain] = new RegExp(`;[ \\t]*${name}=(?:"([^"]*)"|([^;\\s"]+))`, 'i').exec(header) ?? [];
	return quoted ?? plain;
}

const mostForged = {requests: 120, windowMs: 60_000};

type UnsubscribeRoutesOptions = {
	readonly links: Pick<Links, 'openUnsubscribe'>;
	readonly reader: Knex;
	/** Resolves when the change is on stable storage. */
	readonly unsubscribe: (item: Unsubscription) => Promise<SubscriptionStatus>;
	readonly clock: Clock;
	readonly random: (size: number) => Buffer;
};

/** The hosted unsubscribe page, and the one-click action of RFC 8058. What GET and HEAD answer changes nothing. */
export function unsubscribeRoutes({links, reader, unsubscribe, clock, random}: UnsubscribeRoutesOptions): Routes {
	const failForged = createFailureLimit(clock, () => mostForged);

	async function answer(request: FastifyRequest, form: Form | null): Promise<Page> {
		const acceptLanguage = request.headers['accept-language'];
		const token = tokenOf(request.query) ?? form?.token ?? '';
		const opened = links.openUnsubscribe(token, clock.now());
		const linked = opened.ok || opened.fault === 'expired' ? linkedRecipient(opened.claims) : null;
		const workspace = linked && (await findWorkspace(reader, linked.workspaceId));
		if (!linked || !workspace) {
			return await forgedPage(request.ip, acceptLanguage);
		}

		const message = await findLinked(reader, linked.workspaceId, linked.messageId);
		const contactLocale = await findContactLocale(reader, [linked.workspaceId, linked.addressKey]);
		const preferred = [message?.locale, contactLocale];
		const texts = chooseTexts({preferred, acceptLanguage, fallback: workspace.locale});
		const brand = brandOf(workspace, message?.from);
		if (!opened.ok) {
			return noticePage('expired', 410, texts, brand);
		}
		const action = form && actionOf(form);
		if (action === undefined) {
			return noticePage('unclear', 400, texts, brand);
		}
		let status = await readStatus(reader, linked);
		// What changes nothing need not wait for the one that writes: a link may be posted to as often as anyone likes.
		if (form && action && changes(status, action)) {
			const via = form.action === null ? 'one-click' : 'page';
			status = await unsubscribe({...linked, action, via, at: storeTime(clock.now())});
		}
		return unsubscribePage({texts, brand, address: linked.address, token, action, status});
	}

	/** The workspace of the link is not known, unless there is only one. */
	async function forgedPage(ip: string, acceptLanguage: string | undefined): Promise<Page> {
		if (failForged(ip) !== null) {
			return noticePage('tooMany', 429, chooseTexts({preferred: [], acceptLanguage, fallback: null}), null);
		}
		const workspace = await findOnlyWorkspace(reader);
		const texts = chooseTexts({preferred: [], acceptLanguage, fallback: workspace?.locale});
		const brand = workspace && workspace.branding !== null ? brandOf(workspace, undefined) : null;
		return noticePage('forged', 400, texts, brand);
	}

	function send(reply: FastifyReply, page: Page): FastifyReply {
		return sendPage(page.status === 429 ? reply.header('retry-after', '60') : reply, random, page);
	}

	return api => {
		api.register(async scope => {
			acceptForms(scope);
			// Every request is answered by a page; the schemas only describe.
			scope.setValidatorCompiler(() => () => true);

			scope.get('/unsubscribe', {schema: showSchema}, async (request, reply) =>
				send(reply, await answer(request, null)),
			);

			scope.post('/unsubscribe', {schema: actSchema}, async (request, reply) => {
				const {bytes, type} = (request.body as Submitted | undefined) ?? {bytes: new Uint8Array(), type: ''};
				return send(reply, await answer(request, readForm(bytes, type)));
			});
		});
	};
}

const token = Type.String({description: 'The signed token from the link.'});
const pages = {
	400: 'The token is forged or missing.',
	410: 'The token has expired.',
	429: 'Too many forged tokens from this client.',
};
const showSchema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Show the unsubscribe page',
		description: 'Where the unsubscribe link of a mail leads to. Changes nothing.',
		answer: [
			200,
			'What the recipient can do, with the branding of the workspace and in the language of the recipient.',
			null,
		],
		pages,
	}),
	querystring: Type.Object({token}),
};
const actSchema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Unsubscribe with one click',
		description: [
			'The action of RFC 8058, posted by mail programs and by the page itself. The token stands in the query or in the form.',
			'Opts the recipient out of the topic of the mail, or of everything where it has none.',
			'Unknown fields are ignored, and so is an empty body.',
		].join(' '),
		answer: [200, 'The choice as it is now, as a page; repeating the request changes nothing.', null],
		pages: {...pages, 400: 'The token is forged or missing, or the action does not exist.'},
	}),
	querystring: Type.Object({token: Type.Optional(token)}),
	body: Type.Object(
		{
			token: Type.Optional(token),
			action: Type.Optional(
				Type.Enum(['topic', 'all', 'undo'], {
					description:
						'`topic`: out of the topic of the mail (the default); `all`: of everything; `undo`: takes back what this page did.',
				}),
			),
			'List-Unsubscribe': Type.Optional(Type.String({description: '`One-Click`, as mail programs post it.'})),
		},
		{examples: [{'List-Unsubscribe': 'One-Click'}]},
	),
	consumes: [...formTypes],
};

type Submitted = {readonly bytes: Uint8Array; readonly type: string};

function acceptForms(api: Api): void {
	api.removeAllContentTypeParsers();
	api.addContentTypeParser([...formTypes], {parseAs: 'buffer', bodyLimit: formLimit}, (request, bytes, done) => {
		const type = request.headers['content-type'] ?? '';
		if (isPlain(request)) {
			done(null, {bytes: bytes as Buffer, type} satisfies Submitted);
		} else {
			done(apiError('unsupported_media_type', {message: formExpected}));
		}
	});
	refuseOtherBodies(api, formExpected);
}

/** A token that is given twice is invalid. */
function tokenOf(query: unknown): string | null {
	const token = (query as {token?: unknown}).token;
	return token === undefined ? null : typeof token === 'string' ? token : '';
}

function linkedRecipient(claims: Claims): Omit<Unsubscription, 'action' | 'via' | 'at'> | null {
	const {workspaceId, messageId, topicId, role, address} = claims;
	const parsed = parseAddress(address, {utf8Local: true});
	return parsed.ok ? {workspaceId, messageId, topicId, role, address, addressKey: parsed.address.key} : null;
}

/** Undefined: not one of the topics. */
function actionOf({action}: Form): OptOutAction | undefined {
	if (action === null) {
		return 'topic';
	}
	return action === 'topic' || action === 'all' || action === 'undo' ? action : undefined;
}

/** What the page is about. */
type Subject = {
	readonly texts: Texts;
	readonly brand: Brand;
	/** The recipient's address: it is he who reads the page. */
	readonly address: string;
	/** Goes back with the page's own form. */
	readonly token: string;
	/** What the recipient, or his mail program, has just asked for; null: he only looks. */
	readonly action: OptOutAction | null;
	/** What holds now. */
	readonly status: SubscriptionStatus;
};

/** The page of a link that works: what can be done, or what was done and how to take it back. */
function unsubscribePage(subject: Subject): Page {
	const {texts, brand, status, action} = subject;
	const view = viewOf(subject);
	return {
		status: 200,
		texts,
		brand,
		icon: view.icon,
		title: view.title,
		content: html`<p>${view.text}</p>
${status.isTest && action !== null ? html`<p class="soft">${texts.testMessage}</p>` : null}
${view.buttons && form(subject, view.buttons)}`,
	};
}

type View = {readonly icon: Icon; readonly title: string; readonly text: Html; readonly buttons: Html | null};

function viewOf(subject: Subject): View {
	const {status, action} = subject;
	// The links of a test message change nothing: its page shows what would be.
	const isOut = status.isTest && (action === 'topic' || action === 'all');
	if (status.all !== null || (isOut && (action === 'all' || status.topic === null))) {
		return outOfAll(subject, status.all !== 'other');
	}
	if (status.topic !== null && (status.topic.block !== null || isOut)) {
		return outOfTopic(subject, status.topic);
	}
	return action === 'undo' ? undone(subject) : confirm(subject);
}

function confirm({texts, brand, address, status: {topic}}: Subject): View {
	const [who, sender] = [addressMarkup(address), nameMarkup(brand.name)];
	return topic === null
		? {
				icon: 'letter',
				title: texts.confirmAll.title(plainName(brand.name)),
				text: html`${texts.confirmAll.text(who)} ${texts.allMeans}`,
				buttons: section(button('main', 'all', texts.unsubscribe)),
			}
		: topic.isRequired
			? {
					icon: 'letter',
					title: texts.required.title(plainName(topic.name)),
					text: html`${topic.description && html`${nameMarkup(topic.description)}<br>`}${texts.required.text(who, sender)}`,
					buttons: section(html`${button('main', 'topic', texts.required.stopOthers)}${everything(texts)}`),
				}
			: {
					icon: 'letter',
					title: texts.confirmTopic.title(plainName(topic.name)),
					text: texts.confirmTopic.text(who, sender),
					buttons: section(html`${button('main', 'topic', texts.unsubscribeTopic)}${everything(texts)}`),
				};
}

function outOfAll({texts, brand, address, action, status}: Subject, byPage: boolean): View {
	const title = action === null || action === 'undo' ? texts.already : texts.done;
	return {
		icon: 'done',
		title: byPage ? title : texts.blocked,
		text: texts.allIsOff(addressMarkup(address), nameMarkup(brand.name)),
		buttons: status.all === 'page' ? undo(texts) : null,
	};
}

function outOfTopic({texts, brand, address, action}: Subject, topic: NonNullable<SubscriptionStatus['topic']>): View {
	const [who, sender, name] = [addressMarkup(address), nameMarkup(brand.name), nameMarkup(topic.name)];
	return {
		icon: 'done',
		title: action === null || action === 'undo' ? texts.already : texts.done,
		text: topic.isRequired ? texts.required.othersAreOff(who, sender, name) : texts.topicIsOff(who, sender, name),
		buttons: html`${topic.block === 'page' ? undo(texts) : null}${section(everything(texts))}`,
	};
}

function undone({texts, brand, address, status}: Subject): View {
	const again = status.topic === null ? 'all' : 'topic';
	return {
		icon: 'done',
		title: texts.undone.title,
		text: texts.undone.text(addressMarkup(address), nameMarkup(brand.name)),
		buttons: section(button('other', again, status.topic?.isRequired ? texts.required.stopOthers : texts.unsubscribe)),
	};
}

/** Posts back to where the page came from: behind a proxy only the browser knows where that is. */
function form({token}: Subject, buttons: Html): Html {
	return html`<form method="post">
<input type="hidden" name="token" value="${token}">
${buttons}</form>`;
}

function button(kind: 'main' | 'other', action: OptOutAction, label: string): Html {
	return html`<button class="${kind}" name="action" value="${action}">${label}</button>\n`;
}

/** Choices that belong together. */
function section(content: Html): Html {
	return html`<section>\n${content}</section>\n`;
}

function undo(texts: Texts): Html {
	return section(html`<p>${texts.undo.question}</p>\n${button('other', 'undo', texts.undo.button)}`);
}

function everything(texts: Texts): Html {
	return html`${button('other', 'all', texts.unsubscribeAll)}\n<p class="soft">${texts.everythingMeans}</p>\n`;
}

function addressMarkup(address: string): Html {
	return html`<bdi class="address">${plainName(address)}</bdi>`;
}
