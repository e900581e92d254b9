import type {Knex} from 'knex';
import {idFloor, idTime} from '../mail/ids.ts';
import type {BounceCategory} from '../mail/outcome.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {alongIndex} from './engine/along-index.ts';
import {among, idsSince} from './engine/near-ids.ts';
import {scanMessages} from './message-scan.ts';

// Of millions of messages the newest few say enough of how mail fares now: what is read here is bounded.

/** The newest mail of a workspace that was accepted from `since` (milliseconds) on, at most so much. */
export type Sample = {
	readonly workspaceId: string;
	readonly since: number;
	readonly limit: number;
	/** With simulated mail, which is left out otherwise. */
	readonly simulated?: boolean;
};

const counts = ({simulated = false}: Sample, destination: string): boolean =>
	simulated || destination !== simulatorDomain;

async function newestIn(
	reader: Knex,
	{workspaceId, since, limit}: Sample,
	status: RecipientState,
): Promise<readonly string[]> {
	return (await scanMessages(reader, {workspaceId, status, since}, {after: null, limit})).ids;
}

/** The `to` copies of messages of the sample, the newest first. */
function recipientsOf(reader: Knex, {since}: Sample, messageIds: readonly string[]): Knex.QueryBuilder {
	return reader('recipients as r')
		.whereRaw(...among(reader, 'r.message_id', messageIds))
		.whereRaw("r.role = 'to'")
		.whereRaw(...idsSince(reader, 'r.id', 'rcp', since))
		.orderBy('r.message_id', 'desc');
}

/** How long each of the newest delivered messages took from its acceptance, milliseconds. */
export async function readDeliveryTimes(reader: Knex, sample: Sample): Promise<number[]> {
	const delivered = await newestIn(reader, sample, 'delivered');
	const rows: Array<{message_id: string; state_at: string; destination: string}> = await recipientsOf(
		reader,
		sample,
		delivered,
	).select('r.message_id', 'r.state_at', 'r.destination');
	return rows
		.filter(({destination}) => counts(sample, destination))
		.map(({message_id: id, state_at: at}) => Math.max(0, Date.parse(at) - idTime(id)));
}

/** The id of a copy that is in the queue. As a value it is looked up for each copy. */
const queued = '(select q.recipient_id from queue as q where q.recipient_id = r.id)';

/** What a host said against a copy. */
export type Refusal = {
	readonly destination: string;
	readonly category: BounceCategory | null;
	readonly reply: string;
	/** It will be tried again. */
	readonly waits: boolean;
};

/** What is said against the newest messages that bounced, and against the newest that wait. */
export async function readRefusals(reader: Knex, sample: Sample): Promise<Refusal[]> {
	const [ofSince, since] = idsSince(reader, 'e.message_id', 'msg', sample.since);
	const bounced: Array<{destination: string; detail: string | null}> = await recipientsOf(
		reader,
		sample,
		await newestIn(reader, sample, 'bounced'),
	)
		// The first refusal ended the copy.
		.select('r.destination')
		.select(
			reader.raw(
				`(select e.detail from events as e where e.message_id = r.message_id and e.recipient_id = r.id
				and e.type = 'bounced' and ${ofSince} order by e.id limit 1) as detail`,
				since,
			),
		);
	const refusals: Refusal[] = bounced
		.filter(({destination}) => counts(sample, destination))
		.map(({destination, detail}) => {
			// A report has no reply of a conversation.
			const {category = null, reply = '', reason = reply} = JSON.parse(detail ?? '{}');
			return {destination, category, reply: reason, waits: false};
		});
	for (const state of ['queued', 'sent'] as const) {
		const recipients = recipientsOf(reader, sample, await newestIn(reader, sample, state))
			.select('r.destination', 'r.last_category as category', 'r.last_reply as reply')
			.select(reader.raw(`${queued} as queued`));
		const waiting: Array<Omit<Refusal, 'waits'>> = await reader
			.from(recipients.as('rows'))
			.whereNotNull('queued')
			.whereNotNull('reply')
			.select('destination', 'category', 'reply');
		refusals.push(
			...waiting.filter(({destination}) => counts(sample, destination)).map(one => ({...one, waits: true})),
		);
	}
	return refusals;
}

/** A copy, cc ones too, with the last conversation about it. */
export type TriedRecipient = {
	readonly destination: string;
	readonly state: RecipientState;
	readonly attempts: number;
	/** Whether it is still in the queue. */
	readonly waits: boolean;
	readonly host: string | null;
	/** Null: plain, or there was no conversation. */
	readonly tls: string | null;
	/** Of the last reply. */
	readonly code: number | null;
};

function newestMessages(reader: Knex, {workspaceId, since, limit}: Sample): Knex.QueryBuilder {
	const index = {leading: {workspace_id: workspaceId}, id: 'id'};
	return alongIndex(reader, 'messages', index, {from: idFloor('msg', since), below: null})
		.limit(limit)
		.select('id');
}

/** A message whose mail never left the machine. */
export type SimulatedMessage = {
	/** When it was accepted, milliseconds. */
	readonly at: number;
	readonly state: RecipientState;
};

/** The simulated ones among the newest messages: usage counts none of them. */
export async function readSimulated(reader: Knex, sample: Sample): Promise<SimulatedMessage[]> {
	const rows: Array<{id: string; state: RecipientState}> = await reader
		.with('newest', newestMessages(reader, sample))
		.from('newest as rows')
		.join('recipients as r', 'r.message_id', 'rows.id')
		.whereRaw(...idsSince(reader, 'r.id', 'rcp', sample.since))
		.whereRaw("r.role = 'to'")
		.where('r.destination', simulatorDomain)
		.select('rows.id', 'r.state');
	return rows.map(({id, state}) => ({at: idTime(id), state}));
}

/** The copies of the newest messages, simulated ones too. */
export async function readTriedRecipients(reader: Knex, sample: Sample): Promise<TriedRecipient[]> {
	const {since} = sample;
	const [ofLast, sinceLast] = idsSince(reader, 'b.recipient_id', 'rcp', since);
	const last = `(select b.n from attempts as b where b.recipient_id = r.id and ${ofLast} order by b.n desc limit 1)`;
	const rows: Array<Omit<TriedRecipient, 'waits'> & {id: string; queued: string | null}> = await reader
		.with('newest', newestMessages(reader, sample))
		.from('newest as rows')
		.join('recipients as r', 'r.message_id', 'rows.id')
		.leftJoin('attempts as a', function () {
			this.on('a.recipient_id', 'r.id')
				.andOn('a.n', reader.raw(last, sinceLast))
				.andOn(reader.raw(...idsSince(reader, 'a.recipient_id', 'rcp', since)));
		})
		.whereRaw(...idsSince(reader, 'r.id', 'rcp', since))
		.orderBy(['r.id', 'a.position'])
		.select('r.id', 'r.destination', 'r.state', 'r.attempts', 'a.host', 'a.tls', 'a.code')
		.select(reader.raw(`${queued} as queued`));
	// Of the conversations of its last try the last one counts.
	const recipients = new Map(
		rows.map(({id, queued: open, ...recipient}) => [id, {...recipient, waits: open !== null}]),
	);
	return [...recipients.values()];
}
