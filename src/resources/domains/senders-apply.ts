import type {Address} from '../../mail/address.ts';
import {Type} from '../../mail/type.ts';
import {declaration} from '../apply/declaration.ts';
import {optionalOrNull} from '../fields.ts';
import {readAddress} from '../formats.ts';
import {addSender, changeSender, prepareKeys, removeSender, type SenderChange} from './senders.ts';
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
		const byOperator = new Set(await listVerifiedByOperator(reader, workspaceId));
		const senders = await listSenders(reader, workspaceId);
		return senders.map(({address, address_key, name, disabled_at}) => {
			const verified = byOperator.has(address_key);
			return {address, name, verified, active: disabled_at === null};
		});
	},
	steps: {
		async add({reader, write, tools, vault, workspaceId}, {declared}) {
			const {name = null, verified = false, active} = declared;
			const address = toAddress(declared.address);
			const newKeys = await prepareKeys(reader, workspaceId, address.domain);
			return await write(async trx => {
				const sender = await addSender(trx, tools, vault, {workspaceId, address, name, verified, newKeys});
				if (sender && active === false) {
					await changeSender(trx, tools, workspaceId, address.key, 'disable');
				}
				return sender;
			});
		},
		async change({write, tools, workspaceId}, {declared, fields: {name, verified, active}}) {
			const {key} = toAddress(declared.address);
			const changes: SenderChange[] = [
				...(name ? [{name: declared.name ?? null}] : []),
				...(verified ? [verified.to ? ('verify' as const) : ('unverify' as const)] : []),
				...(active ? [active.to ? ('enable' as const) : ('disable' as const)] : []),
			];
			return await write(async trx => {
				const sender = await findSender(trx, workspaceId, key);
				for (const change of sender ? changes : []) {
					await changeSender(trx, tools, workspaceId, key, change);
				}
				return sender;
			});
		},
		async remove({write, tools, workspaceId}, {known}) {
			const {key: addressKey} = toAddress(known.address);
			return (await write(trx => removeSender(trx, tools, workspaceId, {addressKey}))) ? {} : undefined;
		},
	},
});
