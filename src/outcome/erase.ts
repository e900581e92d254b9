import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {stepsOf, takeSteps} from '../kit/steps.ts';
import {storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import {erasedAddress, type Recipient, type Role, submittedSource} from '../mail/message.ts';
import type {Operator} from '../mail/operator.ts';
import {withoutRecipient} from '../mail/source.ts';
import {eraseFromAudit, recordAct} from '../resources/audit/store.ts';
import {eraseReceived} from '../resources/received/store.ts';
import {isSoleRemover} from '../store/engine/dialect.ts';
import {belowOf, deleteErasure, type Erasure, findErasure, insertErasure} from '../store/erasures.ts';
import {listAttachments, replaceSubmitted} from '../store/messages.ts';
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

/** What was found about a person. */
type Erased = {
	/** Whether a contact existed. */
	readonly contact: boolean;
	/** The number of messages to the address. */
	readonly messages: number;
	/** The number of messages to others with the address in `cc`. */
	readonly recipients: number;
	/** The number of received messages from or to the address; absent if none. */
	readonly received?: number;
	/** Whether the sweep has to continue: the person's data is hidden, but some of it is still stored. */
	readonly isLeft: boolean;
};

export type Erase = (person: Person, operator: Operator) => Promise<Erased>;

type EraserOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly clock: Clock;
	readonly eventWriter: EventWriter;
	/**
	 * Removes the captured files of recipients. Called before each commit: after a crash, rows still name the files.
	 */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** How long `erase` may take before it leaves the rest to the sweep, in milliseconds; absent for no limit. */
	readonly waitLimitMs?: number;
};

/** How long a request waits for an erasure, in milliseconds. Most are complete by then. */
export const erasureWaitMs = 1000;

/** Small enough not to delay sends for long. */
const messagesPerStep = 25;
const openPerStep = 500;
/** Received mail may be large, and submitted mail is rewritten for each of its recipients. */
const receivedPerStep = 20;
const submittedPerStep = 20;

/**
 * Erases a person: the content of every message to the address, and the address everywhere else. Suppressions and
 * opt-outs stay, because they prevent further mail to the person.
 *
 * First, one short transaction marks the person: it deletes the contact, ends waiting mail, and erases a few messages
 * to them. From then on, reads leave out everything about the person (`store/erasures.ts`). The rest is erased in
 * steps; the sweep continues an interrupted erasure.
 *
 * A queued recipient becomes `suppressed`. Mail that is being attempted may still be delivered, but nothing more is
 * written about it because its claim is removed.
 */
export class Eraser {
	readonly #store: EraserOptions['store'];
	readonly #clock: Clock;
	readonly #eventWriter: EventWriter;
	readonly #removeCaptured: EraserOptions['removeCaptured'];
	readonly #waitLimitMs: number;

	constructor({store, clock, eventWriter, removeCaptured, waitLimitMs = Number.POSITIVE_INFINITY}: EraserOptions) {
		this.#store = store;
		this.#clock = clock;
		this.#eventWriter = eventWriter;
		this.#removeCaptured = removeCaptured;
		this.#waitLimitMs = waitLimitMs;
	}

