import {Readable} from 'node:stream';
import type {FastifyReply} from 'fastify';
import type {Knex} from 'knex';
import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import type {Caller} from '../../api/caller.ts';
import {pageQuery} from '../../api/paging.ts';
import {parseQueryTime} from '../../kit/time.ts';
import {apiError} from '../../mail/api-error.ts';
import {isId} from '../../mail/ids.ts';
import {contentView, type Received, receivedView} from '../../mail/received.ts';
import {queryTerms} from '../../mail/terms.ts';
import {Type} from '../../mail/type.ts';
import {queryAddressKey} from '../formats.ts';
import {toTexts} from '../messages/list-api.ts';
import {textOrNull as text, time} from '../page-schema.ts';
import {inboundView} from '../views.ts';
import {addInbound, checkNotOurs, removeInbound, removeReceived} from './rules.ts';
import {findInboundAddress, findReceived, listReceived, openReceivedBytes, pageInboundAddresses} from './store.ts';

const verdict = Type.Object({
	result: Type.String({description: '`pass`, `fail`, `none`, `temperror` … (RFC 8601)'}),
	domain: text('The domain that the result applies to.'),
});
const fields = {
	id: Type.String(),
	from: text('The address in `From`. It can be forged: see `dmarc`.'),
	from_name: text('The display name in `From`.'),
	to: Type.Array(Type.String(), {description: 'The addresses of the workspace that received it.'}),
	subject: Type.String(),
	in_reply_to: text('The message that it replies to, `msg_…`; `null` if none can be verified.'),
	automatic: Type.Boolean({description: 'Whether a program sent it (RFC 3834). Do not reply to such mail.'}),
	spf: verdict,
	dkim: verdict,
	dmarc: verdict,
	attachments: Type.Array(
		Type.Object({
			n: Type.Integer(),
			name: text('As named by its sender.'),
			type: Type.String(),
			size: Type.Integer(),
			content_id: text('The id by which the HTML refers to it, as in `cid:…`.'),
			url: Type.String({description: 'The URL in this API. It requires a key.'}),
		}),
	),
	envelope_from: Type.String({description: 'The envelope sender. Empty for a bounce or another report.'}),
	size: Type.Integer({description: 'The size in octets.'}),
	fault: text('Why it could not be parsed, so that only `raw` has its content; `null` if it was parsed.'),
	received_at: time,
};
const at = '2026-06-09T10:15:30+00:00';
const pass = {result: 'pass', domain: 'example.org'};
const example = {
	id: 'rcv_01kaxq7w0c8m2v5t9d3f6h1j4n',
	from: 'ada@example.org',
	from_name: 'Ada',
	to: ['support@in.shop.example'],
	subject: 'Re: Your order 1042',
	in_reply_to: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n',
	automatic: false,
	spf: pass,
	dkim: pass,
	dmarc: pass,
	attachments: [],
	envelope_from: 'ada@example.org',
	size: 2210,
	fault: null,
	received_at: at,
};
const receivedSchema = Type.Object(fields, {examples: [example]});
const header = Type.Object({name: Type.String(), value: Type.String()});
const mailSchema = Type.Object(
	{
		...fields,
		text: text('At most 262,144 characters, as for `html`; `null` if there is no such part.'),
		html: text('The original HTML. Display it only in a sandbox.'),
		truncated: Type.Boolean({description: 'Whether some of the text, HTML or header fields were left out.'}),
		headers: Type.Array(header, {description: 'In their original order, with names in lower case.'}),
	},
	{examples: [{...example, text: 'Thank you!', html: null, truncated: false, headers: []}]},
);
const inboundSchema = Type.Object(
	{id: Type.String(), address: Type.String({description: '`*@…` for a whole domain.'}), created_at: time},
	{examples: [{id: 'inb_01kaxq7w0c8m2v5t9d3f6h1j4n', address: 'support@in.shop.example', created_at: at}]},
);
const address = (description: string) => Type.Optional(Type.String({format: 'query-recipient-email', description}));
const query = Type.Object(
	{
		...pageQuery.properties,
		to: address('Mail to this address, in the envelope or the header.'),
		from: address('Mail from this address, in the envelope, `From` or `Reply-To`.'),
		subject: Type.Optional(
			Type.String({
				format: 'subject-words',
				description: 'Mail whose subject contains all of these words, at most 10.',
			}),
		),
		in_reply_to: Type.Optional(Type.String({format: 'text', description: 'Replies to this message, `msg_…`.'})),
		since: Type.Optional(Type.String({format: 'time', description: 'Received at this time or later (RFC 3339).'})),
		until: Type.Optional(Type.String({format: 'time', description: 'Received before this time (RFC 3339).'})),
	},
	{additionalProperties: false},
);
const tag = 'Received mail';
const reads = {tag, scope: 'received:read'} as const;

const toView = (mail: Received, {publicUrl}: ApiParts) => receivedView(mail, publicUrl());

const createInboundRoute = operationRoute(addInbound, {
	endpoint: 'POST /v1/inbound',
	tag,
	summary: 'Add an inbound address',
	description: 'An exact address takes precedence over `*@`. Other mail to the domain is rejected.',
	answer: [201, 'The address.', inboundSchema],
	errors: ['conflict', 'unprocessable_entity'],
	check(input, {domains}) {
		const {host, returnPathDomain} = domains.names;
		checkNotOurs((input as {address: string}).address, [host, returnPathDomain]);
	},
	view: inbound => inboundView(inbound),
});

const listInboundRoute = listRoute({
	...reads,
	path: '/v1/inbound',
	name: 'inbound',
	summary: 'List inbound addresses',
	defaultLimit: 100,
	meaning: 'Addresses, newest first.',
	item: inboundSchema,
	find: ({workspaceId}, {reader}) => ({read: part => pageInboundAddresses(reader, workspaceId, part)}),
	view: inbound => inboundView(inbound),
});

