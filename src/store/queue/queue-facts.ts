import type {Knex} from 'knex';
import type {Mode, Role} from '../../mail/message.ts';
import type {BounceCategory} from '../../mail/outcome.ts';
import type {RecipientState} from '../../mail/recipient-state.ts';
import {type FormerWaitReason, readWaitReason, type WaitCode, type WaitReason} from '../../mail/wait-reason.ts';
import {nearIds} from '../engine/near-ids.ts';
import {shown, stateColumns} from './claimed-state.ts';
import {isNewestOfQueue} from './queue-waits.ts';

/** All that decides when a copy is tried; null where there is nothing such. */
export type RecipientFacts = {
	readonly id: string;
	readonly workspace_id: string;
	readonly message_id: string;
	readonly address: string;
	readonly role: Role;
	readonly destination: string;
	readonly state: RecipientState;
	readonly state_at: string;
	readonly attempts: number;
	readonly next_attempt_at: string | null;
	readonly claimed_by: string | null;
	/** Past it the claim of a daemon that nobody knows ends. */
	readonly claimed_until: string | null;
	readonly held_at: string | null;
	readonly last_category: BounceCategory | null;
	readonly last_reply: string | null;
	readonly accepted_at: string;
	readonly mode: Mode;
	readonly workspace_name: string;
	readonly paused_at: string | null;
	readonly pause_reason: string | null;
	readonly queue_lifetime_s: number | null;
	/** An operator's suspension of the destination. */
	readonly suspended_at: string | null;
	readonly suspension_reason: string | null;
	/** What the daemon says of mail of this workspace for the destination: due and not claimed, or its site is left alone. */
	readonly site: string | null;
	readonly queue_reason: WaitReason | FormerWaitReason | null;
	readonly queue_until: string | null;
	/** Of the site. */
	readonly site_suspended_until: string | null;
	readonly site_reason: string | null;
	/** Whether it is its smarthost that refuses us; null: as `suspension`. */
	readonly site_waits_for: 'suspension' | 'route' | null;
	/** When the last conversation about the copy began. */
	readonly tried_at: string | null;
	/** The host that spoke last, where one did. */
	readonly tried_host: string | null;
	/** What the timeline tells of the copy's end: JSON text. */
	readonly end_detail: string | null;
};

type Row = Omit<RecipientFacts, 'queue_reason'> & {
	readonly waits_for: WaitCode | null;
	readonly wait_detail: string | null;
	readonly queued_event: string | null;
};

const lastAttempt = (column: string, near: string) =>
	`(select a.${column} from attempts as a where a.recipient_id = r.id and ${near} order by a.n desc, a.position desc limit 1)`;

/** Columns of attempts and events that are near. */
const columnsNear = (
	attempt: string,
	event: string,
) => `r.id, r.workspace_id, r.message_id, r.address, r.role, r.destination, ${stateColumns('r')}, r.attempts,
	q.next_attempt_at, q.held_at, c.claimed_by, c.until as claimed_until, r.last_category, r.last_reply,
	m.created_at as accepted_at, m.mode, w.name as workspace_name, w.paused_at, w.pause_reason, w.queue_lifetime_s,
	o.created_at as suspended_at, o.reason as suspension_reason,
	l.site, l.waits_for, l.detail as wait_detail, l.until as queue_until,
	s.suspended_until as site_suspended_until, s.reason as site_reason, s.waits_for as site_waits_for,
	${lastAttempt('at', attempt)} as tried_at, ${lastAttempt('host', attempt)} as tried_host,
	case when q.recipient_id is null then (select e.detail from events as e where e.message_id = r.message_id
		and ${event} and e.recipient_id = r.id and e.type = r.state order by e.id desc limit 1) end as end_detail`;

const recipientsAtOnce = 500;

/** By id. */
export async function readRecipientFacts(reader: Knex, ids: readonly string[]): Promise<RecipientFacts[]> {
	const all: RecipientFacts[] = [];
	for (let from = 0; from < ids.length; from += recipientsAtOnce) {
		const some = ids.slice(from, from + recipientsAtOnce);
		const [attempt, tried] = nearIds(reader, 'a.recipient_id', 'rcp', some);
		const [event, happened] = nearIds(reader, 'e.message_id', 'msg', some);
		const rows: Row[] = await reader('recipients as r')
			.select(reader.raw(columnsNear(attempt, event), [...tried, ...tried, ...happened]))
			.join('messages as m', 'm.id', 'r.message_id')
			.join('workspaces as w', 'w.id', 'r.workspace_id')
			.leftJoin('queue as q', 'q.recipient_id', 'r.id')
			.leftJoin('claims as c', 'c.recipient_id', 'r.id')
			.leftJoin('suspensions as o', 'o.destination', 'r.destination')
			.leftJoin('lane_waits as l', function () {
				this.on('l.destination', 'r.destination')
					.andOn('l.workspace_id', 'r.workspace_id')
					.andOn(reader.raw(isNewestOfQueue));
			})
			.leftJoin('sites as s', 's.site', 'l.site')
			.whereIn('r.id', some)
			.whereRaw(...nearIds(reader, 'm.id', 'msg', some))
			.orderBy('r.id');
		all.push(...rows.map(factsOf));
	}
	return all;
}

function factsOf({waits_for: code, wait_detail: detail, ...row}: Row): RecipientFacts {
	return {...shown(row), queue_reason: code === null || detail === null ? null : readWaitReason(code, detail)};
}
