import type {Knex} from 'knex';
import type {Kept} from '../mail/report.ts';
import {rowSource} from './dialect.ts';

/** The end of a mail's reading. */
export type InboundEnd = {
	/** The row's key. */
	readonly id: string;
	readonly at: string;
	/** Why the mail itself is kept; null: its bytes go. */
	readonly kept: Kept | null;
	/** How it was read, JSON text; null where it is not kept. */
	readonly reading: string | null;
	readonly fault: string | null;
};

/** Marks mails as read; those that somebody else marked meanwhile stay as they are. */
export async function markRead(trx: Knex.Transaction, ends: readonly InboundEnd[]): Promise<void> {
	await update(trx, keptOf(ends, true), '');
	await update(trx, keptOf(ends, false), ', raw = ?', [Buffer.alloc(0)]);
}

// In one order: others may be writing the same rows.
function keptOf(ends: readonly InboundEnd[], kept: boolean): InboundEnd[] {
	return ends.filter(end => (end.kept !== null) === kept).sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function update(
	trx: Knex.Transaction,
	ends: readonly InboundEnd[],
	more: string,
	bindings: Knex.RawBinding[] = [],
): Promise<void> {
	if (ends.length === 0) {
		return;
	}
	const rows = ends.map(({id, at, kept, reading, fault}) => [id, at, kept, reading, fault]);
	const source = rowSource(trx, rows, 5);
	await trx.raw(
		`update inbound set read_at = v.column2, kept = v.column3, reading = v.column4, fault = v.column5${more}
			from (${source.sql}) as v
			-- Not the index on unread mails, which would be read as a whole.
			where inbound.id = v.column1 and coalesce(inbound.read_at, '') = ''`,
		[...bindings, ...(source.bindings as Knex.RawBinding[])],
	);
}
