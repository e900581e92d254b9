import type {Knex} from 'knex';
import {type Recipient, type RecipientState, recipientStates} from '../../src/mail/message.ts';
import {listState} from '../../src/store/message-terms.ts';

const recipients = (connection: Knex) => connection('recipients');

/** Copies with what the queue and their claims say of them, as rows of `recipients`. */
export function recipientRows(connection: Knex): ReturnType<typeof recipients> {
	return connection.from(
		connection.raw(`(select r.*, q.next_attempt_at, q.held_at, c.claimed_by from recipients as r
			left join queue as q on q.recipient_id = r.id left join claims as c on c.recipient_id = r.id) as recipients`),
	);
}

type Changes = {
	/** Null: it is not in the queue any more. */
	readonly next_attempt_at?: string | null;
	readonly held_at?: string | null;
	readonly claimed_by?: string | null;
	readonly claimed_until?: string;
	readonly [column: string]: unknown;
};

/** Changes copies, wherever what is changed stands. */
export async function changeRecipients(
	connection: Knex,
	which: (recipients: Knex.QueryBuilder) => Knex.QueryBuilder,
	changes: Changes | object,
): Promise<void> {
	const {
		next_attempt_at: next,
		held_at: held,
		claimed_by: claim,
		claimed_until: until = '2099',
		...row
	} = changes as Changes;
	const ids: string[] = await which(recipientRows(connection)).pluck('id');
	if (Object.keys(row).length > 0) {
		await connection('recipients').whereIn('id', ids).update(row);
	}
	const mine = (table: string) => connection(table).whereIn('recipient_id', ids);
	const rows: Recipient[] = await connection('recipients').whereIn('id', ids);
	if ('state' in row) {
		await listState(connection as Knex.Transaction, rows, row.state as RecipientState);
	}
	if (next === null) {
		await mine('queue').delete();
	} else if (next !== undefined && rows.length > 0) {
		await connection('queue')
			.insert(
				rows.map(({id, workspace_id, destination, attempts}) => ({
					...{recipient_id: id, workspace_id, destination, attempts},
					next_attempt_at: next,
				})),
			)
			.onConflict('recipient_id')
			.merge(['next_attempt_at']);
	}
	if ('attempts' in row) {
		await mine('queue').update({attempts: row.attempts});
	}
	if (held !== undefined) {
		await mine('queue').update({held_at: held});
	}
	if (claim !== undefined) {
		await mine('claims').delete();
	}
	if (claim && rows.length > 0) {
		await connection('claims').insert(
			rows.map(({id, attempts}) => ({recipient_id: id, claimed_by: claim, attempts, until})),
		);
	}
}

/** Lists all messages by the states of their copies, for tests that wrote states as they are. */
export async function listStates(connection: Knex): Promise<void> {
	const rows: Recipient[] = await connection('recipients');
	for (const state of recipientStates) {
		await listState(
			connection as Knex.Transaction,
			rows.filter(row => row.state === state),
			state,
		);
	}
}
