import {Type} from './type.ts';

const strict = {additionalProperties: false} as const;
const time = Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'});

const contactExample = {
	id: 'con_01kaxq7w0c8m2v5t9d3f6h1j4n',
	email: 'user@example.org',
	locale: 'de-AT',
	timezone: 'Europe/Vienna',
	created_at: '2026-06-09T10:15:30+00:00',
	updated_at: '2026-06-09T10:15:30+00:00',
	topics: ['newsletter'],
	suppressed: false,
};

/** A contact as it is read. */
export const contactSchema = Type.Object(
	{
		id: Type.String(),
		email: Type.String({description: 'The address as the first send spelled it.'}),
		locale: Type.Union([Type.String(), Type.Null()], {description: 'For sends that name no locale.'}),
		timezone: Type.Union([Type.String(), Type.Null()], {description: 'For sends that name no timezone.'}),
		created_at: time,
		updated_at: time,
		topics: Type.Array(Type.String(), {description: 'Codes of the topics that the address opted out of.'}),
		suppressed: Type.Boolean({description: 'Whether the address is on the suppression list.'}),
	},
	{examples: [contactExample]},
);

const cleared = 'Null or an empty text: none; left out: as it is.';

/** What may be changed of a contact. */
export const contactChanges = Type.Object(
	{
		locale: Type.Optional(
			Type.Union([Type.String({format: 'locale'}), Type.Literal(''), Type.Null()], {
				description: `BCP-47 tag, such as \`de-AT\`. ${cleared}`,
			}),
		),
		timezone: Type.Optional(
			Type.Union([Type.String({format: 'timezone'}), Type.Literal(''), Type.Null()], {
				description: `IANA time zone, such as \`Europe/Vienna\`. ${cleared}`,
			}),
		),
	},
	{...strict, examples: [{locale: 'de-AT', timezone: null}]},
);
