import type {Knex} from 'knex';

/** Who did something that others may ask about later. */
export type AuditEntry = {
	readonly id: string;
	readonly at: string;
	readonly workspaceId: string;
	/** The API key's id, or `cli`. */
	readonly actor: string;
	/** `suppression.removed` and the like. */
	readonly action: string;
	/** The id of what it was done to. */
	readonly target: string;
	readonly detail: Readonly<Record<string, unknown>>;
};

export async function insertAudit(trx: Knex.Transaction, entry: AuditEntry): Promise<void> {
	const {id, at, workspaceId, actor, action, target, detail} = entry;
	await trx('audit').insert({id, at, workspace_id: workspaceId, actor, action, target, detail: JSON.stringify(detail)});
}
