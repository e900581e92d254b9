import type {Knex} from 'knex';
import type {Clock} from '../../kit/clock.ts';
import {groupBy} from '../../kit/collections.ts';
import {storeTime} from '../../kit/time.ts';
import {idFloor, idTime, type NewId} from '../../mail/ids.ts';
import {levelOf, type Mode, type Role} from '../../mail/message.ts';
import {laneText, type QueueKey} from '../../mail/route.ts';
import {noTopic} from '../../resources/topics/store.ts';
import {type Dialect, queryRows, textInTurn, wideRows} from '../engine/dialect.ts';
import {among, createdBetween, createdNearIds} from '../engine/rows.ts';
import type {GroupWrite} from '../engine/writer.ts';
import {isUnclaimed} from './open-recipients.ts';
import {addWarmUp, type WarmUpDay} from './sites.ts';

/** A claimed recipient with everything that is needed to render and deliver its message. */
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
	/** When its last attempt ended. */
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
	/** The tracking that the send disabled: JSON text. */
	readonly tracking: string | null;
	/** JSON text of `Extras`. */
	readonly extras: string | null;
	/** All variables, sealed; `null` if they are in `data`. */
	readonly sealed: string | null;
	readonly attachments: number;
	readonly created_at: string;
	readonly workspace_name: string;
	readonly workspace_locale: string | null;
	readonly workspace_timezone: string | null;
	readonly track_opens_at: string | null;
	readonly track_clicks_at: string | null;
	readonly queue_lifetime_s: number | null;
	/** `null` if the sender was removed. */
	readonly sender_id: string | null;
	readonly sender_name: string | null;
	readonly domain_id: string | null;
	/** Set if the address was suppressed, or opted out of the message's topic, after acceptance. */
	readonly stop: 'suppressed' | 'opted_out' | null;
	/** The id of the `queued` event that its first claim created; `null` if it was queued before, or is not claimed. */
	readonly queued: string | null;
};

const stop = `case
	when exists (select 1 from suppressions x where x.workspace_id = r.workspace_id and x.address_key = r.address_key
		and (x.mode = 'live' or m.mode = 'test')) then 'suppressed'
	else (select coalesce(o.until, 'opted_out') from topic_optouts o where o.workspace_id = r.workspace_id
		and o.address_key = r.address_key and o.code = coalesce(m.topic_code, '${noTopic}'))
end as stop`;

const columns = `r.id, r.workspace_id, r.message_id, r.address, r.address_key, r.role, r.destination, r.subject, r.state, r.state_at,
	r.attempts, r.sent_at, r.last_category, r.last_reply, r.crashes,
	m.mode, m.from_address, m.to_address, m.reply_to, m.cc, m.template_id, m.version_id, m.data, m.topic_id, m.topic_code, m.locale,
	m.timezone, m.tracking, m.extras, m.sealed, m.attachments, m.created_at,
	w.name as workspace_name, w.locale as workspace_locale, w.timezone as workspace_timezone, w.track_opens_at,
	w.track_clicks_at, w.queue_lifetime_s,
	s.id as sender_id, s.name as sender_name, s.domain_id`;

/** Here `stop` may also be the time at which a pause ends. */
type MailRow = Omit<Claimed, 'queued' | 'stop'> & {readonly state: string; readonly stop: string | null};

/** A new row of `claims`. */
type NewClaim = {readonly id: string; readonly queued: string | null};

/**
 * Returns the claimed recipient. It modifies the row, because copying each row would cost as much as reading it. A
 * recipient whose claim was given back has been queued before.
 */
function toClaimed(row: MailRow, {queued}: NewClaim, now: number): Claimed {
	return Object.assign(row, {
		stop: toStop(row.stop, now),
		queued: row.state === 'accepted' ? queued : null,
	});
}

function toStop(stop: MailRow['stop'], now: number): Claimed['stop'] {
	if (stop === null || stop === 'suppressed') {
		return stop;
	}
	return stop <= storeTime(now) ? null : 'opted_out';
}

