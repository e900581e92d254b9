import type {Knex} from 'knex';
import {idTime} from '../src/mail/ids.ts';
import {type DividedTable, divide, select} from './by-day.ts';

/** The tables whose rows go with a message, each with the id that tells its day. */
const tables = [
	['messages', 'id', 'msg'],
	['recipients', 'id', 'rcp'],
	['attempts', 'recipient_id', 'rcp'],
	['engagement', 'recipient_id', 'rcp'],
	['events', 'message_id', 'msg'],
	['attachments', 'message_id', 'msg'],
	['message_terms', 'message_id', 'msg'],
] as const satisfies readonly DividedTable[];

const dayMs = 86_400_000;

/**
 * On PostgreSQL mail is kept by the day in which it was accepted (`src/store/days.ts`). Nothing is copied: what is there becomes
 * the part of all days until tomorrow, and is read once to prove it. SQLite keeps its tables.
 */
export async function up(knex: Knex, tell: (line: string) => void = () => undefined): Promise<void> {
	// A claim finds out from the queue alone which try it is for: the days of the copies are not known before.
	await knex.raw('alter table queue add column attempts integer not null default 0');
	await knex.raw(`update queue set attempts = (select r.attempts from recipients as r where r.id = queue.recipient_id)
		where exists (select 1 from recipients as r where r.id = queue.recipient_id and r.attempts > 0)`);
	if (knex.client.driverName === 'pg') {
		await divideMail(knex, tell);
	}
}

async function divideMail(knex: Knex, tell: (line: string) => void): Promise<void> {
	const references = await select<{table: string; name: string}>(
		knex,
		`select conrelid::regclass as table, conname as name from pg_constraint
		where contype = 'f' and confrelid in ('messages'::regclass, 'recipients'::regclass)`,
	);
	for (const {table, name} of references) {
		// Checked for each row, and in the way of whoever drops a day.
		await knex.raw('alter table ?? drop constraint ??', [table, name]);
	}
	const until = await readBound(knex);
	await divide(knex, {what: 'Mail', tables, first: until === null ? null : {name: 'former', until}}, tell);
}

/** The first midnight, milliseconds, from which on a day has a part of its own; null: there is nothing yet. */
async function readBound(knex: Knex): Promise<number | null> {
	const [row] = await select<{now: string; messages: string | null; recipients: string | null}>(
		knex,
		`select extract(epoch from now()) * 1000 as now, (select max(id) from messages) as messages,
			(select max(id) from recipients) as recipients`,
	);
	if (!row?.messages) {
		return null;
	}
	// A clock may have been ahead.
	const last = Math.max(Number(row.now), ...[row.messages, row.recipients ?? row.messages].map(idTime));
	return (Math.floor(last / dayMs) + 2) * dayMs;
}