const getInboundRoute = apiRoute({
	...reads,
	endpoint: 'GET /v1/inbound/:id',
	id: 'inb',
	summary: 'Get an inbound address',
	answer: [200, 'The address.', inboundSchema],
	async handle({workspaceId, id}, {reader}) {
		return inboundView((await findInboundAddress(reader, workspaceId, id)) ?? missing());
	},
});

const deleteInboundRoute = operationRoute(removeInbound, {
	endpoint: 'DELETE /v1/inbound/:id',
	id: 'inb',
	tag,
	summary: 'Remove an inbound address',
	answer: [204, 'Mail to the address is rejected from now on. Mail already received stays.', null],
});

const listReceivedRoute = listRoute({
	...reads,
	path: '/v1/received',
	name: 'received',
	summary: 'List received messages',
	defaultLimit: 25,
	description:
		'Lists received mail without its content. All given filters must match. With several filters a page may contain fewer items than `limit`, or none, and still have a `next_cursor`.',
	meaning: 'Received mail, newest first.',
	item: receivedSchema,
	query,
	find({caller: {workspaceId, mode}, query}, {reader}) {
		const {to, from, in_reply_to: inReplyTo, subject, since, until} = query;
		const named = toTexts({
			to: to && queryAddressKey(to),
			from: from && queryAddressKey(from),
			re: inReplyTo,
		});
		const terms = Object.entries(named).map(([kind, value]) => `${kind}:${value}`);
		const filter = {
			workspaceId,
			terms: [...terms, ...(queryTerms(subject ?? '') ?? [])],
			since: since === undefined ? undefined : parseQueryTime(since),
			until: until === undefined ? undefined : parseQueryTime(until),
		};
		return {
			filters: {...named, ...toTexts({subject, since, until})},
			scan: async part => (mode === 'live' ? await listReceived(reader, filter, part) : {rows: [], next: null}),
		};
	},
	view: toView,
});

const getReceivedRoute = apiRoute({
	...reads,
	endpoint: 'GET /v1/received/:id',
	id: 'rcv',
	summary: 'Get a received message',
	isLarge: true,
	answer: [200, 'The received mail with its content.', mailSchema],
	async handle({caller, workspaceId, id}, parts) {
		const found = caller.mode === 'live' ? await findReceived(parts.reader, workspaceId, id) : undefined;
		const mail = found ?? missing();
		return {...toView(mail, parts), ...contentView(mail.content)};
	},
});

const downloadReceivedRoute = apiRoute({
	...reads,
	endpoint: 'GET /v1/received/:id/raw',
	id: 'rcv',
	summary: 'Download a received message',
	isLarge: true,
	answer: [200, 'The original mail (RFC 5322).', null],
	media: 'message/rfc822',
	async handle({caller, id, reply}, {reader}) {
		const raw = await openBytes(reader, caller, reply, id);
		reply.type('message/rfc822').headers(saved(`${id}.eml`));
		return raw;
	},
});

const downloadAttachmentRoute = apiRoute({
	...reads,
	endpoint: 'GET /v1/received/:id/attachments/:n',
	summary: 'Download an attachment',
	isLarge: true,
	description: 'Attachments come from strangers and are always sent as downloads, whatever their type.',
	params: Type.Object({
		id: Type.String({description: '`rcv_…`'}),
		n: Type.String({description: 'The index of the attachment, from 0.'}),
	}),
	answer: [200, 'The file.', null],
	media: 'application/octet-stream',
	errors: ['not_found'],
	async handle({caller, id, request, reply}, {reader}) {
		const {n} = request.params as {n: string};
		const content = await openBytes(reader, caller, reply, id, /^(?:0|[1-9]\d{0,3})$/.test(n) ? Number(n) : -1);
		reply.type('application/octet-stream').headers(saved(`${id}-${n}`));
		return content;
	},
});

const deleteReceivedRoute = operationRoute(removeReceived, {
	endpoint: 'DELETE /v1/received/:id',
	id: 'rcv',
	tag,
	summary: 'Delete a received message',
	description: 'Also deletes its webhook deliveries, sent or pending. The same mail is not imported again.',
	answer: [204, 'The received mail was deleted.', null],
});

/** The routes of the addresses at which a workspace receives mail, and of the mail received there. */
export const receivedRoutes: readonly Route[] = [
	createInboundRoute,
	listInboundRoute,
	getInboundRoute,
	deleteInboundRoute,
	listReceivedRoute,
	getReceivedRoute,
	downloadReceivedRoute,
	downloadAttachmentRoute,
	deleteReceivedRoute,
];

function missing(): never {
	throw apiError('not_found');
}

/**
 * Returns the bytes of a received mail or of its attachment `file`. Received mail is always real, so a test key sees
 * none.
 */
async function openBytes(
	reader: Knex,
	{workspaceId, mode}: Caller,
	reply: FastifyReply,
	id: string,
	file?: number,
): Promise<Readable> {
	const isVisible = isId('rcv', id) && mode === 'live';
	const found = isVisible ? await openReceivedBytes(reader, workspaceId, id, file) : undefined;
	const {size, pieces} = found ?? missing();
	reply.header('content-length', size);
	return Readable.from(reply.request.method === 'HEAD' ? [] : pieces, {objectMode: false});
}

/** Headers that make a browser save the response and never display it. */
const saved = (name: string) => ({
	'content-disposition': `attachment; filename="${name}"`,
	'x-content-type-options': 'nosniff',
	'content-security-policy': "default-src 'none'; sandbox",
});
