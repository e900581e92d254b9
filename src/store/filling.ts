import type {Knex} from 'knex';
import {idTime} from '../mail/ids.ts';
import {beginBulk, eachText, endBulk} from './engine/dialect.ts';
import {insertRows} from './engine/rows.ts';
import {createDays} from './postgres/days.ts';
import type {Store} from './store.ts';
import {takePositions} from './timeline.ts';
import {type CountedStatus, type UsageSpan, usageSpans} from './usage.ts';

/** A workspace to be filled, with the sender and template of its messages. */
export type FilledWorkspace = {
	readonly id: string;
	readonly sender: string;
	readonly templateId: string;
	readonly versionId: string;
};

/** A moment, as the beginning of an id and in the store's form. */
type FilledMoment = {readonly id: string; readonly at: string};

/** When messages were accepted, queued, sent and finished, in this order. */
export type FilledMoments = readonly [FilledMoment, FilledMoment, FilledMoment, FilledMoment];

/** Consecutive messages. */
export type FilledMessages = {
	/** The number of the first message. */
	readonly first: number;
	/**
	 * For each message: the last 16 characters of its ids, the letter of its outcome, and when it is due, if it waits.
	 */
	readonly suffixes: readonly string[];
	readonly moments: readonly FilledMoments[];
	/** How many messages share the same moments. */
	readonly perMoment: number;
	readonly hours: readonly FilledHour[];
	/** Message numbers wrap around these, so that addresses and domains repeat. */
	readonly addresses: number;
	readonly domains: number;
	/** The variables of each message as JSON, in which `{n}` becomes the message's number. */
	readonly data: string;
};

/** The figures of a workspace for the messages that were accepted within one hour. */
export type FilledHour = {
	/** The index of the workspace in the list. */
	readonly workspace: number;
	/** In the store's form, truncated to the hour. */
	readonly hour: string;
	attempted: number;
	bounced: number;
	delivered: number;
};

type Connections = Pick<Store, 'database' | 'reader'>;

const momentColumns = ['t0', 't1', 't2', 't3', 'a0', 'a1', 'a2', 'a3'];
const workspaceColumns = ['workspace_id', 'sender', 'template_id', 'version_id'];
const hourColumns = ['w', 'hour', 'attempted', 'hard', 'good'];
const texts = (columns: readonly string[]) => columns.map(name => `${name} text`).join(', ');
const temporaryTables: ReadonlyArray<readonly [name: string, columns: string]> = [
	['filling_workspaces', `w integer primary key, ${texts(workspaceColumns)}`],
	['filling_moments', `m integer primary key, ${texts(momentColumns)}`],
	['filling_hours', 'w integer, hour text, attempted integer, hard integer, good integer'],
	[
		'filling',
		`n integer, ${texts(['s', 'ending', 'due', 'address', 'domain', ...momentColumns, ...workspaceColumns])}`,
	],
];

/**
 * Prepares the connections. Call it before anything else uses the store, and `endFilling` last. Each transaction is
 * consistent, so an interrupted fill just has fewer messages.
 */
export async function beginFilling(
	{database, reader}: Connections,
	workspaces: readonly FilledWorkspace[],
): Promise<void> {
	await beginBulk(database, reader, (await database('messages').first('id')) === undefined);
	for (const [name, columns] of temporaryTables) {
		await database.raw(`create temp table ${name} (${columns})`);
	}
	await database.transaction(trx =>
		insertRows(
			trx,
			'filling_workspaces',
			['w', ...workspaceColumns],
			workspaces.map(({id, sender, templateId, versionId}, index) => [index, id, sender, templateId, versionId]),
		),
	);
}

/** Restores the connections' usual settings. */
export async function endFilling({database, reader}: Connections): Promise<void> {
	for (const [name] of temporaryTables) {
		await database.raw(`drop table ${name}`);
	}
	await endBulk(database, reader);
}

/**
 * Writes the rows that real traffic leaves behind: the message with its variables, its recipient, events and attempt,
 * the contact, the figures, and a suppression if it bounced. The engine derives these rows from the few values that
 * differ, which is several times as fast as sending each row.
 */
