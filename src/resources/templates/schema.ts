import type {Static} from 'typebox';
import {Type} from '../../mail/type.ts';
import {time} from '../page-schema.ts';
import {templateSettings} from './rules.ts';

const strict = {additionalProperties: false} as const;
const id = 'tpl_01kaxq7w0c8m2v5t9d3f6h1j4n';
const mjml =
	'<mjml><mj-body><mj-section><mj-column><mj-text>Total: {{ order.total }}</mj-text></mj-column></mj-section></mj-body></mjml>';
const variants = [
	{subject: 'Your receipt {{ order.number }}', mjml},
	{
		locale: 'de',
		subject: 'Ihr Beleg {{ order.number }}',
		html: '<p>{{ order.total }}</p>',
		text: '{{ order.total }}',
	},
];
const textOrNull = Type.Union([Type.String(), Type.Null()]);

/** The maximum number of languages in a version. */
export const maxVariants = 50;

const variantBody = Type.Object(
	{
		locale: Type.Optional(
			Type.String({
				format: 'locale-or-empty',
				description: 'BCP-47 tag. Omitted, `null` or empty for the default variant.',
			}),
		),
		subject: Type.String({format: 'text', description: 'The subject, in Liquid.'}),
		mjml: Type.Optional(Type.String({format: 'text', description: 'The body in MJML and Liquid, or `html`.'})),
		html: Type.Optional(Type.String({format: 'text', description: 'The body in HTML and Liquid, or `mjml`.'})),
		text: Type.Optional(
			Type.String({format: 'text', description: 'The text part, in Liquid. Derived from the HTML if omitted.'}),
		),
	},
	strict,
);

export const versionBody = Type.Object(
	{
		variants: Type.Array(variantBody, {
			minItems: 1,
			maxItems: maxVariants,
			description: `One variant per language, at most ${maxVariants}, each with either \`mjml\` or \`html\`.`,
		}),
		...templateSettings,
		layout: Type.Optional(
			Type.String({description: 'The layout that surrounds the bodies and texts. Omitted or `null` for none.'}),
		),
	},
	{...strict, examples: [{variants}]},
);
export type VersionBody = Static<typeof versionBody>;

export const previewBody = Type.Object(
	{
		data: Type.Optional(
			Type.Object(
				{},
				{variables: true, description: 'Template variables. Defaults to the sample of the version, if any.'},
			),
		),
		locale: Type.Optional(Type.String({format: 'locale-or-empty', description: "The recipient's BCP-47 tag."})),
		timezone: Type.Optional(
			Type.String({format: 'timezone-or-empty', description: 'The time zone of the recipient, an IANA name.'}),
		),
		version: Type.Optional(
			Type.Integer({minimum: 1, maximum: 2 ** 31 - 1, description: 'Its number. Defaults to the latest.'}),
		),
		contentIds: Type.Optional(
			Type.Array(Type.String({format: 'content-id'}), {
				maxItems: 20,
				description: 'The `contentId` of each attachment that a send would have.',
			}),
		),
	},
	{...strict, examples: [{data: {order: {number: '1042', total: '19.90'}}, locale: 'de', timezone: 'Europe/Berlin'}]},
);

export const templateSchema = Type.Object(
	{
		id: Type.String(),
		name: Type.String(),
		latest_version: Type.Union([Type.Integer(), Type.Null()], {
			description: 'The version that sends use; `null` if none has been saved.',
		}),
		topic: Type.Optional(Type.String({description: 'Present only if it is set, like the next two fields.'})),
		priority: Type.Optional(Type.String()),
		sensitive: Type.Optional(Type.Array(Type.String())),
		built_in: Type.Boolean({
			description: '`true` for `tpl_submission`, the built-in template of messages submitted over SMTP.',
		}),
		created_at: time,
		updated_at: time,
	},
	{
		examples: [
			{
				id,
				name: 'receipt',
				latest_version: 3,
				built_in: false,
				created_at: '2026-06-09T10:15:30+00:00',
				updated_at: '2026-06-10T08:00:00+00:00',
			},
		],
	},
);

const version = {
	template_id: Type.String(),
	version: Type.Integer({description: 'The number of the version, from 1.'}),
	created_at: time,
};
const versionExample = {template_id: id, version: 3, created_at: '2026-06-10T08:00:00+00:00'};

/** An item of the list, without the sources: they are read one version at a time. */
export const listedVersionSchema = Type.Object(
	{...version, variants: Type.Array(Type.Object({locale: textOrNull, subject: Type.String()}))},
	{examples: [{...versionExample, variants: variants.map(({locale = null, subject}) => ({locale, subject}))}]},
);

export const versionSchema = Type.Object(
	{
		...version,
		variants: Type.Array(
			Type.Object({
				locale: textOrNull,
				subject: Type.String(),
				mjml: Type.Optional(Type.String()),
				html: Type.Optional(Type.String()),
				text: Type.Union([Type.String(), Type.Null()], {description: '`null` if it is derived from the HTML.'}),
			}),
		),
		sample: Type.Union([Type.Object({}), Type.Null()], {
			description: 'Variables for previews, from the sample.json of `mailctl template push`.',
		}),
		layout: Type.Union([Type.String(), Type.Null()], {description: 'The name of the layout; `null` if none.'}),
	},
	{
		examples: [
			{
				...versionExample,
				variants: variants.map(variant => ({locale: null, text: null, ...variant})),
				sample: {order: {number: '1042', total: '19.90'}},
				layout: null,
			},
		],
	},
);

export const previewSchema = Type.Object(
	{subject: Type.String(), html: Type.String(), text: Type.String()},
	{examples: [{subject: 'Ihr Beleg 1042', html: '<p>19.90</p>', text: '19.90\n'}]},
);

/** A preview of a template with its warnings. */
export const previewedSchema = Type.Object(
	{
		...previewSchema.properties,
		warnings: Type.Optional(
			Type.Array(Type.String(), {description: 'Only if there are any: each `cid:` without an attachment.'}),
		),
	},
	{examples: [{subject: 'Ihr Beleg 1042', html: '<p>19.90</p>', text: '19.90\n'}]},
);
