import Type, {type Static} from 'typebox';

const strict = {additionalProperties: false} as const;

const attachment = Type.Object(
	{
		filename: Type.String({format: 'filename', maxLength: 255}),
		contentType: Type.String({format: 'media-type'}),
		content: Type.String({format: 'base64-file', contentEncoding: 'base64'}),
	},
	strict,
);

const tracking = Type.Object({opens: Type.Optional(Type.Boolean()), clicks: Type.Optional(Type.Boolean())}, strict);

/** The body of a send (interface.md, Message, send request); `null` for an optional field means that it is absent. */
export const sendBody = Type.Object(
	{
		from: Type.String({format: 'email'}),
		to: Type.String({format: 'recipient-email'}),
		templateId: Type.String({minLength: 1}),
		data: Type.Optional(Type.Object({}, {variables: true})),
		replyTo: Type.Optional(Type.String({format: 'email'})),
		cc: Type.Optional(Type.Array(Type.String({format: 'email'}), {maxItems: 25})),
		metadata: Type.Optional(
			Type.Object(
				{},
				{
					maxProperties: 50,
					propertyNames: Type.String({format: 'metadata-key'}),
					additionalProperties: Type.String({format: 'text', maxLength: 500}),
				},
			),
		),
		unsubscribeGroup: Type.Optional(Type.String({minLength: 1})),
		locale: Type.Optional(Type.String({format: 'locale'})),
		timezone: Type.Optional(Type.String({format: 'timezone'})),
		attachments: Type.Optional(Type.Array(attachment, {maxItems: 3})),
		tags: Type.Optional(Type.Array(Type.String({format: 'text', minLength: 1, maxLength: 64}), {maxItems: 10})),
		tracking: Type.Optional(tracking),
	},
	strict,
);

export type SendBody = Static<typeof sendBody>;
