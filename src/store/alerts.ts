import type {Knex} from 'knex';
import type {AlertKind, AlertMessage, AlertWay} from '../mail/alert.ts';
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
	readonly digest_at: string;
	/** When its last message went out, and why the last attempt failed; null: it did not. */
	readonly sent_at: string | null;
	readonly error: string | null;
	readonly created_at: string;
};

type Row = Omit<Alert, 'kinds'> & {readonly kinds: string | null};

const fromRow = (row: Row): Alert => ({...row, kinds: row.kinds === null ? null : JSON.parse(row.kinds)});

export async function insertAlert(trx: Knex.Transaction, alert: Alert): Promise<void> {
	await trx('alerts').insert({...alert, kinds: alert.kinds && JSON.stringify(alert.kinds)});
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
export type KnownCondition = {
	readonly kind: AlertKind;
	readonly subject: string;
	readonly workspace_id: string | null;
	readonly detail: string;
	readonly fix: string;
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

/** False: another node was first. */
export async function insertCondition(trx: Knex.Transaction, condition: KnownCondition): Promise<boolean> {
	const added = await trx('conditions').insert(condition).onConflict(['kind', 'subject']).ignore().returning('kind');
	return added.length === 1;
}

type ConditionKey = Pick<KnownCondition, 'kind' | 'subject' | 'announced_at' | 'ended_at'>;

/** The condition as it was read; nothing where another node has changed it since. */
function asRead(trx: Knex.Transaction, {kind, subject, announced_at, ended_at}: ConditionKey): Knex.QueryBuilder {
	return trx('conditions').where({kind, subject, announced_at, ended_at});
}

/** False: another node was first. */
export async function changeCondition(
	trx: Knex.Transaction,
	known: ConditionKey,
	changes: Partial<KnownCondition>,
): Promise<boolean> {
	return (await asRead(trx, known).update(changes)) === 1;
}

export async function forgetCondition(trx: Knex.Transaction, known: ConditionKey): Promise<void> {
	await asRead(trx, known).delete();
}

/** A message that is to go out. */
export type DueMessage = {
	readonly id: string;
	readonly alertId: string;
	readonly message: AlertMessage;
	/** Those that failed. */
	readonly attempts: number;
};

type MessageRow = {id: string; alert_id: string; message: string; due_at: string; attempts: number};

const messagesPerLook = 20;

export async function queueMessage(
	trx: Knex.Transaction,
	alertId: string,
	{id, ...message}: AlertMessage,
	now: string,
): Promise<void> {
	await trx('alert_messages').insert({
		...{id, alert_id: alertId, message: JSON.stringify(message), due_at: now, attempts: 0},
	});
}

export async function hasDueMessages(reader: Knex, now: string): Promise<boolean> {
	return (await reader('alert_messages').where('due_at', '<=', now).first('id')) !== undefined;
}

/**
 * Takes messages that are due until `until`: workspaces in turn, and new ones first, as those that fail may be many. Another node
 * takes them then, unless they went out.
 */
export async function takeMessages(trx: Knex.Transaction, now: string, until: string): Promise<DueMessage[]> {
	const due = trx('alert_messages as m')
		.join('alerts as a', 'a.id', 'm.alert_id')
		.where('m.due_at', '<=', now)
		.select('m.*', 'a.workspace_id');
	const limits = {limit: messagesPerLook, perWorkspace: messagesPerLook};
	const rows: MessageRow[] = await selectInTurns(trx, due, 'attempts, id', limits);
	const taken: DueMessage[] = [];
	for (const {id, alert_id: alertId, message, due_at, attempts} of rows) {
		if ((await trx('alert_messages').where({id, due_at}).update({due_at: until})) === 1) {
			taken.push({id, alertId, message: {id, ...JSON.parse(message)}, attempts});
		}
	}
	return taken;
}

/** Tries it again at `dueAt`. */
export async function postponeMessage(
	trx: Knex.Transaction,
	{id, attempts}: Pick<DueMessage, 'id' | 'attempts'>,
	dueAt: string,
): Promise<void> {
	await trx('alert_messages')
		.where({id})
		.update({due_at: dueAt, attempts: attempts + 1});
}

export async function removeMessage(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('alert_messages').where({id}).delete();
}

/** False: another node makes the digest. */
export async function claimDigest(
	trx: Knex.Transaction,
	{id, digest_at}: Pick<Alert, 'id' | 'digest_at'>,
	now: string,
): Promise<boolean> {
	return (await trx('alerts').where({id, digest_at}).update({digest_at: now})) === 1;
}
