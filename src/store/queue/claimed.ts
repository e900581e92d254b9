import type {Knex} from 'knex';
import type {Mode, Role} from '../../mail/message.ts';
import {rowsOf} from '../engine/dialect.ts';
import {among, nearIds} from '../engine/near-ids.ts';

/** A claimed copy with everything that is needed to make and deliver it. */
export type Claimed = {
	readonly id: string;
	readonly workspace_id: string;
	readonly message_id: string;
	readonly address: string;
	readonly address_key: string;
	readonly role: Role;
	readonly destination: string;
	readonly subject: string | null;
	readonly attempts: number;
	readonly sent_at: string | null;
	/** When its last try ended. */
	readonly state_at: string;
	readonly last_category: string | null;
	readonly last_reply: string | null;
	readonly crashes: number;
	readonly mode: Mode;
	readonly from_address: string;
	readonly to_address: string;
	readonly reply_to: string | null;
	readonly cc: string | null;
	readonly template_id: string;
	readonly version_id: string;
	readonly data: string | null;
	readonly topic_id: string | null;
	readonly topic_code: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	/** What the send switched off: JSON text. */
	readonly tracking: string | null;
	readonly attachments: number;
	readonly created_at: string;
	readonly workspace_name: string;
	readonly workspace_locale: string | null;
	readonly workspace_timezone: string | null;
	readonly track_opens_at: string | null;
	readonly track_clicks_at: string | null;
	readonly queue_lifetime_s: number | null;
	/** Null: the sender is gone. */
	readonly sender_id: string | null;
	readonly sender_name: string | null;
	readonly domain_id: string | null;
	/** The address was suppressed, or opted out of the message's topic, after acceptance. */
	readonly stop: 'suppressed' | 'opted_out' | null;
	/** The id of the `queued` event that its first claim has for it; null: it was queued before, or is not claimed. */
	readonly queued: string | null;
};

const columns = `r.id, r.workspace_id, r.message_id, r.address, r.address_key, r.role, r.destination, r.subject, r.state, r.state_at,
	r.attempts, r.sent_at, r.last_category, r.last_reply, r.crashes,
	m.mode, m.from_address, m.to_address, m.reply_to, m.cc, m.template_id, m.version_id, m.data, m.topic_id, m.topic_code, m.locale,
	m.timezone, m.tracking, m.attachments, m.created_at,
	w.name as workspace_name, w.locale as workspace_locale, w.timezone as workspace_timezone, w.track_opens_at,
	w.track_clicks_at, w.queue_lifetime_s,
	s.id as sender_id, s.name as sender_name, s.domain_id,
	case
		when exists (select 1 from suppressions x where x.workspace_id = r.workspace_id and x.address_key = r.address_key
			and (x.mode = 'live' or m.mode = 'test')) then 'suppressed'
		when m.topic_code is not null and exists (select 1 from topic_optouts o where o.workspace_id = r.workspace_id
			and o.address_key = r.address_key and o.code = m.topic_code) then 'opted_out'
	end as stop`;

export type MailRow = Omit<Claimed, 'queued'> & {readonly state: string};

/** A row of `claims` that was just made. */
export type NewClaim = {readonly id: string; readonly queued: string | null};

/** The copy of a claim. One that was given back has been queued before. */
export const claimedOf = (row: MailRow, {queued}: NewClaim): Claimed => ({
	...row,
	queued: row.state === 'accepted' ? queued : null,
});

/** A query of copies with all that they are made of. As text: the query builder would take longer than the engine. */
export const recipientsWithMail = `select ${columns} from recipients as r
	join messages as m on m.id = r.message_id
	join workspaces as w on w.id = r.workspace_id
	left join senders as s on s.workspace_id = m.workspace_id and s.address_key = m.from_key and s.disabled_at is null`;

/** One copy as a claim would give it, without claiming it: to look at its mail. */
export async function readRecipient(reader: Knex, workspaceId: string, id: string): Promise<Claimed | undefined> {
	const [near, recipients] = nearRecipients(reader, [{id}]);
	const rows: MailRow[] = await rowsOf(
		reader,
		`${recipientsWithMail} where r.id = ? and r.workspace_id = ? and ${near}`,
		[...[id, workspaceId], ...recipients],
	);
	return rows[0] && {...rows[0], queued: null};
}

/** The same for many. A clock that was set while mail was written may have parted copies from it: those are looked for in all days. */
export async function readClaimed(trx: Knex.Transaction, claimed: readonly NewClaim[]): Promise<Claimed[]> {
	const found = await readRows(trx, claimed, nearRecipients(trx, claimed));
	const known = new Set(found.map(({id}) => id));
	const parted = claimed.filter(({id}) => !known.has(id));
	const claims = new Map(claimed.map(claim => [claim.id, claim]));
	return [...found, ...(await readRows(trx, parted, ['1 = 1', []]))].map(row =>
		claimedOf(row, claims.get(row.id) as NewClaim),
	);
}

async function readRows(
	trx: Knex.Transaction,
	recipients: ReadonlyArray<{readonly id: string}>,
	[near, about]: [sql: string, bindings: Knex.RawBinding[]],
): Promise<MailRow[]> {
	if (recipients.length === 0) {
		return [];
	}
	const [condition, ids] = among(
		trx,
		'r.id',
		recipients.map(({id}) => id),
	);
	return await rowsOf(trx, `${recipientsWithMail} where ${condition} and ${near}`, [...ids, ...about]);
}

/** A condition: copies and messages are of about the days of these copies. */
function nearRecipients(
	connection: Knex,
	recipients: ReadonlyArray<{readonly id: string}>,
): [sql: string, bindings: Knex.RawBinding[]] {
	const ids = recipients.map(({id}) => id);
	const [recipient, ofRecipient] = nearIds(connection, 'r.id', 'rcp', ids);
	const [message, ofMessage] = nearIds(connection, 'm.id', 'msg', ids);
	return [`${recipient} and ${message}`, [...ofRecipient, ...ofMessage]];
}
