import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Static} from 'typebox';
import {type Accepted, type Idempotency, idempotencyOf, type Send} from '../../accept/draft.ts';
import {type ApiErrorCode, apiErrors, type Violation} from '../../mail/api-error.ts';
import {sendBodyLimit} from '../../mail/attachment-limits.ts';
import {Type} from '../../mail/type.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {callerOf} from '../auth.ts';
import type {Caller} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError, bodyMissing, toApiError, unavailable} from '../errors.ts';
import {oversized} from '../json.ts';
import {noQuery} from '../paging.ts';
import {showAllowance} from '../rate-limit.ts';
import {maxValues} from '../read-body.ts';
import {rateLimited, readBatchItem} from '../read-send.ts';
import {type BatchItem, batchItem, sendExample} from '../schemas/send.ts';
import {notAnswered, threaded} from '../thread-of.ts';
import {inSlice} from '../turns.ts';
import {checkOf, maxViolations} from '../validate.ts';

const strict = {additionalProperties: false} as const;
/** Items of a batch. */
const maxItemCount = 100;
const size = {minItems: 1, maxItems: maxItemCount} as const;

/** The body of a batch. Its items are judged one by one: a bad one is that item's fault. */
const batchBody = Type.Object({messages: Type.Array(Type.Unknown(), size)}, strict);

/** The same for the description, with what an item should be. */
const describedBatch = Type.Object(
	{
		messages: Type.Array(batchItem, {
			...size,
			description: 'From 1 to 100 sends, each with the fields of a single one.',
		}),
	},
	{...strict, examples: [{messages: [sendExample, {...sendExample, to: 'gone@example.net'}]}]},
);

const index = Type.Integer({description: 'The position of the item, from 0.'});

const acceptedItem = Type.Object({
	index,
	status: Type.Enum(['accepted']),
	id: Type.String({description: 'Of the message, `msg_…`.'}),
	replayed: Type.Optional(
		Type.Boolean({
			description: 'Of an item with an `idempotencyKey`: whether an earlier send with the key made the message.',
		}),
	),
});

