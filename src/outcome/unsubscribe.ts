import type {Knex} from 'knex';
import {apiTime, dayMs, storeTime} from '../kit/time.ts';
import {noMessage} from '../mail/ids.ts';
import type {Role} from '../mail/message.ts';
import {isSimulated} from '../mail/simulator.ts';
import {deleteSuppressionOf, findStatus} from '../resources/suppressions/store.ts';
import {
	deleteOptOuts,
	findOptedOut,
	insertOptOuts,
	listOptionalCodes,
	listPublicTopics,
	noTopic,
	type Topic,
	toBars,
} from '../resources/topics/store.ts';
import {type Pair, pairKey} from '../store/engine/rows.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {findRecipientFor} from '../store/recipients.ts';
import {readDetails} from '../store/timeline.ts';
import {announce, type EventWriter, notify} from './outbox.ts';
import {suppressAddresses} from './suppress.ts';

/**
 * `topic` leaves the message's topic: everything else if that is required, everything if it has none. `undo` reverts
 * what the hosted page did.
 */
export type OptOutAction = 'topic' | 'all' | 'undo';

/** `pause` stops optional mail for 30 days and `resume` ends that. Otherwise, topics to rejoin and leave, by code. */
export type PreferenceAction = 'pause' | 'resume' | {readonly in: readonly string[]; readonly out: readonly string[]};

/** The person for whom a link was created, and what they request. */
export type Unsubscription = {
	readonly workspaceId: string;
	/** `noMessage` if the link was not in a message. */
	readonly messageId: string;
	/** The topic of the message. */
	readonly topicId: string | null;
	readonly role: Role;
	/** As the caller spelled it. */
	readonly address: string;
	/** In comparison form. */
	readonly addressKey: string;
	readonly action: OptOutAction | PreferenceAction;
	/**
	 * Whether the recipient used the page, a mail program used the link (RFC 8058), mail was sent to the unsubscribe
	 * address, or the provider reported it (ARF).
	 */
	readonly via: 'one-click' | 'page' | 'mail' | 'report';
	/** The current time in the store's format. */
	readonly at: string;
};

/** What prevents mail to an address: the hosted page, which can undo it, or something else. */
type Block = 'page' | 'other';

/** The state of an address as the page of its link shows it. */
export type SubscriptionStatus = {
	/** The topic of the message, if it still exists. */
	readonly topic: {
		readonly code: string;
		readonly name: string;
		readonly description: string | null;
		/** Whether its mail continues, because the link leaves everything else. `block` is about that. */
		readonly isRequired: boolean;
		readonly block: Block | null;
	} | null;
	readonly all: Block | null;
	/** Whether it was mail of a test key to a real address, whose links change no list. */
	readonly isTest: boolean;
};

// The suppression and opt-out that the hosted page creates. Nothing else creates them or is undone by the page.
const pageSource = 'one-click';
const reason = 'unsubscribe';

const pauseDays = 30;

/**
 * Applies unsubscribe links, many in one transaction: suppression or opt-out, and the recipient's event. Existing
 * entries stay as they are. Returns the resulting state. The workspace must exist.
 */
export function createUnsubscribeWrite(eventWriter: EventWriter): GroupWrite<Unsubscription, SubscriptionStatus> {
	return {
		name: 'unsubscribe',
		rank: 3,
		async apply(trx, items) {
			return (await unsubscribeAll(trx, items, eventWriter)).map(({status}) => status);
		},
	};
}

/** The result of an unsubscription. */
type Unsubscribed = {
	readonly status: SubscriptionStatus;
	/** Whether it is in the timeline, which it is not if it changed nothing. */
	readonly isAnnounced: boolean;
};

/** Applies several at once. Returns the results in the same order. */
export async function unsubscribeAll(
	trx: Knex.Transaction,
	items: readonly Unsubscription[],
	eventWriter: EventWriter,
): Promise<Unsubscribed[]> {
	const results = new Map<Unsubscription, Unsubscribed>();
	// In the order of their keys, because two nodes may write the same addresses.
	for (const item of items.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))) {
		results.set(item, await apply(trx, item, eventWriter));
	}
	return items.map(item => results.get(item) as Unsubscribed);
}

/** Reads the current state for the address of a link. A deleted workspace has none. */
export async function readStatus(
	reader: Knex,
	recipient: Omit<Unsubscription, 'action' | 'via' | 'at'>,
): Promise<SubscriptionStatus> {
	const row = await findStatus(reader, toPair(recipient), recipient);
	const isRequired = row?.requiredAt != null;
	let block: Block | null = null;
	if (isRequired) {
		block = await findBlockOnOthers(reader, recipient);
	} else if (row?.optOutSource) {
		block = toBlock(row.optOutSource.startsWith(pageSource));
	}
	return {
		topic:
			row?.topicCode && row.topicName
				? {code: row.topicCode, name: row.topicName, description: row.description, isRequired, block}
				: null,
		all: row?.reason ? toBlock(row.reason === reason && row.source === pageSource) : null,
		// Once the message is removed, its link counts as live, so that no opt-out is lost.
		isTest: row?.mode === 'test' && !isSimulated(recipient.addressKey),
	};
}

