import {eventTypes} from '../../mail/event.ts';
import {recipientStates} from '../../mail/recipient-state.ts';
import {Type} from './type.ts';

const time = Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'});

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
		subject: Type.Union([Type.String(), Type.Null()], {description: 'Null until the message was rendered.'}),
		template_id: Type.String(),
		template_name: Type.String(),
		template_version: Type.Integer(),
		data: Type.Object({}),
		metadata: Type.Record(Type.String(), Type.String()),
		tags: Type.Array(Type.String()),
		mode: Type.Enum(['live', 'test']),
		resent_from: Type.Union([Type.String(), Type.Null()], {
			description: 'The message that this one repeats, by `mailctl message resend`.',
		}),
		created_at: time,
		updated_at: time,
	},
	{examples: [messageExample]},
);

/** An entry of the timeline (docs/reference/interface.md, Message event). */
export const eventSchema = Type.Object(
	{
		id: Type.String(),
		type: Type.Enum([...eventTypes]),
		occurred_at: time,
		recorded_at: time,
		detail: Type.Object({}, {description: 'What is known besides: recipient, role, SMTP reply, reason, URL …'}),
	},
	{examples: [eventExample]},
);
