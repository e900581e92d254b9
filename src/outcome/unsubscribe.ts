import type {Knex} from 'knex';
import type {Role} from '../mail/message.ts';
import {isSimulated} from '../mail/simulator.ts';
import {type Pair, pairKey} from '../store/engine/rows.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {findRecipientFor} from '../store/recipients.ts';
import {deleteSuppressionOf, findStatus} from '../store/suppressions.ts';
import {readDetails} from '../store/timeline.ts';
import {deleteOptOut, insertOptOut} from '../store/topics.ts';
import {announce, type EventWriter, notify} from './outbox.ts';
import {suppressAddresses} from './suppress.ts';

/** `topic`: out of the message's topic, or of everything without a topic. `undo`: what the hosted page made. */
export type OptOutAction = 'topic' | 'all' | 'undo';

/** Whom the link of a mail was for, and what they ask. */
export type Unsubscription = {
	readonly workspaceId: string;
	readonly messageId: string;
	/** The topic that the message was tagged with. */
	readonly topicId: string | null;
	readonly role: Role;
	/** As the caller spelled it. */
	readonly address: string;
	/** In comparison form. */
	readonly addressKey: string;
	readonly action: OptOutAction;
	/**
	 * The recipient used the page, or a mail program used the link (RFC 8058), or a mail was sent to the recipient's
	 * unsubscribe address, or the provider reported it (ARF).
	 */
	readonly via: 'one-click' | 'page' | 'mail' | 'report';
	/** Now, in the store's form. */
	readonly at: string;
};

/** Who keeps mail from an address: the hosted page, which can take it back, or something else. */
type Block = 'page' | 'other';

/** What holds for an address, as its link's page sees it. */
export type SubscriptionStatus = {
	/** The topic that the message was tagged with, if there still is one. */
	readonly topic: {readonly code: string; readonly name: string; readonly block: Block | null} | null;
	readonly all: Block | null;
	/** Mail of a test key to a real address: its links change no list. */
	readonly isTest: boolean;
};

// The suppression and the opt-out that the hosted page makes; nothing else makes their like, and it takes back nothing else.
const pageSource = 'one-click';
const reason = 'unsubscribe';

/**
 * Acts on unsubscribe links, many in one transaction: suppression or opt-out, and the event of the recipient. Existing
 * entries stay as they are. Returns what applies then. The workspace must exist.
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

/** What an unsubscription led to. */
type Unsubscribed = {
	readonly status: SubscriptionStatus;
	/** Whether the timeline has it: not if it changed nothing. */
	readonly announced: boolean;
};

/** Acts on some at once; answers in their order. */
export async function unsubscribeAll(
	trx: Knex.Transaction,
	items: readonly Unsubscription[],
	eventWriter: EventWriter,
): Promise<Unsubscribed[]> {
	const ends = new Map<Unsubscription, Unsubscribed>();
	// In the order of their keys, for two nodes may write the same addresses.
	for (const item of items.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))) {
		ends.set(item, await act(trx, item, eventWriter));
	}
	return items.map(item => ends.get(item) as Unsubscribed);
}

/** What holds for the address of a link now; nothing does in a workspace that is gone. */
export async function readStatus(
	reader: Knex,
	recipient: Omit<Unsubscription, 'action' | 'via' | 'at'>,
): Promise<SubscriptionStatus> {
	const row = await findStatus(reader, pairOf(recipient), recipient);
	const block = row?.optOutSource ? blockOf(row.optOutSource === pageSource) : null;
	return {
		topic: row?.topicCode && row.topicName ? {code: row.topicCode, name: row.topicName, block} : null,
		all: row?.reason ? blockOf(row.reason === reason && row.source === pageSource) : null,
		// Once the message is gone, its link counts as that of a live one: an opt-out must not get lost.
		isTest: row?.mode === 'test' && !isSimulated(recipient.addressKey),
	};
}

/** Whether there is anything to write. */
export function changes({topic, all, isTest}: SubscriptionStatus, action: OptOutAction): boolean {
	if (action === 'undo') {
		return !isTest && (all === 'page' || topic?.block === 'page');
	}
	return isTest || (action === 'topic' && topic ? topic.block : all) === null;
}

async function act(trx: Knex.Transaction, item: Unsubscription, eventWriter: EventWriter): Promise<Unsubscribed> {
	const {action} = item;
	const status = await readStatus(trx, item);
	if (!changes(status, action)) {
		return {status, announced: false};
	}
	const code = status.topic?.code ?? null;
	let announced = false;
	if (action === 'undo') {
		await takeBack(trx, item, code);
	} else {
		const topic = action === 'topic' ? code : null;
		if (status.isTest || (await optOut(trx, item, topic, eventWriter))) {
			announced = await announceOnce(trx, item, {topic, isTest: status.isTest}, eventWriter);
		}
	}
	return {status: await readStatus(trx, item), announced};
}

/** False: the address was out already. */
async function optOut(
	trx: Knex.Transaction,
	{workspaceId, messageId, address, addressKey, via, at: createdAt}: Unsubscription,
	code: string | null,
	eventWriter: EventWriter,
): Promise<boolean> {
	// The page takes back only what it made itself.
	const source = via === 'mail' || via === 'report' ? messageId : pageSource;
	const common = {workspaceId, address, addressKey, source, createdAt};
	if (code !== null) {
		return await insertOptOut(trx, {...common, code});
	}
	const id = eventWriter.newId('sup');
	return (await suppressAddresses(trx, [{...common, id, reason, messageId}], eventWriter)).has(id);
}

async function takeBack(trx: Knex.Transaction, item: Unsubscription, code: string | null): Promise<void> {
	const pair = pairOf(item);
	await deleteSuppressionOf(trx, pair, {reason, source: pageSource});
	if (code !== null) {
		await deleteOptOut(trx, pair, {code, source: pageSource});
	}
}

/** The timeline has once that a recipient left a topic, and once that it left altogether. */
async function announceOnce(
	trx: Knex.Transaction,
	item: Unsubscription,
	{topic, isTest}: {readonly topic: string | null; readonly isTest: boolean},
	eventWriter: EventWriter,
): Promise<boolean> {
	const {workspaceId, messageId, role, address: recipient, via, at} = item;
	const recipientId = await findRecipientFor(trx, item);
	if (recipientId === undefined) {
		return false; // Gone, or erased: nothing may bear the address any more.
	}
	const details = await readDetails(trx, {messageId, recipientId, type: 'unsubscribed'});
	const isKnown = details.some(detail => detail.topic === topic);
	const detail = {recipient, role, topic, via};
	// Once the page has undone it, it may come again. Test mail changes no list: there the timeline alone knows.
	if (!isKnown || !isTest) {
		await notify(trx, [{type: 'recipient_unsubscribed', workspaceId, messageId, recipient, at, detail}], eventWriter);
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
				counted: false,
			},
		],
		eventWriter,
	);
	return true;
}

function blockOf(isPage: boolean): Block {
	return isPage ? 'page' : 'other';
}

function pairOf({workspaceId, addressKey}: Pick<Unsubscription, 'workspaceId' | 'addressKey'>): Pair {
	return [workspaceId, addressKey];
}

function keyOf(item: Omit<Unsubscription, 'action' | 'via' | 'at'>): string {
	return pairKey(...pairOf(item));
}