	/** Marks a person and erases as much about them as time permits. */
	async erase(person: Person, operator: Operator): Promise<Erased> {
		const {reader, writer} = this.#store;
		const {workspaceId, addressKey} = person;
		const pair = [workspaceId, addressKey] as const;
		const erasure = {...person, below: belowOf(this.#clock.now())};
		const startedAt = this.#clock.monotonic();
		const target = await findContactId(reader, workspaceId, addressKey);
		// Mail sent to the placeholder itself would match every erased message.
		const isPlaceholder = addressKey === erasedAddress;
		const {messages, recipients, received} = isPlaceholder ? noTraces : await countTraces(reader, erasure);
		const contact = target !== null || (await findErasure(reader, pair)) !== undefined;
		const traces = {contact, messages, recipients, ...(received > 0 && {received})};
		if (!contact && messages + recipients + received === 0) {
			return {...traces, isLeft: false};
		}
		const open = isPlaceholder ? [] : await findOpenOf(reader, erasure, openPerStep);
		const messageIds = isPlaceholder ? [] : await this.#findErasableAtOnce(erasure);
		await writer.transaction(async trx => {
			const at = storeTime(this.#clock.now());
			if (open.length > 0) {
				await this.#announceEnded(trx, person, await endRecipients(trx, open, {state: 'suppressed', at}), at);
			}
			await deleteContact(trx, workspaceId, addressKey);
			await eraseFromAudit(trx, workspaceId, addressKey);
			if (!isPlaceholder) {
				await insertErasure(trx, erasure, at);
			}
			if (messageIds.length > 0 && (await isSoleRemover(trx))) {
				await this.#eraseMailTo(trx, person, messageIds);
			}
			// The contact's id alone identifies the person: the audit trail must not contain the address.
			const detail = {messages, cc_messages: recipients, ...(received > 0 && {received})};
			const acting = {clock: this.#clock, newId: this.#eventWriter.newId, operator};
			await recordAct(trx, acting, {action: 'contact.erased', workspaceId, target, detail});
		});
		if (!isPlaceholder) {
			const isTimeUp = () => this.#clock.monotonic() - startedAt > this.#waitLimitMs;
			await takeSteps(stepsOf(this.parts(erasure)), this.#clock, isTimeUp);
		}
		return {...traces, isLeft: (await findErasure(reader, pair)) !== undefined};
	}

	/**
	 * Returns the messages to a person if one transaction can erase all of them, otherwise none. Messages that are
	 * erased in the transaction that marks the person never disappear from the lists.
	 */
	async #findErasableAtOnce(erasure: Erasure): Promise<readonly string[]> {
		const {reader} = this.#store;
		const messageIds = await findMessagesTo(reader, erasure, messagesPerStep);
		const isSmall = messageIds.length < messagesPerStep;
		return isSmall && (await findSubmittedNames(reader, messageIds)).length === 0 ? messageIds : [];
	}

	/**
	 * Erases the remaining data of a marked person in steps. Stops early if another node is erasing it. Messages to
	 * others come first: they stay visible, and only the person's address is erased from them.
	 */
	async *parts(erasure: Erasure): AsyncGenerator<void> {
		const {reader} = this.#store;
		const {workspaceId, addressKey} = erasure;
		const tasks = [
			async (trx: Knex.Transaction) => {
				const recipients = await findRecipientsTo(trx, erasure, messagesPerStep);
				if (recipients.length > 0) {
					await this.#eraseFromCc(trx, erasure, recipients);
				}
				return recipients.length;
			},
			async (trx: Knex.Transaction) => await eraseReceived(trx, workspaceId, addressKey, receivedPerStep),
		];
		for (const task of tasks) {
			for (let erased: number | undefined = 1; erased !== 0; yield) {
				erased = await this.#inStep(task);
				if (erased === undefined) {
					return;
				}
			}
		}
		for (;;) {
			const messageIds = await findMessagesTo(reader, erasure, messagesPerStep);
			if (messageIds.length === 0) {
				break;
			}
			yield* this.#eraseFromSubmitted(erasure, messageIds);
			const isDone = await this.#inStep(async trx => {
				await this.#eraseMailTo(trx, erasure, messageIds);
				return true;
			});
			if (!isDone) {
				return;
			}
			yield;
		}
		const unmatched = await findUnmatched(reader, addressKey);
		await this.#inStep(async trx => {
			await eraseUnmatched(trx, unmatched);
			await deleteErasure(trx, erasure);
		});
	}

	/** The content belongs to the `to` address, so it is erased for the other recipients too. */
	async #eraseMailTo(trx: Knex.Transaction, person: Person, messageIds: readonly string[]): Promise<void> {
		const at = storeTime(this.#clock.now());
		const recipients = await findRecipientsOf(trx, messageIds);
		// This comes first: from then on, no other node records an outcome for them.
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
		await this.#announceEnded(trx, person, ended, at);
		await this.#removeCaptured(idsOf(recipients));
	}

