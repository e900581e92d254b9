import {sendBody, sendExample} from './send.ts';
import {Type} from './type.ts';

const strict = {additionalProperties: false} as const;
/** Items of a batch. */
export const mostItems = 100;
const size = {minItems: 1, maxItems: mostItems} as const;

/** The body of a batch. Its items are judged one by one: a bad one is that item's fault. */
export const batchBody = Type.Object({messages: Type.Array(Type.Unknown(), size)}, strict);

/** The same for the description, with what an item should be. */
export const describedBatch = Type.Object(
	{
		messages: Type.Array(sendBody, {
			...size,
			description: 'From 1 to 100 sends, each with the fields of a single one.',
		}),
	},
	{...strict, examples: [{messages: [sendExample, {...sendExample, to: 'gone@example.net'}]}]},
);

const index = Type.Integer({description: 'The position of the item, from 0.'});

const acceptedItem = Type.Object({
	index,
	status: Type.Enum(['accepted']),
	id: Type.String({description: 'Of the message, `msg_…`.'}),
});

const failedItem = Type.Object({
	index,
	status: Type.Enum(['error']),
	error: Type.Object({
		code: Type.String({description: 'As of a single send.'}),
		message: Type.String({description: 'For people; names the first field at fault.'}),
	}),
});

const example = {
	data: [
		{index: 0, status: 'accepted', id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n'},
		{
			index: 1,
			status: 'error',
			error: {code: 'recipient_suppressed', message: 'The recipient is on the suppression list.'},
		},
	],
};

/** What came of a batch: one result per item, in order. */
export const batchResults = Type.Object(
	{data: Type.Array(Type.Union([acceptedItem, failedItem]))},
	{examples: [example]},
);
