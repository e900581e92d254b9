import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Clock} from '../kit/clock.ts';
import {isObject} from '../kit/exact-json.ts';
import {addedName, addedProblem} from '../mail/added-header.ts';
import type {Address} from '../mail/address.ts';
import type {ApiErrorCode, Violation} from '../mail/api-error.ts';
import {type ApiError, apiError, retryAfter, unavailable} from '../mail/api-error.ts';
import {type AttachmentLimits, maxAttachments} from '../mail/attachment-limits.ts';
import {type Extras, extraFields, extrasJson} from '../mail/message.ts';
import {expiresAtRule, readExpiresAt, readSendAt, sendAtRule} from '../mail/schedule.ts';
import {base64Problem, canonicalLocale, checkedAddress, decodeBase64, formats} from '../resources/formats.ts';
import {compileCheck, joinField, maxViolations} from '../resources/validate.ts';
import type {Refused, Send, SendResult} from '../send/draft.ts';
import {batchItem, largeFileItem, largeFileSend, type SendBody, sendBody, variablesJson} from '../send/schema.ts';
import {requireCaller} from './auth.ts';
import type {Caller} from './caller.ts';
import {type Allowance, type RateLimits, setRateLimitHeaders} from './rate-limit.ts';

type ReadSend =
	| {readonly ok: true; readonly send: Send}
	| {readonly ok: false; readonly code: ApiErrorCode; readonly violations?: readonly Violation[]};

const [checkSend, checkItem] = [compileCheck(sendBody), compileCheck(batchItem)];
const [checkWideSend, checkWideItem] = [compileCheck(largeFileSend), compileCheck(largeFileItem)];

type SendCaller = Pick<Caller, 'workspaceId' | 'mode' | 'attachments'>;

/** Validates the body of a send at `now` (milliseconds) and converts it to a `Send`. */
export const readSend = (body: unknown, caller: SendCaller, now: number) =>
	validate(caller.attachments ? checkWideSend : checkSend, body, caller, now);

/** Does the same for an item of a batch. */
export const readBatchItem = (item: unknown, caller: SendCaller, now: number) =>
	validate(caller.attachments ? checkWideItem : checkItem, item, caller, now);

function validate(check: ReturnType<typeof compileCheck>, body: unknown, caller: SendCaller, now: number): ReadSend {
	const violations = [...check(withoutEmptyPreferences(body)), ...fieldProblems(body, caller.attachments, now)].slice(
		0,
		maxViolations,
	);
	if (violations.length === 0) {
		return {ok: true, send: toSend(body as SendBody, caller, now)};
	}
	return lacksOnlyTemplate(body, violations)
		? {ok: false, code: 'template_required'}
		: {ok: false, code: 'validation_failed', violations};
}

// An empty locale or time zone counts as absent, so that a later default applies.
function withoutEmptyPreferences(body: unknown): unknown {
	if (typeof body === 'object' && body !== null) {
		const fields = body as {locale?: unknown; timezone?: unknown};
		if (fields.locale === '') {
			fields.locale = undefined;
		}
		if (fields.timezone === '') {
			fields.timezone = undefined;
		}
	}
	return body;
}

function lacksOnlyTemplate(body: unknown, violations: readonly Violation[]): boolean {
	if (violations.length !== 1 || violations[0]?.field !== 'templateId') {
		return false;
	}
	const {templateId} = body as {templateId?: unknown};
	return templateId === undefined || templateId === '';
}

