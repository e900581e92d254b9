import type {Knex} from 'knex';
import type {Operator} from '../mail/operator.ts';
import {insertAudit} from '../store/audit.ts';
import type {ChangedCopy} from '../store/queue-change.ts';
import type {Tools} from './tools.ts';

/** What was done to copies of the queue in one transaction. */
export type QueueAction = {
	/** `queue.held` and the like. */
	readonly action: string;
	readonly at: string;
	/** How they were chosen, and why. */
	readonly detail: Readonly<Record<string, unknown>>;
	readonly operator: Operator;
};

/** One row for each workspace whose copies were changed. */
export async function auditQueue(
	trx: Knex.Transaction,
	{newId}: Pick<Tools, 'newId'>,
	{action, at, detail, operator}: QueueAction,
	changed: readonly ChangedCopy[],
): Promise<void> {
	for (const workspaceId of new Set(changed.map(copy => copy.workspace_id))) {
		const copies = changed.filter(copy => copy.workspace_id === workspaceId);
		await insertAudit(trx, {
			id: newId('aud'),
			at,
			workspaceId,
			actor: operator.actor,
			action,
			target: copies.length === 1 ? (copies[0]?.id ?? null) : null,
			detail: {...detail, copies: copies.length, user: operator.user},
		});
	}
}
