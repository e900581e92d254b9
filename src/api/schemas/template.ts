import type {Static} from 'typebox';
import {Type} from '../../mail/type.ts';
import {templateSettings} from '../../ops/templates.ts';
import {time} from './page.ts';

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

export const templateBody = Type.Object(
	{
		name: Type.String({
			format: 'label',
			description: 'For people, unique in the workspace: 1 to 200 characters on one line.',
		}),
		id: Type.Optional(
			Type.String({
				format: 'template-id',
				description:
					'The id to send with, unique in the workspace: `tpl_` and 1 to 64 letters, digits, hyphens and underscores. Left out: a new one.',
			}),
		),
		...templateSettings,
	},
	{...strict, examples: [{name: 'receipt', id: 'tpl_receipt'}]},
);

/** Most languages of one version. */
export const maxVariants = 50;

const variantBody = Type.Object(
	{
		locale: Type.Optional(
			Type.String({
				format: 'locale-or-empty',
				description: 'BCP-47 tag; left out, null or empty: the default variant.',
			}),
		),
		subject: Type.String({format: 'text', description: 'Liquid.'}),
		mjml: Type.Optional(Type.String({format: 'text', description: 'The body as MJML with Liquid; or `html`.'})),
		html: Type.Optional(Type.String({format: 'text', description: 'The body as html with Liquid; or `mjml`.'})),
		text: Type.Optional(
			Type.String({format: 'text', description: 'The text part, Liquid; left out: made from the html.'}),
		),
	},
	strict,
);

export const versionBody = Type.Object(
	{
		variants: Type.Array(variantBody, {
			minItems: 1,
			maxItems: maxVariants,
			description: `One for each language, at most ${maxVariants}, each with either \`mjml\` or \`html\`.`,
		}),
		...templateSettings,
		layout: Type.Optional(
			Type.String({description: 'The layout that bodies and texts are put into; left out or null: none.'}),
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
				{variables: true, description: "Variables; left out: the version's sample, if it has one."},
			),
		),
		locale: Type.Optional(Type.String({format: 'locale-or-empty', description: 'Of the recipient, a BCP-47 tag.'})),
		timezone: Type.Optional(
			Type.String({format: 'timezone-or-empty', description: 'Of the recipient, an IANA name.'}),
		),
		version: Type.Optional(
			Type.Integer({minimum: 1, maximum: 2 ** 31 - 1, description: 'Its number; left out: the newest.'}),
		),
		contentIds: Type.Optional(
			Type.Array(Type.String({format: 'content-id'}), {
				maxItems: 20,
				description: 'The `contentId`s of the attachments that a send would have.',
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
			description: 'The version that sends use; null: none was saved.',
		}),
		topic: Type.Optional(Type.String({description: 'Only where it is set, as the two that follow.'})),
		priority: Type.Optional(Type.String()),
		sensitive: Type.Optional(Type.Array(Type.String())),
		built_in: Type.Boolean({
			description: 'The template `tpl_submission`, which mail submitted by SMTP has; nobody made it.',
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
	version: Type.Integer({description: 'Counted from 1.'}),
	created_at: time,
};
const versionExample = {template_id: id, version: 3, created_at: '2026-06-10T08:00:00+00:00'};

/** An item of the list: the sources are read version by version. */
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
				text: Type.Union([Type.String(), Type.Null()], {description: 'Null: it is made from the html.'}),
			}),
		),
		sample: Type.Union([Type.Object({}), Type.Null()], {
			description: 'Variables for previews, from the sample.json of `mailctl template push`.',
		}),
		layout: Type.Union([Type.String(), Type.Null()], {description: 'Its name; null: none.'}),
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

/** A preview of a template, with what is doubtful of it. */
export const previewedSchema = Type.Object(
	{
		...previewSchema.properties,
		warnings: Type.Optional(
			Type.Array(Type.String(), {description: 'Only where there are some: each `cid:` that no attachment has.'}),
		),
	},
	{examples: [{subject: 'Ihr Beleg 1042', html: '<p>19.90</p>', text: '19.90\n'}]},
);
