import {storeTime} from '../../kit/time.ts';
import {isReserved, parseAddress} from '../../mail/address.ts';
import type {Received} from '../../mail/received.ts';
import {Type} from '../../mail/type.ts';
import {recordAct} from '../audit/store.ts';
import {field} from '../fields.ts';
import {notFound, operation, Refused, refuseField} from '../operation.ts';
import {checkRoom} from '../workspaces/limits.ts';
import {listReturnPathHosts} from './inbound-store.ts';
import {
	deleteInboundAddress,
	deleteOthersInbound,
	deleteReceived,
	findReceived,
	type InboundAddress,
	insertInboundAddress,
	listDomainsAbove,
} from './store.ts';

const manages = {scope: 'received:manage'} as const;
const apply = 'a file describes outgoing mail only';
const id = Type.String();
const examples = [{address: 'support@in.shop.example'}];

/** Returns the normalized form of an address, or of `*@` and a domain, which stands for every address there. */
function parseInbound(text: string): {readonly key: string; readonly domain: string} {
	const isWildcard = text.startsWith('*@');
	const parsed = parseAddress(isWildcard ? `any${text.slice(1)}` : text, {allowsUtf8Local: false});
	if (!parsed.ok || parsed.address.local.includes('*')) {
		const problem = parsed.ok ? 'must be one address, without * in its local part' : parsed.problem;
		return refuseField('address', `${problem}, or be *@ and a domain`);
	}
	const {key, domain} = parsed.address;
	if (isReserved(key)) {
		const reservedNames = 'postmaster, abuse, fbl, dmarc and tlsrpt';
		refuseField('address', `must not be reserved: ${reservedNames} belong to the operator at every domain`);
	}
	return {key: isWildcard ? `*@${domain}` : key, domain};
}

/** Throws `Refused` for an address at a host of the installation, because bounces arrive there. */
export function checkNotOurs(address: string, hosts: readonly string[]): void {
	const {domain} = parseInbound(address);
	if (hosts.includes(domain)) {
		refuseField('address', `must be at another domain: ${domain} receives the bounces of this installation`);
	}
}

/** Starts accepting mail to an address. From the command line, the operator can use domains of no workspace too. */
export const addInbound = operation({
	...manages,
	without: {apply},
	role: 'admin',
	name: 'inbound add',
	input: Type.Object(
		{
			address: field(Type.String({maxLength: 254}), {
				description: 'An address, or `*@` and a domain for all its addresses.',
			}),
		},
		{additionalProperties: false, examples},
	),
	async run({trx, tools, workspaceId, face}, {address: text}): Promise<InboundAddress> {
		const {key: address, domain} = parseInbound(text);
		checkNotOurs(text, await listReturnPathHosts(trx));
		const above = await listDomainsAbove(trx, domain);
		const proven = above.filter(({state}) => state === 'verified' || state === 'degraded');
		const isOwn = proven.some(({workspace_id: owner}) => owner === workspaceId);
		if (face !== 'cli' && !isOwn) {
			refuseField('address', 'must be at a verified domain of the workspace, or below one');
		}
		if (!isOwn && above.some(({workspace_id: owner}) => owner !== workspaceId)) {
			refuseField('address', 'must not be at a domain of another workspace');
		}
		if (isOwn && proven.every(({workspace_id: owner}) => owner === workspaceId)) {
			// A workspace that owned the domain before must not receive its mail any longer.
			for (const other of await deleteOthersInbound(trx, workspaceId, domain)) {
				const detail = {address: other.address};
				const act = {action: 'inbound.removed', workspaceId: other.workspace_id, target: other.id, detail};
				await recordAct(trx, tools, act);
			}
		}
		await checkRoom(trx, tools, workspaceId, 'inbound_addresses');
		const created_at = storeTime(tools.clock.now());
		const row = {id: tools.newId('inb'), workspace_id: workspaceId, address, created_at};
		if (!(await insertInboundAddress(trx, row))) {
			const wrong = `${address} already receives mail`;
			throw new Refused('conflict', {wrong, next: 'see mailctl inbound list', api: `${wrong}.`});
		}
		return row;
	},
	audit: 'inbound.added',
	entry: ({id: target, address}) => ({target, detail: {address}}),
});

/** Stops accepting mail to an address. Mail already received is retained. */
export const removeInbound = operation({
	...manages,
	without: {apply},
	role: 'admin',
	name: 'inbound remove',
	input: Type.Object({id}),
	run: async ({trx, workspaceId}, {id: wanted}): Promise<InboundAddress> =>
		(await deleteInboundAddress(trx, workspaceId, wanted)) ?? notFound('inbound', wanted),
	audit: 'inbound.removed',
	entry: ({id: target, address}) => ({target, detail: {address}}),
});

/** Deletes a received message and its webhook deliveries. */
export const removeReceived = operation({
	...manages,
	without: {cli: 'received mail is read in the dashboard and by the API', apply},
	role: 'operator',
	name: 'received delete',
	refreshes: false,
	input: Type.Object({id}),
	async run({trx, workspaceId, mode}, {id: wanted}): Promise<Received> {
		const found = mode === 'live' ? await findReceived(trx, workspaceId, wanted) : undefined;
		const mail = found ?? notFound('received', wanted);
		await deleteReceived(trx, [wanted]);
		return mail;
	},
	audit: 'received.deleted',
	entry: ({id: target}) => ({target}),
});
