import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {NewId} from '../mail/ids.ts';
import type {RecipientState} from '../mail/message.ts';
import {toTracking} from '../mail/message.ts';
import {type BounceCategory, isPossibleDuplicate} from '../mail/outcome.ts';
import {isCounted, simulatedLink} from '../mail/simulator.ts';
import {isListed, stateTerm, subjectTerms} from '../mail/terms.ts';
import {countTls, type TlsDay} from '../resources/domains/tls-store.ts';
import type {NewSuppression} from '../resources/suppressions/store.ts';
import {findSubscribers, type Subscriber} from '../resources/webhooks/store.ts';
import {queryTogether} from '../store/engine/dialect.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {insertTerms, type MessageTerms, mergeTerms} from '../store/message-terms.ts';
import {forgetSealed} from '../store/messages.ts';
import {type EndedAttempt, endClaims, findReported, insertAttempts, writeOutcomes} from '../store/queue/outcomes.ts';
import {type EarlierAttempts, readEarlier} from '../store/reputation.ts';
import {queuedEvent} from '../store/timeline.ts';
import {type Complaint, recordComplaints} from './complaint.ts';
import {type RecipientEngagement, recordEngagement} from './engagement.ts';
import {escalate, isSoftOfAddress, type SoftBounce} from './escalation.ts';
import {
	type AnnouncedEvent,
	announce,
	type EventWriter,
	eventDetail,
	type Notice,
	notify,
	ofRecipient,
} from './outbox.ts';
import {countAttempts, type RecordedEnds, readRecordedEnds, refusalClass} from './reputation.ts';
import type {JudgedAttempt} from './settle.ts';
import {hardBounceOf, suppressAddresses} from './suppress.ts';

const idOf = ({recipient}: JudgedAttempt): string => recipient.id;

/**
 * Records the ends of attempts, many in one transaction: state, attempts, timeline, suppression, and what the simulator
 * adds to a delivery. Returns `true` for recipients that this daemon still held, and `false` for those that another
 * process has moved meanwhile, which do not change.
 */
export function createRecordWrite(boot: string, eventWriter: EventWriter): GroupWrite<JudgedAttempt, boolean> {
	const {newId} = eventWriter;
	return {
		name: 'outcome',
		rank: 3,
		bytes: ({result}) => result.attempts.reduce((sum, {dialogue}) => sum + 256 + (dialogue?.length ?? 0), 512),
		async apply(trx, items) {
			const ended = await endClaims(trx, boot, items.map(toEndedAttempt));
			const claims = new Map(ended.map(toEntry));
			const {held, bounced, triedBefore} = selectHeld(items, claims);
			const [reported, written, earlier, subscribers] = await queryTogether(
				trx,
				() => findReported(trx, bounced.map(idOf)),
				() => writeOutcomes(trx, ended),
				() => readEarlier(trx, triedBefore.map(idOf)),
				() => findSubscribers(trx, [...new Set(held.map(workspaceOf))]),
			);
			// Terms are normally new. If one exists after all, the insert fails and the writer retries each item alone.
			await (items.length > 1 ? insertTerms : mergeTerms)(trx, toTerms(items, written, reported));
			const applied = await escalateSoft(trx, selectWritten(items, written));
			const recorded = await readRecordedEnds(trx, reportedMessages(applied, written, reported));
			await insertAttempts(trx, applied.map(toAttempts));
			await notify(trx, toDeferrals(applied, written), eventWriter, subscribers);
			const events: AnnouncedEvent[] = [];
			for (const item of applied) {
				const queued = claims.get(item.recipient.id)?.queued ?? null;
				const [mayBeDuplicate, refusal] = [isDoubtful(item, earlier), findRefusal(item, reported, recorded)];
				events.push(...toEvents(item, {queued, mayBeDuplicate, refusal}, newId));
			}
			await announce(trx, events, eventWriter, subscribers);
			await suppress(trx, applied, eventWriter, subscribers);
			await recordFollowing(trx, eventWriter, applied);
			await countAttempts(trx, applied, {earlier, reported: recorded}, eventWriter);
			await countTls(trx, applied.flatMap(toTls));
			const sealed = held.filter(isSealed);
			if (sealed.length > 0) {
				await forgetSealed(trx, sealed.map(messageOf));
			}
			return items.map(({recipient}) => written.has(recipient.id));
		},
	};
}

