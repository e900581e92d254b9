import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {idFloor} from '../../mail/ids.ts';
import type {Acting} from '../../mail/operator.ts';
import {alongIndex, toColumns} from '../../store/engine/rows.ts';

/** A privileged action as it is recorded. It contains no secrets and no content of messages. */
export type Act = {
	/** The noun of the CLI and a past participle, such as `key.revoked`. */
	readonly action: string;
	/** `null` if it concerns all workspaces. */
	readonly workspaceId: string | null;
	/** The id of the changed object; `null` if there are several, which the detail lists. */
	readonly target: string | null;
	readonly detail?: Readonly<Record<string, unknown>>;
	/** The address that it concerns, in comparison form. It is not in the detail, because an erasure removes it. */
	readonly recipient?: string;
	/** In the store's form; the current time if absent. */
	readonly at?: string;
};

/** The maximum delay between an action and its audit record, in milliseconds. */
const maxDelay = 60_000;

/** Records an action. Call it in the transaction that performs the action. */
export async function recordAct(trx: Knex.Transaction, acting: Acting, act: Act): Promise<void> {
	await trx('audit').insert(toRow(acting, act));
}

/**
 * Records an action that takes several transactions. The first transaction inserts the row and each later one updates
 * it, so everything that was done is recorded even if the action is interrupted.
 */
export function beginAct(
	acting: Acting,
	act: Omit<Act, 'detail'>,
): (trx: Knex.Transaction, detail: Act['detail']) => Promise<void> {
	const row = toRow(acting, act);
	return async (trx, detail) => {
		await trx('audit')
			.insert({...row, detail: toDetail(acting, detail)})
			.onConflict('id')
			.merge(['detail']);
	};
}

function toRow(acting: Acting, {action, workspaceId, target, detail, recipient, at}: Act) {
	return {
		id: acting.newId('aud'),
		at: at ?? storeTime(acting.clock.now()),
		workspace_id: workspaceId,
		actor: acting.operator.actor,
		origin: acting.operator.from,
		action,
		target,
		detail: toDetail(acting, detail),
		recipient: recipient ?? null,
	};
}

function toDetail({operator: {sudoUser}}: Acting, detail: Act['detail']): string {
	return JSON.stringify({...detail, ...(sudoUser !== undefined && {sudo_user: sudoUser})});
}

/** A recorded action. */
export type AuditEntry = {
	readonly id: string;
	readonly at: string;
	readonly workspaceId: string | null;
	readonly actor: string;
	/** `null` if it was recorded by a version that did not store it. */
	readonly from: string | null;
	readonly action: string;
	readonly target: string | null;
	readonly detail: Readonly<Record<string, unknown>>;
};

type Row = Omit<AuditEntry, 'detail'> & {readonly detail: string | null; readonly recipient: string | null};

const columns = [...toColumns('id at workspaceId actor action target detail recipient').selected, 'origin as from'];

type AuditFilter = {
	/** If absent, actions in all workspaces, and those that concern all of them, are returned. */
	readonly workspaceId?: string | undefined;
	/** Actions since this time, in milliseconds. */
	readonly since?: number | undefined;
	/** Actions that follow this id; from the newest if `null`. */
	readonly after?: string | null;
	readonly limit: number;
};

/** Returns recorded actions, newest first. */
export async function listAudit(
	reader: Knex,
	{workspaceId, since, after = null, limit}: AuditFilter,
): Promise<AuditEntry[]> {
	const from = since === undefined ? '' : idFloor('aud', since);
	const below = after ?? idFloor('aud', 2 ** 48 - 1);
	const query =
		workspaceId === undefined
			? reader('audit').where('id', '>=', from).where('id', '<', below).orderBy('id', 'desc')
			: alongIndex(reader, 'audit', {leading: {workspace_id: workspaceId}, id: 'id'}, {from, below});
	const rows: Row[] = await query.limit(limit).select(columns);
	return rows.map(toEntry);
}

/** Returns an action in a workspace at this time. Ids begin with their times, so at most a minute is read. */
export async function findAudit(
	reader: Knex,
	{workspaceId, action, at}: Pick<AuditEntry, 'workspaceId' | 'action' | 'at'>,
): Promise<AuditEntry | undefined> {
	const from = Date.parse(at);
	const row = await reader('audit')
		.whereBetween('id', [idFloor('aud', from), idFloor('aud', from + maxDelay)])
		.where({workspace_id: workspaceId, action, at})
		.first<Row | undefined>(columns);
	return row && toEntry(row);
}

function toEntry({recipient, detail, ...row}: Row): AuditEntry {
	return {...row, detail: {...JSON.parse(detail ?? '{}'), ...(recipient !== null && {recipient})}};
}

/** Removes the address of an erased person. The recorded actions remain. */
export async function eraseFromAudit(trx: Knex.Transaction, workspaceId: string, addressKey: string): Promise<void> {
	await trx('audit').where({workspace_id: workspaceId, recipient: addressKey}).update({recipient: null});
}

/** Removes at most `limit` actions before a time (milliseconds), oldest first. Returns their number. */
export async function purgeAudit(trx: Knex.Transaction, before: number, limit: number): Promise<number> {
	const oldest = trx('audit').where('id', '<', idFloor('aud', before)).orderBy('id').limit(limit).select('id');
	return await trx('audit').whereIn('id', oldest).delete();
}
