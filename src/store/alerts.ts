import type {Knex} from 'knex';
import type {AlertKind, AlertMessage, AlertWay, Condition} from '../mail/alert.ts';
import {selectInTurns} from './engine/rows.ts';

/** Who is to know of what is wrong: a row of `alerts`. */
export type Alert = {
	readonly id: string;
	/** Null: it is about the installation, and all workspaces. */
	readonly workspace_id: string | null;
	readonly way: AlertWay;
	/** The address or URL; of a URL at Slack, which is a secret, only its host. */
	readonly target: string;
	/** Sealed for its id: what signs its posts, or the URL at Slack. Null: it goes by mail. */
	readonly secret: string | null;
	/** Of its mails; null: mailctl at MAILCTL_HOSTNAME. */
	readonly sender: string | null;
	/** Null: all. */
	readonly kinds: readonly AlertKind[] | null;
	readonly muted_until: string | null;
	/** When its last message went out, and why the last attempt failed; null: it did not. */
	readonly sent_at: string | null;
	readonly error: string | null;
	readonly created_at: string;
};

type Row = Omit<Alert, 'kinds'> & {readonly kinds: string | null};

const fromRow = (row: Row): Alert => ({...row, kinds: row.kinds === null ? null : JSON.parse(row.kinds)});

export async function insertAlert(trx: Knex.Transaction, alert: Alert): Promise<void> {
	const kinds = alert.kinds && JSON.stringify(alert.kinds);
	// Nodes of the version before read when an alert last had a digest.
	await trx('alerts').insert({...alert, kinds, digest_at: alert.created_at});
}

/** Newest first; `workspaceId`: its own; null: all. */
export async function listAlerts(reader: Knex, workspaceId: string | null): Promise<Alert[]> {
	const rows: Row[] = await ofWorkspace(reader, workspaceId).orderBy('id', 'desc');
	return rows.map(fromRow);
}

/** Those of the installation. */
export async function countOwnAlerts(reader: Knex): Promise<number> {
	const found: {n: number | string} = await reader('alerts')
		.whereNull('workspace_id')
		.first(reader.raw('count(*) as n'));
	return Number(found.n);
}

/** `workspaceId`: only its own; null: any. */
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

/** With its messages. False: there is no such alert. */
export async function deleteAlert(trx: Knex.Transaction, id: string): Promise<boolean> {
	return (await trx('alerts').where({id}).delete()) === 1;
}

/** What is wrong, or was lately: a row of `conditions`. */
export type KnownCondition = Omit<Condition, 'workspaceId'> & {
	readonly workspace_id: string | null;
	readonly began_at: string;
	readonly seen_at: string;
	/** Null: it has not lasted long enough. */
	readonly announced_at: string | null;
	readonly ended_at: string | null;
	/** How often it was announced lately. */
	readonly rings: number;
};

/** Oldest first. `workspaceId`: its own; null: all. */
export async function listConditions(reader: Knex, workspaceId: string | null = null): Promise<KnownCondition[]> {
	return await reader('conditions')
		.modify(query => workspaceId !== null && void query.where({workspace_id: workspaceId}))
		.orderBy(['began_at', 'kind', 'subject']);
}

/**
 * Writes what becomes of a condition that was read as `known`. Returns `false` if another node has changed it since.
 */
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

/** A message that is to go out: a row of `alert_messages`. */
export type DueMessage = {
	readonly id: string;
	readonly alert_id: string;
	/** JSON of an `AlertMessage` without its id. */
	readonly message: string;
	readonly due_at: string;
	/** Tries that were begun. */
	readonly attempts: number;
};

const messagesPerLook = 20;

export async function queueMessage(
	trx: Knex.Transaction,
	alertId: string,
	{id, ...message}: AlertMessage,
): Promise<void> {
	const row = {id, alert_id: alertId, message: JSON.stringify(message), due_at: message.at, attempts: 0};
	await trx('alert_messages').insert(row satisfies DueMessage);
}

/** Some of the messages that are due: workspaces in turn, and new ones first, as those that fail may be many. */
export async function listDueMessages(reader: Knex, now: string): Promise<DueMessage[]> {
	const due = reader('alert_messages as m')
		.join('alerts as a', 'a.id', 'm.alert_id')
		.where('m.due_at', '<=', now)
		.select('m.*', 'a.workspace_id');
	return await selectInTurns(reader, due, 'attempts, id', {limit: messagesPerLook, perWorkspace: messagesPerLook});
}

/** Begins a try to send a message, which is due again at `nextAt`. Returns `false` if another node began it. */
export async function beginTry(
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
