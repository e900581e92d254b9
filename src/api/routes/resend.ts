import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {resendFingerprint} from '../../accept/idempotency.ts';
import {readResend} from '../../accept/resend.ts';
import type {ApiParts} from '../api-parts.ts';
import {callerOf} from '../auth.ts';
import {visibleMessage} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError, unavailable} from '../errors.ts';
import {checkBody, emptyBody, optionalBody} from '../optional-body.ts';
import {noQuery} from '../paging.ts';
import {answerSend, limitSends, readIdempotencyKey, sendErrors} from '../read-send.ts';
import {acceptedView} from '../schemas/message.ts';
import {idParams} from '../schemas/page.ts';
import {sendHeaders} from '../schemas/send.ts';
import type {Routes} from '../server.ts';
import {createChecks} from '../validate.ts';

/** Sends what a message said once more. */
export function resendRoutes({auth, reader, accept, limits, tools: {clock}, mayAccept}: ApiParts): Routes {
	const validate = optionalBody(createChecks());
	return api => {
		api.withTypeProvider<TypeBoxTypeProvider>().post(
			'/v1/messages/:id/resend',
			{
				onRequest: [auth.needs('messages:send'), limitSends(limits, clock)],
				schema: {
					...describe({
						tag: 'Messages',
						summary: 'Resend a message',
						description:
							'A new message that says the same, in the mode of the first (`live` or `test`), with the newest version of its template. It passes every check of a send, draws on the same rate limit and quota, and takes an `Idempotency-Key`. It teaches the contact nothing. The body may be left out.',
						answer: [202, 'The new message is on stable storage and will be delivered.', acceptedView],
						errors: [
							'message_not_found',
							'unprocessable_entity',
							...sendErrors.filter(code => code !== 'template_required'),
						],
					}),
					headers: sendHeaders,
					querystring: noQuery,
					params: idParams('msg'),
					body: emptyBody,
				},
				// What a key looks like is judged by `readIdempotencyKey`.
				validatorCompiler: route => (route.httpPart === 'headers' ? () => true : validate(route)),
			},
			async (request, reply) => {
				if (!mayAccept()) {
					throw unavailable();
				}
				checkBody(request);
				const key = readIdempotencyKey(request.headers['idempotency-key']);
				const {id} = request.params;
				const caller = callerOf(request);
				await visibleMessage(reader, caller, id);
				const send = await readResend(reader, caller.workspaceId, id);
				if (send === undefined) {
					throw apiError('message_not_found');
				}
				if (send === 'erased') {
					throw apiError('unprocessable_entity', {message: 'The message was erased: nothing is left of it.'});
				}
				const idempotency = key === null ? null : {key, fingerprint: resendFingerprint(id)};
				return answerSend(reply, await accept.single(send, idempotency), clock.now());
			},
		);
	};
}
