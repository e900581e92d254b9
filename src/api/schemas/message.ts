import {eventTypes, priorities, recipientStates} from '../../mail/message.ts';
import {phases} from '../../mail/outcome.ts';
import {Type} from '../../mail/type.ts';
import {textOrNull, time} from './page.ts';

/** The answer to a send that was taken. */
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

/** A message as it is read (docs/reference/interface.md, Message). */
export const messageSchema = Type.Object(
	{
		id: Type.String(),
		status: Type.Enum(recipientStates),
		to: Type.String(),
		from: Type.String(),
		reply_to: Type.Union([Type.String(), Type.Null()]),
		cc: Type.Array(Type.String()),
		attachments: Type.Array(Type.Object({filename: Type.String(), content_type: Type.String()})),
		subject: textOrNull('Null until the message was rendered.'),
		template_id: Type.String(),
		template_name: Type.String(),
		template_version: Type.Integer(),
		data: Type.Object({}),
		metadata: Type.Record(Type.String(), Type.String()),
		tags: Type.Array(Type.String()),
		mode: Type.Enum(['live', 'test']),
		resent_from: textOrNull('The message that this one repeats.'),
		priority: Type.Optional(Type.Enum([...priorities], {description: 'Only where the send named one.'})),
		to_name: Type.Optional(Type.String({description: 'Only where it was set, as the next three.'})),
		reply_to_name: Type.Optional(Type.String()),
		reply_tracking: Type.Optional(Type.Boolean()),
		headers: Type.Optional(Type.Record(Type.String(), Type.String())),
		send_at: Type.Optional(Type.String({description: 'Only of a mail that was scheduled: not before then.'})),
		expires_at: Type.Optional(Type.String({description: 'Only of a mail that expires: not after then.'})),
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
	detail: Type.Object({}, {description: 'What is known besides: recipient, role, SMTP reply, reason, URL …'}),
};

/** An entry of the timeline (docs/reference/interface.md, Message event). */
export const eventSchema = Type.Object(eventProperties, {examples: [eventExample]});

/** An event in the stream: that entry, with its message. */
export const streamedEventSchema = Type.Object(
	{...eventProperties, message_id: Type.String(), mode: Type.Enum(['live', 'test'])},
	{examples: [{...eventExample, message_id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n', mode: 'live'}]},
);

const role = Type.Enum(['to', 'cc']);

/** A recipient of a message. */
export const recipientSchema = Type.Object(
	{
		id: Type.String(),
		recipient: Type.String({description: 'The address, as the send spelled it.'}),
		role,
		state: Type.Enum(recipientStates, {description: 'That of `to` is the status of the message.'}),
		state_at: time,
		next_attempt_at: textOrNull('When it is tried next; null: it is not in the queue any more.'),
		last_reply: textOrNull('What was said of it last; null: nothing yet.'),
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

/** A conversation with a host about a recipient. */
export const attemptSchema = Type.Object(
	{
		recipient_id: Type.String(),
		recipient: Type.String(),
		role,
		attempt: Type.Integer({description: 'Which try it was part of, from 1.'}),
		at: time,
		host: textOrNull('With whom; null: no host was found.'),
		tls: textOrNull('Protocol, cipher, and whether the certificate was verified; null: no TLS.'),
		phase: Type.Enum([...phases], {description: 'How far it came.'}),
		code: Type.Union([Type.Integer(), Type.Null()], {description: 'Of the SMTP reply; null: none came.'}),
		enhanced: textOrNull('The enhanced status code (RFC 3463).'),
		reply: Type.String({description: 'The SMTP reply, or why there was none.'}),
		ms: Type.Integer({description: 'How long it took, milliseconds.'}),
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