// Code that runs for each of many recipients is a function of the module (`send/write.ts`).

const toEntry = (attempt: EndedAttempt) => [attempt.recipientId, attempt] as const;
const workspaceOf = ({recipient}: JudgedAttempt): string => recipient.workspace_id;
const messageOf = ({recipient}: JudgedAttempt): string => recipient.message_id;
const isSealed = ({recipient}: JudgedAttempt): boolean => recipient.sealed !== null;

/** Selects the attempts whose recipients this daemon still held, and those of them that need further queries. */
function selectHeld(items: readonly JudgedAttempt[], claims: ReadonlyMap<string, unknown>) {
	const parts: Record<'held' | 'bounced' | 'triedBefore', JudgedAttempt[]> = {held: [], bounced: [], triedBefore: []};
	for (const item of items) {
		const {recipient, verdict} = item;
		if (claims.has(recipient.id)) {
			parts.held.push(item);
			if (verdict.outcome.kind === 'bounced') {
				parts.bounced.push(item);
			}
			// A recipient that was claimed but not attempted may come from a dead daemon.
			if (recipient.attempts > 0 || recipient.queued === null) {
				parts.triedBefore.push(item);
			}
		}
	}
	return parts;
}

type Written = ReadonlyMap<string, RecipientState>;

function selectWritten(items: readonly JudgedAttempt[], written: Written): JudgedAttempt[] {
	const applied: JudgedAttempt[] = [];
	for (const item of items) {
		if (written.has(item.recipient.id)) {
			applied.push(item);
		}
	}
	return applied;
}

/** Returns the messages of recipients about which a report has arrived. */
function reportedMessages(items: readonly JudgedAttempt[], written: Written, reported: ReadonlySet<string>): string[] {
	const messages: string[] = [];
	for (const item of items) {
		if (reported.has(item.recipient.id) || isOverruled(item, written)) {
			messages.push(item.recipient.message_id);
		}
	}
	return messages;
}

function toAttempts({recipient, result: {attempts}, verdict: {attempts: n, outcome}}: JudgedAttempt) {
	return {
		recipientId: recipient.id,
		n,
		attempts,
		isCounted: n > recipient.attempts,
		isRelayed: outcome.kind === 'relayed',
	};
}

function toDeferrals(applied: readonly JudgedAttempt[], written: Written): Notice[] {
	const notices: Notice[] = [];
	for (const item of applied) {
		if (written.get(item.recipient.id) === item.verdict.state) {
			notices.push(...toDeferral(item));
		}
	}
	return notices;
}

/** A rejection that a report recorded during the attempt: the same as that of the attempt, or another one. */
type Refusal = 'same' | 'other';

function findRefusal(
	{recipient, verdict: {outcome}}: JudgedAttempt,
	reported: ReadonlySet<string>,
	recorded: ReadonlyMap<string, RecordedEnds>,
): Refusal | undefined {
	const ends = recorded.get(recipient.id);
	if (outcome.kind !== 'bounced' || !reported.has(recipient.id) || ends === undefined) {
		return undefined;
	}
	const type = outcome.escalated ? 'transient' : outcome.type;
	return ends.classes.has(refusalClass(type, outcome.category)) ? 'same' : 'other';
}

/** Whether a report ended delivery to the recipient during the attempt, regardless of the attempt's result. */
function isOverruled({recipient, verdict}: JudgedAttempt, written: Written): boolean {
	const state = written.get(recipient.id);
	return state !== verdict.state && (state === 'bounced' || state === 'complained');
}

/**
 * Returns the search terms to add. A message can be found by its subject after its first attempt; a recipient that has
 * a subject was attempted before.
 */
function toTerms(items: readonly JudgedAttempt[], written: Written, reported: ReadonlySet<string>): MessageTerms[] {
	const messageTerms: MessageTerms[] = [];
	for (const {recipient, rendered, verdict} of items) {
		const state = written.get(recipient.id);
		if (recipient.role === 'to' && state !== undefined) {
			const words = recipient.subject === null && rendered !== null ? subjectTerms(rendered.subject) : [];
			// A report has already listed the state that it caused, and a sent recipient is listed already.
			const isKnown = reported.has(recipient.id) || (state === 'sent' && recipient.sent_at !== null);
			const terms = state === verdict.state && !isKnown && isListed(state) ? [...words, stateTerm(state)] : words;
			messageTerms.push({workspaceId: recipient.workspace_id, messageId: recipient.message_id, terms});
		}
	}
	return messageTerms;
}

