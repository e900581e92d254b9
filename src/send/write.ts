import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {monthOf, storeTime} from '../kit/time.ts';
import type {Address} from '../mail/address.ts';
import {idTime, type NewId} from '../mail/ids.ts';
import {type Recipient, type Role, readExtras} from '../mail/message.ts';
import {resolveDestination, simulatorDomain} from '../mail/simulator.ts';
import {suppresses} from '../mail/suppression.ts';
import {toTerms} from '../mail/terms.ts';
import {recordAct} from '../resources/audit/store.ts';
import {
	type Addressee,
	findOptedOut,
	isInForce,
	type OptOut,
	type Preferences,
	readAddressees,
	recordContacts,
} from '../resources/topics/store.ts';
import {holdOffDeletions, queryTogether} from '../store/engine/dialect.ts';
import {type Pair, pairKey} from '../store/engine/rows.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {insertTerms, type MessageTerms} from '../store/message-terms.ts';
import {insertAttachments, insertMessages, type NewMessage} from '../store/messages.ts';
import {insertRecipients} from '../store/recipients.ts';
import {insertEvents, type NewEvent} from '../store/timeline.ts';
import {addToMonth, countMonth, countUsage, type MonthCount, subtractFromMonth} from '../store/usage.ts';
import {accepted, type Draft, refused, releaseRefused, resolveKeys, type Send, type SendResult} from './draft.ts';

type AcceptWriteOptions = {
	readonly clock: Clock;
	readonly newId: NewId;
	/** How long an Idempotency-Key is remembered, in milliseconds. */
	readonly keyRetention: () => number;
};

/**
 * Decides, by the newest rows, which sends are accepted, and writes these, many in one transaction. It writes
 * Idempotency-Keys, usage, contacts, messages, attachments and recipients. A message row also serves as the `accepted`
 * event, which has no row of its own. An item is a single send or all sends of a batch.
 */
export function createAcceptWrite(options: AcceptWriteOptions): GroupWrite<readonly Draft[], readonly SendResult[]> {
	const {clock, newId, keyRetention} = options;
	return {
		name: 'accept',
		rank: 1,
		isBeside: true,
		size: sends => sends.length,
		bytes: sends => sends.reduce((sum, draft) => sum + toBytes(draft), 0),
		async apply(trx, groups) {
			const drafts = groups.flat();
			const [, addressees, optedOut] = await queryTogether(
				trx,
				() => holdOffDeletions(trx),
				() => readAddressees(trx, drafts.flatMap(toPairs)),
				() => findOptedOut(trx, drafts.filter(({send}) => send.topicCode !== null).flatMap(toPairs)),
			);
			const blocks = new SendBlocks({addressees, optedOut, now: storeTime(clock.now())});
			const judged = judgeAll(drafts, blocks, newId);
			// The time is read after the ids were created, so that no row of a message is older than its id.
			const now = clock.now();
			const settled = await resolveKeys(trx, drafts, judged, {
				now: storeTime(now),
				expiredBefore: storeTime(now - keyRetention()),
			});
			const {results, over: overQuota} = await enforceQuotas(trx, drafts, settled, now);
			if (overQuota.size > 0) {
				await releaseRefused(trx, drafts, overQuota);
			}
			const entries = toEntries(drafts, results);
			await insertNew(trx, entries, {addressees, blocks, now: storeTime(now), newId});
			await recordSends(trx, entries, {clock, newId});
			await countSends(trx, drafts, results, now);
			return regroup(groups, results);
		},
	};
}

function toEntries(drafts: readonly Draft[], results: readonly SendResult[]): Entry[] {
	const entries: Entry[] = [];
	for (const [index, draft] of drafts.entries()) {
		const result = results[index] as SendResult;
		if (result.ok && !result.replayed) {
			entries.push({id: result.id, draft});
		}
	}
	return entries;
}

function regroup<Item, Result>(groups: ReadonlyArray<readonly Item[]>, results: readonly Result[]): Result[][] {
	let start = 0;
	return groups.map(({length}) => {
		start += length;
		return results.slice(start - length, start);
	});
}

type Addressees = ReadonlyMap<string, Addressee>;
/** What the functions below need to create the rows of new messages, besides the sends. */
type RowContext = {
	readonly addressees: Addressees;
	readonly blocks: SendBlocks;
	readonly now: string;
	readonly newId: NewId;
};

