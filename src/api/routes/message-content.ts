import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {bufferOf} from '../../kit/octets.ts';
import {Type} from '../../mail/type.ts';
import {listRecipients} from '../../store/recipients.ts';
import type {ApiParts} from '../api-parts.ts';
import {callerOf} from '../auth.ts';
import {type Caller, visibleMessage} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {queryAddressKey} from '../schemas/formats.ts';
import {idParams} from '../schemas/page.ts';
import {previewSchema} from '../schemas/template.ts';
import type {Routes} from '../server.ts';
import {createTurns} from '../turns.ts';

const copyQuery = Type.Object(
	{
		recipient: Type.Optional(
			Type.String({format: 'query-recipient-email', description: 'Whose copy; absent: that of `to`.'}),
		),
	},
	{additionalProperties: false},
);
const remadeErrors = ['message_not_found', 'unprocessable_entity'] as const;

/** The mail of a message. Templates are foreign code: each render has a thread of its own. */
export function messageContentRoutes({auth, reader, mails}: ApiParts): Routes {
	const renderTurns = createTurns();

	/** The id of the copy that is meant. */
	async function chosenRecipient(caller: Caller, id: string, address: string | undefined): Promise<string> {
		const {erasedAt} = await visibleMessage(reader, caller, id);
		if (erasedAt !== null) {
			throw apiError('unprocessable_entity', {message: 'The message was erased: nothing is left of it.'});
		}
		const recipients = await listRecipients(reader, caller.workspaceId, id);
		const key = address === undefined ? undefined : queryAddressKey(address);
		const recipient = recipients.find(each => key === undefined || queryAddressKey(each.address) === key);
		if (!recipient) {
			const message = 'must be an address of this message';
			throw apiError('validation_failed', {violations: [{field: 'recipient', message}]});
		}
		return recipient.id;
	}

	async function remade({workspaceId}: Caller, recipientId: string) {
		const made = await renderTurns(workspaceId, () => mails.remade(workspaceId, recipientId));
		if (made === 'no_sender' || !made.ok) {
			const why = made === 'no_sender' ? 'its sender was removed' : made.message;
			throw apiError('unprocessable_entity', {message: `The mail cannot be made: ${why}.`});
		}
		return made;
	}

	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.get(
			'/v1/messages/:id/content',
			{
				onRequest: auth.needs('messages:read'),
				schema: {
					...describe({
						tag: 'Messages',
						summary: "Read a message's content",
						description:
							'Subject, html and text as the template renders them for this recipient; links are not rewritten for tracking.',
						answer: [200, 'The content.', previewSchema],
						errors: remadeErrors,
					}),
					querystring: copyQuery,
					params: idParams('msg'),
				},
			},
			async request => {
				const caller = callerOf(request);
				const recipientId = await chosenRecipient(caller, request.params.id, request.query.recipient);
				return (await remade(caller, recipientId)).content;
			},
		);

		routes.get(
			'/v1/messages/:id/raw',
			{
				onRequest: auth.needs('messages:read'),
				schema: {
					...describe({
						tag: 'Messages',
						summary: "Read a message's mail",
						description:
							'The whole mail with its headers. In capture mode it is the captured one; otherwise it is made again, and its signatures and the tokens of its links are other ones than those that were sent. Mail by a test key has no signature.',
						answer: [200, 'The mail (RFC 5322).', null],
						media: 'message/rfc822',
						errors: remadeErrors,
					}),
					querystring: copyQuery,
					params: idParams('msg'),
				},
			},
			async (request, reply) => {
				const caller = callerOf(request);
				const {id} = request.params;
				const recipientId = await chosenRecipient(caller, id, request.query.recipient);
				const mail = (await mails.captured(recipientId)) ?? (await remade(caller, recipientId)).mail;
				return reply
					.type('message/rfc822')
					.header('content-disposition', `attachment; filename="${id}.eml"`)
					.send(bufferOf(mail));
			},
		);
	};
}
