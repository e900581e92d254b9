import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Static} from 'typebox';
import type {ApiParts, Route} from '../../api/api-parts.ts';
import {requireCaller} from '../../api/auth.ts';
import type {Caller} from '../../api/caller.ts';
import {describe} from '../../api/describe.ts';
import {toApiError} from '../../api/errors.ts';
import {oversized} from '../../api/json.ts';
import {noQuery} from '../../api/paging.ts';
import {setRateLimitHeaders} from '../../api/rate-limit.ts';
import {maxValues} from '../../api/read-body.ts';
import {rateLimited, readBatchItem} from '../../api/read-send.ts';
import {replyTargetNotFound, toThreadedReply} from '../../api/thread-of.ts';
import {inSlice} from '../../kit/turns.ts';
import {
	type ApiErrorCode,
	apiError,
	apiErrors,
	bodyMissing,
	unavailable,
	type Violation,
} from '../../mail/api-error.ts';
import {sendBodyLimit} from '../../mail/attachment-limits.ts';
import {Type} from '../../mail/type.ts';
import {type Idempotency, type Send, type SendResult, toIdempotency} from '../../send/draft.ts';
import {type BatchItem, batchItem, sendExample} from '../../send/schema.ts';
import {compileCheck, maxViolations} from '../validate.ts';

const strict = {additionalProperties: false} as const;
/** The maximum number of items in a batch. */
const maxItemCount = 100;
const size = {minItems: 1, maxItems: maxItemCount} as const;

/** The body of a batch. Items are validated one by one, so that an invalid item fails alone. */
const batchBody = Type.Object({messages: Type.Array(Type.Unknown(), size)}, strict);

/** The body of a batch in the API description, which also describes the items. */
const describedBatch = Type.Object(
	{
		messages: Type.Array(batchItem, {
			...size,
			description: '1 to 100 sends, each with the fields of a single send.',
		}),
	},
	{...strict, examples: [{messages: [sendExample, {...sendExample, to: 'gone@example.net'}]}]},
);

const index = Type.Integer({description: 'The position of the item, from 0.'});

const acceptedItem = Type.Object({
	index,
	status: Type.Enum(['accepted']),
	id: Type.String({description: 'The id of the message, `msg_…`.'}),
	replayed: Type.Optional(
		Type.Boolean({
			description: 'Only with an `idempotencyKey`: whether an earlier send with it created the message.',
		}),
	),
});

const failedItem = Type.Object({
	index,
	status: Type.Enum(['error']),
	error: Type.Object({
		code: Type.String({description: 'An error code of a single send.'}),
		message: Type.String({description: 'Human-readable. Names the first invalid field.'}),
	}),
});