async function insertNew(trx: Knex.Transaction, entries: readonly Entry[], context: RowContext): Promise<void> {
	if (entries.length === 0) {
		return;
	}
	await insertMail(trx, entries, context);
	await addRecipients(trx, toRecipients(entries, context), context);
}

/** Records the sends of dashboard users in the audit trail. */
async function recordSends(
	trx: Knex.Transaction,
	entries: readonly Entry[],
	tools: Pick<AcceptWriteOptions, 'clock' | 'newId'>,
): Promise<void> {
	for (const {id, draft} of entries) {
		const {by: operator, workspaceId, templateId, resentFrom} = draft.send;
		if (operator) {
			const [action, detail] =
				resentFrom === null
					? ['message.sent', {template: templateId}]
					: ['message.resent', {resent_from: resentFrom}];
			await recordAct(trx, {...tools, operator}, {action, workspaceId, target: id, detail});
		}
	}
}

function toPairs({send}: Draft): Pair[] {
	return [send.to, ...send.cc].map(({key}) => [send.workspaceId, key]);
}

type BlockFacts = {
	readonly addressees: Addressees;
	readonly optedOut: ReadonlyMap<string, ReadonlyMap<string, OptOut>>;
	readonly now: string;
};

/** Decides which addresses must not get mail now. */
class SendBlocks {
	readonly #facts: BlockFacts;

	constructor(facts: BlockFacts) {
		this.#facts = facts;
	}

	/** Whether the workspace was deleted since the earlier checks. */
	isWorkspaceDeleted({send}: Draft): boolean {
		return this.#facts.addressees.get(pairKey(send.workspaceId, send.to.key))?.isWorkspaceDeleted === true;
	}

	findReason({send: {workspaceId, topicCode, mode}}: Draft, addressKey: string): BlockReason | null {
		const {addressees, optedOut, now} = this.#facts;
		const pair = pairKey(workspaceId, addressKey);
		const addressee = addressees.get(pair);
		if (suppresses(addressee?.suppressed ?? undefined, mode)) {
			return 'suppressed';
		}
		const optOut = topicCode === null ? addressee?.left : optedOut.get(pair)?.get(topicCode);
		return optOut && isInForce(optOut, now) ? 'opted_out' : null;
	}
}

function judgeAll(drafts: readonly Draft[], blocks: SendBlocks, newId: NewId): SendResult[] {
	const judged: SendResult[] = [];
	for (const draft of drafts) {
		judged.push(
			blocks.isWorkspaceDeleted(draft)
				? refused('sending_paused')
				: judge(draft, blocks.findReason(draft, draft.send.to.key), newId),
		);
	}
	return judged;
}

/** Runs the checks that need the newest rows. If several fail, the first one here determines the error code. */
function judge(draft: Draft, reason: BlockReason | null, newId: NewId): SendResult {
	if (reason === 'suppressed') {
		return refused('recipient_suppressed');
	}
	if (draft.send.topicCode !== null && draft.topicId === null) {
		return refused('unknown_unsubscribe_group');
	}
	if (reason === 'opted_out') {
		return refused('recipient_unsubscribed');
	}
	return accepted(newId('msg'));
}

async function insertMail(trx: Knex.Transaction, entries: readonly Entry[], context: RowContext): Promise<void> {
	const preferences = await recordContacts(trx, toContactUpdates(entries, context), context.now);
	await insertMessages(trx, messageRows(entries, preferences));
	await insertTerms(trx, entries.map(toMessageTerms));
	await insertAttachments(trx, entries.map(toMessageFiles));
}

// Functions that run once per message are declared at the top level of the module: V8 discards the compiled code of a
// closure that was created for one batch.

function toContactUpdates(
	entries: readonly Entry[],
	{addressees, newId}: RowContext,
): Parameters<typeof recordContacts>[1] {
	const newContact = () => newId('con');
	const updates: Array<Parameters<typeof recordContacts>[1][number]> = [];
	for (const {draft} of entries) {
		const {send} = draft;
		updates.push({
			id: newContact,
			workspaceId: send.workspaceId,
			address: send.to.spelling,
			addressKey: send.to.key,
			known: addressees.get(pairKey(send.workspaceId, send.to.key))?.preferences,
			locale: send.locale,
			timezone: send.timezone,
			// Test sends do not change contacts, and a resent message may have outdated preferences.
			shouldUpdate: send.mode === 'live' && send.resentFrom === null,
		});
	}
	return updates;
}