	/**
	 * Each recipient of a submitted email gets a message with the whole email. Removes the person from all messages
	 * that were submitted together with these. It takes several steps, because a submitter may use one Message-ID for
	 * everything.
	 */
	async *#eraseFromSubmitted({workspaceId, addressKey}: Person, messageIds: readonly string[]): AsyncGenerator<void> {
		const {reader, writer} = this.#store;
		for (const name of await findSubmittedNames(reader, messageIds)) {
			for (let below: string | null | undefined = null; below !== undefined; yield) {
				const page = await findSubmitted(reader, workspaceId, name, {below, limit: submittedPerStep});
				await writer.transaction(trx => this.#eraseFromSources(trx, addressKey, page));
				below = page.length < submittedPerStep ? undefined : page.at(-1);
			}
		}
	}

	async #eraseFromSources(trx: Knex.Transaction, addressKey: string, messageIds: readonly string[]): Promise<void> {
		// One at a time, because they may be large.
		for (const id of messageIds) {
			const source = submittedSource(await listAttachments(trx, id));
			const remaining = source && withoutRecipient(Buffer.from(source), addressKey);
			if (remaining) {
				await replaceSubmitted(trx, id, remaining);
				await this.#removeCaptured(idsOf(await findRecipientsOf(trx, [id])));
			}
		}
	}

	/** Only the address belongs to the person: in the `Cc` of every recipient's message and in its own row. */
	async #eraseFromCc(
		trx: Knex.Transaction,
		person: Person,
		ccRecipients: ReadonlyArray<Pick<Recipient, 'id' | 'message_id' | 'role'>>,
	): Promise<void> {
		const at = storeTime(this.#clock.now());
		const messageIds = ccRecipients.map(({message_id: messageId}) => messageId);
		const ended = await endRecipients(trx, idsOf(ccRecipients), {state: 'suppressed', at});
		await eraseRecipients(trx, idsOf(ccRecipients));
		await eraseTimelines(trx, ccRecipients, erasedDetails);
		await rewriteAddresses(trx, messageIds, address => withoutPerson(person, address));
		const erased = (body: WebhookBody) => ({...body, recipient: withoutPerson(person, body.recipient)});
		await rewriteWebhookBodies(trx, messageIds, erased);
		await this.#announceEnded(trx, person, ended, at);
		await this.#removeCaptured(idsOf(await findRecipientsOf(trx, messageIds)));
	}

	async #announceEnded(
		trx: Knex.Transaction,
		{workspaceId}: Person,
		ended: ReadonlyArray<Pick<Recipient, 'id' | 'message_id' | 'role'>>,
		at: string,
	): Promise<void> {
		await announce(
			trx,
			ended.map(({id, message_id: messageId, role}) => ({
				id: this.#eventWriter.newId('evt'),
				workspaceId,
				messageId,
				recipientId: id,
				recipient: erasedAddress,
				type: 'suppressed',
				occurredAt: at,
				recordedAt: at,
				detail: erasedDetail(role),
				isCounted: false,
			})),
			this.#eventWriter,
		);
	}

	/** Returns `undefined` if another node is erasing data. */
	async #inStep<Result>(task: (trx: Knex.Transaction) => Promise<Result>): Promise<Result | undefined> {
		return await this.#store.writer.transaction(async trx =>
			(await isSoleRemover(trx)) ? await task(trx) : undefined,
		);
	}
}

/** The detail of the event that ends a recipient of an erased person. */
const erasedDetail = (role: Role) => JSON.stringify({role, reason: 'erased'});
const erasedDetails = (['to', 'cc'] as const).map(erasedDetail);

const noTraces: Traces = {messages: 0, recipients: 0, received: 0};

const idsOf = (recipients: ReadonlyArray<Pick<Recipient, 'id'>>) => recipients.map(({id}) => id);

function withoutPerson({addressKey}: Person, address: string): string {
	const parsed = parseAddress(address, {allowsUtf8Local: true});
	return parsed.ok && parsed.address.key === addressKey ? erasedAddress : address;
}
