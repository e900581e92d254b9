import type {Knex} from 'knex';
import type {Address} from '../mail/address.ts';
import type {Mode} from '../mail/message.ts';
import type {Acting, ActTools} from '../mail/operator.ts';
import {isSimulated} from '../mail/simulator.ts';
import {storeTime} from '../mail/time.ts';
import {recordAct} from '../store/audit.ts';
import {pairKey} from '../store/engine/pairs.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {
	deleteSuppression,
	findSuppression,
	insertSuppressions,
	type NewSuppression,
	readSuppressions,
	type Suppression,
} from '../store/suppressions.ts';

/** The entry that holds for the address, and whether it is this one or was there before. */
export type Suppressed = {readonly entry: Suppression; readonly isNew: boolean};

/** An entry to be made, and whose act it is. */
export type SuppressionAct = NewSuppression & {readonly acting: Acting};

/** Puts addresses on the list, many in one transaction; one that is listed keeps its entry as it is. */
export const suppressWrite: GroupWrite<SuppressionAct, Suppressed> = {
	name: 'suppress',
	rank: 5,
	async apply(trx, entries) {
		const added = await insertSuppressions(trx, entries);
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

/** An entry that somebody makes by hand. */
export function manualEntry(
	acting: Acting,
	{
		workspaceId,
		address,
		source,
		mode,
	}: {workspaceId: string; address: Address; source: 'api' | 'cli' | 'dashboard'; mode: Mode},
): SuppressionAct {
	return {
		acting,
		id: acting.newId('sup'),
		workspaceId,
		address: address.spelling,
		addressKey: address.key,
		reason: 'manual',
		source,
		mode,
		createdAt: storeTime(acting.clock.now()),
	};
}

export type Removal = {
	readonly workspaceId: string;
	readonly by: {readonly id: string} | {readonly addressKey: string};
	/** Who removes it: a test key removes only what test keys made, and entries of simulator addresses. */
	readonly mode: Mode;
};

/**
 * Takes an address off the list, and answers the entry; undefined: there is none. Mail flows again to somebody whose host
 * or who himself had said no: who let it is kept in the audit trail. `live`: the entry is not for a test key to remove.
 */
export async function removeSuppression(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, by, mode}: Removal,
): Promise<Suppression | 'live' | undefined> {
	const entry = await findSuppression(trx, workspaceId, by);
	if (entry && mode === 'test' && entry.mode === 'live' && !isSimulated(entry.address_key)) {
		return 'live';
	}
	if (!(entry && (await deleteSuppression(trx, entry.id)))) {
		return undefined;
	}
	const {id, address_key: recipient, reason, source, created_at} = entry;
	const detail = {reason, source, created_at};
	await recordAct(trx, tools, {action: 'suppression.removed', workspaceId, target: id, detail, recipient});
	return entry;
}