function toMessageTerms({id, draft: {send}}: Entry): MessageTerms {
	return {workspaceId: send.workspaceId, messageId: id, terms: toTerms(send)};
}

function toMessageFiles({id, draft}: Entry): Parameters<typeof insertAttachments>[1][number] {
	return {messageId: id, attachments: draft.send.attachments};
}

async function addRecipients(
	trx: Knex.Transaction,
	recipients: readonly NewRecipient[],
	{now, newId}: RowContext,
): Promise<void> {
	await insertRecipients(trx, recipients);
	await insertEvents(
		trx,
		recipients.flatMap(recipient =>
			recipient.barred === null ? [] : [suppressedEvent(recipient, recipient.barred, now, newId)],
		),
	);
}

// The message row is the `accepted` event of its recipients, so only suppressed ones need an event of their own.
function suppressedEvent(
	{id: recipientId, message_id: messageId, address, role}: Pick<Recipient, 'id' | 'message_id' | 'address' | 'role'>,
	reason: BlockReason,
	now: string,
	newId: NewId,
): NewEvent {
	return {
		id: newId('evt'),
		messageId,
		recipientId,
		type: 'suppressed',
		occurredAt: now,
		recordedAt: now,
		detail: JSON.stringify({recipient: address, role, reason}),
	};
}

/** About how many bytes the row of a message or recipient has, without the content of the message. */
const rowBytes = 1024;

function toBytes({send}: Draft): number {
	const files = send.attachments.reduce((sum, attachment) => sum + attachment.content.length, 0);
	return rowBytes * (1 + send.cc.length) + (send.data?.length ?? 0) + (send.metadata?.length ?? 0) + files;
}

/** Why an address must not get mail. */
type BlockReason = 'suppressed' | 'opted_out';

/** A draft that passed every check, with the id of its message. */
type Entry = {readonly id: string; readonly draft: Draft};

function messageRows(entries: readonly Entry[], preferences: readonly Preferences[]): NewMessage[] {
	const rows: NewMessage[] = [];
	for (const [index, entry] of entries.entries()) {
		rows.push(messageRow(entry, preferences[index] as Preferences));
	}
	return rows;
}

function messageRow({id, draft}: Entry, preferences: Preferences): NewMessage {
	const {send, versionId, topicId, sealed} = draft;
	return {
		id,
		workspaceId: send.workspaceId,
		mode: send.mode,
		from: send.from.spelling,
		fromKey: send.from.key,
		to: send.to.spelling,
		toKey: send.to.key,
		replyTo: send.replyTo?.spelling ?? null,
		cc: send.cc.length === 0 ? null : JSON.stringify(send.cc.map(address => address.spelling)),
		templateId: send.templateId,
		versionId,
		data: send.data,
		metadata: send.metadata,
		tags: send.tags,
		topicId,
		topicCode: send.topicCode,
		locale: preferences.locale,
		timezone: preferences.timezone,
		tracking: send.tracking,
		extras: send.extras,
		sealed,
		attachments: send.attachments.length,
		resentFrom: send.resentFrom,
		// Ranges of creation times are ranges of ids, so both must have the same time.
		createdAt: storeTime(idTime(id)),
	};
}

/**
 * Returns the `to` and then the `cc` recipients of each message. A `cc` recipient that must not get mail is
 * `suppressed` from the start. If the `to` address must not get any, the whole send was refused before.
 */
function toRecipients(entries: readonly Entry[], context: RowContext): NewRecipient[] {
	const recipients: NewRecipient[] = [];
	for (const entry of entries) {
		const {send} = entry.draft;
		recipients.push(newRecipient(entry, send.to, 'to', null, context));
		for (const address of send.cc) {
			recipients.push(
				newRecipient(entry, address, 'cc', context.blocks.findReason(entry.draft, address.key), context),
			);
		}
	}
	return recipients;
}