/**
 * Reads recipients with everything that their message is rendered from. As text, because the query builder would take
 * longer than the engine.
 */
const recipientsWithMail = wideRows<MailRow>(
	[...columns.split(/,\s+/), stop],
	`from recipients as r
	join messages as m on m.id = r.message_id
	join workspaces as w on w.id = r.workspace_id
	left join senders as s on s.workspace_id = m.workspace_id and s.address_key = m.from_key and s.disabled_at is null`,
);

/** Reads one recipient as a claim would return it, but without claiming it, to show its message. */
export async function readRecipient(reader: Knex, workspaceId: string, id: string): Promise<Claimed | undefined> {
	const [near, nearBindings] = nearRecipients(reader, [{id}]);
	const condition = `where r.id = ? and r.workspace_id = ? and ${near}`;
	const [row] = await recipientsWithMail.read(reader, condition, [id, workspaceId, ...nearBindings]);
	return row && {...row, stop: null, queued: null};
}

/**
 * Reads many claimed recipients. If the clock was set while messages were written, a recipient's day may differ from
 * its message's. Those recipients are looked up in all days.
 */
async function readClaimed(
	trx: Knex.Transaction,
	claimed: readonly NewClaim[],
	now: number,
	[near, nearBindings] = nearRecipients(trx, claimed),
): Promise<Claimed[]> {
	const missing = new Map(claimed.map(claim => [claim.id, claim]));
	if (missing.size === 0) {
		return [];
	}
	const [condition, ids] = among(trx, 'r.id', [...missing.keys()]);
	const recipients: Claimed[] = [];
	for (const row of await recipientsWithMail.read(trx, `where ${condition} and ${near}`, [...ids, ...nearBindings])) {
		recipients.push(toClaimed(row, missing.get(row.id) as NewClaim, now));
		missing.delete(row.id);
	}
	return near === always
		? recipients
		: [...recipients, ...(await readClaimed(trx, [...missing.values()], now, [always, []]))];
}

const always = '1 = 1';

/** An SQL condition: recipients and messages are of about the same days as these recipients. */
function nearRecipients(
	connection: Knex,
	recipients: ReadonlyArray<{readonly id: string}>,
): [sql: string, bindings: Knex.RawBinding[]] {
	const ids = recipients.map(({id}) => id);
	const [recipient, ofRecipient] = createdNearIds(connection, 'r.id', 'rcp', ids);
	const [message, ofMessage] = createdNearIds(connection, 'm.id', 'msg', ids);
	return [`${recipient} and ${message}`, [...ofRecipient, ...ofMessage]];
}

/** How many recipients of a destination queue may be claimed now. */
export type Claim = QueueKey & {
	readonly limit: number;
	/** Whether to claim what became due last, so that new messages do not wait behind their queue's backlog. */
	readonly newestFirst: boolean;
	/** How long the claim outlives its daemon, in milliseconds. After that, another daemon may claim the recipient. */
	readonly lastsMs: number;
	/** Whether to find out when the next recipient is due if fewer than `limit` are due now. */
	readonly asksNext: boolean;
	/** The day of a new source that the recipients count toward, at most `perDay`; `null` if the source is not new. */
	readonly warmUp: (WarmUpDay & {readonly perDay: number}) | null;
};

export type ClaimedNow = {
	readonly recipients: readonly Claimed[];
	/** When the next recipient of the queue is due; `null` if none waits, or `asksNext` is false. */
	readonly nextDue: string | null;
	/** The recipients of the warm-up's day, including these; `null` if the source is not new. */
	readonly warmedUp: number | null;
};

type ClaimWriteOptions = {
	readonly dialect: Dialect;
	/** Claims are marked with this daemon's id. */
	readonly boot: string;
	readonly newId: NewId;
	readonly clock: Clock;
};

/** The time of a transaction's claims, in milliseconds, and until when they are valid, in the store's form. */
type Times = {readonly at: number; readonly until: string};

