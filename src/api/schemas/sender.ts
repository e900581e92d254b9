import {time} from './time.ts';
import {Type} from './type.ts';

/** The body of an addition. */
export const senderBody = Type.Object(
	{
		address: Type.String({
			format: 'email',
			description: 'A bare address. Its domain is made, with signing keys, if the workspace does not have it.',
		}),
		name: Type.Optional(
			Type.String({format: 'label', description: 'The display name of `From`, 1 to 200 characters.'}),
		),
	},
	{additionalProperties: false, examples: [{address: 'no-reply@shop.example', name: 'Shop'}]},
);

export const senderSchema = Type.Object(
	{
		id: Type.String(),
		address: Type.String(),
		name: Type.Union([Type.String(), Type.Null()]),
		verified: Type.Boolean({description: 'Its domain is verified, or an operator said so. Needed for sends.'}),
		active: Type.Boolean({description: 'False: an operator switched it off.'}),
		created_at: time,
	},
	{
		examples: [
			{
				id: 'snd_01kaxq7w0c8m2v5t9d3f6h1j4n',
				address: 'no-reply@shop.example',
				name: 'Shop',
				verified: false,
				active: true,
				created_at: '2026-06-09T10:15:30+00:00',
			},
		],
	},
);