/** The source of opt-outs that the link of a required topic creates. The link undoes no others. */
const requiredTopicSource = ({topicId}: Pick<Unsubscription, 'topicId'>) => `${pageSource}:${topicId}`;

/** Returns the codes of everything a person can opt out of, including mail without a topic. */
async function listOptOutCodes(reader: Knex, workspaceId: string): Promise<string[]> {
	return [...(await listOptionalCodes(reader, workspaceId)), noTopic];
}

/** Finds what prevents all mail of optional topics, if anything does. */
async function findBlockOnOthers(
	reader: Knex,
	recipient: Pick<Unsubscription, 'workspaceId' | 'addressKey' | 'topicId'>,
): Promise<Block | null> {
	const pair = toPair(recipient);
	const byCode = (await findOptedOut(reader, [pair])).get(pairKey(...pair));
	const optOuts = (await listOptOutCodes(reader, recipient.workspaceId)).map(code => byCode?.get(code));
	return optOuts.every(optOut => optOut?.until === null)
		? toBlock(optOuts.some(optOut => optOut?.source === requiredTopicSource(recipient)))
		: null;
}

/** A topic as the preference page shows it. */
export type Choice = Pick<Topic, 'code' | 'name' | 'description'> & {
	readonly isRequired: boolean;
	/** Whether the person left the topic. A pause does not count. */
	readonly isOut: boolean;
};

/** Reads the topics that a person may choose, by name, and when their pause ends (`null` if none). */
export async function readChoices(
	reader: Knex,
	recipient: Pick<Unsubscription, 'workspaceId' | 'addressKey'>,
	now: string,
): Promise<{readonly choices: readonly Choice[]; readonly pausedUntil: string | null}> {
	const pair = toPair(recipient);
	const topics = await listPublicTopics(reader, recipient.workspaceId);
	const optOuts = (await findOptedOut(reader, [pair])).get(pairKey(...pair));
	return {
		choices: topics
			.map(({code, name, description, required_at}) => ({
				code,
				name,
				description,
				isRequired: required_at !== null,
				isOut: optOuts?.get(code)?.until === null,
			}))
			.toSorted((a, b) => a.name.localeCompare(b.name)),
		pausedUntil: toBars(optOuts, now).pausedUntil,
	};
}

/** Whether the action changes anything. */
export function hasEffect({topic, all, isTest}: SubscriptionStatus, action: OptOutAction): boolean {
	if (action === 'undo') {
		// A topic added later ends the block on everything else, but what the link did can still be undone.
		return !isTest && (all === 'page' || topic?.block === 'page' || topic?.isRequired === true);
	}
	return isTest || (action === 'topic' && topic ? topic.block : all) === null;
}

async function apply(trx: Knex.Transaction, item: Unsubscription, eventWriter: EventWriter): Promise<Unsubscribed> {
	const {action} = item;
	const status = await readStatus(trx, item);
	if (isOptOut(action) && !hasEffect(status, action)) {
		return {status, isAnnounced: false};
	}
	let isAnnounced = false;
	if (!status.isTest) {
		await liftBlocks(trx, item, status.topic);
	}
	for (const topic of await optOut(trx, item, status, eventWriter)) {
		isAnnounced = (await announceOnce(trx, item, {topic, isTest: status.isTest}, eventWriter)) || isAnnounced;
	}
	return {status: await readStatus(trx, item), isAnnounced};
}

const isOptOut = (action: Unsubscription['action']): action is OptOutAction =>
	action === 'topic' || action === 'all' || action === 'undo';

/**
 * Opts the address out. Returns the codes that it has left: `noTopic` for mail without a topic, `null` for everything.
 * For test mail, returns what it would leave.
 */
async function optOut(
	trx: Knex.Transaction,
	item: Unsubscription,
	{topic, isTest}: SubscriptionStatus,
	eventWriter: EventWriter,
): Promise<ReadonlyArray<string | null>> {
	const {workspaceId, messageId, address, addressKey, via, action, at: createdAt} = item;
	const codes = await findCodesToLeave(trx, item, topic);
	if (isTest) {
		return codes ?? [null];
	}
	// The page undoes only what it created itself.
	const linkSource = topic?.isRequired && action === 'topic' ? requiredTopicSource(item) : pageSource;
	const source = via === 'mail' || via === 'report' ? messageId : linkSource;
	const common = {workspaceId, address, addressKey, source, createdAt};
	if (codes !== null) {
		const until = action === 'pause' ? pauseEnd(createdAt) : null;
		return await insertOptOuts(
			trx,
			codes.toSorted().map(code => ({...common, code, until})),
		);
	}
	const id = eventWriter.newId('sup');
	const entry = {...common, id, reason, ...(messageId !== noMessage && {messageId})} as const;
	return (await suppressAddresses(trx, [entry], eventWriter)).has(id) ? [null] : [];
}