function toEndedAttempt({recipient, rendered, result, verdict, crashes}: JudgedAttempt): EndedAttempt {
	const {outcome} = verdict;
	const deferred = outcome.kind === 'deferred' ? outcome : null;
	const releaseReason = outcome.kind === 'released' ? (outcome.reason ?? null) : null;
	return {
		recipientId: recipient.id,
		state: verdict.state,
		stateAt: result.at,
		nextAttemptAt: verdict.nextAttemptAt === null ? null : storeTime(verdict.nextAttemptAt),
		attempts: verdict.attempts,
		attemptsBefore: recipient.attempts,
		sentAt: recipient.sent_at ?? result.sentAt,
		subject: recipient.subject ?? (recipient.role === 'to' ? (rendered?.subject ?? null) : null),
		category: deferred?.category ?? (releaseReason === null ? recipient.last_category : 'config'),
		reply: deferred?.reason ?? releaseReason ?? result.attempts.at(-1)?.reply ?? recipient.last_reply,
		crashes,
		queued: recipient.queued,
		links: rendered?.links ?? null,
	};
}

/** Whether this attempt or an earlier one may have been delivered: no reply to the data arrived, or the daemon died. */
function isDoubtful({recipient, result}: JudgedAttempt, earlier: ReadonlyMap<string, EarlierAttempts>): boolean {
	const {uncertainAttempts = 0, wasCutOff = false} = earlier.get(recipient.id) ?? {};
	return uncertainAttempts > 0 || wasCutOff || result.attempts.some(isPossibleDuplicate);
}

/** Returns what each new connection of the attempt showed about the mail server's TLS. */
function toTls({recipient, result}: JudgedAttempt): TlsDay[] {
	return result.attempts.flatMap(({at, host, tlsResult}) =>
		tlsResult === undefined
			? []
			: [{...tlsResult, day: at.slice(0, 10), domain: recipient.destination, host: host ?? ''}],
	);
}

/**
 * Returns the events of an attempt. `queued` is written once per message, at the first claim of its `to` recipient, and
 * `sent` once per recipient. Each has its own time, earlier than that of the event after it.
 */
function toEvents(
	{recipient, result, verdict}: JudgedAttempt,
	{
		queued,
		mayBeDuplicate,
		refusal,
	}: {readonly queued: string | null; readonly mayBeDuplicate: boolean; readonly refusal: Refusal | undefined},
	newId: NewId,
): AnnouncedEvent[] {
	const events: AnnouncedEvent[] = [];
	const common = {
		...ofRecipient(recipient),
		recordedAt: result.at,
		isCounted: isCounted(recipient.role, recipient.destination) && refusal === undefined,
	};
	if (queued !== null && recipient.role === 'to') {
		events.push({...common, ...queuedEvent(queued)});
	}
	if (recipient.sent_at === null && result.sentAt !== null) {
		const detail = JSON.stringify({recipient: recipient.address, role: recipient.role, attempt: verdict.attempts});
		events.push({...common, id: newId('evt'), type: 'sent', occurredAt: result.sentAt, detail});
	}
	if (verdict.event && refusal !== 'same') {
		const detail = eventDetail(recipient, verdict.attempts, result, verdict.outcome, mayBeDuplicate);
		const suppressed = verdict.outcome.kind === 'bounced' && verdict.outcome.suppresses;
		events.push({...common, id: newId('evt'), type: verdict.event, occurredAt: result.at, detail, suppressed});
	}
	return events;
}

/** Returns the notice of a recipient's first deferral, which is not in the timeline. */
function toDeferral({recipient, result, verdict}: JudgedAttempt): Notice[] {
	if (verdict.outcome.kind !== 'deferred' || recipient.attempts > 0) {
		return [];
	}
	const {workspace_id: workspaceId, message_id: messageId, address} = recipient;
	const detail = JSON.parse(eventDetail(recipient, verdict.attempts, result, verdict.outcome, false));
	return [{type: 'deferred', workspaceId, messageId, recipient: address, at: result.at, detail}];
}