function toSend(body: SendBody, {workspaceId, mode}: SendCaller, now: number): Send {
	const to = checkedAddress(body.to);
	return {
		workspaceId,
		mode,
		from: checkedAddress(body.from),
		to,
		cc: toCc(body.cc ?? [], to),
		replyTo: body.replyTo === undefined ? null : checkedAddress(body.replyTo),
		templateId: body.templateId,
		data: jsonOrNull(body.data, variablesJson),
		metadata: jsonOrNull(body.metadata),
		tags: jsonOrNull(body.tags),
		topicCode: body.unsubscribeGroup ?? null,
		locale: body.locale === undefined ? null : canonicalLocale(body.locale),
		timezone: body.timezone ?? null,
		tracking: jsonOrNull(body.tracking),
		extras: extrasJson(toExtras(body, now)),
		attachments: (body.attachments ?? []).map(({filename, contentType, content, contentId}) => ({
			filename,
			contentType,
			content: decodeBase64(content) ?? Buffer.alloc(0),
			...(contentId !== undefined && {contentId}),
		})),
		resentFrom: null,
	};
}

/** Returns violations that no schema expresses: combinations of fields, and the allowed header fields. */
function fieldProblems(body: unknown, limits: AttachmentLimits | undefined, now: number): Violation[] {
	if (!isObject(body)) {
		return [];
	}
	const {attachments, expiresAt, headers, inReplyTo, replyTo, replyToName, replyTracking, sendAt} = body;
	const problems = isObject(headers) ? headerProblems(headers) : [];
	if (Array.isArray(attachments)) {
		problems.push(...contentIdProblems(attachments), ...(limits ? attachmentProblems(attachments, limits) : []));
	}
	const isThreaded =
		isObject(headers) && Object.keys(headers).some(name => /^(?:in-reply-to|references)$/i.test(name));
	if (isThreaded && typeof inReplyTo === 'string') {
		problems.push({
			field: 'inReplyTo',
			message: 'must not be combined with the headers In-Reply-To and References',
		});
	}
	if (typeof replyToName === 'string' && typeof replyTo !== 'string' && replyTracking !== true) {
		problems.push({field: 'replyToName', message: 'must be used with replyTo or replyTracking'});
	}
	if (replyTracking === true && typeof replyTo === 'string') {
		problems.push({field: 'replyTracking', message: 'must not be combined with replyTo'});
	}
	const sendTime = typeof sendAt === 'string' ? readSendAt(sendAt, now) : null;
	if (sendTime === undefined) {
		problems.push({field: 'sendAt', message: sendAtRule});
	}
	if (typeof expiresAt === 'string' && readExpiresAt(expiresAt, now, sendTime ?? null) === undefined) {
		problems.push({field: 'expiresAt', message: expiresAtRule});
	}
	return problems;
}

function headerProblems(headers: Record<string, unknown>): Violation[] {
	const seen = new Set<string>();
	// The schema rejects sends with too many headers.
	return Object.entries(headers)
		.slice(0, maxViolations)
		.flatMap(([name, value]) => {
			const problem = seen.has(name.toLowerCase())
				? 'must appear only once, regardless of case'
				: addedProblem(name, typeof value === 'string' ? value : '-');
			seen.add(name.toLowerCase());
			return problem === null ? [] : [{field: joinField('headers', name), message: problem}];
		});
}

function contentIdProblems(attachments: readonly unknown[]): Violation[] {
	const ids = attachments.map(file => (isObject(file) ? file.contentId : undefined));
	return ids.flatMap((id, n) =>
		typeof id === 'string' && ids.indexOf(id) < n
			? [{field: `attachments[${n}].contentId`, message: 'must be unique within the message'}]
			: [],
	);
}

/** Returns violations of the workspace's attachment limits; the `wide` schemas check only the highest limits. */
function attachmentProblems(attachments: readonly unknown[], {max, bytes}: AttachmentLimits): Violation[] {
	if (attachments.length > max) {
		return attachments.length > maxAttachments.max
			? []
			: [{field: 'attachments', message: `must have at most ${max} items`}];
	}
	return attachments.flatMap((file, n) => {
		const content = isObject(file) && typeof file.content === 'string' ? file.content : '';
		const problem = formats['large-file'](content) === null ? base64Problem(content, bytes) : null;
		return problem === null ? [] : [{field: `attachments[${n}].content`, message: problem}];
	});
}

