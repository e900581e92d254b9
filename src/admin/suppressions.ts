import type {Knex} from 'knex';
import type {Address} from '../mail/address.ts';
import {storeTime} from '../mail/time.ts';
import {insertAudit} from '../store/audit.ts';
import {pairKey} from '../store/pairs.ts';
import {
	deleteSuppression,
	insertSuppressions,
	type NewSuppression,
	readSuppressions,
	type Suppression,
} from '../store/suppressions.ts';
import type {GroupWrite} from '../store/writer.ts';
import type {Tools} from './tools.ts';

/** The entry that holds for the address, and whether it is this one or was there before. */
export type Suppressed = {readonly entry: Suppression; readonly isNew: boolean};

/** Puts addresses on the list, many in one transaction; one that is listed keeps its entry as it is. */
export const suppressWrite: GroupWrite<NewSuppression, Suppressed> = {
	name: 'suppress',
	rank: 5,
	async apply(trx, entries) {
		const added = await insertSuppressions(trx, entries);
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
	{clock, newId}: Tools,
	{workspaceId, address, source}: {workspaceId: string; address: Address; source: 'api' | 'cli'},
): NewSuppression {
	return {
		id: newId('sup'),
		workspaceId,
		address: address.spelling,
		addressKey: address.key,
		reason: 'manual',
		source,
		createdAt: storeTime(clock.now()),
	};
}

export type Removal = {
	readonly workspaceId: string;
	readonly by: {readonly id: string} | {readonly addressKey: string};
	/** The API key's id, or `cli`. */
	readonly actor: string;
};

/**
 * Takes an address off the list, and answers the entry; undefined: there is none. Mail flows again to somebody whose host
 * or who himself had said no: who let it is kept in the audit trail.
 */
export async function removeSuppression(
	trx: Knex.Transaction,
	{clock, newId}: Tools,
	{workspaceId, by, actor}: Removal,
): Promise<Suppression | undefined> {
	const removed = await deleteSuppression(trx, workspaceId, by);
	if (removed && removed.reason !== 'manual') {
		const {id, address, reason, source, created_at} = removed;
		await insertAudit(trx, {
			id: newId('aud'),
			at: storeTime(clock.now()),
			workspaceId,
			actor,
			action: 'suppression.removed',
			target: id,
			detail: {recipient: address, reason, source, created_at},
		});
	}
	return removed;
}