const failedItem = Type.Object({
	index,
	status: Type.Enum(['error']),
	error: Type.Object({
		code: Type.String({description: 'As of a single send.'}),
		message: Type.String({description: 'For people; names the first field at fault.'}),
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

type Fault = {readonly code: ApiErrorCode; readonly message: string};
/** An item that can be judged, or why it cannot. */
type Item = {readonly send: Send; readonly idempotency: Idempotency | null} | {readonly fault: Fault};

const bodyLimit = 32 * 1024 * 1024;
const jsonLimits = {
	values: 500_000,
	items: {list: 'messages', most: maxItemCount, values: maxValues, bytes: sendBodyLimit()},
};

const bodyFaults: ReadonlySet<number> = new Set([400, 413, 415, 422]);

export function batchRoutes(parts: ApiParts): Routes {
	const {
		auth,
		limits,
		accept,
		vault,
		tools: {clock},
		mayAccept,
	} = parts;
	const checkQuery = checkOf(noQuery);
	const checkBody = checkOf(batchBody);

	function readItem(item: unknown, caller: Caller): Item {
		if (item === oversized) {
			return {fault: faultOf('payload_too_large')};
		}
		const read = readBatchItem(item, caller, clock.now());
		if (read.ok) {
			const {idempotencyKey: key, ...sent} = item as BatchItem;
			return {send: read.send, idempotency: key === undefined ? null : idempotencyOf(vault, key, sent)};
		}
		const [first] = read.violations ?? [];
		if (first === undefined) {
			return {fault: faultOf(read.code)};
		}
		return {fault: faultIn(first, read.code)};
	}

	async function inThread(item: Item, body: BatchItem, caller: Caller): Promise<Item> {
		const send = 'send' in item ? await threaded(parts, caller, body, item.send) : undefined;
		return send === null ? {fault: faultIn(notAnswered, 'validation_failed')} : {...item, ...(send && {send})};
	}

	/** A batch that is refused for its body costs as much to read as one that is taken: it draws one. */
	async function drawForRefused(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<never> {
		const {caller} = request;
		if (caller && bodyFaults.has(toApiError(error, () => false).status)) {
			const taken = await limits.take(caller, 'batch', 1);
			const allowance = limits.read(caller, 'batch');
			showAllowance(reply, allowance);
			if (taken === 0) {
				throw rateLimited(allowance, clock.now());
			}
		}
		throw error;
	}

	return api => {
		api.post(
			'/v1/messages/batch',
			{
				onRequest: auth.needs('messages:send', 'batch'),
				bodyLimit,
				config: {json: jsonLimits},
				errorHandler: drawForRefused,
				schema: {
					...describe({
						tag: 'Messages',
						summary: 'Send a batch of messages',
						description:
							'Each item is a send, judged as if it came alone: one that is refused refuses no other. Results stand in the order of the items. Each item draws one on a bucket of its own kind, with the same limit as that of single sends; the `RateLimit` headers describe that bucket. The header `Idempotency-Key` is not honoured: the answer then has `Idempotency-Key-Ignored: true`. An item may have its own `idempotencyKey`.',
						answer: [200, 'What came of each item; those accepted are on stable storage.', batchResults],
						errors: ['sending_paused'],
					}),
					querystring: noQuery,
					body: describedBatch,
				},
				// The schemas are for the description of the API; they are checked in their place among the other
				// checks.
				validatorCompiler: () => () => true,
			},
			async (request, reply) => {
				if (!mayAccept()) {
					throw unavailable();
				}
				const body: unknown = request.body;
				if (body === undefined || body === null) {
					throw bodyMissing();
				}
				const violations = [...checkQuery(request.query), ...checkBody(body)];
				if (violations.length > 0) {
					throw apiError('validation_failed', {violations: violations.slice(0, maxViolations)});
				}
				const caller = callerOf(request);
				if (await accept.isPaused(caller.workspaceId)) {
					throw apiError('sending_paused');
				}

				const items: Item[] = [];
				const {messages} = body as Static<typeof batchBody>;
				// Each item draws on the key's bucket, accepted or not.
				const taken = await limits.take(caller, 'batch', messages.length);
				for (const [index, item] of messages.entries()) {
					if (index >= taken) {
						items.push({fault: faultOf('rate_limited')});
					} else {
						const read = request.isHeavy
							? await inSlice(() => readItem(item, caller))
							: readItem(item, caller);
						items.push(await inThread(read, item as BatchItem, caller));
					}
					// What was read is let go: the texts of attachments are large.
					messages[index] = null;
				}
				showAllowance(reply, limits.read(caller, 'batch'));
				if (request.headers['idempotency-key'] !== undefined) {
					reply.header('idempotency-key-ignored', 'true');
				}
				const sends = items.flatMap(item => ('send' in item ? [item] : []));
				const results = (await accept.batch(sends)).values();
				return {
					data: items.map((item, index) =>
						'send' in item
							? resultOf(index, results.next().value as Accepted, item)
							: failed(index, item.fault),
					),
				};
			},
		);
	};
}

function resultOf(index: number, result: Accepted, {idempotency}: {readonly idempotency: Idempotency | null}): object {
	if (!result.ok) {
		return failed(index, faultOf(result.code));
	}
	const replayed = idempotency === null ? {} : {replayed: result.replayed !== false};
	return {index, status: 'accepted', id: result.id, ...replayed};
}

function failed(index: number, error: Fault): object {
	return {index, status: 'error', error};
}

function faultIn({field, message}: Violation, code: ApiErrorCode): Fault {
	return {code, message: `${field === 'body' ? 'the item' : field} ${message}`};
}

function faultOf(code: ApiErrorCode): Fault {
	return {code, message: apiErrors[code].message};
}
