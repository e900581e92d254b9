import type {Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute} from '../../api/api-route.ts';
import {type Address, parseAddress} from '../../mail/address.ts';
import {apiError} from '../../mail/api-error.ts';
import {Type} from '../../mail/type.ts';
import {time} from '../page-schema.ts';
import {senderView} from '../views.ts';
import {addSender, changeSender, prepareKeys, removeSender, type SenderChange} from './senders.ts';
import {findSender, findSenderById, pageSenders} from './store.ts';

/** The body that adds a sender. */
const senderBody = Type.Object(
	{
		address: Type.String({
			format: 'email',
			description: 'A bare address. Its domain is created with signing keys if the workspace does not have it.',
		}),
		name: Type.Optional(
			Type.String({format: 'label', description: 'The display name of `From`, 1 to 200 characters.'}),
		),
	},
	{additionalProperties: false, examples: [{address: 'no-reply@shop.example', name: 'Shop'}]},
);

/** The body that changes a sender. */
const senderChanges = Type.Object(
	{
		name: Type.Optional(
			Type.Union([Type.String({format: 'label'}), Type.Null()], {
				description: 'The display name of `From`, 1 to 200 characters; `null` removes it.',
			}),
		),
		active: Type.Optional(Type.Boolean({description: '`false` refuses sends from the address.'})),
	},
	{additionalProperties: false, examples: [{active: false}]},
);

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

const duplicateMessage = 'A sender with this address already exists.';

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

const createSenderRoute = apiRoute({
	endpoint: 'POST /v1/senders',
	scope: 'senders:manage',
	tag: 'Senders',
	summary: 'Add a sender',
	description:
		'The sender can be used once its domain is verified by the records of `GET /v1/domains/{id}`, or once an operator has verified it.',
	answer: [201, 'The sender.', senderSchema],
	errors: ['conflict'],
	body: senderBody,
	async handle({workspaceId, body, tools}, {reader, change, vault, domains}) {
		const address = read(body.address);
		if (await findSender(reader, workspaceId, address.key)) {
			throw apiError('conflict', {message: duplicateMessage});
		}
		const newKeys = await prepareKeys(reader, workspaceId, address.domain, domains.makeKeys);
		const name = body.name ?? null;
		const input = {workspaceId, address, name, verified: false, newKeys};
		const added = await change(trx => addSender(trx, tools, vault, input));
		if (!added) {
			throw apiError('conflict', {message: duplicateMessage});
		}
		return senderView(added);
	},
});

const updateSenderRoute = apiRoute({
	endpoint: 'PATCH /v1/senders/:id',
	scope: 'senders:manage',
	id: 'snd',
	tag: 'Senders',
	summary: 'Update a sender',
	description: 'Changes its name and whether sends may use it. Omitted fields stay unchanged.',
	answer: [200, 'The changed sender.', senderSchema],
	body: senderChanges,
	async handle({workspaceId, id, body, tools}, {change}) {
		const {name, active} = body;
		const steps: readonly SenderChange[] = [
			...(name === undefined ? [] : [{name}]),
			...(active === undefined ? [] : [active ? ('enable' as const) : ('disable' as const)]),
		];
		const changed = await change(async trx => {
			let sender = await findSenderById(trx, workspaceId, id);
			for (const step of sender ? steps : []) {
				sender = sender && (await changeSender(trx, tools, workspaceId, sender.address_key, step));
			}
			return sender;
		});
		if (!changed) {
			throw apiError('not_found');
		}
		return senderView(changed);
	},
});

const deleteSenderRoute = apiRoute({
	endpoint: 'DELETE /v1/senders/:id',
	scope: 'senders:manage',
	id: 'snd',
	tag: 'Senders',
	summary: 'Remove a sender',
	description: 'Its queued messages become `errored`. The domain stays.',
	answer: [204, 'The sender was removed.', null],
	async handle({workspaceId, id, tools}, {change}) {
		if (!(await change(trx => removeSender(trx, tools, workspaceId, {id})))) {
			throw apiError('not_found');
		}
	},
});

export const senderRoutes: readonly Route[] = [
	listSendersRoute,
	createSenderRoute,
	updateSenderRoute,
	deleteSenderRoute,
];

function read(text: string): Address {
	const parsed = parseAddress(text, {allowsUtf8Local: false});
	if (!parsed.ok) {
		throw new Error('An address passed the check of its format but cannot be parsed.');
	}
	return parsed.address;
}