const example = {
	data: [
		{index: 0, status: 'accepted', id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n'},
		{
			index: 1,
			status: 'error',
			error: {code: 'recipient_suppressed', message: 'The recipient is on the suppression list.'},
		},
	],
};

/** The results of a batch: one per item, in order. */
const batchResults = Type.Object({data: Type.Array(Type.Union([acceptedItem, failedItem]))}, {examples: [example]});

type Problem = {readonly code: ApiErrorCode; readonly message: string};
/** A valid item, or the error that it gets. */
type Item = {readonly send: Send; readonly idempotency: Idempotency | null} | {readonly problem: Problem};

const bodyLimit = 32 * 1024 * 1024;
const jsonLimits = {
	values: 500_000,
	items: {list: 'messages', max: maxItemCount, values: maxValues, bytes: sendBodyLimit()},
};

const bodyProblems: ReadonlySet<number> = new Set([400, 413, 415, 422]);

const checkQuery = compileCheck(noQuery);
const checkBody = compileCheck(batchBody);

const batchSchema = {
	...describe({
		tag: 'Messages',
		summary: 'Send a batch of messages',
		description:
			'Each item is checked like a single send, and a refused item does not affect the others. Results are in the order of the items. Each item counts against a rate limit that is separate from that of single sends but has the same size; the `RateLimit` headers describe it. The header `Idempotency-Key` has no effect: the response then has `Idempotency-Key-Ignored: true`. An item may have its own `idempotencyKey`.',
		answer: [200, 'The result of each item. Accepted items are on stable storage.', batchResults],
		errors: ['sending_paused'],
	}),
	querystring: noQuery,
	body: describedBatch,
};

export const sendBatchRoute: Route = parts => api => {
	const {auth, accept, limits, mayAccept} = parts;
	api.post(
		'/v1/messages/batch',
		{
			onRequest: auth.needs('messages:send', 'batch'),
			bodyLimit,
			config: {json: jsonLimits},
			errorHandler: (error, request, reply) => countInvalidBatch(parts, error, request, reply),
			schema: batchSchema,
			// The schemas only describe the API here. The handler validates the body itself, in the documented order of
			// checks.
			validatorCompiler: () => () => true,
		},
		async (request, reply) => {
			if (!mayAccept()) {
				throw unavailable();
			}
			const messages = readMessages(request);
			const caller = requireCaller(request);
			if (await accept.isPaused(caller.workspaceId)) {
				throw apiError('sending_paused');
			}
			const items = await readItems(parts, request, messages);
			setRateLimitHeaders(reply, limits.read(caller, 'batch'));
			if (request.headers['idempotency-key'] !== undefined) {
				reply.header('idempotency-key-ignored', 'true');
			}
			const sends = items.flatMap(item => ('send' in item ? [item] : []));
			const results = (await accept.batch(sends)).values();
			return {
				data: items.map((item, index) =>
					'send' in item
						? toResult(index, results.next().value as SendResult, item)
						: failed(index, item.problem),
				),
			};
		},
	);
};

/** Returns the items of the body. Throws if it is not a batch. */
function readMessages({body, query}: FastifyRequest): unknown[] {
	if (body === undefined || body === null) {
		throw bodyMissing();
	}
	const violations = [...checkQuery(query), ...checkBody(body)];
	if (violations.length > 0) {
		throw apiError('validation_failed', {violations: violations.slice(0, maxViolations)});
	}
	return (body as Static<typeof batchBody>).messages;
}

/** Reads the items one by one. Each counts against the rate limit of the key, whether it is accepted or not. */
async function readItems(parts: ApiParts, request: FastifyRequest, messages: unknown[]): Promise<Item[]> {
	const caller = requireCaller(request);
	const items: Item[] = [];
	const granted = await parts.limits.take(caller, 'batch', messages.length);
	for (const [index, item] of messages.entries()) {
		if (index >= granted) {
			items.push({problem: toProblem('rate_limited')});
		} else {
			const read = request.isHeavy
				? await inSlice(() => readItem(parts, item, caller))
				: readItem(parts, item, caller);
			items.push(await withThread(parts, read, item as BatchItem, caller));
		}
		// Frees the item, because attachments are large.
		messages[index] = null;
	}
	return items;
}

function readItem({vault, tools}: ApiParts, item: unknown, caller: Caller): Item {
	if (item === oversized) {
		return {problem: toProblem('payload_too_large')};
	}
	const read = readBatchItem(item, caller, tools.clock.now());
	if (read.ok) {
		const {idempotencyKey: key, ...body} = item as BatchItem;
		return {send: read.send, idempotency: key === undefined ? null : toIdempotency(vault, key, body)};
	}
	const [violation] = read.violations ?? [];
	return {problem: violation ? violationProblem(violation, read.code) : toProblem(read.code)};
}

async function withThread(parts: ApiParts, item: Item, body: BatchItem, caller: Caller): Promise<Item> {
	const send = 'send' in item ? await toThreadedReply(parts, caller, body, item.send) : undefined;
	return send === null
		? {problem: violationProblem(replyTargetNotFound, 'validation_failed')}
		: {...item, ...(send && {send})};
}

/** Counts a batch with an invalid body as one item of the rate limit: it costs as much to read as a valid one. */
async function countInvalidBatch(
	{limits, tools}: ApiParts,
	error: unknown,
	{caller}: FastifyRequest,
	reply: FastifyReply,
): Promise<never> {
	if (caller && bodyProblems.has(toApiError(error, () => false).status)) {
		const granted = await limits.take(caller, 'batch', 1);
		const allowance = limits.read(caller, 'batch');
		setRateLimitHeaders(reply, allowance);
		if (granted === 0) {
			throw rateLimited(allowance, tools.clock.now());
		}
	}
	throw error;
}

function toResult(
	index: number,
	result: SendResult,
	{idempotency}: {readonly idempotency: Idempotency | null},
): object {
	if (!result.ok) {
		return failed(index, toProblem(result.code));
	}
	const replayed = idempotency === null ? {} : {replayed: result.replayed !== false};
	return {index, status: 'accepted', id: result.id, ...replayed};
}

function failed(index: number, error: Problem): object {
	return {index, status: 'error', error};
}

function violationProblem({field, message}: Violation, code: ApiErrorCode): Problem {
	return {code, message: `${field === 'body' ? 'the item' : field} ${message}`};
}

function toProblem(code: ApiErrorCode): Problem {
	return {code, message: apiErrors[code].message};
}
