import {storeTime} from '../../kit/time.ts';
import {type Address, parseAddress} from '../../mail/address.ts';
import type {Acting} from '../../mail/operator.ts';
import {isSimulated} from '../../mail/simulator.ts';
import {Type} from '../../mail/type.ts';
import {suppressAddresses} from '../../outcome/suppress.ts';
import {pairKey} from '../../store/engine/rows.ts';
import type {GroupWrite} from '../../store/engine/writer.ts';
import {recordAct} from '../audit/store.ts';
import {longOperation, notFound, operation, Refused} from '../operation.ts';
import {deleteSuppression, findSuppression, type NewSuppression, readSuppressions, type Suppression} from './store.ts';

/** The entry of an address, and whether this operation created it. */
type Suppressed = {readonly entry: Suppression; readonly isNew: boolean};

/** Adds addresses to the list, many in one transaction. An existing entry stays unchanged. */
const suppressWrite: GroupWrite<NewSuppression & {readonly acting: Acting}, Suppressed> = {
	name: 'suppress',
	rank: 5,
	async apply(trx, entries) {
		// Any entry's tools can send the notifications, since they do not depend on who acts.
		const [{acting: notifier}] = entries as readonly [(typeof entries)[number]];
		const added = await suppressAddresses(trx, entries, notifier);
		for (const {id, workspaceId, addressKey, reason, acting} of entries.filter(entry => added.has(entry.id))) {
			const act = {action: 'suppression.added', workspaceId, target: id, detail: {reason}, recipient: addressKey};
			await recordAct(trx, acting, act);
		}
		const pairs = entries.map(({workspaceId, addressKey}) => [workspaceId, addressKey] as const);
		const listed = await readSuppressions(trx, pairs);
		return entries.map(({id, workspaceId, addressKey}) => ({
			entry: listed.get(pairKey(workspaceId, addressKey)) as Suppression,
			isNew: added.has(id),
		}));
	},
};

const manages = {
	scope: 'suppressions:manage',
	role: 'operator',
	without: {apply: 'a file has no people'},
} as const;
const examples = [{recipient: 'gone@example.org'}];

/** Adds an address to the list. No process caches the list, so there is nothing to refresh. */
export const addSuppression = longOperation({
	...manages,
	name: 'suppression add',
	input: Type.Object(
		{
			recipient: Type.String({
				format: 'recipient-email',
				description: 'A bare address. Case and the spelling of an internationalized domain are ignored.',
			}),
		},
		{additionalProperties: false, examples},
	),
	async work({writer, workspaceId, mode, face, tools}, {recipient}): Promise<Suppressed> {
		const id = tools.newId('sup');
		const createdAt = storeTime(tools.clock.now());
		const {spelling: address, key: addressKey} = toAddress(recipient);
		const entry = {id, workspaceId, address, addressKey, reason: 'manual', source: face, mode, createdAt} as const;
		return await writer.submit(suppressWrite, {...entry, acting: tools});
	},
	audit: 'suppression.added',
});

/** Removes an entry. The audit trail records who allowed mail to an address that had bounced or complained. */
export const removeSuppression = operation({
	...manages,
	name: 'suppression remove',
	input: Type.Union([Type.Object({id: Type.String()}), Type.Object({recipient: Type.String()})]),
	async run({trx, workspaceId, mode}, by) {
		const entry = await findSuppression(
			trx,
			workspaceId,
			'id' in by ? by : {addressKey: toAddress(by.recipient).key},
		);
		if (entry && mode === 'test' && entry.mode === 'live' && !isSimulated(entry.address_key)) {
			const wrong = 'a test key cannot remove a live entry';
			const api = 'A test key cannot remove a live entry.';
			throw new Refused('insufficient_scope', {wrong, next: 'use a live key', api});
		}
		return entry && (await deleteSuppression(trx, entry.id))
			? entry
			: notFound('suppression', '', {
					wrong: `${'id' in by ? by.id : by.recipient} is not on the suppression list`,
					page: 'This address is not on the suppression list.',
				});
	},
	audit: 'suppression.removed',
	entry: ({id, address_key: recipient, reason, source, created_at}) => ({
		target: id,
		detail: {reason, source, created_at},
		recipient,
	}),
	refreshes: false,
});

function toAddress(text: string): Address {
	const parsed = parseAddress(text, {allowsUtf8Local: true});
	if (!parsed.ok) {
		throw new Refused('unprocessable_entity', {
			wrong: `${text} is not a valid address`,
			next: `it ${parsed.problem}`,
		});
	}
	return parsed.address;
}
