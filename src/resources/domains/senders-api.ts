import type {Route} from '../../api/api-parts.ts';
import {listRoute, operationRoute} from '../../api/api-route.ts';
import {Type} from '../../mail/type.ts';
import {checkedAddress} from '../formats.ts';
import {time} from '../page-schema.ts';
import {senderView} from '../views.ts';
import {addSender, prepareKeys, removeSender, updateSender} from './senders-rules.ts';
import {pageSenders} from './store.ts';

const senderSchema = Type.Object(
	{
		id: Type.String(),
		address: Type.String(),
		name: Type.Union([Type.String(), Type.Null()]),
		verified: Type.Boolean({description: 'Verified by its domain or by an operator. Required for sends.'}),
		active: Type.Boolean({description: '`false` if the sender is disabled: sends from it are refused.'}),
		created_at: time,
	},
	{
		examples: [
			{
				id: 'snd_01kaxq7w0c8m2v5t9d3f6h1j4n',
				address: 'no-reply@shop.example',
				name: 'Shop',
				verified: false,
				active: true,
				created_at: '2026-06-09T10:15:30+00:00',
			},
		],
	},
);

const listSendersRoute = listRoute({
	path: '/v1/senders',
	scope: 'senders:read',
	name: 'senders',
	tag: 'Senders',
	summary: 'List senders',
	meaning: 'Senders, newest first.',
	defaultLimit: 25,
	item: senderSchema,
	find: ({workspaceId}, {reader}) => ({read: part => pageSenders(reader, workspaceId, part)}),
	view: sender => senderView(sender),
});

const createSenderRoute = operationRoute(addSender, {
	endpoint: 'POST /v1/senders',
	tag: 'Senders',
	summary: 'Add a sender',
	description:
		'The sender can be used once its domain is verified by the records of `GET /v1/domains/{id}`, or once an operator has verified it.',
	answer: [201, 'The sender.', senderSchema],
	errors: ['conflict'],
	prepare: ({address}, {reader, domains}, workspaceId) =>
		prepareKeys(reader, workspaceId, checkedAddress(address).domain, domains.makeKeys),
	view: sender => senderView(sender),
});

const updateSenderRoute = operationRoute(updateSender, {
	endpoint: 'PATCH /v1/senders/:id',
	id: 'snd',
	tag: 'Senders',
	summary: 'Update a sender',
	description: 'Changes its name and whether sends may use it. Omitted fields stay unchanged.',
	answer: [200, 'The changed sender.', senderSchema],
	view: sender => senderView(sender),
});

const deleteSenderRoute = operationRoute(removeSender, {
	endpoint: 'DELETE /v1/senders/:id',
	id: 'snd',
	tag: 'Senders',
	summary: 'Remove a sender',
	description: 'Its queued messages become `errored`. The domain stays.',
	answer: [204, 'The sender was removed.', null],
});

export const senderRoutes: readonly Route[] = [
	listSendersRoute,
	createSenderRoute,
	updateSenderRoute,
	deleteSenderRoute,
];