/** A query of queued recipients as text: their ids and attempts. */
type Claimable = {
	readonly recipients: string;
	readonly bindings: readonly Knex.RawBinding[];
	readonly max: number;
};

/**
 * Creates the write that claims due recipients for one daemon. It claims a few of each destination queue, so that
 * no backlog delays other queues, and serves all queues of a transaction with the same statements. The time is read
 * within the transaction, so that recipients written earlier in it are due.
 */
export function createClaimWrite({dialect, boot, newId, clock}: ClaimWriteOptions): GroupWrite<Claim, ClaimedNow> {
	async function claim(trx: Knex.Transaction, claims: readonly Claim[]): Promise<Map<Claim, ClaimedNow>> {
		const at = clock.now();
		const claimed = new Map<Claim, ClaimedNow>();
		for (const group of splitByLane(claims)) {
			const until = storeTime(at + Math.max(...group.map(({lastsMs}) => lastsMs)));
			const byLane = groupBy(await claimDue(trx, {dialect, boot, newId}, group, {at, until}), laneOf);
			for (const request of group) {
				const recipients = byLane.get(laneText(request)) ?? [];
				const needsNext = request.asksNext && recipients.length < request.limit;
				const nextDue = needsNext ? await readNextDue(trx, request, storeTime(at)) : null;
				claimed.set(request, {recipients, nextDue, warmedUp: null});
			}
		}
		return claimed;
	}

	/**
	 * Claims of a warm-up run one after the other, on all nodes, because a day's share may be almost used up. Counting
	 * zero recipients locks the row.
	 */
	async function claimWarm(
		trx: Knex.Transaction,
		request: Claim,
		warmUp: NonNullable<Claim['warmUp']>,
	): Promise<ClaimedNow> {
		const limit = Math.min(request.limit, warmUp.perDay - (await addWarmUp(trx, warmUp, 0)));
		const none: ClaimedNow = {recipients: [], nextDue: null, warmedUp: null};
		const [claimed = none] = limit > 0 ? (await claim(trx, [{...request, limit}])).values() : [];
		return {...claimed, warmedUp: await addWarmUp(trx, warmUp, claimed.recipients.length)};
	}

	return {
		name: 'claim',
		rank: 2,
		async apply(trx, claims) {
			const withoutWarmUp = claims.filter(({warmUp}) => warmUp === null);
			const claimed = await claim(trx, withoutWarmUp);
			for (const request of claims) {
				if (request.warmUp !== null) {
					claimed.set(request, await claimWarm(trx, request, request.warmUp));
				}
			}
			return claims.map(request => claimed.get(request) as ClaimedNow);
		},
	};
}

const laneOf = ({destination, workspace_id: workspaceId}: Claimed): string => laneText({destination, workspaceId});

/**
 * Groups claims so that no group has two of the same destination queue. Because a claimed recipient does not include
 * its priority, claims that differ only in that, which are rare, run one after the other, too.
 */
function splitByLane(claims: readonly Claim[]): Claim[][] {
	const lanes = [...groupBy(claims, laneText).values()];
	return Array.from({length: Math.max(...lanes.map(({length}) => length))}, (_, nth) =>
		lanes.flatMap(lane => lane.slice(nth, nth + 1)),
	);
}

async function claimDue(
	trx: Knex.Transaction,
	options: Pick<ClaimWriteOptions, 'dialect' | 'boot' | 'newId'>,
	claims: readonly Claim[],
	times: Times,
): Promise<Claimed[]> {
	const queues = claims.map(({newestFirst}) => selectDue(newestFirst ? 'desc' : 'asc', options.dialect));
	const now = storeTime(times.at);
	const bindings = claims.flatMap(({destination, workspaceId, priority, limit}) => [
		destination,
		workspaceId,
		levelOf(priority),
		now,
		workspaceId,
		limit,
	]);
	const max = claims.reduce((sum, {limit}) => sum + limit, 0);
	return await claimSelected(trx, options, {recipients: queues.join(' union all '), bindings, max}, times);
}

