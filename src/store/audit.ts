import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';

/** An entry is made at most so long after the moment that it tells of, milliseconds. */
const longestDelay = 60_000;

/** Who did something that others may ask about later. */
export type AuditEntry = {
	readonly id: string;
	readonly at: string;
	/** Null: it concerns all. */
	readonly workspaceId: string | null;
	/** The API key's id, or `cli`. */
	readonly actor: string;
	/** `suppression.removed` and the like. */
	readonly action: string;
	/** The id of what it was done to; null: many, of which the detail tells. */
	readonly target: string | null;
	readonly detail: Readonly<Record<string, unknown>>;
};

export async function insertAudit(trx: Knex.Transaction, entry: AuditEntry): Promise<void> {
	const {id, at, workspaceId, actor, action, target, detail} = entry;
	await trx('audit').insert({id, at, workspace_id: workspaceId, actor, action, target, detail: JSON.stringify(detail)});
}

/** What was done in a workspace at this moment. The ids begin with their times: no more than a minute is read. */
export async function findAudit(
	reader: Knex,
	{workspaceId, action, at}: Pick<AuditEntry, 'workspaceId' | 'action' | 'at'>,
): Promise<Record<string, unknown> | undefined> {
	const from = Date.parse(at);
	const row = await reader('audit')
		.whereBetween('id', [idFloor('aud', from), idFloor('aud', from + longestDelay)])
		.where({workspace_id: workspaceId, action, at})
		.first<{detail: string | null} | undefined>('detail');
	return row && JSON.parse(row.detail ?? '{}');
}
