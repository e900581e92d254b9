import type {Static} from 'typebox';
import {Numeral, writeExact} from '../kit/exact-json.ts';
import {defaultAttachments, maxAttachments} from '../mail/attachment-limits.ts';
import {priorities} from '../mail/message.ts';
import {Type} from '../mail/type.ts';
import {field} from '../resources/fields.ts';
import {isStorable} from '../resources/formats.ts';

const maxJsonBytes = 256 * 1024;
const maxDepth = 16;

// JSON escapes lone surrogates and NUL, so a text without these escapes contains neither.
const suspiciousEscape = /\\u(?:0000|d[89a-f])/;

const cachedJson = new WeakMap<object, string>();

/** Returns the variables as JSON. The text that the check produced is cached with them and reused for the row. */
export function variablesJson(data: object): string {
	const cached = cachedJson.get(data);
	if (cached !== undefined) {
		return cached;
	}
	const json = writeExact(data);
	cachedJson.set(data, json);
	return json;
}

/**
 * Returns the problem with the variables of a send (`must …`), or `null` if they are valid. The limits are 256 KiB as
 * JSON, 16 levels, texts that both engines can store, and finite numbers, which templates can compute with.
 */
export function variablesProblem(data: object): string | null {
	const json = variablesJson(data);
	if (Buffer.byteLength(json) > maxJsonBytes) {
		return 'must be at most 256 KiB as JSON';
	}
	return findProblem(data, 1) ?? (suspiciousEscape.test(json) && !isAllStorable(data) ? unstorable : null);
}

const unstorable = 'must contain only valid Unicode without NUL';

// Every send passes here, so `for … in` is used for speed. Objects from JSON.parse have no inherited names, and a
// Numeral has no enumerable ones.
function findProblem(value: object, depth: number): string | null {
	if (depth > maxDepth) {
		return 'must be nested at most 16 levels deep';
	}
	for (const name in value) {
		const item = (value as Record<string, unknown>)[name];
		if ((typeof item === 'number' || item instanceof Numeral) && !Number.isFinite(Number(item))) {
			return 'must contain only finite numbers';
		}
		const isNested = typeof item === 'object' && item !== null && !(item instanceof Numeral);
		const problem = isNested ? findProblem(item, depth + 1) : null;
		if (problem !== null) {
			return problem;
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
			description: 'At most 255 characters, without path separators.',
		}),
		contentType: Type.String({
			format: 'media-type',
			description:
				'`type/subtype`. Text may have a `charset`, text/calendar a `method`. UTF-8 text without a charset gets `charset=utf-8`.',
		}),
		content: Type.String({
			format: 'base64-file',
			contentEncoding: 'base64',
			description: 'The file as base64, at most 1,048,576 bytes when decoded. Never returned on reads.',
		}),
		contentId: Type.Optional(
			Type.String({
				format: 'content-id',
				description: 'Unique within the message. HTML that refers to `cid:…` shows the file inline.',
			}),
		),
	},
	strict,
);

const tracking = Type.Object(
	{
		opens: Type.Optional(Type.Boolean({description: '`false` omits the open-tracking pixel from this message.'})),
		clicks: Type.Optional(Type.Boolean({description: '`false` leaves the links of this message unchanged.'})),
	},
	{...strict, description: 'Turns off tracking of the workspace for this send. It cannot turn tracking on.'},
);

/** The example of a send in the API description. */
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
 * The body of a send (docs/reference/interface.md, Send request). `null` in an optional field means that it is absent.
 * The options of `mailctl send` and the header fields of submitted messages follow from it (`field`). The fields that a
 * message stores as they are stand in `extraFields` too.
 */
