import type {Knex} from 'knex';
import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import {requireCaller} from '../../api/auth.ts';
import {type Caller, requireVisibleMessage, visibleMode} from '../../api/caller.ts';
import {describe} from '../../api/describe.ts';
import {noQuery} from '../../api/paging.ts';
import {limitSends, readIdempotencyKey, readSend, respondToSend, sendErrors} from '../../api/read-send.ts';
import {replyTargetNotFound, toThreadedReply} from '../../api/thread-of.ts';
import {toBuffer} from '../../kit/text.ts';
import {apiError, bodyMissing, unavailable} from '../../mail/api-error.ts';
import {sendBodyLimit} from '../../mail/attachment-limits.ts';
import {readSendAt, sendAtRule} from '../../mail/schedule.ts';
import {Type} from '../../mail/type.ts';
import {resendIdempotency, toIdempotency} from '../../send/draft.ts';
import {type SendBody, sendBody, sendHeaders} from '../../send/schema.ts';
import {readResend} from '../../send/send.ts';
import {findMessage, type StoredMessage} from '../../store/messages.ts';
import {listRecipients, pageAttempts} from '../../store/recipients.ts';
import {readEvents} from '../../store/timeline.ts';
import {csvColumns} from '../csv-lists.ts';
import {queryAddressKey} from '../formats.ts';
import {idParams} from '../page-schema.ts';
import {previewSchema} from '../templates/schema.ts';
import {checkBody, compileCheck, emptyBody, maxViolations, optionalBody} from '../validate.ts';
import {attemptView, eventView, messageView, recipientView} from '../views.ts';
import {cancelMessage, rescheduleMessage} from './rules.ts';
import {acceptedView, attemptSchema, eventSchema, messageSchema, recipientSchema} from './schema.ts';

const sendSchema = {
	...describe({
		tag: 'Messages',
		summary: 'Send a message',
		description:
			'If several checks fail, the first one in this order determines the error: rate limit, fields, `Idempotency-Key`, pause, template, sender, suppression list, topic, opt-out, quota. A refused send is not stored. If the quota is exceeded, the `RateLimit` headers describe the monthly quota.',
		answer: [202, 'The message is on stable storage and will be delivered.', acceptedView],
		errors: sendErrors,
	}),
	headers: sendHeaders,
	querystring: noQuery,
	body: sendBody,
};

const checkQuery = compileCheck(noQuery);

export const sendMessageRoute: Route = parts => api => {
	const {auth, accept, limits, vault, tools, mayAccept} = parts;
	const {clock} = tools;
	api.post(
		'/v1/messages',
		{
			onRequest: [auth.needs('messages:send'), limitSends(limits, clock)],
			bodyLimit: sendBodyLimit(),
			config: {maxBodyLength: ({attachments}) => sendBodyLimit(attachments)},
			schema: sendSchema,
			// The schemas only describe the API here. The handler validates the body itself, in the documented order of
			// checks.
			validatorCompiler: () => () => true,
		},
		async (request, reply) => {
			if (!mayAccept()) {
				throw unavailable();
			}
			if (request.body === undefined || request.body === null) {
				throw bodyMissing();
			}
			const key = readIdempotencyKey(request.headers['idempotency-key']);
			const caller = requireCaller(request);
			const read = readSend(request.body, caller, clock.now());
			const queryViolations = checkQuery(request.query);
			if (queryViolations.length > 0) {
				const violations = [...queryViolations, ...(read.ok ? [] : (read.violations ?? []))];
				throw apiError('validation_failed', {violations: violations.slice(0, maxViolations)});
			}
			if (!read.ok) {
				throw apiError(read.code, read);
			}
			const body = request.body as SendBody;
			const send = await toThreadedReply(parts, caller, body, read.send);
			if (send === null) {
				throw apiError('validation_failed', {violations: [replyTargetNotFound]});
			}
			const idempotency = key === null ? null : toIdempotency(vault, key, body);
			return respondToSend(reply, await accept.single(send, idempotency), clock.now());
		},
	);
};

export const messageRoute = apiRoute({
	endpoint: 'GET /v1/messages/:id',
	isLarge: true,
	scope: 'messages:read',
	id: 'msg',
	missing: 'message_not_found',
	tag: 'Messages',
	summary: 'Get a message',
	answer: [200, 'The message.', messageSchema],
	async handle({caller, workspaceId, id}, {reader}) {
		const message = await findMessage(reader, workspaceId, id);
		if (!message || message.mode !== (visibleMode(caller) ?? message.mode)) {
			throw apiError('message_not_found');
		}
		return messageView(message);
	},
});

