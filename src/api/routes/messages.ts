import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import type {Knex} from 'knex';
import {fingerprintOf} from '../../accept/idempotency.ts';
import type {Accept} from '../../accept/send.ts';
import {isId} from '../../mail/ids.ts';
import type {Tools} from '../../mail/operator.ts';
import {findMessage} from '../../store/messages.ts';
import {readEvents} from '../../store/timeline.ts';
import {type Auth, callerOf} from '../auth.ts';
import {visibleMessage, visibleMode} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError, bodyMissing, unavailable} from '../errors.ts';
import {type Cursors, noQuery, pageQuery, readPage} from '../paging.ts';
import type {RateLimits} from '../rate-limit.ts';
import {answerSend, createReadSend, limitSends, readIdempotencyKey, sendErrors} from '../read-send.ts';
import {acceptedView, eventSchema, messageSchema} from '../schemas/message.ts';
import {idParams, pageOf} from '../schemas/page.ts';
import {type SendBody, sendBody, sendBodyLimit, sendHeaders} from '../schemas/send.ts';
import type {Routes} from '../server.ts';
import {createChecks, mostViolations} from '../validate.ts';
import {eventView, messageView} from '../views.ts';

type MessageRoutesOptions = {
	readonly auth: Auth;
	readonly reader: Knex;
	readonly accept: Accept;
	readonly limits: RateLimits;
	readonly tools: Tools;
	readonly cursors: Cursors;
	/** False while outcomes cannot be stored: then nothing new is taken in either. */
	readonly mayAccept: () => boolean;
};

const messageParams = idParams('msg');
const eventsPerPage = 100;
export function messageRoutes({
	auth,
	reader,
	accept,
	limits,
	tools: {clock},
	cursors,
	mayAccept,
}: MessageRoutesOptions): Routes {
	const checks = createChecks();
	const readSend = createReadSend(checks);
	const checkQuery = checks.checkOf(noQuery);

	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.post(
			'/v1/messages',
			{
				onRequest: [auth.needs('messages:send'), limitSends(limits, clock)],
				bodyLimit: sendBodyLimit,
				schema: {
					...describe({
						tag: 'Messages',
						summary: 'Send a message',
						description:
							'The checks, in the order in which their codes win: rate limit, shape, `Idempotency-Key`, pause, template, sender, suppression list, topic, opt-out, quota. Nothing is stored of a send that is refused. When the quota refuses, the `RateLimit` headers are about the month.',
						answer: [202, 'The message is on stable storage and will be delivered.', acceptedView],
						errors: sendErrors,
					}),
					headers: sendHeaders,
					querystring: noQuery,
					body: sendBody,
				},
				// The schemas are for the description of the API; they are checked in their place among the other checks.
				validatorCompiler: () => () => true,
			},
			async (request, reply) => {
				if (!mayAccept()) {
					throw unavailable();
				}
				if (request.body === undefined || request.body === null) {
					throw bodyMissing();
				}
				const key = readIdempotencyKey(request.headers['idempotency-key']);
				const read = readSend(request.body, callerOf(request));
				const unknown = checkQuery(request.query);
				if (unknown.length > 0) {
					const inBody = read.ok ? [] : (read.violations ?? []);
					throw apiError('validation_failed', {violations: [...unknown, ...inBody].slice(0, mostViolations)});
				}
				if (!read.ok) {
					throw apiError(read.code, read);
				}
				const idempotency = key === null ? null : {key, fingerprint: fingerprintOf(request.body as SendBody)};
				return answerSend(reply, await accept.single(read.send, idempotency), clock.now());
			},
		);

		routes.get(
			'/v1/messages/:id',
			{
				onRequest: auth.needs('messages:read'),
				schema: {
					...describe({
						tag: 'Messages',
						summary: 'Read a message',
						answer: [200, 'The message.', messageSchema],
						errors: ['message_not_found'],
					}),
					querystring: noQuery,
					params: messageParams,
				},
			},
			async request => {
				const {id} = request.params;
				const caller = callerOf(request);
				const message = isId('msg', id) ? await findMessage(reader, caller.workspaceId, id) : undefined;
				if (!message || message.mode !== (visibleMode(caller) ?? message.mode)) {
					throw apiError('message_not_found');
				}
				return messageView(message);
			},
		);

		routes.get(
			'/v1/messages/:id/events',
			{
				onRequest: auth.needs('messages:read'),
				schema: {
					...describe({
						tag: 'Messages',
						summary: "Read a message's timeline",
						answer: [200, 'Events, oldest first.', pageOf(eventSchema)],
						errors: ['message_not_found'],
					}),
					querystring: pageQuery,
					params: messageParams,
				},
			},
			async request => {
				const {id} = request.params;
				const caller = callerOf(request);
				const page = await readPage({
					query: request.query,
					usualLimit: eventsPerPage,
					cursors,
					scope: {workspaceId: caller.workspaceId, route: 'message_events', filters: {message: id}},
					async read(part) {
						await visibleMessage(reader, caller, id);
						return await readEvents(reader, id, part);
					},
				});
				return {data: page.rows.map(eventView), next_cursor: page.nextCursor};
			},
		);
	};
}