/** Returns the codes that an action leaves, or `null` for everything. */
async function findCodesToLeave(
	trx: Knex.Transaction,
	{action, workspaceId}: Unsubscription,
	topic: SubscriptionStatus['topic'],
): Promise<readonly string[] | null> {
	if (typeof action === 'object') {
		return action.out;
	}
	if (action === 'undo' || action === 'resume') {
		return [];
	}
	if (action === 'pause' || (action === 'topic' && topic?.isRequired)) {
		return await listOptOutCodes(trx, workspaceId);
	}
	return action === 'topic' && topic ? [topic.code] : null;
}

const pauseEnd = (from: string): string => storeTime(Date.parse(from) + pauseDays * dayMs);

/** Removes the opt-outs and the suppression that the action ends. */
async function liftBlocks(
	trx: Knex.Transaction,
	item: Unsubscription,
	topic: SubscriptionStatus['topic'],
): Promise<void> {
	const {action} = item;
	const pair = toPair(item);
	if (typeof action === 'object') {
		const until = toBars((await findOptedOut(trx, [pair])).get(pairKey(...pair)), item.at).pausedUntil;
		await deleteOptOuts(trx, pair, {codes: action.in});
		if (until !== null) {
			// A pause also applies to topics that are rejoined meanwhile.
			const {workspaceId, address, addressKey, at: createdAt} = item;
			const codes = (await listOptOutCodes(trx, workspaceId)).filter(code => action.in.includes(code));
			const common = {workspaceId, address, addressKey, source: pageSource, createdAt, until};
			await insertOptOuts(
				trx,
				codes.toSorted().map(code => ({...common, code})),
			);
		}
	} else if (action === 'resume') {
		await deleteOptOuts(trx, pair, {pauses: true});
	} else if (action === 'undo') {
		await deleteSuppressionOf(trx, pair, {reason, source: pageSource});
		if (topic) {
			await deleteOptOuts(
				trx,
				pair,
				topic.isRequired ? {source: requiredTopicSource(item)} : {codes: [topic.code], source: pageSource},
			);
		}
	}
}

/** Records in the timeline, once each, that a recipient left a topic and that it left everything. */
async function announceOnce(
	trx: Knex.Transaction,
	item: Unsubscription,
	{topic, isTest}: {readonly topic: string | null; readonly isTest: boolean},
	eventWriter: EventWriter,
): Promise<boolean> {
	const {workspaceId, messageId, role, address: recipient, via, action, at} = item;
	const until = action === 'pause' ? apiTime(pauseEnd(at)) : undefined;
	const detail = {recipient, role, topic, via, ...(until && {until})};
	const notice = {type: 'recipient_unsubscribed', workspaceId, recipient, at, detail} as const;
	if (messageId === noMessage) {
		await notify(trx, [{...notice, messageId: null}], eventWriter);
		return false;
	}
	const recipientId = await findRecipientFor(trx, item);
	if (recipientId === undefined) {
		return false; // Removed or erased: nothing may contain the address any more.
	}
	const details = await readDetails(trx, {messageId, recipientId, type: 'unsubscribed'});
	const isKnown = details.some(known => known.topic === topic && known.until === until);
	// An opt-out that was undone may be repeated. Test mail changes no list, so only the timeline shows it.
	if (!isKnown || !isTest) {
		await notify(trx, [{...notice, messageId}], eventWriter);
	}
	if (isKnown) {
		return false;
	}
	await announce(
		trx,
		[
			{
				id: eventWriter.newId('evt'),
				workspaceId,
				messageId,
				recipientId,
				recipient,
				type: 'unsubscribed',
				occurredAt: at,
				recordedAt: at,
				detail: JSON.stringify(detail),
				isCounted: false,
			},
		],
		eventWriter,
	);
	return true;
}

function toBlock(isPage: boolean): Block {
	return isPage ? 'page' : 'other';
}

function toPair({workspaceId, addressKey}: Pick<Unsubscription, 'workspaceId' | 'addressKey'>): Pair {
	return [workspaceId, addressKey];
}

function keyOf(item: Omit<Unsubscription, 'action' | 'via' | 'at'>): string {
	return pairKey(...toPair(item));
}