function toExtras(body: SendBody, now: number): Extras {
	const {headers, sendAt: sendAtText, expiresAt: expiresAtText} = body;
	const sendAt = (sendAtText === undefined ? null : readSendAt(sendAtText, now)) ?? null;
	const expiresAt = expiresAtText === undefined ? undefined : readExpiresAt(expiresAtText, now, sendAt);
	const added = Object.entries(headers ?? {}) as Array<[string, string]>;
	const fields: Record<string, unknown> = {};
	for (const name of extraFields) {
		const value = body[name];
		if (value !== undefined && value !== false) {
			fields[name] = value;
		}
	}
	return {
		...(sendAt !== null && {sendAt}),
		...(expiresAt !== undefined && {expiresAt}),
		...fields,
		...(added.length > 0 && {headers: added.map(([name, value]) => [addedName(name) ?? name, value] as const)}),
	};
}

function toCc(cc: readonly string[], to: Address): Address[] {
	const byKey = new Map<string, Address>();
	for (const address of cc.map(checkedAddress)) {
		if (address.key !== to.key && !byKey.has(address.key)) {
			byKey.set(address.key, address);
		}
	}
	return [...byKey.values()];
}

function jsonOrNull(value: object | undefined, stringify: (value: object) => string = JSON.stringify): string | null {
	return value === undefined || Object.keys(value).length === 0 ? null : stringify(value);
}

/** Creates an `onRequest` hook, to run after `auth.needs`, that responds with 429 once the window is used up. */
export function limitSends(limits: RateLimits, clock: Clock) {
	return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
		const caller = requireCaller(request);
		const granted = limits.take(caller, 'send', 1);
		const finish = (n: number) => {
			const allowance = limits.read(caller, 'send');
			setRateLimitHeaders(reply, allowance);
			done(n === 1 ? undefined : rateLimited(allowance, clock.now()));
		};
		if (typeof granted === 'number') {
			finish(granted);
		} else {
			void granted.then(finish);
		}
	};
}

/** Returns the error for a client that has used up its window. */
export function rateLimited({reset}: Allowance, now: number): ApiError {
	return apiError('rate_limited', {headers: retryAfter(reset * 1000 - now)});
}

// RFC 9110 §5.5 allows more in a header, but stored keys should be readable.
const idempotencyKey = /^[\x20-\x7e]{1,255}$/;

/** Returns the key, or `null` without the header. Throws `bad_request` for a malformed one. */
export function readIdempotencyKey(header: string | string[] | undefined): string | null {
	if (header === undefined) {
		return null;
	}
	if (typeof header !== 'string' || !idempotencyKey.test(header)) {
		throw apiError('bad_request', {message: 'The Idempotency-Key must be 1 to 255 printable ASCII characters.'});
	}
	return header;
}

/** The error codes that are specific to sends. */
export const sendErrors = [
	'idempotency_key_reused',
	'sending_paused',
	'template_required',
	'template_not_found',
	'template_has_no_version',
	'sender_not_available',
	'recipient_suppressed',
	'unknown_unsubscribe_group',
	'recipient_unsubscribed',
	'rate_limited',
	'quota_exceeded',
] as const;

/** Responds to an accepted send. Throws the error of a refused one. */
export function respondToSend(reply: FastifyReply, result: SendResult, now: number): FastifyReply {
	if (!result.ok) {
		throw refusedSend(result, now);
	}
	if (result.replayed) {
		reply.header('idempotent-replayed', result.replayed);
	}
	return reply.code(202).type('application/json; charset=utf-8').send(result.body);
}

/** Returns the error of a refused send. If the quota is exceeded, the rate limit headers give the monthly quota. */
function refusedSend({code, quota}: Refused, now: number): ApiError {
	if (code === 'unavailable') {
		return unavailable();
	}
	return quota === undefined
		? apiError(code)
		: apiError(code, {
				headers: {
					'ratelimit-limit': String(quota.limit),
					'ratelimit-remaining': '0',
					'ratelimit-reset': String(quota.endsAt / 1000),
					...retryAfter(quota.endsAt - now),
				},
			});
}
