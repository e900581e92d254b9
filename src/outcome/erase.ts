import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {stepsOf, takeSteps} from '../kit/steps.ts';
import {storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import {erasedAddress, type Recipient, type Role, submittedSource} from '../mail/message.ts';
import type {Operator} from '../mail/operator.ts';
import {withoutRecipient} from '../mail/source.ts';
import {eraseFromAudit, recordAct} from '../store/audit.ts';
import {isSoleRemover} from '../store/engine/dialect.ts';
import {belowOf, deleteErasure, type Erasure, findErasure, insertErasure} from '../store/erasures.ts';
import {listAttachments, replaceSubmitted} from '../store/messages.ts';
import {eraseReceived} from '../store/received.ts';
import {
	countTraces,
	deleteContact,
	endRecipients,
	eraseMessages,
	eraseRecipients,
	eraseTimelines,
	eraseUnmatched,
	findContactId,
	findMessagesTo,
	findOpenOf,
	findRecipientsOf,
	findRecipientsTo,
	findSubmitted,
	findSubmittedNames,
	findUnmatched,
	rewriteAddresses,
	rewriteWebhookBodies,
	type Traces,
	type WebhookBody,
} from '../store/retention.ts';
import type {Store} from '../store/store.ts';
import {announce, type EventWriter} from './outbox.ts';

/** A person: an address (in comparison form) in a workspace. */
export type Person = {readonly workspaceId: string; readonly addressKey: string};

/** What was there of a person. */
type Erased = {
	/** Whether there was a contact. */
	readonly contact: boolean;
	/** Messages to the address. */
	readonly messages: number;
	/** Messages to others with the address in `cc`. */
	readonly recipients: number;
	/** Mails that came in from or to the address; absent: none. */
	readonly received?: number;
	/**
	 * Whether the sweep has to go on with it: nothing of the person is read any more, but some of it is in the store.
	 */
	readonly isLeft: boolean;
};

export type Erase = (person: Person, operator: Operator) => Promise<Erased>;

export type Eraser = {
	/** Marks a person, and erases as much of them as the time is enough for. */
	readonly erase: Erase;
	/** Erases what is left of a marked person, part by part. It ends early where another node does so. */
	readonly parts: (erasure: Erasure) => AsyncGenerator<void>;
};

type EraserOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly clock: Clock;
	readonly eventWriter: EventWriter;
	/**
	 * Removes the captured mails of recipients. Called before each step commits, while the rows still name the files
	 * after a crash.
	 */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** How long `erase` may take before it leaves the rest to the sweep, milliseconds; absent: as long as all takes. */
	readonly waitLimitMs?: number;
};

/** A request waits this long for it, milliseconds: most people are erased by then. */
export const erasureWaitMs = 1000;

/** Small enough that no send beside it waits long. */
const messagesPerStep = 25;
const openPerStep = 500;
/** Mails may be large, and a mail as submitted is rewritten for each of its recipients. */
const receivedPerStep = 20;
const submittedPerStep = 20;

/**
 * Erases a person: the content of every message to the address, and the address in all other places. Suppressions and
 * opt-outs stay: they keep the person from being mailed. First the person is marked, in one short transaction: the
 * contact goes, waiting mail to them ends, and reads leave out what is about them (`store/erasures.ts`). A few messages
 * to them are erased in the same transaction. The rest goes in steps; an interrupted erasure continues when the daemon
 * sweeps.
 *
 * A queued recipient ends `suppressed`. The mail of one that is being tried may still arrive, but nothing more is
 * written about it: its claim is gone.
 */
