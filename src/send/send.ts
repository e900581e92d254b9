import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {type Address, parseAddress} from '../mail/address.ts';
import {erasedAddress, extrasJson, type Mode, readExtras} from '../mail/message.ts';
import {type Arrival, type QueueKey, queueKeyText} from '../mail/route.ts';
import {resolveDestination} from '../mail/simulator.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {keyNameText} from '../store/idempotency-keys.ts';
import {findForResend, listAttachments} from '../store/messages.ts';
import type {Vault} from '../store/sealed.ts';
import type {Catalog, SendPlan} from './catalog.ts';
import {
	createInFlight,
	type Draft,
	findReplay,
	type Idempotency,
	type Refused,
	type Send,
	type SendResult,
	toKeyName,
} from './draft.ts';
import {withoutSensitive} from './sensitive.ts';

/** A send of a batch with its own Idempotency-Key, if any. */
type KeyedSend = {readonly send: Send; readonly idempotency: Idempotency | null};

export type Accept = {
	/** Accepts one message. */
	readonly single: (send: Send, idempotency: Idempotency | null) => Promise<SendResult>;
	/** Accepts messages in one transaction, each decided on its own. Returns one result per send, in order. */
	readonly batch: (sends: readonly KeyedSend[]) => Promise<readonly SendResult[]>;
	readonly isPaused: (workspaceId: string) => Promise<boolean>;
};

export type AcceptOptions = {
	readonly catalog: Pick<Catalog, 'plan' | 'isPaused'>;
	readonly reader: Knex;
	readonly writer: Writer;
	readonly clock: Clock;
	readonly vault: Pick<Vault, 'seal'>;
	/** Created by `createAcceptWrite`. */
	readonly acceptWrite: GroupWrite<readonly Draft[], readonly SendResult[]>;
	/** How long an Idempotency-Key is remembered, in milliseconds. */
	readonly keyRetention: () => number;
	/** How long a send waits for another one with the same key, in milliseconds. */
	readonly keyWait?: number;
	/**
	 * Called when one request's messages have been submitted to the writer, with their destination queues. Claims
	 * submitted from then on find them, even in the same transaction.
	 */
	readonly onWriting: (queues: Iterable<Arrival>) => void;
	/** Called after the commit of one request's messages, with their destination queues. */
	readonly onAccepted: (mode: Mode, messages: number, queues: Iterable<QueueKey>) => void;
};

const defaultKeyWait = 30_000;

/**
 * Accepts messages. This folder decides whether a send is accepted and writes it in one transaction, by the newest rows
 * of the store. It never renders or delivers. When the promise resolves with `ok`, the message is on stable storage and
 * a 202 may be sent.
 */
export function createAccept(options: AcceptOptions): Accept {
	const {catalog, vault, reader, clock, keyRetention, keyWait = defaultKeyWait} = options;
	const inFlight = createInFlight(keyWait);

	async function accept(send: Send, idempotency: Idempotency | null): Promise<SendResult> {
		return await settle(await draft({catalog, vault}, send, idempotency), send, idempotency);
	}

	async function settle(drafted: Drafted, send: Send, idempotency: Idempotency | null): Promise<SendResult> {
		if (drafted.ok) {
			const [result] = await write(options, [drafted.draft]);
			return result as SendResult;
		}
		// A key that was used before takes precedence over all checks of the send.
		const replay =
			idempotency && (await findReplay(reader, send, idempotency, storeTime(clock.now() - keyRetention())));
		return replay ?? drafted;
	}

	function runOnce(send: Send, idempotency: Idempotency, work: () => Promise<SendResult>): Promise<SendResult> {
		return inFlight(keyNameText(toKeyName(send, idempotency)), idempotency, work);
	}

	return {
		single: (send, idempotency) =>
			idempotency === null ? accept(send, null) : runOnce(send, idempotency, () => accept(send, idempotency)),
		async batch(sends) {
			const drafted: Drafted[] = [];
			// One at a time, so that what the first one looked up is cached for the next.
			for (const {send, idempotency} of sends) {
				drafted.push(await draft({catalog, vault}, send, idempotency));
			}
			if (sends.some(({idempotency}) => idempotency !== null)) {
				// Submitted one by one, in order: those with the same key wait for each other, the others share a
				// transaction.
				return await Promise.all(
					sends.map(({send, idempotency}, index) => {
						const work = () => settle(drafted[index] as Drafted, send, idempotency);
						return idempotency === null ? work() : runOnce(send, idempotency, work);
					}),
				);
			}
			const drafts = drafted.flatMap(result => (result.ok ? [result.draft] : []));
			const results = (drafts.length > 0 ? await write(options, drafts) : []).values();
			return drafted.map(result => (result.ok ? (results.next().value as SendResult) : result));
		},
		isPaused: workspaceId => catalog.isPaused(workspaceId),
	};
}

