import type {Knex} from 'knex';
import {insertRows} from './insert-rows.ts';

/** A workspace that is filled, and of what its messages are. */
export type FilledWorkspace = {
	readonly id: string;
	readonly sender: string;
	readonly templateId: string;
	readonly versionId: string;
};

/** When a moment was: as ids begin, and in the store's form. */
export type FilledMoment = {readonly id: string; readonly at: string};

/** When messages were accepted, queued and sent, and came to their end, in this order. */
export type FilledMoments = readonly [FilledMoment, FilledMoment, FilledMoment, FilledMoment];

/** What differs from message to message. */
export type FilledMessage = {
	readonly number: number;
	/** Its place in the list of workspaces. */
	readonly workspace: number;
	/** Its place in the list of moments. */
	readonly moments: number;
	/** The end of its ids: 16 characters. */
	readonly suffix: string;
	readonly address: string;
	readonly domain: string;
	readonly end: 'delivered' | 'bounced' | 'waiting';
	/** When one that waits is tried again; else null. */
	readonly due: string | null;
};

const momentColumns = ['t0', 't1', 't2', 't3', 'a0', 'a1', 'a2', 'a3'];
const workspaceColumns = ['workspace_id', 'sender', 'template_id', 'version_id'];
const messageColumns = ['n', 's', 'address', 'domain', 'ending', 'due'];
const texts = (columns: readonly string[]) => columns.map(name => `${name} text`).join(', ');

/** To be called before, for the same connection. Its rows are right by themselves; a fill that is interrupted is a shorter one. */
export async function beginFilling(database: Knex, workspaces: readonly FilledWorkspace[]): Promise<void> {
	if (database.client.driverName === 'sqlite3') {
		const pragmas = ['temp_store = memory', 'cache_size = -262144', 'wal_autocheckpoint = 32000', 'foreign_keys = off'];
		for (const pragma of [...pragmas, 'synchronous = normal']) {
			await database.raw(`pragma ${pragma}`);
		}
	}
	await database.raw(`create temp table filling_workspaces (w integer primary key, ${texts(workspaceColumns)})`);
	await database.raw(`create temp table filling_moments (m integer primary key, ${texts(momentColumns)})`);
	await database.raw(`create temp table filling_messages (w integer, m integer, ${texts(messageColumns)})`);
	await database.raw(`create temp view filling as
		select f.*, ${[...momentColumns, ...workspaceColumns].join(', ')}
		from filling_messages as f cross join filling_moments as m cross join filling_workspaces as w
		where m.m = f.m and w.w = f.w`);
	await database.transaction(trx =>
		insertRows(
			trx,
			'filling_workspaces',
			['w', ...workspaceColumns],
			workspaces.map(({id, sender, templateId, versionId}, index) => [index, id, sender, templateId, versionId]),
		),
	);
}

/**
 * Writes what real traffic leaves of messages: the message with its variables, its copy, four events and an attempt (two
 * where it waits), the contact, the figures, and a suppression where it bounced. The engine derives the rows from what
 * differs, which is several times as fast as sending it each.
 */
export async function insertFilled(
	trx: Knex.Transaction,
	messages: readonly FilledMessage[],
	moments: readonly FilledMoments[],
	data: readonly [before: string, after: string],
): Promise<void> {
	await trx.raw('delete from filling_messages');
	await trx.raw('delete from filling_moments');
	await insertRows(
		trx,
		'filling_moments',
		['m', ...momentColumns],
		moments.map((four, index) => [index, ...four.map(({id}) => id), ...four.map(({at}) => at)]),
	);
	await insertRows(
		trx,
		'filling_messages',
		['w', 'm', ...messageColumns],
		messages.map(one => [
			...[one.workspace, one.moments, String(one.number), one.suffix],
			...[one.address, one.domain, one.end, one.due],
		]),
	);
	await trx.raw(messagesSql, [...data]);
	for (const sql of derived) {
		await trx.raw(sql);
	}
}

/** What the store takes on the disk, octets. */
export async function readStoreBytes(reader: Knex): Promise<number> {
	const size =
		reader.client.driverName === 'sqlite3'
			? 'select page_count * page_size as bytes from pragma_page_count, pragma_page_size'
			: 'select pg_database_size(current_database()) as bytes';
	const answer = await reader.raw(size);
	return Number((Array.isArray(answer) ? answer : answer.rows)[0].bytes);
}

const message = `'msg_' || t0 || s`;
const copy = `'rcp_' || t0 || s`;
const host = `'mx1.' || domain`;
const ip = `'192.0.2.25'`;
const tls = `'TLSv1.3 TLS_AES_256_GCM_SHA384 verified'`;
const taken = `'250 2.0.0 Ok: queued as ' || substr(s, 1, 11)`;
const refused = `'550 5.1.1 <' || address || '>: Recipient address rejected: User unknown'`;
const common = `'{"recipient":"' || address || '","role":"to","attempt":1'`;
const conversation = `',"host":"' || ${host} || '","ip":"' || ${ip} || '","tls":"' || ${tls} || '"'`;

