import type {Knex} from 'knex';
import {columnsFor, partialIndex} from './columns.ts';

const rowsAtOnce = 1000;

/** Where an act came from, the address that it concerns apart from its detail, and the index of a workspace's acts. */
export async function up(knex: Knex): Promise<void> {
	const {text} = columnsFor(knex);
	await knex.schema.alterTable('audit', table => {
		text(table, 'origin');
		text(table, 'recipient');
	});

	let after = '';
	for (;;) {
		const rows: Array<{id: string; actor: string; detail: string | null}> = await knex('audit')
			.where('id', '>', after)
			.orderBy('id')
			.limit(rowsAtOnce)
			.select('id', 'actor', 'detail');
		for (const {id, actor, detail} of rows) {
			const {user, recipient, ...rest} = JSON.parse(detail ?? '{}');
			await knex('audit')
				.where({id})
				.update({
					actor: actor === 'cli' && user ? `cli:${user}` : actor,
					recipient: recipient?.normalize('NFC').toLowerCase() ?? null,
					detail: JSON.stringify(rest),
				});
		}
		const last = rows.at(-1);
		if (!last) {
			break;
		}
		after = last.id;
	}

	await knex.schema.alterTable('audit', table => {
		table.index(['workspace_id', 'id'], 'audit_by_workspace');
	});
	await partialIndex(knex, 'audit_by_recipient', 'audit', 'workspace_id, recipient', 'recipient is not null');
}