/** The options that all lists of one message share. */
const listOfMessage = {
	scope: 'messages:read',
	id: 'msg',
	tag: 'Messages',
	defaultLimit: 100,
	errors: ['message_not_found'],
} as const;

export const messageEventsRoute = listRoute({
	...listOfMessage,
	path: '/v1/messages/:id/events',
	name: 'message_events',
	summary: "Get a message's timeline",
	meaning: 'Events, oldest first.',
	item: eventSchema,
	find: ({caller, id}, {reader}) => ({
		filters: {message: id},
		async read(part) {
			await requireVisibleMessage(reader, caller, id);
			return await readEvents(reader, id, part);
		},
	}),
	view: event => eventView(event),
	csv: csvColumns.timeline,
});

const recipientQuery = Type.Object(
	{
		recipient: Type.Optional(
			Type.String({format: 'query-recipient-email', description: 'One of the recipients. Defaults to `to`.'}),
		),
	},
	{additionalProperties: false},
);

const contentOptions = {
	isLarge: true,
	scope: 'messages:read',
	id: 'msg',
	missing: 'message_not_found',
	tag: 'Messages',
	query: recipientQuery,
	errors: ['unprocessable_entity', 'content_removed'],
} as const;

const getContentRoute = apiRoute({
	...contentOptions,
	endpoint: 'GET /v1/messages/:id/content',
	summary: "Get a message's content",
	description:
		'The subject, HTML and text that the template renders for this recipient. Links are not rewritten for tracking.',
	answer: [200, 'The content.', previewSchema],
	async handle({caller, id, query}, parts) {
		const recipientId = await findRecipientId(parts, caller, id, query.recipient);
		return (await rerender(parts, caller, recipientId)).content;
	},
});

const downloadMessageRoute = apiRoute({
	...contentOptions,
	endpoint: 'GET /v1/messages/:id/raw',
	summary: 'Download a message',
	description:
		'The complete message with its headers. In capture mode it is the captured one. Otherwise it is rendered again, with signatures and link tokens that differ from those that were sent. Messages of test keys are not signed.',
	answer: [200, 'The message (RFC 5322).', null],
	media: 'message/rfc822',
	async handle({caller, id, query, reply}, parts) {
		const recipientId = await findRecipientId(parts, caller, id, query.recipient);
		const mail =
			(await parts.messageContent.captured(recipientId)) ?? (await rerender(parts, caller, recipientId)).mail;
		reply.type('message/rfc822').header('content-disposition', `attachment; filename="${id}.eml"`);
		return toBuffer(mail);
	},
});

/** The routes of a message's content. */
export const messageContentRoutes: readonly Route[] = [getContentRoute, downloadMessageRoute];

/** Returns the id of the requested recipient. */
async function findRecipientId(
	{reader}: ApiParts,
	caller: Caller,
	id: string,
	address: string | undefined,
): Promise<string> {
	const {erasedAt, isEmptied} = await requireVisibleMessage(reader, caller, id);
	if (isEmptied) {
		throw apiError('content_removed', {
			message: 'The content of the message was removed because its retention period has ended.',
		});
	}
	if (erasedAt !== null) {
		throw apiError('unprocessable_entity', {message: 'The content of the message was erased.'});
	}
	const recipients = await listRecipients(reader, caller.workspaceId, id);
	const key = address === undefined ? undefined : queryAddressKey(address);
	const recipient = recipients.find(row => key === undefined || queryAddressKey(row.address) === key);
	if (!recipient) {
		const message = 'must be a recipient of this message';
		throw apiError('validation_failed', {violations: [{field: 'recipient', message}]});
	}
	return recipient.id;
}

async function rerender({messageContent, work}: ApiParts, {workspaceId}: Caller, recipientId: string) {
	const rendered = await work.messageRenders(workspaceId, () => messageContent.rerender(workspaceId, recipientId));
	if (rendered === 'no_sender' || !rendered.ok) {
		const reason = rendered === 'no_sender' ? 'its sender was removed' : rendered.message;
		throw apiError('unprocessable_entity', {message: `The message cannot be rendered again: ${reason}.`});
	}
	return rendered;
}

const listRecipientsRoute = listRoute({
	...listOfMessage,
	path: '/v1/messages/:id/recipients',
	name: 'message_recipients',
	summary: "List a message's recipients",
	description: 'One for each address, `to` first. Each recipient has its own state and attempts.',
	meaning: 'Recipients.',
	item: recipientSchema,
	find: ({caller, id}, {reader}) => ({
		filters: {message: id},
		async read({after, limit}) {
			const recipients = await readRecipients(reader, caller, id);
			const start = after === null ? 0 : recipients.findIndex(recipient => recipient.id === after) + 1;
			return recipients.slice(start, start + limit);
		},
	}),
	view: recipient => recipientView(recipient),
});

