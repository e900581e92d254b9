import type {Address} from '../../mail/address.ts';
import {Type} from '../../mail/type.ts';
import {declaration} from '../apply/declaration.ts';
import {optionalOrNull} from '../fields.ts';
import {readAddress} from '../formats.ts';
import {performIn} from '../operation.ts';
import {addSender, prepareKeys, removeSender, updateSender, verifySender} from './senders-rules.ts';
import {findSender, listSenders, listVerifiedByOperator} from './store.ts';

/** Parses an address that the schema has accepted. */
const toAddress = (text: string) => readAddress(text) as Address;

const flag = Type.Optional(Type.Boolean());

export const declaredSenders = declaration({
	kind: 'sender',
	section: 'senders',
	/** `verified` means that an operator verified the sender, regardless of DNS. */
	schema: Type.Object(
		{
			address: Type.String({format: 'email'}),
			name: optionalOrNull(Type.String({format: 'label'})),
			verified: flag,
			active: flag,
		},
		{additionalProperties: false},
	),
	key: ['address'],
	toIdentity: address => toAddress(address).key,
	parent: {section: 'domains', nameOf: ({address}) => toAddress(address).domain},
	defaults: {verified: false, active: true},
	async read(reader, workspaceId) {
		const verifiedKeys = new Set(await listVerifiedByOperator(reader, workspaceId));
		const senders = await listSenders(reader, workspaceId);
		return senders.map(({address, address_key, name, disabled_at}) => {
			const verified = verifiedKeys.has(address_key);
			return {address, name, verified, active: disabled_at === null};
		});
	},
	operations: [addSender, updateSender, verifySender, removeSender],
	steps: {
		async add({reader, write, workspaceId, context}, {declared: {address, name, verified = false, active = true}}) {
			const newKeys = await prepareKeys(reader, workspaceId, toAddress(address).domain);
			return await write(async trx => {
				const inTrx = {...context, trx};
				const sender = await performIn(addSender, inTrx, {address, ...(name && {name}), verified, ...newKeys});
				return active ? sender : await performIn(updateSender, inTrx, {id: sender.id, active});
			});
		},
		async change({write, workspaceId, context}, {declared, fields}) {
			const {key} = toAddress(declared.address);
			const {name = null, verified = false, active = true} = declared;
			return await write(async trx => {
				const inTrx = {...context, trx};
				const id = (await findSender(trx, workspaceId, key))?.id;
				if (id === undefined) {
					return undefined;
				}
				await performIn(updateSender, inTrx, {id, ...(fields.name && {name})});
				if (fields.verified) {
					await performIn(verifySender, inTrx, {id, verified});
				}
				return await performIn(updateSender, inTrx, {id, ...(fields.active && {active})});
			});
		},
		async remove({reader, workspaceId, perform}, {known}) {
			const sender = await findSender(reader, workspaceId, toAddress(known.address).key);
			if (!sender) {
				return undefined;
			}
			await perform(removeSender, {id: sender.id});
			return {};
		},
	},
});