/** Turns a soft bounce that is one too many for its address into a hard one. */
async function escalateSoft(trx: Knex.Transaction, items: readonly JudgedAttempt[]): Promise<readonly JudgedAttempt[]> {
	const soft = items.flatMap(toSoftBounce);
	if (soft.length === 0) {
		return items;
	}
	const escalations = new Map([...(await escalate(trx, soft))].map(([{item}, escalated]) => [item, escalated]));
	return items.map(item => {
		const escalated = escalations.get(item);
		const {outcome} = item.verdict;
		if (escalated === undefined || outcome.kind !== 'bounced') {
			return item;
		}
		const hard = {...outcome, type: 'permanent', suppresses: true, escalated} as const;
		return {...item, verdict: {...item.verdict, outcome: hard}};
	});
}

/** If the recipient's time is up, the category of its last attempt counts. */
function toSoftBounce(item: JudgedAttempt): Array<SoftBounce & {readonly item: JudgedAttempt}> {
	const {recipient, result, verdict} = item;
	if (verdict.outcome.kind !== 'bounced' || verdict.outcome.suppresses) {
		return [];
	}
	const {outcome} = result;
	const lastCategory = outcome.kind === 'released' ? (recipient.last_category as BounceCategory | null) : null;
	const category = outcome.kind === 'deferred' ? outcome.category : (lastCategory ?? verdict.outcome.category);
	const enhanced = result.attempts.at(-1)?.enhanced ?? null;
	return isSoftOfAddress(category, enhanced)
		? [
				{
					item,
					workspaceId: recipient.workspace_id,
					messageId: recipient.message_id,
					addressKey: recipient.address_key,
					at: result.at,
				},
			]
		: [];
}

/** Suppresses addresses that failed permanently for the whole workspace. The message is the source of the entry. */
async function suppress(
	trx: Knex.Transaction,
	items: readonly JudgedAttempt[],
	eventWriter: EventWriter,
	subscribers: readonly Subscriber[],
): Promise<void> {
	const entries: NewSuppression[] = [];
	for (const {recipient, result, verdict} of items) {
		if (verdict.outcome.kind === 'bounced' && verdict.outcome.suppresses) {
			entries.push(hardBounceOf(recipient, result.at, eventWriter.newId('sup')));
		}
	}
	await suppressAddresses(trx, entries, eventWriter, subscribers);
}

/**
 * Records the complaint, open or click that the simulator adds to a delivery, as for real mail. It shares the outcome's
 * transaction, so a crash leaves both or neither.
 */
async function recordFollowing(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	recorded: readonly JudgedAttempt[],
): Promise<void> {
	const following = recorded.filter(({verdict: {outcome}}) => outcome.kind === 'delivered' && outcome.follows);
	if (following.length > 0) {
		await recordComplaints(trx, eventWriter, following.flatMap(toComplaint));
		await recordEngagement(trx, eventWriter, following.flatMap(toEngaged));
	}
}

function followsOf({verdict: {outcome}}: JudgedAttempt) {
	return outcome.kind === 'delivered' ? outcome.follows : undefined;
}

function toComplaint(recorded: JudgedAttempt): Complaint[] {
	const {recipient, result} = recorded;
	if (followsOf(recorded) !== 'complained') {
		return [];
	}
	return [
		{
			recipient,
			occurredAt: result.at,
			recordedAt: result.at,
			suppresses: true,
			detail: {reason: 'simulated', feedback_type: 'abuse'},
		},
	];
}

function toEngaged(recorded: JudgedAttempt): RecipientEngagement[] {
	const {recipient, rendered, result} = recorded;
	const type = followsOf(recorded);
	const tracking = toTracking(recipient);
	const isTracked = (type === 'opened' && tracking.opens) || (type === 'clicked' && tracking.clicks);
	if (!isTracked) {
		return [];
	}
	return [
		{
			recipient,
			type,
			url: type === 'clicked' ? (rendered?.firstLink ?? simulatedLink) : '',
			n: 1,
			machineN: 0,
			firstAt: result.at,
			lastAt: result.at,
			recordedAt: result.at,
			machine: false,
			userAgent: null,
		},
	];
}