/**
 * Claims unclaimed recipients. A claim ends with a result, however long the attempt takes. The due time stays as it is:
 * changing it would cost as much as the rest of the claim.
 */
async function claimSelected(
	trx: Knex.Transaction,
	{dialect, boot, newId}: Pick<ClaimWriteOptions, 'dialect' | 'boot' | 'newId'>,
	{recipients, bindings, max}: Claimable,
	{at, until}: Times,
): Promise<Claimed[]> {
	// `do nothing`: another node may have claimed a recipient just before it was locked here. A recipient without
	// attempts may become queued by this claim, so it gets an event id.
	const claiming = `insert into claims (recipient_id, claimed_by, attempts, until, queued)
		select d.recipient_id, ?, d.attempts, ?, case when d.attempts = 0 then ${textInTurn(trx)} end
		from (${recipients}) as d where true
		on conflict (recipient_id) do nothing returning recipient_id as id, queued`;
	const events: string[] = [];
	while (events.length < max) {
		events.push(newId('evt'));
	}
	const values = [boot, until, JSON.stringify(events), ...bindings];
	if (dialect.canUpdateInWith) {
		return await claimRecent(trx, claiming, values, at);
	}
	const claimed: NewClaim[] = await trx.raw(claiming, values);
	return await readClaimed(trx, claimed, at);
}

/** Most messages are claimed soon after acceptance. The range, in milliseconds around now, is in at most two days. */
const recent = {before: 23 * 3_600_000, after: 3_600_000};

/**
 * Claims and reads in one statement, which saves a round trip. It reads only recent recipients, because planning for
 * all days would take longer than the rest of the claim. Older ones are read afterwards.
 */
async function claimRecent(
	trx: Knex.Transaction,
	claiming: string,
	values: readonly Knex.RawBinding[],
	now: number,
): Promise<Claimed[]> {
	const [from, to] = [now - recent.before, now + recent.after];
	const [recipient, ofRecipient] = createdBetween('r.id', 'rcp', from, to);
	const [message, ofMessage] = createdBetween('m.id', 'msg', from, to);
	// `offset 0` makes PostgreSQL look up each recipient; otherwise it may join all recipients of a day. The claim's
	// columns come last, because of two columns with the same name the last one wins.
	const rows = await queryRows<(MailRow | Record<Exclude<keyof MailRow, 'id'>, null>) & NewClaim>(
		trx,
		`with claimed as (${claiming}) select found.*, claimed.* from claimed
		left join lateral (${recipientsWithMail.sql} where r.id = claimed.id and ${recipient} and ${message} offset 0) as found on true`,
		[...values, ...ofRecipient, ...ofMessage],
	);
	const [recipients, older]: [Claimed[], NewClaim[]] = [[], []];
	for (const row of rows) {
		if (row.state === null) {
			older.push(row);
		} else {
			recipients.push(toClaimed(row, row, now));
		}
	}
	return [...recipients, ...(await readClaimed(trx, older, now))];
}

/** A query of a destination queue's due recipients, as text because there may be many queues. */
function selectDue(order: 'asc' | 'desc', dialect: Dialect): string {
	const due = 'q.destination = ? and q.workspace_id = ? and q.priority = ? and q.next_attempt_at <= ?';
	return selectUnclaimed(dialect, `${due} and ${isDeliverable('?')}`, `order by q.next_attempt_at ${order} limit ?`);
}

/** An SQL condition: neither an operator nor a pause holds the recipient. */
const isDeliverable = (workspaceId: string) => `q.held_at is null
	and not exists (select 1 from workspaces as p where p.id = ${workspaceId} and p.paused_at is not null)`;