/** Submits drafts to the writer, and reports their destination queues. */
async function write(
	{writer, acceptWrite, onWriting, onAccepted}: AcceptOptions,
	drafts: readonly Draft[],
): Promise<readonly SendResult[]> {
	const writing = writer.submit(acceptWrite, drafts);
	const queues = toQueues(drafts);
	// A claim that follows shares the transaction.
	if (writer.isOrdered) {
		onWriting(queues);
	}
	const results = await writing;
	if (!writer.isOrdered) {
		onWriting(queues);
	}
	const accepted = drafts.filter((_, index) => isNew(results[index] as SendResult));
	if (accepted[0]) {
		onAccepted(
			accepted[0].send.mode,
			accepted.length,
			accepted.length === drafts.length ? queues : toQueues(accepted),
		);
	}
	return results;
}

const isNew = (result: SendResult): boolean => result.ok && !result.replayed;

function toQueues(drafts: readonly Draft[]): readonly Arrival[] {
	const queues = new Map<string, Arrival>();
	for (const {send, priority} of drafts) {
		const {workspaceId, mode, to, cc} = send;
		const {sendAt} = readExtras(send.extras);
		for (const {domain} of [to, ...cc]) {
			const queue = {destination: resolveDestination(mode, domain), workspaceId, priority};
			const key = sendAt === undefined ? queueKeyText(queue) : `${queueKeyText(queue)} ${sendAt}`;
			queues.set(key, {...queue, ...(sendAt !== undefined && {dueAt: Date.parse(sendAt)})});
		}
	}
	return [...queues.values()];
}

type Drafted = {readonly ok: true; readonly draft: Draft} | Refused;

/** Runs the checks in order of precedence. Those that must see the newest rows follow in the transaction. */
async function draft(
	{catalog, vault}: Pick<AcceptOptions, 'catalog' | 'vault'>,
	send: Send,
	idempotency: Idempotency | null,
): Promise<Drafted> {
	const plan = await catalog.plan(send);
	if (!plan.ok) {
		return plan;
	}
	const {versionId, topicCode, topicId, quota} = plan;
	const priority = readExtras(send.extras).priority ?? plan.priority;
	const {send: redacted, sealed} = redactSend(
		topicCode === send.topicCode ? send : {...send, topicCode},
		plan,
		vault,
	);
	return {ok: true, draft: {send: redacted, sealed, idempotency, versionId, topicId, priority, quota}};
}

/** Separates a send's sensitive variables. Mail that does not leave the machine is rendered without them. */
function redactSend(send: Send, {sensitive}: SendPlan, vault: Pick<Vault, 'seal'>): Pick<Draft, 'send' | 'sealed'> {
	const {data, workspaceId} = send;
	const redactedData = sensitive === null || data === null ? null : withoutSensitive(data, sensitive);
	if (redactedData === null || data === null) {
		return {send, sealed: null};
	}
	const extras = extrasJson({...readExtras(send.extras), hidden: true});
	return {send: {...send, data: redactedData, extras}, sealed: vault.seal(workspaceId, data)};
}

/**
 * Returns the content of a message as a new send of the same mode, which passes every check and uses the newest version
 * of the template. Leaves out erased recipients. Returns `undefined` if the workspace has no such message, `erased` if
 * its content was erased, and `removed` if part of it is no longer stored.
 */
export async function readResend(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<Send | 'erased' | 'removed' | undefined> {
	const sent = await findForResend(reader, workspaceId, id);
	if (!sent || sent.erasedAt !== null || sent.to === erasedAddress) {
		return sent && 'erased';
	}
	const {hidden, emptied, sendAt: _sendAt, expiresAt: _expiresAt, ...extras} = readExtras(sent.extras);
	if (hidden || emptied) {
		return 'removed';
	}
	const {erasedAt: _, replyTo, cc, ...rest} = sent;
	const recipients: string[] = JSON.parse(cc ?? '[]');
	return {
		...rest,
		workspaceId,
		from: toAddress(sent.from),
		to: toAddress(sent.to),
		cc: recipients.filter(address => address !== erasedAddress).map(toAddress),
		replyTo: replyTo === null || replyTo === erasedAddress ? null : toAddress(replyTo),
		attachments: await listAttachments(reader, id),
		extras: extrasJson(extras),
		resentFrom: id,
	};
}

function toAddress(text: string): Address {
	const parsed = parseAddress(text, {allowsUtf8Local: true});
	if (!parsed.ok) {
		throw new Error('An accepted address cannot be parsed.');
	}
	return parsed.address;
}