export const sendBody = Type.Object(
	{
		from: field(Type.String({format: 'email'}), {
			label: 'Sender',
			option: 'from <address>',
			description: 'An active, verified sender of the workspace, as a bare address.',
		}),
		to: field(Type.String({format: 'recipient-email'}), {
			label: 'Recipient',
			option: 'to <address>',
			description: 'The primary recipient, as a bare address.',
		}),
		templateId: field(Type.String({minLength: 1}), {
			option: 'template <id|name>',
			description: 'The template. Its latest version is sent.',
		}),
		data: Type.Optional(
			Type.Object(
				{},
				{variables: true, description: 'Template variables, at most 256 KiB as JSON and 16 levels deep.'},
			),
		),
		replyTo: field(Type.Optional(Type.String({format: 'email'})), {
			option: 'reply-to <address>',
			description: 'The address that replies go to.',
		}),
		toName: field(Type.Optional(Type.String({format: 'label'})), {
			description: 'The display name of the recipient.',
		}),
		replyToName: field(Type.Optional(Type.String({format: 'label'})), {
			description: 'The display name of the address that replies go to.',
		}),
		replyTracking: field(Type.Optional(Type.Boolean()), {
			description:
				'Whether replies arrive as `received` events that name this message. Not with another address for replies.',
		}),
		headers: Type.Optional(
			Type.Object(
				{},
				{
					maxProperties: 20,
					additionalProperties: Type.String(),
					description:
						'At most 20 header fields with values of at most 998 octets: `In-Reply-To`, `References`, `Importance`, `Auto-Submitted` and `X-…`, except those reserved by mailctl and by providers.',
				},
			),
		),
		inReplyTo: field(Type.Optional(Type.String()), {
			option: 'in-reply-to <id>',
			description: 'A message of this workspace, `msg_…`, that the new one follows in its thread.',
		}),
		cc: Type.Optional(
			Type.Array(Type.String({format: 'email'}), {
				maxItems: 25,
				description:
					'At most 25 addresses. Duplicates and the `to` address are dropped, and suppressed addresses are skipped.',
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
						'At most 50 texts of at most 500 characters, with names of 1 to 40 characters. Returned on reads and in webhooks.',
				},
			),
		),
		unsubscribeGroup: field(Type.Optional(Type.String({minLength: 1})), {
			option: 'topic <code>',
			header: 'topic',
			description: 'The code of a topic, which recipients can opt out of.',
		}),
		locale: field(Type.Optional(Type.String({format: 'locale'})), {
			label: 'Language',
			option: 'locale <tag>',
			description: 'BCP-47 tag: selects the variant and formats. Remembered for the recipient.',
		}),
		timezone: field(Type.Optional(Type.String({format: 'timezone'})), {
			option: 'timezone <zone>',
			description: 'IANA time zone in which dates are shown. Remembered for the recipient.',
		}),
		attachments: Type.Optional(
			Type.Array(attachment, {
				maxItems: defaultAttachments.max,
				description: 'At most 3 files. A workspace may allow more and larger ones.',
			}),
		),
		tags: Type.Optional(
			Type.Array(Type.String({format: 'text', minLength: 1, maxLength: 64}), {
				maxItems: 10,
				description: 'At most 10 texts of 1 to 64 characters. Returned on reads.',
			}),
		),
		tracking: Type.Optional(tracking),
		sendAt: field(Type.Optional(Type.String()), {
			option: 'at <time>',
			description:
				'The earliest time to send: RFC 3339, or from now (`+90m`, `+2h`, `+3d`), at most 30 days ahead.',
		}),
		expiresAt: field(Type.Optional(Type.String()), {
			option: 'expires <time>',
			description:
				'The latest time to send, written like the earliest one and at least a minute after it or after now. Recipients not delivered by then become `bounced` with the reason `expired`.',
		}),
		priority: field(Type.Optional(Type.Enum([...priorities])), {
			header: 'priority',
			description:
				'Which messages are sent to a destination first: `high` before `normal` before `low`. Defaults to the priority of the topic, then of the template, then `normal`.',
		}),
	},
	{...strict, examples: [sendExample]},
);

export type SendBody = Static<typeof sendBody>;

const {to, from, locale} = sendBody.properties;

/** The fields of the dashboard's form for sending a test of a template. */
export const testSend = Type.Object({to, from, locale});

/** An item of a batch. */
export const batchItem = Type.Object(
	{
		...sendBody.properties,
		idempotencyKey: Type.Optional(
			Type.String({
				minLength: 1,
				maxLength: 255,
				pattern: '^[ -~]*$',
				description: 'Works like the header `Idempotency-Key` of a single send.',
			}),
		),
	},
	{...strict, examples: [sendExample]},
);

export type BatchItem = Static<typeof batchItem>;

const largeFile = Type.Object({...attachment.properties, content: Type.String({format: 'large-file'})}, strict);
const largeFiles = {attachments: Type.Optional(Type.Array(largeFile, {maxItems: maxAttachments.max}))};

/** The same bodies for a workspace that allows more and larger attachments. `read-send.ts` enforces its limits. */
export const largeFileSend = Type.Object({...sendBody.properties, ...largeFiles}, strict);
export const largeFileItem = Type.Object({...batchItem.properties, ...largeFiles}, strict);

/** The headers that a send accepts. */
export const sendHeaders = Type.Object({
	'Idempotency-Key': Type.Optional(
		Type.String({
			minLength: 1,
			maxLength: 255,
			pattern: '^[ -~]*$',
			description:
				'Makes it safe to repeat a send. The same key with the same `from`, `to`, `templateId` and `data` returns the first response byte for byte, with `Idempotent-Replayed: true`, and creates no second message. `Idempotent-Replayed: differs` means that other fields have changed since the first send. A different `from`, `to`, `templateId` or `data` is rejected with 409. Keys are stored for 24 hours.',
		}),
	),
});
