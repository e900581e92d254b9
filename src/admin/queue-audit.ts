import type {Knex} from 'knex';
import type {Acting} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import type {ChangedRecipient} from '../store/queue/open-recipients.ts';

/** What was done to copies of the queue in one transaction. */
type QueueAction = {
	/** `queue.held` and the like. */
	readonly action: string;
	readonly at: string;
	/** How they were chosen, and why. */
	readonly detail: Readonly<Record<string, unknown>>;
};

/** One row for each workspace with changed recipients. */
export async function auditQueue(
	trx: Knex.Transaction,
	acting: Acting,
	{action, at, detail}: QueueAction,
	changed: readonly ChangedRecipient[],
): Promise<void> {
	for (const workspaceId of new Set(changed.map(recipient => recipient.workspace_id))) {
		const recipients = changed.filter(recipient => recipient.workspace_id === workspaceId);
		await recordAct(trx, acting, {
			action,
			at,
			workspaceId,
			target: recipients.length === 1 ? (recipients[0]?.id ?? null) : null,
			detail: {...detail, copies: recipients.length},
		});
	}
}