const messagesSql = `insert into messages
	(id, workspace_id, mode, from_address, from_key, to_address, to_key, template_id, version_id, data, metadata,
		attachments, created_at)
	select ${message}, workspace_id, 'live', sender, sender, address, address, template_id, version_id,
		cast(? as text) || n || cast(? as text), '{"order_id":"' || n || '"}', 0, a0
	from filling`;

const ended = `ending <> 'waiting'`;
// `where true`: SQLite would read `on conflict` as the beginning of a join's constraint.
const derived: readonly string[] = [
	`insert into recipients
		(id, workspace_id, message_id, address, address_key, role, destination, state, state_at, subject, attempts,
			next_attempt_at, sent_at, last_category, last_reply, crashes)
		select ${copy}, workspace_id, ${message}, address, address, 'to', domain,
			case ending when 'waiting' then 'queued' else ending end, a3, 'Your receipt ' || n, 1,
			due, case when ${ended} then a2 end, case ending when 'waiting' then 'network' end,
			case ending when 'delivered' then ${taken} when 'bounced' then ${refused} else 'connect ETIMEDOUT' end, 0
		from filling`,
	event(0, 'accepted', 'null'),
	event(1, 'queued', 'null'),
	event(2, 'sent', `${common} || '}'`, ended, 3),
	event(
		3,
		'delivered',
		`${common} || ${conversation} || ',"code":250,"enhanced":"2.0.0","reply":"' || ${taken} || '"}'`,
		`ending = 'delivered'`,
	),
	event(
		3,
		'bounced',
		`${common} || ${conversation} || ',"code":550,"enhanced":"5.1.1","reply":"' || ${refused} ||
			'","type":"permanent","category":"unknown_user","reason":"' || ${refused} || '"}'`,
		`ending = 'bounced'`,
	),
	`insert into attempts (recipient_id, n, position, at, host, ip, tls, phase, code, enhanced, reply, ms)
		select ${copy}, 1, 0, a2, ${host}, ${ip}, case when ${ended} then ${tls} end,
			case ending when 'delivered' then 'dot' when 'bounced' then 'rcpt' else 'connect' end,
			case ending when 'delivered' then 250 when 'bounced' then 550 end,
			case ending when 'delivered' then '2.0.0' when 'bounced' then '5.1.1' end,
			case ending when 'delivered' then ${taken} when 'bounced' then ${refused} else 'connect ETIMEDOUT' end, 40
		from filling`,
	`insert into contacts (id, workspace_id, address, address_key, created_at, updated_at)
		select 'con_' || t0 || s, workspace_id, address, address, a0, a0 from filling where true
		on conflict (workspace_id, address_key) do nothing`,
	`insert into suppressions (id, workspace_id, address, address_key, reason, source, created_at)
		select 'sup_' || t3 || s, workspace_id, address, address, 'hard_bounce', ${message}, a3 from filling
		where ending = 'bounced'
		on conflict (workspace_id, address_key) do nothing`,
	day('accepted', 'true'),
	day('delivered', `ending = 'delivered'`),
	day('bounced', `ending = 'bounced'`),
	`insert into usage_months (workspace_id, month, accepted, test)
		select workspace_id, substr(a0, 1, 7), count(*), 0 from filling where true group by 1, 2
		on conflict (workspace_id, month) do update set accepted = usage_months.accepted + excluded.accepted`,
	`insert into reputation_hours (workspace_id, hour, attempted, hard, delivered, complained)
		select workspace_id, substr(a2, 1, 13), count(*), sum(case ending when 'bounced' then 1 else 0 end),
			sum(case ending when 'delivered' then 1 else 0 end), 0
		from filling where true group by 1, 2
		on conflict (workspace_id, hour) do update set
			attempted = reputation_hours.attempted + excluded.attempted, hard = reputation_hours.hard + excluded.hard,
			delivered = reputation_hours.delivered + excluded.delivered`,
];

function event(moment: 0 | 1 | 2 | 3, type: string, detail: string, where = 'true', recorded = moment): string {
	return `insert into events (id, message_id, recipient_id, type, occurred_at, recorded_at, detail)
		select 'evt_' || t${moment} || s, ${message}, ${copy}, '${type}', a${moment}, a${recorded}, ${detail}
		from filling where ${where}`;
}

function day(status: string, where: string): string {
	return `insert into usage_days (workspace_id, day, status, n)
		select workspace_id, substr(a0, 1, 10), '${status}', count(*) from filling where ${where} group by 1, 2
		on conflict (workspace_id, day, status) do update set n = usage_days.n + excluded.n`;
}
