import {pick, present} from '../../kit/collections.ts';
import {snakeCase} from '../../kit/text.ts';
import {eventTypes, extraFields, recipientStates} from '../../mail/message.ts';
import {phases} from '../../mail/outcome.ts';
import {Type} from '../../mail/type.ts';
import {sendBody} from '../../send/schema.ts';
import {textOrNull, time} from '../page-schema.ts';

/** The response to an accepted send. */
export const acceptedView = Type.Object(
	{id: Type.String(), status: Type.Enum(['accepted'])},
	{examples: [{id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n', status: 'accepted'}]},
);

const messageExample = {
	id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n',
	status: 'delivered',
	to: 'user@example.org',
	from: 'no-reply@shop.example',
	reply_to: null,
	cc: [],
	attachments: [{filename: 'receipt.pdf', content_type: 'application/pdf'}],
	subject: 'Your receipt 1042',
	template_id: 'tpl_01kaxq7w0c8m2v5t9d3f6h1j4n',
	template_name: 'receipt',
	template_version: 3,
	data: {order: {number: 1042, total: 19.9}},
	metadata: {order_id: '1042'},
	tags: [],
	mode: 'live',
	resent_from: null,
	created_at: '2026-06-09T10:15:30+00:00',
	updated_at: '2026-06-09T10:15:32+00:00',
};

const eventExample = {
	id: 'evt_01kaxq7w0c8m2v5t9d3f6h1j4n',
	type: 'delivered',
	occurred_at: '2026-06-09T10:15:32+00:00',
	recorded_at: '2026-06-09T10:15:32+00:00',
	detail: {recipient: 'user@example.org', role: 'to', attempt: 1, host: 'mx.example.org', code: 250},
};

/** The fields that a message returns as they were in the send. */
const extras = Object.fromEntries(
	extraFields.map(name => {
		const rules = present(pick(sendBody.properties[name] as {type?: string; enum?: string[]}, ['type', 'enum']));
		return [snakeCase(name), Type.Optional({...rules, description: 'Only if the send set it.'})];
	}),
);

/** A message in responses (docs/reference/interface.md, Message). */
export const messageSchema = Type.Object(
	{
		id: Type.String(),
		status: Type.Enum(recipientStates),
		to: Type.String(),
		from: Type.String(),
		reply_to: Type.Union([Type.String(), Type.Null()]),
		cc: Type.Array(Type.String()),
		attachments: Type.Array(Type.Object({filename: Type.String(), content_type: Type.String()})),
		subject: textOrNull('`null` until the message has been rendered.'),
		template_id: Type.String(),
		template_name: Type.String(),
		template_version: Type.Integer(),
		data: Type.Object({}),
		metadata: Type.Record(Type.String(), Type.String()),
		tags: Type.Array(Type.String()),
		mode: Type.Enum(['live', 'test']),
		resent_from: textOrNull('The message that this one resends, or `null`.'),
		...extras,
		headers: Type.Optional(Type.Record(Type.String(), Type.String())),
		send_at: Type.Optional(Type.String({description: 'Only if scheduled: the earliest time to send.'})),
		expires_at: Type.Optional(Type.String({description: 'Only if the message expires: the latest time to send.'})),
		created_at: time,
		updated_at: time,
	},
	{examples: [messageExample]},
);

const eventProperties = {
	id: Type.String(),
	type: Type.Enum([...eventTypes]),
	occurred_at: time,
	recorded_at: time,
	detail: Type.Object({}, {description: 'Depends on the type: recipient, role, SMTP reply, reason, URL …'}),
};

/** An entry of the timeline (docs/reference/interface.md, Message event). */
export const eventSchema = Type.Object(eventProperties, {examples: [eventExample]});

/** An event in the stream: an entry of the timeline with its message. */
export const streamedEventSchema = Type.Object(
	{...eventProperties, message_id: Type.String(), mode: Type.Enum(['live', 'test'])},
	{examples: [{...eventExample, message_id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n', mode: 'live'}]},
);

const role = Type.Enum(['to', 'cc']);

export const recipientSchema = Type.Object(
	{
		id: Type.String(),
		recipient: Type.String({description: 'The address as written in the send.'}),
		role,
		state: Type.Enum(recipientStates, {description: 'That of `to` is the status of the message.'}),
		state_at: time,
		next_attempt_at: textOrNull('When the next attempt is due; `null` if the recipient is no longer in the queue.'),
		last_reply: textOrNull('The last SMTP reply or reason; `null` if there is none yet.'),
	},
	{
		examples: [
			{
				id: 'rcp_01kaxq7w0c8m2v5t9d3f6h1j4n',
				recipient: 'user@example.org',
				role: 'to',
				state: 'queued',
				state_at: '2026-06-09T10:15:30+00:00',
				next_attempt_at: '2026-06-09T10:20:30+00:00',
				last_reply: '451 4.7.1 Try again later',
			},
		],
	},
);

/** A session with a mail server for a recipient. */
export const attemptSchema = Type.Object(
	{
		recipient_id: Type.String(),
		recipient: Type.String(),
		role,
		attempt: Type.Integer({description: 'The number of the attempt that this session belonged to, from 1.'}),
		at: time,
		host: textOrNull('The mail server; `null` if none was found.'),
		tls: textOrNull('Protocol, cipher, and whether the certificate was verified; `null` without TLS.'),
		phase: Type.Enum([...phases], {description: 'The last phase that the session reached.'}),
		code: Type.Union([Type.Integer(), Type.Null()], {description: 'The code of the SMTP reply, or `null`.'}),
		enhanced: textOrNull('The enhanced status code (RFC 3463).'),
		reply: Type.String({description: 'The SMTP reply, or the reason why there was none.'}),
		ms: Type.Integer({description: 'Duration in milliseconds.'}),
	},
	{
		examples: [
			{
				recipient_id: 'rcp_01kaxq7w0c8m2v5t9d3f6h1j4n',
				recipient: 'user@example.org',
				role: 'to',
				attempt: 1,
				at: '2026-06-09T10:15:31+00:00',
				host: 'mx.example.org',
				tls: 'TLSv1.3 TLS_AES_256_GCM_SHA384 unverified',
				phase: 'rcpt',
				code: 451,
				enhanced: '4.7.1',
				reply: '4.7.1 Try again later',
				ms: 120,
			},
		],
	},
);
