import type {Static} from 'typebox';
import {maskPasswords} from '../../config/parsers.ts';
import {defaultAttachments, maxAttachments} from '../../mail/attachment-limits.ts';
import {readBranding, validAccent, validLogoUrl} from '../../mail/branding.ts';
import {Type} from '../../mail/type.ts';
import {defaultLimits, type LimitName, limitNames, limitWords, maxPublicTopics} from '../../mail/workspace-limits.ts';
import {field, optionalOrNull} from '../fields.ts';
import {canonicalLocale} from '../formats.ts';
import type {InputOf} from '../operation.ts';
import type {Workspace} from './store.ts';

// The settings of a workspace, each defined once: the options of `mailctl workspace`, the settings form and the documents
// of `mailctl apply` follow from this file. Their order is that of the JSON.

const maxNumber = 2_000_000_000;
const days = optionalOrNull(Type.Integer({minimum: 1, maximum: 36_500}));

const branding = {
	name: field(optionalOrNull(Type.String({format: 'label'})), {
		label: 'Brand name',
		option: 'brand-name',
		description: 'Name for recipients, on its hosted pages.',
	}),
	logo_url: field(optionalOrNull(Type.String({format: 'logo-url'})), {
		label: 'Brand logo',
		option: 'brand-logo <url>',
		description: 'Logo on its hosted pages, an https URL.',
		normalize: validLogoUrl,
	}),
	accent: field(optionalOrNull(Type.String({format: 'accent'})), {
		label: 'Brand color',
		option: 'brand-color <#rrggbb>',
		description: 'Accent color of its hosted pages, such as #0a7d4f.',
		normalize: validAccent,
	}),
	support_email: field(optionalOrNull(Type.String({format: 'email'})), {
		label: 'Support address',
		option: 'brand-support <address>',
		description: 'Address for questions of recipients.',
	}),
};

const settings = {
	locale: field(optionalOrNull(Type.String({format: 'locale'})), {
		label: 'Language',
		option: 'locale <tag>',
		description: 'Default language, such as de-AT, if neither the send nor the contact sets one.',
		normalize: canonicalLocale,
	}),
	timezone: field(optionalOrNull(Type.String({format: 'timezone'})), {
		label: 'Time zone',
		option: 'timezone <zone>',
		description: 'Default time zone, such as Europe/Vienna, if neither the send nor the contact sets one.',
	}),
	monthly_quota: field(optionalOrNull(Type.Integer({minimum: 0, maximum: maxNumber})), {
		description: 'Messages accepted per calendar month.',
		everywhere: true,
	}),
	queue_lifetime: field(optionalOrNull(Type.Integer({minimum: 0, maximum: maxNumber})), {
		description: 'How long delivery is attempted, such as 36h.',
		unit: 'seconds',
		default: 'that of the installation',
	}),
	source_pool: field(optionalOrNull(Type.String({maxLength: 2000})), {
		option: 'pool <name>',
		description: 'Pool of MAILCTL_SOURCE_POOLS to send from.',
		default: 'all addresses',
		withoutForm: 'only the operator knows the addresses of the machine',
	}),
	/** An export masks its passwords as `***`. */
	route: field(optionalOrNull(Type.String({maxLength: 2000, format: 'route'})), {
		description: 'mx, relay or URLs of relays; - reads it from standard input.',
		default: 'MAILCTL_DELIVERY',
		withoutForm: 'it may contain the password of a relay',
	}),
	default_topic: field(optionalOrNull(Type.String({format: 'topic-code'})), {
		option: 'default-topic <code>',
		description: 'Topic of sends that set none.',
	}),
	retention_days: field(days, {
		label: 'Message retention (days)',
		description: 'How many days its messages are retained.',
	}),
	content_days: field(days, {
		label: 'Content retention (days)',
		description: 'How many days their content is retained: variables, subject, attachments.',
	}),
	max_attachments: field(optionalOrNull(Type.Integer({minimum: 0, maximum: maxAttachments.max})), {
		label: 'Attachments per send',
		description: 'Maximum number of attachments per send.',
		default: `${defaultAttachments.max}`,
		everywhere: true,
	}),
	max_attachment_bytes: field(optionalOrNull(Type.Integer({minimum: 1, maximum: maxAttachments.bytes})), {
		label: 'Attachment size',
		option: 'max-attachment-size',
		description: 'Maximum size of an attachment, such as 10MiB.',
		unit: 'octets',
		default: '1MiB',
		everywhere: true,
	}),
	track_opens: field(Type.Optional(Type.Boolean()), {description: 'Whether opens are recorded.'}),
	track_clicks: field(Type.Optional(Type.Boolean()), {description: 'Whether clicks are recorded.'}),
	branding: Type.Optional(Type.Object(branding, {additionalProperties: false})),
};

/** The highest limit that an operator can set. It is bounded because some lists are read as a whole. */
const maxLimit = 100_000;

const limit = (name: LimitName) =>
	field(optionalOrNull(Type.Integer({minimum: 0, maximum: name === 'public_topics' ? maxPublicTopics : maxLimit})), {
		option: `max-${name.replaceAll('_', '-')}`,
		description: `Maximum number of ${limitWords(name)}.`,
		default: defaultLimits[name].toLocaleString('en'),
		withoutForm: 'only an operator of the installation changes limits',
	});
const limits = Object.fromEntries(limitNames.map(name => [name, limit(name)])) as Record<
	LimitName,
	ReturnType<typeof limit>
>;

/** The settings that a document declares. */
export const settingsSchema = Type.Object(settings, {additionalProperties: false});

/** The input that creates or changes a workspace. `null` resets a setting to its default. */
export const workspaceInput = Type.Object({
	name: field(Type.String({format: 'label'}), {description: 'Name of the workspace, unique.'}),
	...settings,
	limits: Type.Optional(Type.Object(limits)),
});
export type WorkspaceFields = InputOf<typeof workspaceInput>;

/** The input that pauses a workspace. */
export const pauseInput = Type.Object({
	reason: field(Type.String({format: 'label'}), {
		description: 'The reason, shown with the workspace and to callers of the API.',
	}),
});

/** All settings of a workspace. */
export type Settings = Readonly<Required<Static<typeof settingsSchema>>>;

/** Returns the settings of a workspace as documents, forms and `--json` show them, with masked passwords. */
export function toSettings(row: Workspace): Settings {
	return {
		locale: row.locale,
		timezone: row.timezone,
		monthly_quota: row.monthly_quota,
		queue_lifetime: row.queue_lifetime_s,
		source_pool: row.source_pool,
		route: row.route && maskPasswords(row.route),
		default_topic: row.default_topic,
		retention_days: row.retention_days,
		content_days: row.content_days,
		max_attachments: row.max_attachments,
		max_attachment_bytes: row.max_attachment_bytes,
		track_opens: row.track_opens_at !== null,
		track_clicks: row.track_clicks_at !== null,
		branding: readBranding(row.branding),
	};
}
