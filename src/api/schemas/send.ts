import type {Static} from 'typebox';
import {Numeral, writeExact} from '../../kit/exact-json.ts';
import {defaultAttachments, widestAttachments} from '../../mail/attachment-limits.ts';
import {priorities} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {isStorable} from './formats.ts';

const longest = 256 * 1024;
const deepest = 16;

// Lone surrogates and NUL are escaped in JSON, so that a text without these holds neither.
const suspicious = /\\u(?:0000|d[89a-f])/;

const texts = new WeakMap<object, string>();

/** The variables as JSON. That of the check is kept with them, for the row. */
export function variablesJson(data: object): string {
	const known = texts.get(data);
	if (known !== undefined) {
		return known;
	}
	const json = writeExact(data);
	texts.set(data, json);
	return json;
}

/**
 * Says what is wrong with a send's variables (`must …`), null: nothing. At most 256 KiB as JSON and 16 levels deep,
 * texts that both engines store, numbers below 1.8e308, with which templates can reckon.
 */
export function variablesFault(data: object): string | null {
	const json = variablesJson(data);
	if (Buffer.byteLength(json) > longest) {
		return 'must be at most 256 KiB as JSON';
	}
	return faultInside(data, 1) ?? (suspicious.test(json) && !isAllStorable(data) ? unstorable : null);
}

const unstorable = 'must have only valid Unicode without NUL';

// Written for speed, for every send passes here; what JSON.parse makes has no inherited names, and a Numeral has no own
// ones.
function faultInside(value: object, depth: number): string | null {
	if (depth > deepest) {
		return 'must be at most 16 levels deep';
	}
	for (const name in value) {
		const item = (value as Record<string, unknown>)[name];
		if ((typeof item === 'number' || item instanceof Numeral) && !Number.isFinite(Number(item))) {
			return 'must have only finite numbers';
		}
		const isNested = typeof item === 'object' && item !== null && !(item instanceof Numeral);
		const fault = isNested ? faultInside(item, depth + 1) : null;
		if (fault !== null) {
			return fault;
		}
	}
	return null;
}

function isAllStorable(value: unknown): boolean {
	if (typeof value === 'string') {
		return isStorable(value);
	}
	return (
		typeof value !== 'object' ||
		value === null ||
		Object.entries(value).every(([name, item]) => isStorable(name) && isAllStorable(item))
	);
}

const strict = {additionalProperties: false} as const;

const attachment = Type.Object(
	{
		filename: Type.String({
			format: 'filename',
			maxLength: 255,
			description: 'At most 255 characters, no path separators.',
		}),
		contentType: Type.String({
			format: 'media-type',
			description:
				'`type/subtype`; text may have a `charset`, text/calendar a `method`. UTF-8 text without one gets `charset=utf-8`.',
		}),
		content: Type.String({
			format: 'base64-file',
			contentEncoding: 'base64',
			description: 'The file as base64, at most 1,048,576 bytes when decoded. Never returned on reads.',
		}),
		contentId: Type.Optional(
			Type.String({
				format: 'content-id',
				description: 'Unique in the mail: html that names it as `cid:…` shows the file in its place.',
			}),
		),
	},
	strict,
);

const tracking = Type.Object(
	{
		opens: Type.Optional(Type.Boolean({description: 'False: no open pixel in this mail.'})),
		clicks: Type.Optional(Type.Boolean({description: 'False: links of this mail stay as they are.'})),
	},
	{...strict, description: "Switches the workspace's tracking off for this send; it cannot switch it on."},
);

/** A send, in descriptions. */
export const sendExample = {
	from: 'no-reply@shop.example',
	to: 'user@example.org',
	templateId: 'tpl_01kaxq7w0c8m2v5t9d3f6h1j4n',
	data: {order: {number: 1042, total: 19.9}},
	metadata: {order_id: '1042'},
	unsubscribeGroup: 'receipts',
	locale: 'de',
	timezone: 'Europe/Berlin',
};

/**
 * The body of a send (docs/reference/interface.md, Send request); `null` for an optional field means that it is absent.
 */
