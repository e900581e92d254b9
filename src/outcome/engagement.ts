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
	/** The first one that was made by a person, if several are merged. */
	readonly person?: Person | null;
	/** How many links of the message one address followed within seconds, with this one; absent if not known yet. */
	readonly together?: number;
};

type Person = {readonly at: string; readonly userAgent: string | null};

function toPerson({person, machine, firstAt, userAgent}: Engagement): Person | null {
	return person === undefined ? (machine ? null : {at: firstAt, userAgent}) : person;
}

/** The owner, from the token in the message. */
export type LinkOwner = Pick<Unsubscription, 'workspaceId' | 'messageId' | 'role' | 'address'>;

/** Merges two of the same kind and recipient. The event has the earlier time. */
export function mergeEngagement<E extends Engagement>(earlier: E, later: Engagement): E {
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
): GroupWrite<LinkOwner & Engagement, boolean | 'wait'> {
	return {
		name: 'engagement',
		rank: 3,
		bytes: ({url}) => 512 + url.length,
		async apply(trx, items) {
			const recipients = await findTrackedRecipients(trx, [...new Set(items.map(({messageId}) => messageId))]);
			const recordedAt = storeTime(clock.now());
			const judged = items.map(item => {
				const recipient = recipients.find(candidate => matchesToken(candidate, item));
				return recipient && {recipient, recordedAt, item: markScanner(item, recipient)};
			});
			const counted = judged.flatMap(entry =>
				!entry || entry.item === 'wait' ? [] : [{...entry, ...entry.item}],
			);
			await recordEngagement(trx, eventWriter, counted);
			return judged.map(entry => entry !== undefined && (entry.item === 'wait' ? 'wait' : true));
		},
	};
}

type Tracked = Awaited<ReturnType<typeof findTrackedRecipients>>[number];

/** Someone who follows all links of a message within this time after its delivery is a machine (milliseconds). */
const scanMs = 30_000;

/** Recognizes filters that pose as browsers: they follow every link of a message as soon as it arrives. */
function markScanner<E extends Engagement>(item: E, {state, state_at: at, links}: Tracked): E | 'wait' {
	const {type, together, firstAt, n} = item;
	// Until the delivery is recorded, the number of links is unknown. A person does not follow two of them at once.
	const isUnderWay = state === 'accepted' || state === 'queued';
	const isNew = isUnderWay || Date.parse(firstAt) - Date.parse(at) <= scanMs;
	const linkCount = links ?? (isUnderWay ? 2 : 0);
	if (type === 'opened' || toPerson(item) === null || !isNew || linkCount < 2) {
		return item;
	}
	if (together === undefined) {
		return 'wait';
	}
	return together >= linkCount ? {...item, machine: true, machineN: n, person: null} : item;
}

function matchesToken(
	recipient: Tracked,
	{type, workspaceId, messageId, role, address}: LinkOwner & Engagement,
): boolean {
	return (
		recipient.message_id === messageId &&
		recipient.role === role &&
		recipient.address === address &&
		recipient.workspace_id === workspaceId &&
		(type === 'opened' ? recipient.track_opens_at : recipient.track_clicks_at) !== null
	);
}

export type RecipientEngagement = Engagement & {
	readonly recipient: Pick<Recipient, 'id' | 'workspace_id' | 'message_id' | 'address' | 'role' | 'destination'>;
	readonly recordedAt: string;
};

/** Counts opens and clicks and adds the first ones to the timeline. */
export async function recordEngagement(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	engaged: readonly RecipientEngagement[],
): Promise<void> {
	const byKey = new Map<string, RecipientEngagement>();
	for (const item of engaged) {
		const key = `${item.recipient.id} ${item.type} ${item.url}`;
		const earlier = byKey.get(key);
		byKey.set(key, earlier ? mergeEngagement(earlier, item) : item);
	}
	// Other transactions may count the same rows at the same time. A common order prevents deadlocks.
	const sorted = [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, item]) => item);
	const isFirst = await addEngagement(
		trx,
		sorted.map(item => ({...item, recipientId: item.recipient.id, kind: item.type})),
	);
	await announce(
		trx,
		sorted
			.flatMap((item, index) => toEvents(item, isFirst[index] as FirstOf))
			.sort((a, b) => (a.firstAt < b.firstAt ? -1 : 1))
			.map(item => ({
				id: eventWriter.newId('evt'),
				workspaceId: item.recipient.workspace_id,
				messageId: item.recipient.message_id,
				recipientId: item.recipient.id,
				recipient: item.recipient.address,
				type: item.type,
				occurredAt: item.firstAt,
				recordedAt: item.recordedAt,
				isCounted: isCounted(item.recipient.role, item.recipient.destination),
				detail: toDetail(item),
			})),
		eventWriter,
	);
}

/** Returns the first open or click, and a person's first click if it follows those of machines. */
function toEvents(item: RecipientEngagement, first: FirstOf): RecipientEngagement[] {
	const person = toPerson(item);
	const isFollowUp = item.type === 'clicked' && first.isFirstHuman && !(first.isFirst && !item.machine);
	return [
		...(first.isFirst ? [item] : []),
		...(isFollowUp && person ? [{...item, firstAt: person.at, machine: false, userAgent: person.userAgent}] : []),
	];
}

function toDetail({recipient, type, url, machine, userAgent}: RecipientEngagement): string {
	return JSON.stringify({
		recipient: recipient.address,
		role: recipient.role,
		...(type === 'clicked' && {url}),
		machine,
		...(userAgent !== null && {user_agent: userAgent}),
	});
}