export function createEraser(options: EraserOptions): Eraser {
	const {store, clock, eventWriter, removeCaptured, waitLimitMs = Number.POSITIVE_INFINITY} = options;
	const {reader, writer} = store;

	async function erase(person: Person, operator: Operator): Promise<Erased> {
		const {workspaceId, addressKey} = person;
		const pair = [workspaceId, addressKey] as const;
		const erasure = {...person, below: belowOf(clock.now())};
		const began = clock.monotonic();
		const target = await findContactId(reader, workspaceId, addressKey);
		// Who mails the placeholder itself finds every erased message under it.
		const isPlaceholder = addressKey === erasedAddress;
		const {messages, recipients, received} = isPlaceholder ? noTraces : await countTraces(reader, erasure);
		const contact = target !== null || (await findErasure(reader, pair)) !== undefined;
		const found = {contact, messages, recipients, ...(received > 0 && {received})};
		if (!contact && messages + recipients + received === 0) {
			return {...found, isLeft: false};
		}
		const open = isPlaceholder ? [] : await findOpenOf(reader, erasure, openPerStep);
		const few = isPlaceholder ? [] : await findFew(erasure);
		await writer.transaction(async trx => {
			const at = storeTime(clock.now());
			if (open.length > 0) {
				await announceEnded(trx, person, await endRecipients(trx, open, {state: 'suppressed', at}), at);
			}
			await deleteContact(trx, workspaceId, addressKey);
			await eraseFromAudit(trx, workspaceId, addressKey);
			if (!isPlaceholder) {
				await insertErasure(trx, erasure, at);
			}
			if (few.length > 0 && (await isSoleRemover(trx))) {
				await eraseMailTo(trx, person, few);
			}
			// The contact's id alone says who it was: nothing recorded may hold the address.
			const detail = {messages, cc_messages: recipients, ...(received > 0 && {received})};
			const acting = {clock, newId: eventWriter.newId, operator};
			await recordAct(trx, acting, {action: 'contact.erased', workspaceId, target, detail});
		});
		if (!isPlaceholder) {
			await takeSteps(stepsOf(parts(erasure)), clock, () => clock.monotonic() - began > waitLimitMs);
		}
		return {...found, isLeft: (await findErasure(reader, pair)) !== undefined};
	}

	/**
	 * The messages to a person, if one transaction can erase them all; otherwise none. Erased together with the mark,
	 * they never leave the lists.
	 */
	async function findFew(erasure: Erasure): Promise<readonly string[]> {
		const messageIds = await findMessagesTo(reader, erasure, messagesPerStep);
		const isWhole =
			messageIds.length < messagesPerStep && (await findSubmittedNames(reader, messageIds)).length === 0;
		return isWhole ? messageIds : [];
	}

	/** Before all else the copies for others, which only the person's address is erased from: they are still read. */
	async function* parts(erasure: Erasure): AsyncGenerator<void> {
		const {workspaceId, addressKey} = erasure;
		/** Undefined: another node is at it. */
		const inStep = async <Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result | undefined> =>
			await writer.transaction(async trx => ((await isSoleRemover(trx)) ? await work(trx) : undefined));
		const works = [
			async (trx: Knex.Transaction) => {
				const recipients = await findRecipientsTo(trx, erasure, messagesPerStep);
				if (recipients.length > 0) {
					await eraseFromCc(trx, erasure, recipients);
				}
				return recipients.length;
			},
			async (trx: Knex.Transaction) => await eraseReceived(trx, workspaceId, addressKey, receivedPerStep),
		];
		for (const work of works) {
			for (let some: number | undefined = 1; some !== 0; yield) {
				some = await inStep(work);
				if (some === undefined) {
					return;
				}
			}
		}
		for (;;) {
			const messageIds = await findMessagesTo(reader, erasure, messagesPerStep);
			if (messageIds.length === 0) {
				break;
			}
			yield* eraseFromSubmitted(erasure, messageIds);
			const done = await inStep(async trx => {
				await eraseMailTo(trx, erasure, messageIds);
				return true;
			});
			if (!done) {
				return;
			}
			yield;
		}
		const unmatched = await findUnmatched(reader, addressKey);
		await inStep(async trx => {
			await eraseUnmatched(trx, unmatched);
			await deleteErasure(trx, erasure);
		});
	}

	/** The content belongs to the `to` address: it is erased for the other recipients too. */
	async function eraseMailTo(trx: Knex.Transaction, person: Person, messageIds: readonly string[]): Promise<void> {
		const at = storeTime(clock.now());
		const recipients = await findRecipientsOf(trx, messageIds);
		// First of all: from then on no other node writes an outcome of them.
		const ended = await endRecipients(trx, idsOf(recipients), {state: 'suppressed', at});
		await eraseRecipients(trx, idsOf(recipients.filter(({role}) => role === 'to')));
		await eraseTimelines(trx, recipients, erasedDetails);
		await eraseMessages(trx, messageIds, at);
		await rewriteAddresses(trx, messageIds, address => withoutPerson(person, address));
		const erased = (body: WebhookBody) => ({
			...body,
			recipient: withoutPerson(person, body.recipient),
			metadata: {},
		});
		await rewriteWebhookBodies(trx, messageIds, erased);
		await announceEnded(trx, person, ended, at);
		await removeCaptured(idsOf(recipients));
	}

	/**
	 * Each recipient of a submitted mail has the whole of it. Takes the person out of those that some messages to them
	 * came with, in steps of their own: a submitter may give all mails one Message-ID.
	 */
	async function* eraseFromSubmitted(
		{workspaceId, addressKey}: Person,
		messageIds: readonly string[],
	): AsyncGenerator<void> {
		for (const name of await findSubmittedNames(reader, messageIds)) {
			for (let below: string | null | undefined = null; below !== undefined; yield) {
				const page = await findSubmitted(reader, workspaceId, name, {below, limit: submittedPerStep});
				await writer.transaction(trx => eraseFrom(trx, addressKey, page));
				below = page.length < submittedPerStep ? undefined : page.at(-1);
			}
		}
	}

	async function eraseFrom(trx: Knex.Transaction, addressKey: string, messageIds: readonly string[]): Promise<void> {
		// One after the other: they may be large.
		for (const id of messageIds) {
			const source = submittedSource(await listAttachments(trx, id));
			const rest = source && withoutRecipient(Buffer.from(source), addressKey);
			if (rest) {
				await replaceSubmitted(trx, id, rest);
				await removeCaptured(idsOf(await findRecipientsOf(trx, [id])));
			}
		}
	}

	/** Only the address is the person's: in the `Cc` of every recipient's mail, and in its own recipient row. */
	async function eraseFromCc(
		trx: Knex.Transaction,
		person: Person,
		own: ReadonlyArray<Pick<Recipient, 'id' | 'message_id' | 'role'>>,
	): Promise<void> {
		const at = storeTime(clock.now());
		const messageIds = own.map(({message_id: messageId}) => messageId);
		const ended = await endRecipients(trx, idsOf(own), {state: 'suppressed', at});
		await eraseRecipients(trx, idsOf(own));
		await eraseTimelines(trx, own, erasedDetails);
		await rewriteAddresses(trx, messageIds, address => withoutPerson(person, address));
		const erased = (body: WebhookBody) => ({...body, recipient: withoutPerson(person, body.recipient)});
		await rewriteWebhookBodies(trx, messageIds, erased);
		await announceEnded(trx, person, ended, at);
		await removeCaptured(idsOf(await findRecipientsOf(trx, messageIds)));
	}

	async function announceEnded(
		trx: Knex.Transaction,
		{workspaceId}: Person,
		ended: ReadonlyArray<Pick<Recipient, 'id' | 'message_id' | 'role'>>,
		at: string,
	): Promise<void> {
		await announce(
			trx,
			ended.map(({id, message_id: messageId, role}) => ({
				id: eventWriter.newId('evt'),
				workspaceId,
				messageId,
				recipientId: id,
				recipient: erasedAddress,
				type: 'suppressed',
				occurredAt: at,
				recordedAt: at,
				detail: erasedDetail(role),
				counted: false,
			})),
			eventWriter,
		);
	}

	return {erase, parts};
}

/** What the event says that ends a copy of an erased person. */
const erasedDetail = (role: Role) => JSON.stringify({role, reason: 'erased'});
const erasedDetails = (['to', 'cc'] as const).map(erasedDetail);

const noTraces: Traces = {messages: 0, recipients: 0, received: 0};

const idsOf = (recipients: ReadonlyArray<Pick<Recipient, 'id'>>) => recipients.map(({id}) => id);

function withoutPerson({addressKey}: Person, address: string): string {
	const parsed = parseAddress(address, {utf8Local: true});
	return parsed.ok && parsed.address.key === addressKey ? erasedAddress : address;
}