export async function insertFilled(trx: Knex.Transaction, messages: FilledMessages): Promise<void> {
	const {first, suffixes, moments, perMoment, hours, addresses, domains, data} = messages;
	const timeOf = (times: FilledMoments | undefined) => idTime(`msg_${times?.[0].id}${'0'.repeat(16)}`);
	const [from, to] = [timeOf(moments[0]), timeOf(moments.at(-1))];
	await createDays(trx, from, {from, to});
	for (const table of ['filling', 'filling_hours', 'filling_moments']) {
		await trx.raw(`delete from ${table}`);
	}
	await insertRows(
		trx,
		'filling_moments',
		['m', ...momentColumns],
		moments.map((times, index) => [index, ...times.map(({id}) => id), ...times.map(({at}) => at)]),
	);
	await insertRows(
		trx,
		'filling_hours',
		hourColumns,
		hours.map(row => [row.workspace, row.hour, row.attempted, row.bounced, row.delivered]),
	);
	await trx.raw(fillingSql(trx), [perMoment, domains, first, first, addresses, JSON.stringify(suffixes)]);
	const lastPosition = await takePositions(trx, 2 * suffixes.length);
	await trx.raw(messagesSql(lastPosition, first), [data]);
	await trx.raw(eventsSql(lastPosition, first));
	for (const sql of derived) {
		await trx.raw(sql);
	}
}

// PostgreSQL treats parameters as text unless they are cast.
const number = 'cast(? as integer)';
const fillingSql = (trx: Knex) => `insert into filling
	select n, substr(value, 1, 16), substr(value, 17, 1), nullif(substr(value, 18), ''),
		'user' || substr(cast(1000000 + a as text), 2) || '@' || domain, domain,
		${[...momentColumns, ...workspaceColumns].join(', ')}
	from (select n, value, key / ${number} as moment, a, 'mail' || (a % ${number}) || '.example' as domain
		from (select ${number} + key as n, (${number} + key) % ${number} as a, key, value from ${eachText(trx)}) as numbered
	) as e
	cross join filling_moments as m cross join filling_workspaces as w
	where m.m = e.moment and w.w = e.a % (select count(*) from filling_workspaces)`;

const message = `'msg_' || t0 || s`;
const recipient = `'rcp_' || t0 || s`;
const host = `'mx1.' || domain`;
const ip = `'192.0.2.25'`;
const tls = `'TLSv1.3 TLS_AES_256_GCM_SHA384 verified'`;
const acceptedReply = `'250 2.0.0 Ok: queued as ' || substr(s, 1, 11)`;
const refused = `'550 5.1.1 <' || address || '>: Recipient address rejected: User unknown'`;
const common = `'{"recipient":"' || address || '","role":"to","attempt":1'`;
const conversation = `',"host":"' || ${host} || '","ip":"' || ${ip} || '","tls":"' || ${tls} || '"'`;

/** The positions after `lastPosition`, two for each message; `null` if PostgreSQL assigns them. */
const positionOf = (lastPosition: number | null, first: number, nth: number): string =>
	lastPosition === null ? `nextval('event_positions')` : `${lastPosition + nth} + 2 * (n - ${first})`;

const messagesSql = (lastPosition: number | null, first: number): string => `insert into messages
	(id, workspace_id, mode, from_address, from_key, to_address, to_key, template_id, version_id, data, metadata,
		attachments, created_at, position)
	select ${message}, workspace_id, 'live', sender, sender, address, address, template_id, version_id,
		replace(?, '{n}', cast(n as text)), '{"order_id":"' || n || '"}', 0, a0,
		${positionOf(lastPosition, first, 1)}
	from filling`;

const isEnded = `ending <> 'w'`;
const byEnding = (delivered: string, bounced: string, waiting = 'null') =>
	`case ending when 'd' then ${delivered} when 'b' then ${bounced} else ${waiting} end`;

