import {suppressionReasons} from '../../mail/suppression.ts';
import {Type} from './type.ts';

const example = {
	id: 'sup_01kaxq7w0c8m2v5t9d3f6h1j4n',
	recipient: 'gone@example.org',
	reason: 'manual',
	source: 'api',
	mode: 'live',
	created_at: '2026-06-09T10:15:30+00:00',
};

/** An entry of the suppression list (docs/reference/interface.md, Suppression entry). */
export const suppressionSchema = Type.Object(
	{
		id: Type.String(),
		recipient: Type.String({description: 'As it was spelled when it was added.'}),
		reason: Type.Enum([...suppressionReasons]),
		source: Type.String({
			description:
				'`api`, `one-click`, `cli`, `import`, or the id of the message whose bounce or complaint made the entry.',
		}),
		mode: Type.Enum(['live', 'test'], {
			description: '`test`: a test key made it, and it stops mail of test keys alone.',
		}),
		created_at: Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'}),
	},
	{examples: [example]},
);

/** The body of an addition. */
export const suppressionBody = Type.Object(
	{
		recipient: Type.String({
			format: 'recipient-email',
			description: 'A bare address. Upper and lower case, and the spelling of an international domain, do not matter.',
		}),
	},
	{additionalProperties: false, examples: [{recipient: 'gone@example.org'}]},
);
