import Type from 'typebox';
import {sendBody} from './send.ts';

const strict = {additionalProperties: false} as const;
const mostItems = 100;
const size = {minItems: 1, maxItems: mostItems} as const;

/** The body of a batch. Its items are judged one by one: a bad one is that item's fault. */
export const batchBody = Type.Object({messages: Type.Array(Type.Unknown(), size)}, strict);

/** The same for the description, with what an item should be. */
export const describedBatch = Type.Object({messages: Type.Array(sendBody, size)}, strict);

/** What came of a batch: one result per item, in order. */
export const batchResults = Type.Object({
	data: Type.Array(
		Type.Union([
			Type.Object({
				index: Type.Integer({description: 'The position of the item, from 0.'}),
				status: Type.Enum(['accepted']),
				id: Type.String({description: 'Of the message, `msg_…`.'}),
			}),
			Type.Object({
				index: Type.Integer({description: 'The position of the item, from 0.'}),
				status: Type.Enum(['error']),
				error: Type.Object({
					code: Type.String({description: 'As of a single send.'}),
					message: Type.String({description: 'For people; names the first field at fault.'}),
				}),
			}),
		]),
	),
});