function selectUnclaimed({skipLocked}: Dialect, condition: string, part = ''): string {
	// Within a union, `order by` and `limit` are only allowed in a subquery.
	return `select d.recipient_id, d.attempts from (
		select q.recipient_id, q.attempts from queue as q where ${condition} and ${isUnclaimed('q')}
		${part} ${skipLocked}) as d`;
}

async function readNextDue(
	trx: Knex.Transaction,
	{destination, workspaceId, priority}: Claim,
	now: string,
): Promise<string | null> {
	const [row]: Array<{due: string | null}> = await queryRows(
		trx,
		`select min(next_attempt_at) as due from queue
		where destination = ? and workspace_id = ? and priority = ? and next_attempt_at > ? and held_at is null`,
		[destination, workspaceId, levelOf(priority), now],
	);
	return row?.due ?? null;
}

/** Returns the shortest lifetime that any workspace has set, in milliseconds; `null` if none has. */
export async function readShortestLifetime(reader: Knex): Promise<number | null> {
	const [row]: Array<{shortest: number | null}> = await reader('workspaces').min({shortest: 'queue_lifetime_s'});
	return row?.shortest == null ? null : row.shortest * 1000;
}

/**
 * Returns the oldest queued recipients after this id that were accepted, or scheduled to be sent, before a time. All
 * times are in milliseconds.
 */
export async function readAged(
	reader: Knex,
	{after, before, limit}: {readonly after: string; readonly before: number; readonly limit: number},
): Promise<
	Array<{
		readonly id: string;
		/** For a scheduled recipient, the scheduled time. */
		readonly acceptedAt: number;
		readonly destination: string;
		/** `null` if its workspace has no lifetime of its own. */
		readonly queue_lifetime_s: number | null;
		/** Whether neither an operator nor a pause holds it. */
		readonly isDeliverable: boolean;
	}>
> {
	const rows: Array<
		{id: string; destination: string; queue_lifetime_s: number | null} & Record<
			'held_at' | 'send_at' | 'paused_at',
			string | null
		>
	> = await queryRows(
		reader,
		`select q.recipient_id as id, q.destination, q.held_at, q.send_at, w.paused_at, w.queue_lifetime_s
		from (select recipient_id, workspace_id, destination, held_at, send_at from queue
			where recipient_id > ? and recipient_id < ? and (send_at is null or send_at < ?) order by recipient_id limit ?) as q
		join workspaces as w on w.id = q.workspace_id order by q.recipient_id`,
		[after, idFloor('rcp', before), storeTime(before), limit],
	);
	return rows.map(({held_at: held, send_at: sendAt, paused_at: paused, ...row}) => ({
		...row,
		acceptedAt: sendAt === null ? idTime(row.id) : Date.parse(sendAt),
		isDeliverable: held === null && paused === null,
	}));
}

/** Returns recipients whose send has expired, held or not, that have no attempt in progress; the earliest first. */
export async function readExpired(reader: Knex, now: string, limit: number): Promise<string[]> {
	const rows: Array<{id: string}> = await queryRows(
		reader,
		`select q.recipient_id as id from queue as q where q.expires_at <= ? and ${isUnclaimed('q')}
		order by q.expires_at limit ?`,
		[now, limit],
	);
	return rows.map(({id}) => id);
}

/** Claims those of the recipients that are not claimed, due or not. A held one is only claimed if it has expired. */
export async function claimAged(
	trx: Knex.Transaction,
	options: ClaimWriteOptions,
	ids: readonly string[],
	lastsMs: number,
): Promise<readonly Claimed[]> {
	const at = options.clock.now();
	const [condition, bindings] = among(trx, 'q.recipient_id', ids);
	const deliverable = `(q.expires_at <= ? or (${isDeliverable('q.workspace_id')}))`;
	const queue = {
		recipients: selectUnclaimed(options.dialect, `${condition} and ${deliverable}`),
		bindings: [...bindings, storeTime(at)],
		max: ids.length,
	};
	return await claimSelected(trx, options, queue, {at, until: storeTime(at + lastsMs)});
}
