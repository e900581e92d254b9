import {Type} from './type.ts';

const example = {
	id: 'usg_01kaxq7w0c8m2v5t9d3f6h1j4n',
	code: 'newsletter',
	name: 'Monthly newsletter',
	created_at: '2026-06-09T10:15:30+00:00',
};

/** A topic (docs/reference/interface.md, Subscription topic). */
export const topicSchema = Type.Object(
	{
		id: Type.String(),
		code: Type.String({description: 'What sends name as `unsubscribeGroup`.'}),
		name: Type.String(),
		created_at: Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'}),
	},
	{examples: [example]},
);

/** The body of an addition. */
export const topicBody = Type.Object(
	{
		code: Type.String({
			format: 'topic-code',
			description: '1 to 64 letters, digits, hyphens and underscores; unique within the workspace.',
		}),
		name: Type.String({
			format: 'label',
			description: '1 to 200 characters; recipients see it on the unsubscribe page.',
		}),
	},
	{additionalProperties: false, examples: [{code: example.code, name: example.name}]},
);
