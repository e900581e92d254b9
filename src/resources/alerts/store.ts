import type {Knex} from 'knex';
import {
	type AlertChannel,
	type AlertKind,
	type AlertMessage,
	alertKindNames,
	type Condition,
} from '../../mail/alert.ts';
import {selectInTurns} from '../../store/engine/rows.ts';

/** A recipient of alerts: a row of `alerts`. */
export type Alert = {
	readonly id: string;
	/** `null` if it covers the installation and all workspaces. */
	readonly workspace_id: string | null;
	readonly way: AlertChannel;
	/** The address or URL. A Slack URL is secret, so only its host is stored here. */
	readonly target: string;
	/** The secret that signs its posts, or the Slack URL, sealed for its id; `null` if it is sent by email. */
	readonly secret: string | null;
	/** The sender of its emails; `null` for mailctl at MAILCTL_HOSTNAME. */
	readonly sender: string | null;
	/** `null` for all. */
	readonly kinds: readonly AlertKind[] | null;
	readonly muted_until: string | null;
	/** When its last message was sent, and why the last attempt failed; `null` if it did not fail. */
	readonly sent_at: string | null;
	readonly error: string | null;
	readonly created_at: string;
};

type Row = Omit<Alert, 'kinds'> & {readonly kinds: string | null};

const fromRow = (row: Row): Alert => ({...row, kinds: row.kinds === null ? null : JSON.parse(row.kinds)});

export async function insertAlert(trx: Knex.Transaction, alert: Alert): Promise<void> {
	const kinds = alert.kinds && JSON.stringify(alert.kinds);
	// Nodes of the previous version read `digest_at`, the time of the alert's last digest.
	await trx('alerts').insert({...alert, kinds, digest_at: alert.created_at});
}

/** Returns alerts, newest first: the workspace's own, or all if `workspaceId` is `null`. */
export async function listAlerts(reader: Knex, workspaceId: string | null): Promise<Alert[]> {
	const rows: Row[] = await ofWorkspace(reader, workspaceId).orderBy('id', 'desc');
	return rows.map(fromRow);
}

/** Returns the number of the installation's own alerts. */
export async function countOwnAlerts(reader: Knex): Promise<number> {
	const row: {n: number | string} = await reader('alerts')
		.whereNull('workspace_id')
		.first(reader.raw('count(*) as n'));
	return Number(row.n);
}

/** Returns an alert of this workspace, or of any if `workspaceId` is `null`. */
export async function findAlert(reader: Knex, workspaceId: string | null, id: string): Promise<Alert | undefined> {
	const row: Row | undefined = await ofWorkspace(reader, workspaceId).where({id}).first();
	return row && fromRow(row);
}

function ofWorkspace(reader: Knex, workspaceId: string | null): Knex.QueryBuilder {
	return reader('alerts').modify(query => workspaceId !== null && void query.where({workspace_id: workspaceId}));
}

export async function updateAlert(
	trx: Knex.Transaction,
	id: string,
	changes: Partial<Pick<Alert, 'muted_until' | 'sent_at' | 'error'>>,
): Promise<void> {
	await trx('alerts').where({id}).update(changes);
}

/** Deletes an alert with its messages. Returns `false` if it does not exist. */
export async function deleteAlert(trx: Knex.Transaction, id: string): Promise<boolean> {
	return (await trx('alerts').where({id}).delete()) === 1;
}

/** A current or recent problem: a row of `conditions`. */
export type KnownCondition = Omit<Condition, 'workspaceId'> & {
	readonly workspace_id: string | null;
	readonly began_at: string;
	readonly seen_at: string;
	/** `null` if it has not lasted long enough to be announced. */
	readonly announced_at: string | null;
	readonly ended_at: string | null;
	/** How often it was announced recently. */
	readonly rings: number;
};

/** Returns conditions, oldest first: the workspace's own, or all if `workspaceId` is `null`. */
export async function listConditions(reader: Knex, workspaceId: string | null = null): Promise<KnownCondition[]> {
	// A newer version may have written other kinds.
	return await reader('conditions')
		.whereIn('kind', [...alertKindNames])
		.modify(query => workspaceId !== null && void query.where({workspace_id: workspaceId}))
		.orderBy(['began_at', 'kind', 'subject']);
}

/** Stores the change of a condition that was read as `known`. Returns `false` if another node has changed it since. */
export async function changeCondition(
	trx: Knex.Transaction,
	known: KnownCondition | null,
	next: KnownCondition | null,
): Promise<boolean> {
	if (known === null) {
		const added = await trx('conditions').insert(next).onConflict(['kind', 'subject']).ignore().returning('kind');
		return added.length === 1;
	}
	const {kind, subject, announced_at, ended_at} = known;
	const row = trx('conditions').where({kind, subject, announced_at, ended_at});
	return (await (next === null ? row.delete() : row.update(next))) === 1;
}

/** A message to be sent: a row of `alert_messages`. */
export type DueMessage = {
	readonly id: string;
	readonly alert_id: string;
	/** JSON of an `AlertMessage` without its id. */
	readonly message: string;
	readonly due_at: string;
	/** The number of attempts that were started. */
	readonly attempts: number;
};

const messagesPerCheck = 20;

export async function queueMessage(
	trx: Knex.Transaction,
	alertId: string,
	{id, ...message}: AlertMessage,
): Promise<void> {
	const row = {id, alert_id: alertId, message: JSON.stringify(message), due_at: message.at, attempts: 0};
	await trx('alert_messages').insert(row satisfies DueMessage);
}

/** Returns some due messages. Workspaces take turns, and new messages come first, because many may be failing. */
export async function listDueMessages(reader: Knex, now: string): Promise<DueMessage[]> {
	const due = reader('alert_messages as m')
		.join('alerts as a', 'a.id', 'm.alert_id')
		.where('m.due_at', '<=', now)
		.select('m.*', 'a.workspace_id');
	return await selectInTurns(reader, due, 'attempts, id', {limit: messagesPerCheck, perWorkspace: messagesPerCheck});
}

/** Starts an attempt to send a message, which is due again at `nextAt`. Returns `false` if another node did so. */
export async function beginAttempt(
	trx: Knex.Transaction,
	{id, due_at, attempts}: DueMessage,
	nextAt: string,
): Promise<boolean> {
	const changes = {due_at: nextAt, attempts: attempts + 1};
	return (await trx('alert_messages').where({id, due_at}).update(changes)) === 1;
}

export async function removeMessage(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('alert_messages').where({id}).delete();
}