// `where true`: SQLite would parse `on conflict` as the start of a join's constraint.
const derived: readonly string[] = [
	`insert into recipients
		(id, workspace_id, message_id, address, address_key, role, destination, state, state_at, subject, attempts,
			sent_at, last_category, last_reply, crashes)
		select ${recipient}, workspace_id, ${message}, address, address, 'to', domain,
			${byEnding(`'delivered'`, `'bounced'`, `'queued'`)}, a3, 'Your receipt ' || n, 1,
			case when ${isEnded} then a2 end, ${byEnding('null', 'null', `'network'`)},
			${byEnding(acceptedReply, refused, `'connect ETIMEDOUT'`)}, 0
		from filling`,
	`insert into message_terms (workspace_id, term, message_id, members)
		select workspace_id, ${byEnding(`'s:delivered'`, `'s:bounced'`)}, max(${message}),
			case when count(*) > 1 then string_agg(substr(${message}, 13), ' ' order by ${message} desc) end
		from filling where ${isEnded} group by workspace_id, ending, substr(t0, 1, 8)`,
	`insert into queue (recipient_id, workspace_id, destination, next_attempt_at, attempts)
		select ${recipient}, workspace_id, domain, due, 1 from filling where not (${isEnded})`,
	`insert into attempts (recipient_id, n, position, at, host, ip, tls, phase, code, enhanced, reply, ms)
		select ${recipient}, 1, 0, a2, ${host}, ${ip}, case when ${isEnded} then ${tls} end,
			${byEnding(`'dot'`, `'rcpt'`, `'connect'`)}, ${byEnding('250', '550')}, ${byEnding(`'2.0.0'`, `'5.1.1'`)},
			${byEnding(acceptedReply, refused, `'connect ETIMEDOUT'`)}, 40
		from filling`,
	`insert into contacts (id, workspace_id, address, address_key, created_at, updated_at)
		select 'con_' || t0 || s, workspace_id, address, address, a0, a0 from filling where true
		on conflict (workspace_id, address_key) do nothing`,
	`insert into suppressions (id, workspace_id, address, address_key, reason, source, created_at)
		select 'sup_' || t3 || s, workspace_id, address, address, 'hard_bounce', ${message}, a3 from filling
		where ending = 'b'
		on conflict (workspace_id, address_key) do nothing`,
	...(['days', 'hours'] as const).flatMap(span => [
		usage(span, 'accepted', 'attempted'),
		usage(span, 'delivered', 'good'),
		usage(span, 'bounced', 'hard'),
	]),
	`insert into usage_months (workspace_id, month, accepted, test)
		select workspace_id, substr(hour, 1, 7), sum(attempted), 0 from ${hourly()} group by 1, 2
		on conflict (workspace_id, month) do update set accepted = usage_months.accepted + excluded.accepted`,
	`insert into reputation_hours (workspace_id, hour, attempted, hard, delivered, complained)
		select workspace_id, hour, attempted, hard, good, 0 from ${hourly()}
		on conflict (workspace_id, hour) do update set
			attempted = reputation_hours.attempted + excluded.attempted, hard = reputation_hours.hard + excluded.hard,
			delivered = reputation_hours.delivered + excluded.delivered`,
];

function hourly(): string {
	return 'filling_hours as h join filling_workspaces as w on w.w = h.w where true';
}

/**
 * The message itself is its `accepted` event. Waiting recipients have a `queued` event, the others one row with all
 * events.
 */
const eventsSql = (lastPosition: number | null, first: number): string => {
	const event = (moment: string) => `'evt_' || ${moment} || s`;
	// Its id is created together with that of the final event.
	const sent = `'evt_' || t3 || substr(s, 1, 8) || '00000000","sent","' || a2`;
	return `insert into events (id, message_id, recipient_id, type, occurred_at, recorded_at, detail, earlier, position)
		select ${ifEnded(event('t3'), event('t1'))}, ${message}, ${recipient},
			${byEnding(`'delivered'`, `'bounced'`, `'queued'`)}, ${ifEnded('a3', 'a1')}, ${ifEnded('a3', 'a1')},
			${ifEnded(detail())},
			${ifEnded(`'[["' || ${event('t1')} || '","queued"],["' || ${sent} || '"]]'`)},
			${positionOf(lastPosition, first, 2)}
		from filling`;
};

function ifEnded(ended: string, waiting = 'null'): string {
	return `case when ${isEnded} then ${ended} else ${waiting} end`;
}

function detail(): string {
	const delivered = `',"code":250,"enhanced":"2.0.0","reply":"' || ${acceptedReply} || '"}'`;
	const bounced = `',"code":550,"enhanced":"5.1.1","reply":"' || ${refused} ||
		'","type":"permanent","category":"unknown_user","reason":"' || ${refused} || '"}'`;
	return `${common} || ${conversation} || ${byEnding(delivered, bounced)}`;
}

function usage(span: UsageSpan, status: CountedStatus, column: string): string {
	const [table, time, length] = usageSpans[span];
	return `insert into ${table} (workspace_id, ${time}, status, n)
		select workspace_id, substr(hour, 1, ${length}), '${status}', sum(${column}) from ${hourly()} and ${column} > 0 group by 1, 2
		on conflict (workspace_id, ${time}, status) do update set n = ${table}.n + excluded.n`;
}
