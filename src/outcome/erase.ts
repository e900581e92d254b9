import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import {erasedAddress, type Recipient, submittedSource} from '../mail/message.ts';
import type {Operator} from '../mail/operator.ts';
import {withoutRecipient} from '../mail/source.ts';
import {beginAct, eraseFromAudit} from '../store/audit.ts';
import {listAttachments, replaceSubmitted} from '../store/messages.ts';
import {eraseReceived} from '../store/received.ts';
import {
	deleteContact,
	endRecipients,
	eraseMessages,
	eraseRecipients,
	eraseTimelines,
	eraseUnmatched,
	findContactId,
	findMessagesTo,
	findRecipientsOf,
	findRecipientsTo,
	findSubmitted,
	findSubmittedNames,
	findUnmatched,
	rewriteAddresses,
	rewriteWebhookBodies,
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
};

export type Erase = (person: Person, operator: Operator) => Promise<Erased>;

type StepContext = {
	/** Messages in which the submitted mails name the person to no other recipient any more. */
	readonly cleaned: ReadonlySet<string>;
	readonly unmatched: readonly string[];
	readonly wasKnown: boolean;
};

type EraseOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly clock: Clock;
	readonly eventWriter: EventWriter;
	/**
	 * Removes the captured mails of recipients. Called before each step commits, while the rows still name the files
	 * after a crash.
	 */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
};

const messagesPerStep = 200;
const receivedPerStep = 50;
/** Mails may be large, and a mail as submitted is rewritten for each of its recipients. */
const submittedPerStep = 50;

/**
 * Erases a person: the content of every message to the address, the address in all other places, and the contact last,
 * so that the next run finds and ends an interrupted erasure. Suppressions and opt-outs stay: they keep the person from
 * being mailed.
 *
 * A queued recipient ends `suppressed`. The mail of one that is being tried may still arrive, but nothing more is
 * written about it: its claim is gone.
 */
export function createErase({store, clock, eventWriter, removeCaptured}: EraseOptions): Erase {
	const {reader, writer} = store;
	return async (person, operator) => {
		const {workspaceId, addressKey} = person;
		const unmatched = await findUnmatched(reader, addressKey);
		const target = await findContactId(reader, workspaceId, addressKey);
		// The contact's id alone says who it was: nothing recorded may hold the address.
		const act = {action: 'contact.erased', workspaceId, target};
		const record = beginAct({clock, newId: eventWriter.newId, operator}, act);
		let messages = 0;
		let recipients = 0;
		let received = 0;
		for (let some = receivedPerStep; some === receivedPerStep; received += some) {
			some = await writer.transaction(trx => eraseReceived(trx, workspaceId, addressKey, receivedPerStep));
		}
		for (;;) {
			const cleaned = await eraseFromSubmitted(person);
			const step = await writer.transaction(async trx => {
				const taken = await takeStep(trx, person, {cleaned, unmatched, wasKnown: messages + recipients + received > 0});
				const done = {messages: messages + taken.messages, cc_messages: recipients + taken.recipients};
				if (taken.contact || done.messages + done.cc_messages + received > 0) {
					await record(trx, {...done, ...(received > 0 && {received})});
				}
				return taken;
			});
			messages += step.messages;
			recipients += step.recipients;
			if (step.contact !== null) {
				return {contact: step.contact, messages, recipients, ...(received > 0 && {received})};
			}
		}
	};

	/** One step's messages, else recipients; then the contact (null: something was left). */
	async function takeStep(
		trx: Knex.Transaction,
		person: Person,
		{cleaned, unmatched, wasKnown}: StepContext,
	): Promise<{messages: number; recipients: number; contact: boolean | null}> {
		const {workspaceId, addressKey} = person;
		// Who mails the placeholder itself finds every erased message under it.
		const limit = addressKey === erasedAddress ? 0 : messagesPerStep;
		const found = await findMessagesTo(trx, workspaceId, addressKey, limit);
		if (found.length > 0) {
			// Those that came meanwhile are of the next step.
			const messageIds = found.filter(id => cleaned.has(id));
			await eraseMailTo(trx, person, messageIds);
			return {messages: messageIds.length, recipients: 0, contact: null};
		}
		const recipients = await findRecipientsTo(trx, workspaceId, addressKey, limit);
		if (recipients.length > 0) {
			await eraseFromCc(trx, person, recipients);
			return {messages: 0, recipients: recipients.length, contact: null};
		}
		const contact = await deleteContact(trx, workspaceId, addressKey);
		// Else the workspace has nothing of the person.
		if (contact || wasKnown) {
			await eraseUnmatched(trx, unmatched);
			await eraseFromAudit(trx, workspaceId, addressKey);
		}
		return {messages: 0, recipients: 0, contact};
	}

	/** The content belongs to the `to` address: it is erased for the other recipients too. */
	async function eraseMailTo(trx: Knex.Transaction, person: Person, messageIds: readonly string[]): Promise<void> {
		const at = storeTime(clock.now());
		const recipients = await findRecipientsOf(trx, messageIds);
		// First of all: from then on no other node writes an outcome of them.
		const ended = await endRecipients(trx, idsOf(recipients), {state: 'suppressed', at});
		await eraseRecipients(trx, idsOf(recipients.filter(({role}) => role === 'to')));
		await eraseTimelines(trx, recipients);
		await eraseMessages(trx, messageIds, at);
		await rewriteAddresses(trx, messageIds, address => withoutPerson(person, address));
		const erased = (body: WebhookBody) => ({...body, recipient: withoutPerson(person, body.recipient), metadata: {}});
		await rewriteWebhookBodies(trx, messageIds, erased);
		await announceEnded(trx, person, ended, at);
		await removeCaptured(idsOf(recipients));
	}

	/**
	 * Each recipient of a submitted mail has the whole of it. Takes the person out of those that the next messages to them came
	 * with, in steps of their own: a submitter may give all mails one Message-ID. Answers the messages that were looked at.
	 */
	async function eraseFromSubmitted({workspaceId, addressKey}: Person): Promise<ReadonlySet<string>> {
		const limit = addressKey === erasedAddress ? 0 : messagesPerStep;
		const messageIds = await findMessagesTo(reader, workspaceId, addressKey, limit);
		for (const name of await findSubmittedNames(reader, messageIds)) {
			for (let below: string | null | undefined = null; below !== undefined; ) {
				const page = await findSubmitted(reader, workspaceId, name, {below, limit: submittedPerStep});
				await writer.transaction(trx => eraseFrom(trx, addressKey, page));
				below = page.length < submittedPerStep ? undefined : page.at(-1);
			}
		}
		return new Set(messageIds);
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
		await eraseTimelines(trx, own);
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
				detail: JSON.stringify({role, reason: 'erased'}),
				counted: false,
			})),
			eventWriter,
		);
	}
}

const idsOf = (recipients: ReadonlyArray<Pick<Recipient, 'id'>>) => recipients.map(({id}) => id);

function withoutPerson({addressKey}: Person, address: string): string {
	const parsed = parseAddress(address, {utf8Local: true});
	return parsed.ok && parsed.address.key === addressKey ? erasedAddress : address;
}