const listAttemptsRoute = listRoute({
	...listOfMessage,
	path: '/v1/messages/:id/attempts',
	name: 'message_attempts',
	summary: "List a message's attempts",
	description:
		'All sessions with mail servers, grouped by recipient and in order. One attempt may contact several mail servers and then has several entries.',
	meaning: 'Attempts with the SMTP replies.',
	item: attemptSchema,
	find: ({caller, id}, {reader}) => ({
		filters: {message: id},
		read: async part => await pageAttempts(reader, await readRecipients(reader, caller, id), part),
	}),
	view: attempt => attemptView(attempt),
});

/** The routes of a message's recipients and of their delivery attempts. */
export const messageRecipientRoutes: readonly Route[] = [listRecipientsRoute, listAttemptsRoute];

async function readRecipients(reader: Knex, caller: Caller, id: string) {
	await requireVisibleMessage(reader, caller, id);
	return await listRecipients(reader, caller.workspaceId, id);
}

/** The options of the routes that change a message before its first attempt. */
const changeOptions = {
	id: 'msg',
	missing: 'message_not_found',
	tag: 'Messages',
	answer: [200, 'The message as it is now.', messageSchema],
	view: (message: StoredMessage) => messageView(message),
} as const;

const cancelMessageRoute = operationRoute(cancelMessage, {
	...changeOptions,
	endpoint: 'POST /v1/messages/:id/cancel',
	isBodyOptional: true,
	summary: 'Cancel a message',
	description:
		'Cancels the message, scheduled or not, for all its recipients, unless its first attempt has begun. It becomes `errored`, and its event has the reason `cancelled`. The body may be omitted.',
	errors: ['not_cancellable'],
});

const rescheduleMessageRoute = operationRoute(rescheduleMessage, {
	...changeOptions,
	endpoint: 'PATCH /v1/messages/:id',
	summary: 'Reschedule a message',
	description:
		'Changes the time at which the message, scheduled or not, is sent, unless its first attempt has begun.',
	errors: ['not_cancellable', 'validation_failed', 'unprocessable_entity'],
	check(input, {tools}) {
		const {sendAt} = input as {readonly sendAt: string};
		if (readSendAt(sendAt, tools.clock.now()) === undefined) {
			throw apiError('validation_failed', {violations: [{field: 'sendAt', message: sendAtRule}]});
		}
	},
});

/** The routes that cancel and reschedule messages before their first attempt. */
export const waitingMessageRoutes: readonly Route[] = [cancelMessageRoute, rescheduleMessageRoute];

const resendSchema = {
	...describe({
		tag: 'Messages',
		summary: 'Resend a message',
		description:
			'Sends a new message with the same recipients and variables, in the mode of the original (`live` or `test`) and with the latest version of its template. It goes through all checks of a send, counts against the same rate limit and quota, and accepts an `Idempotency-Key`. The contact is not updated. The body may be omitted.',
		answer: [202, 'The new message is on stable storage and will be delivered.', acceptedView],
		errors: [
			'message_not_found',
			'unprocessable_entity',
			'content_removed',
			...sendErrors.filter(code => code !== 'template_required'),
		],
	}),
	headers: sendHeaders,
	querystring: noQuery,
	params: idParams('msg'),
	body: emptyBody,
};

export const resendMessageRoute: Route = parts => api => {
	const {auth, reader, accept, limits, vault, tools, mayAccept} = parts;
	const {clock} = tools;
	api.post<{Params: {id: string}}>(
		'/v1/messages/:id/resend',
		{
			onRequest: [auth.needs('messages:send'), limitSends(limits, clock)],
			schema: resendSchema,
			// `readIdempotencyKey` validates the header.
			validatorCompiler: route => (route.httpPart === 'headers' ? () => true : optionalBody(route)),
		},
		async (request, reply) => {
			if (!mayAccept()) {
				throw unavailable();
			}
			checkBody(request);
			const key = readIdempotencyKey(request.headers['idempotency-key']);
			const {id} = request.params;
			const caller = requireCaller(request);
			await requireVisibleMessage(reader, caller, id);
			const send = await readResend(reader, caller.workspaceId, id);
			if (send === undefined) {
				throw apiError('message_not_found');
			}
			if (send === 'erased') {
				throw apiError('unprocessable_entity', {message: 'The content of the message was erased.'});
			}
			if (send === 'removed') {
				throw apiError('content_removed');
			}
			const idempotency = key === null ? null : resendIdempotency(vault, key, id);
			return respondToSend(reply, await accept.single(send, idempotency), clock.now());
		},
	);
};
