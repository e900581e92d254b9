import Type from 'typebox';
import {eventTypes} from '../../mail/event.ts';
import {recipientStates} from '../../mail/recipient-state.ts';

const time = Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'});

/** The answer to a send that was taken. */
export const acceptedView = Type.Object({id: Type.String(), status: Type.Enum(['accepted'])});

/** A message as it is read (interface.md, Message, read view). */
export const messageSchema = Type.Object({
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
	created_at: time,
	updated_at: time,
});

/** An entry of the timeline (interface.md, Message event). */
export const eventSchema = Type.Object({
	id: Type.String(),
	type: Type.Enum([...eventTypes]),
	occurred_at: time,
	recorded_at: time,
	detail: Type.Object({}, {description: 'What is known besides: recipient, role, SMTP reply, reason, URL …'}),
});

/** A page of a list. */
export function pageOf(item: Type.TSchema) {
	return Type.Object({data: Type.Array(item), next_cursor: Type.Union([Type.String(), Type.Null()])});
}
