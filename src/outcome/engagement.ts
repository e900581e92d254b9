import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {Recipient} from '../mail/message.ts';
import {isCounted} from '../mail/simulator.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {addEngagement, type EngagementType, type FirstOf, findTrackedRecipients} from '../store/recipients.ts';
import {announce, type EventWriter} from './outbox.ts';
import type {Unsubscription} from './unsubscribe.ts';

/** One or more opens by a recipient, or clicks on one of its links. Times are in the store's format. */
export type Engagement = {
	readonly type: EngagementType;
	/** The target of the link; empty for an open. */
	readonly url: string;
	readonly n: number;
	/** How many of `n` were made by machines. */
	readonly machineN: number;
	readonly firstAt: string;
	readonly lastAt: string;
	/** Whether the first one was made by a machine, and its user agent. */
	readonly machine: boolean;
	readonly userAgent: string | null;
	/** The first one that was made by a person, if others are merged with it. */
	readonly person?: Person | null;
	/** How many links of the message one address followed within seconds, with this one; absent if not known yet. */
	readonly together?: number;
};

type Person = {readonly at: string; readonly userAgent: string | null};

function toPerson({person, machine, firstAt, userAgent}: Engagement): Person | null {
	return person === undefined ? (machine ? null : {at: firstAt, userAgent}) : person;
}

/** The owner, from the token in the message. */
export type Whose = Pick<Unsubscription, 'workspaceId' | 'messageId' | 'role' | 'address'>;

/** Merges two of the same kind and recipient. The event has the earlier time. */
export function merged<E extends Engagement>(earlier: E, later: Engagement): E {
	return {
		...earlier,
		n: earlier.n + later.n,
		machineN: earlier.machineN + later.machineN,
		lastAt: later.lastAt > earlier.lastAt ? later.lastAt : earlier.lastAt,
		person: toPerson(earlier) ?? toPerson(later),
	};
}

/**
 * Counts opens and clicks, many in one transaction. The timeline has a recipient's first open, the first click on each
 * link, and a person's first click after those of machines. They never change a state.
 *
 * Returns whether each one was counted. Skips messages that were removed or erased, and workspaces that no longer
 * track. `wait` means not counted because it may be part of a burst: submit it again with `together`.
 */
export function createEngagementWrite(
	clock: Clock,
	eventWriter: EventWriter,
): GroupWrite<Whose & Engagement, boolean | 'wait'> {
	return {
		name: 'engagement',
		rank: 3,
		bytes: ({url}) => 512 + url.length,
		async apply(trx, items) {
			const recipients = await findTrackedRecipients(trx, [...new Set(items.map(({messageId}) => messageId))]);
			const recordedAt = storeTime(clock.now());
			const judged = items.map(item => {
				const recipient = recipients.find(one => isOf(one, item));
				return recipient && {recipient, recordedAt, item: judge(item, recipient)};
			});
			const counted = judged.flatMap(one => (!one || one.item === 'wait' ? [] : [{...one, ...one.item}]));
			await recordEngagement(trx, eventWriter, counted);
			return judged.map(one => one !== undefined && (one.item === 'wait' ? 'wait' : true));
		},
	};
}

type Tracked = Awaited<ReturnType<typeof findTrackedRecipients>>[number];

/** Someone who follows all links of a message within this time after its delivery is a machine (milliseconds). */
const scanMs = 30_000;

/** Recognizes filters that pose as browsers: they follow every link of a message as soon as it arrives. */
function judge<E extends Engagement>(item: E, {state, state_at: at, links}: Tracked): E | 'wait' {
	const {type, together, firstAt, n} = item;
	// The delivery, and with it the number of links, may not be recorded yet. Several links at once are no person's.
	const isUnderWay = state === 'accepted' || state === 'queued';
	const isNew = isUnderWay || Date.parse(firstAt) - Date.parse(at) <= scanMs;
	const all = links ?? (isUnderWay ? 2 : 0);
	if (type === 'opened' || toPerson(item) === null || !isNew || all < 2) {
		return item;
	}
	if (together === undefined) {
		return 'wait';
	}
	return together >= all ? {...item, machine: true, machineN: n, person: null} : item;
}

function isOf(recipient: Tracked, {type, workspaceId, messageId, role, address}: Whose & Engagement): boolean {
	return (
		recipient.message_id === messageId &&
		recipient.role === role &&
		recipient.address === address &&
		recipient.workspace_id === workspaceId &&
		(type === 'opened' ? recipient.track_opens_at : recipient.track_clicks_at) !== null
	);
}

export type Engaged = Engagement & {
	readonly recipient: Pick<Recipient, 'id' | 'workspace_id' | 'message_id' | 'address' | 'role' | 'destination'>;
	readonly recordedAt: string;
};

/** Counts opens and clicks and adds the first ones to the timeline. */
export async function recordEngagement(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	engaged: readonly Engaged[],
): Promise<void> {
	const each = new Map<string, Engaged>();
	for (const one of engaged) {
		const key = `${one.recipient.id} ${one.type} ${one.url}`;
		const earlier = each.get(key);
		each.set(key, earlier ? merged(earlier, one) : one);
	}
	// Others may count the same rows at the same time. One order for all of them prevents deadlocks.
	const sorted = [...each].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, one]) => one);
	const isFirst = await addEngagement(
		trx,
		sorted.map(one => ({...one, recipientId: one.recipient.id, kind: one.type})),
	);
	await announce(
		trx,
		sorted
			.flatMap((one, index) => toEvents(one, isFirst[index] as FirstOf))
			.sort((one, other) => (one.firstAt < other.firstAt ? -1 : 1))
			.map(one => ({
				id: eventWriter.newId('evt'),
				workspaceId: one.recipient.workspace_id,
				messageId: one.recipient.message_id,
				recipientId: one.recipient.id,
				recipient: one.recipient.address,
				type: one.type,
				occurredAt: one.firstAt,
				recordedAt: one.recordedAt,
				isCounted: isCounted(one.recipient.role, one.recipient.destination),
				detail: toDetail(one),
			})),
		eventWriter,
	);
}

function toEvents(one: Engaged, first: FirstOf): Engaged[] {
	const person = toPerson(one);
	const isHidden = one.type === 'clicked' && first.isFirstHuman && !(first.isFirst && !one.machine);
	return [
		...(first.isFirst ? [one] : []),
		...(isHidden && person ? [{...one, firstAt: person.at, machine: false, userAgent: person.userAgent}] : []),
	];
}

function toDetail({recipient, type, url, machine, userAgent}: Engaged): string {
	return JSON.stringify({
		recipient: recipient.address,
		role: recipient.role,
		...(type === 'clicked' && {url}),
		machine,
		...(userAgent !== null && {user_agent: userAgent}),
	});
}