export const sendBody = Type.Object(
	{
		from: Type.String({
			format: 'email',
			description: 'An active, verified sender of the workspace; a bare address.',
		}),
		to: Type.String({format: 'recipient-email', description: 'The primary recipient; a bare address.'}),
		templateId: Type.String({minLength: 1, description: 'The template, `tpl_…`; its newest version is sent.'}),
		data: Type.Optional(
			Type.Object(
				{},
				{variables: true, description: 'Variables of the template, at most 256 KiB as JSON, 16 levels.'},
			),
		),
		replyTo: Type.Optional(Type.String({format: 'email', description: 'Where answers go.'})),
		toName: Type.Optional(
			Type.String({format: 'label', description: 'The name that stands before `to` in the mail.'}),
		),
		replyToName: Type.Optional(Type.String({format: 'label', description: 'The name before `replyTo`.'})),
		replyTracking: Type.Optional(
			Type.Boolean({
				description:
					'True: Reply-To is an address of this installation, so that answers come in as `received` and name this message. Not beside `replyTo`.',
			}),
		),
		headers: Type.Optional(
			Type.Object(
				{},
				{
					maxProperties: 20,
					additionalProperties: Type.String(),
					description:
						'At most 20 header fields with values of at most 998 octets: `X-…` but for those of mailctl and of providers, `In-Reply-To`, `References`, `Importance`, `Auto-Submitted`.',
				},
			),
		),
		inReplyTo: Type.Optional(
			Type.String({description: 'A message of this workspace, `msg_…`: the mail stands below it in its thread.'}),
		),
		cc: Type.Optional(
			Type.Array(Type.String({format: 'email'}), {
				maxItems: 25,
				description:
					'At most 25 addresses. Duplicates, and `to`, are dropped; a suppressed one is passed over.',
			}),
		),
		metadata: Type.Optional(
			Type.Object(
				{},
				{
					maxProperties: 50,
					propertyNames: Type.String({format: 'metadata-key'}),
					additionalProperties: Type.String({format: 'text', maxLength: 500}),
					description:
						'At most 50 texts of at most 500 characters, names of 1 to 40; echoed on reads and in webhooks.',
				},
			),
		),
		unsubscribeGroup: Type.Optional(
			Type.String({minLength: 1, description: "A topic's code: recipients can opt out of it alone."}),
		),
		locale: Type.Optional(
			Type.String({
				format: 'locale',
				description: 'BCP-47 tag: chooses the variant and formats. Remembered for the recipient.',
			}),
		),
		timezone: Type.Optional(
			Type.String({
				format: 'timezone',
				description: 'IANA zone in which dates are shown. Remembered for the recipient.',
			}),
		),
		attachments: Type.Optional(
			Type.Array(attachment, {
				maxItems: defaultAttachments.most,
				description: 'At most 3 files; a workspace may allow more and larger ones.',
			}),
		),
		tags: Type.Optional(
			Type.Array(Type.String({format: 'text', minLength: 1, maxLength: 64}), {
				maxItems: 10,
				description: 'At most 10 texts of 1 to 64 characters, echoed on reads.',
			}),
		),
		tracking: Type.Optional(tracking),
		sendAt: Type.Optional(
			Type.String({
				description: 'Not before then: RFC 3339, or from now (`+90m`, `+2h`, `+3d`); at most 30 days ahead.',
			}),
		),
		expiresAt: Type.Optional(
			Type.String({
				description:
					'Not after then, written as `sendAt`, at least a minute after it or after now: a copy that no host has taken ends `bounced`, `expired`.',
			}),
		),
		priority: Type.Optional(
			Type.Enum([...priorities], {
				description:
					'Whose turn comes first at a destination; absent: as the topic says, else the template, else `normal`.',
			}),
		),
	},
	{...strict, examples: [sendExample]},
);

export type SendBody = Static<typeof sendBody>;

/** An item of a batch. */
export const batchItem = Type.Object(
	{
		...sendBody.properties,
		idempotencyKey: Type.Optional(
			Type.String({
				minLength: 1,
				maxLength: 255,
				pattern: '^[ -~]*$',
				description: 'As the header `Idempotency-Key` of a single send.',
			}),
		),
	},
	{...strict, examples: [sendExample]},
);

export type BatchItem = Static<typeof batchItem>;

const largeFile = Type.Object({...attachment.properties, content: Type.String({format: 'large-file'})}, strict);
const largeFiles = {attachments: Type.Optional(Type.Array(largeFile, {maxItems: widestAttachments.most}))};

/** The same where a workspace allows more and larger attachments; `read-send.ts` checks how many and how large. */
export const wideSend = Type.Object({...sendBody.properties, ...largeFiles}, strict);
export const wideItem = Type.Object({...batchItem.properties, ...largeFiles}, strict);

/** The headers that a send may carry. */
export const sendHeaders = Type.Object({
	'Idempotency-Key': Type.Optional(
		Type.String({
			minLength: 1,
			maxLength: 255,
			pattern: '^[ -~]*$',
			description:
				'Makes repeating a send safe: the same key with the same `from`, `to`, `templateId` and `data` repeats the first answer, byte for byte and with `Idempotent-Replayed: true`, and creates no second message. `Idempotent-Replayed: differs` says that other fields were not those of the first send. With another `from`, `to`, `templateId` or `data` it answers 409. Kept 24 hours.',
		}),
	),
});