type NewRecipient = ReturnType<typeof newRecipient>;

function newRecipient(
	{id, draft: {send, priority}}: Entry,
	address: Address,
	role: Role,
	barred: BlockReason | null,
	{now, newId}: RowContext,
) {
	const {sendAt = null, expiresAt = null} = readExtras(send.extras);
	return {
		id: newId('rcp'),
		workspace_id: send.workspaceId,
		message_id: id,
		address: address.spelling,
		address_key: address.key,
		role,
		destination: resolveDestination(send.mode, address.domain),
		state: barred === null ? ('accepted' as const) : ('suppressed' as const),
		state_at: now,
		next_attempt_at: barred === null ? (sendAt ?? now) : null,
		send_at: sendAt,
		expires_at: expiresAt,
		priority,
		barred,
	};
}

/** The sends of one workspace in a group. */
type WorkspaceSends = {
	readonly workspaceId: string;
	readonly quota: number | null;
	/** The indexes, in the group, of the sends that count toward the quota. */
	readonly counted: number[];
	simulated: number;
};

/**
 * Rejects sends above their workspace's monthly quota, the last ones of the group first, as if they were decided one by
 * one. Also returns the indexes of those rejected.
 *
 * `countMonth` locks the rows of these workspaces, so from here to the commit no other transaction accepts their sends.
 * Workspaces without a quota are counted later, by `countSends`.
 */
async function enforceQuotas(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	results: readonly SendResult[],
	now: number,
): Promise<{readonly results: readonly SendResult[]; readonly over: ReadonlySet<number>}> {
	const limited = groupByWorkspace(drafts, results).filter(({quota}) => quota !== null);
	const over = new Set<number>();
	if (limited.length === 0) {
		return {results, over};
	}
	const month = monthOf(now);
	const totals = await countMonth(trx, month.name, limited.map(monthCount));
	const judged = [...results];
	const excess: Array<{workspaceId: string; n: number}> = [];
	for (const {workspaceId, quota, counted} of limited) {
		const limit = quota ?? 0;
		const excessCount = Math.min(counted.length, (totals.get(workspaceId) ?? 0) - limit);
		if (excessCount > 0) {
			excess.push({workspaceId, n: excessCount});
			for (const index of counted.slice(-excessCount)) {
				judged[index] = {ok: false, code: 'quota_exceeded', quota: {limit, endsAt: month.end}};
				over.add(index);
			}
		}
	}
	await subtractFromMonth(trx, month.name, excess);
	return {results: judged, over};
}

/** Counts what was accepted. This comes last, because it locks the workspaces' counters until the commit. */
async function countSends(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	results: readonly SendResult[],
	now: number,
): Promise<void> {
	const byWorkspace = groupByWorkspace(drafts, results);
	const unlimited = byWorkspace.filter(({quota}) => quota === null);
	await addToMonth(trx, monthOf(now).name, unlimited.map(monthCount));
	const at = storeTime(now);
	await countUsage(
		trx,
		byWorkspace.flatMap(({workspaceId, counted: {length: n}}) =>
			n > 0 ? [{workspaceId, at, status: 'accepted' as const, n}] : [],
		),
	);
}

function monthCount({workspaceId, counted, simulated}: WorkspaceSends): MonthCount {
	return {workspaceId, accepted: counted.length, test: simulated};
}

function groupByWorkspace(drafts: readonly Draft[], results: readonly SendResult[]): WorkspaceSends[] {
	const byWorkspace = new Map<string, WorkspaceSends>();
	for (const [index, {send, quota}] of drafts.entries()) {
		const result = results[index] as SendResult;
		if (!result.ok || result.replayed) {
			continue;
		}
		const {workspaceId} = send;
		const sends = byWorkspace.get(workspaceId) ?? {workspaceId, quota, counted: [], simulated: 0};
		byWorkspace.set(workspaceId, sends);
		if (isSimulated(send)) {
			sends.simulated++;
		} else {
			sends.counted.push(index);
		}
	}
	return [...byWorkspace.values()];
}

/** Whether the send only goes to the simulator, so that none of it leaves the machine. */
function isSimulated({mode, to, cc}: Send): boolean {
	return mode === 'test' || [to, ...cc].every(({domain}) => domain === simulatorDomain);
}
