import type {Knex} from 'knex';
import {groupBy} from '../kit/collections.ts';
import {isOperatorAddress} from '../mail/address.ts';
import {withoutText} from '../mail/hidden-values.ts';
import type {EventType} from '../mail/message.ts';
import {erasedAddress, readExtras} from '../mail/message.ts';
import {
	type Candidate,
	keptLength,
	type Report,
	type ReportAction,
	type RetentionReason,
	reportTokenMs,
	retentionCaps,
	type Via,
} from '../mail/report.ts';
import {type InboundEnd, markRead} from '../resources/received/inbound-store.ts';
import {type KeptCaps, trimInstallation, trimWorkspace} from '../resources/received/kept-store.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {countReports, deleteReports, findReportedRecipients, insertReports, type NewReport} from '../store/reports.ts';
import {
	findMatches,
	findReporterMatches,
	isTokenRecent,
	type Known,
	type Match,
	type ReadMail,
	reviewText,
} from './matches.ts';
import type {EventWriter} from './outbox.ts';
import {recordReceived} from './received.ts';
import {applyReports, type Reported} from './report-effects.ts';

export type {ReadMail} from './matches.ts';

/** The effect of incoming mail that was read. */
export type ReportEffect = {
	/** The recipients that it is proven to be about, usually none or one. */
	readonly about: readonly About[];
	/** Why the mail itself is stored, or `null` if it is not. */
	readonly kept: RetentionReason | null;
};

type About = {
	readonly recipientId: string;
	readonly messageId: string;
	readonly workspaceId: string;
	readonly recipient: string;
	readonly via: Via;
	readonly action: ReportAction;
	/** The report, or `null` if nothing could be read. */
	readonly report: Report | null;
	/** `false` if the same mail was received before, possibly at another address. */
	readonly isNew: boolean;
	/** The event in the timeline, or `null` if there is only a report. */
	readonly event: EventType | null;
};

type ReportOptions = {
	/** The current MAILCTL_RETENTION_DAYS. Tokens are valid for this time. */
	readonly retentionDays: () => number;
	readonly caps?: KeptCaps;
};

/** Further reports about a recipient are stored only if they change something: anyone with its token may send any. */
const maxReports = 20;
/** Stored mail is trimmed again after this many more messages or octets. */
const trimInterval = {messages: 100, bytes: 16 * 1024 * 1024};
/** The maximum number of messages removed at once: a large one may replace many small ones. */
const maxRemovals = 1000;

/**
 * Records reports, many in one transaction. Each one is proven to be about a recipient or stored as unmatched. State,
 * timeline, suppression and webhooks follow, and the mail is marked as read. Identical reports count once, even
 * if they arrive at different addresses (R3.1–R3.4).
 */
export function createReportWrite(
	eventWriter: EventWriter,
	{retentionDays, caps = retentionCaps}: ReportOptions,
): GroupWrite<ReadMail, ReportEffect> {
	/** By workspace; `null` for mail of no workspace. */
	const untrimmed = new Map<string | null, {readonly count: number; readonly bytes: number}>();

	/** Removes excess stored mail at once: a flood must not wait for the next sweep. */
	async function trim(trx: Knex.Transaction, stored: readonly ReadMail[]): Promise<void> {
		for (const [workspaceId, added] of groupBy(stored, ({reading}) => reading.workspace ?? null)) {
			const before = untrimmed.get(workspaceId) ?? {count: 0, bytes: 0};
			const count = before.count + added.length;
			const bytes = before.bytes + added.reduce((sum, {size}) => sum + Math.min(size, keptLength), 0);
			if (count < trimInterval.messages && bytes < trimInterval.bytes) {
				untrimmed.set(workspaceId, {count, bytes});
				continue;
			}
			untrimmed.delete(workspaceId);
			await (workspaceId === null
				? trimInstallation(trx, caps, maxRemovals)
				: trimWorkspace(trx, workspaceId, caps, maxRemovals));
		}
	}

	return {
		name: 'report',
		rank: 3,
		bytes: ({reading, size, received = []}) => 1024 + reading.reports.length * 512 + received.length * 3 * size,
		async apply(trx, items) {
			const acceptMs = reportTokenMs(retentionDays());
			const {known, matches} = await prove(trx, items, acceptMs);
			const added = await addReports(trx, eventWriter, matches.flat());
			const events = await applyReports(trx, eventWriter, added);
			const newReports = groupBy(await withoutExcess(trx, added, events), ({item}) => item);
			const effects = items.map((item, index): ReportEffect => {
				const newEvents = new Map(
					newReports.get(item)?.map(({recipient, reportId}) => [recipient, events.get(reportId) ?? null]),
				);
				const about = (matches[index] as Match[]).map(match => toAbout(match, newEvents));
				return {about, kept: toRetentionReason(item, matches[index] as Match[], newEvents.size > 0, known)};
			});
			await recordReceived(
				trx,
				items.flatMap(({received = []}) => received),
				eventWriter,
			);
			await markRead(
				trx,
				items.map((item, index) => toInboundEnd(item, effects[index] as ReportEffect, known, acceptMs)),
			);
			await trim(
				trx,
				items.filter((_, index) => effects[index]?.kept !== null),
			);
			return effects;
		},
	};
}

/**
 * Returns what each mail is proven to be about, and the rows of its candidates. Messages are read and count only if no
 * recipient's token is valid.
 */
async function prove(
	trx: Knex.Transaction,
	items: readonly ReadMail[],
	acceptMs: number,
): Promise<{readonly known: Known; readonly matches: Match[][]}> {
	const recentIds = (item: ReadMail, prefix: string) =>
		item.candidates
			.filter(candidate => candidate.id.startsWith(prefix) && isTokenRecent(candidate, item.inbound, acceptMs))
			.map(({id}) => id);
	const recipientIds = new Set(items.flatMap(item => recentIds(item, 'rcp_')));
	const candidates = await findReportedRecipients(trx, {recipientIds: [...recipientIds]});
	const recipients = new Map(candidates.map(recipient => [recipient.id, recipient]));
	const byRecipient = new Map(
		items.map(item => [item, findMatches(item, {recipients, messages: new Map()}, acceptMs)]),
	);

	const unmatched = items.filter(item => byRecipient.get(item)?.length === 0);
	const messageIds = new Set(unmatched.flatMap(item => recentIds(item, 'msg_')));
	const ofMessages = await findReportedRecipients(trx, {messageIds: [...messageIds]});
	const known = {recipients, messages: groupBy(ofMessages, ({message_id: messageId}) => messageId)};
	const byMessage = new Map(unmatched.map(item => [item, findMatches(item, known, acceptMs)]));

	const matches: Match[][] = [];
	for (const item of items) {
		const proven = byMessage.get(item) ?? byRecipient.get(item) ?? [];
		const all = proven.length > 0 ? proven : await findReporterMatches(trx, item);
		matches.push(all.filter(isNotErased).filter(isInScope).map(withoutHidden));
	}
	return {known, matches};
}

/** Stores reports and returns those that are new. */
async function addReports(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matches: readonly Match[],
): Promise<Reported[]> {
	const reported = matches.map(match => ({...match, reportId: eventWriter.newId('rpt')}));
	const added = await insertReports(trx, reported.map(toRow));
	return reported.filter(({reportId}) => added.has(reportId));
}

/** Removes reports that changed nothing from recipients that have enough of them. Returns the others. */
async function withoutExcess(
	trx: Knex.Transaction,
	added: readonly Reported[],
	events: ReadonlyMap<string, EventType>,
): Promise<Reported[]> {
	const counts = await countReports(trx, [...new Set(added.map(({recipient}) => recipient.id))]);
	const removed = new Set<string>();
	for (const {recipient, reportId} of added.toReversed()) {
		const count = counts.get(recipient.id) ?? 0;
		if (count > maxReports && !events.has(reportId)) {
			removed.add(reportId);
			counts.set(recipient.id, count - 1);
		}
	}
	await deleteReports(trx, [...removed]);
	return added.filter(({reportId}) => !removed.has(reportId));
}

/** A mail server may quote sensitive variables of the message in its report. */
function withoutHidden(match: Match): Match {
	return match.report && readExtras(match.recipient.extras).hidden
		? {...match, report: withoutText(match.report)}
		: match;
}

/** Nothing more is written about an erased person. */
function isNotErased({recipient}: Match): boolean {
	return recipient.address !== erasedAddress;
}

/** What a workspace's own relay reports concerns only that workspace's mail. */
function isInScope({recipient, item: {reading}}: Match): boolean {
	return (reading.workspace ?? recipient.workspace_id) === recipient.workspace_id;
}

function toRow(match: Reported): NewReport {
	const {item, recipient, via, report, reportId} = match;
	return {
		id: reportId,
		workspaceId: recipient.workspace_id,
		messageId: recipient.message_id,
		recipientId: recipient.id,
		inboundSha256: item.inbound.digest,
		kind: item.reading.kind,
		category: report?.category ?? null,
		rule: report?.rule ?? null,
		matched: report?.matched ?? null,
		detail: JSON.stringify({
			via,
			source: item.inbound.source,
			received_at: item.inbound.receivedAt,
			action: toAction(match),
			...(report && {
				recipient: report.recipient,
				original_recipient: report.originalRecipient,
				type: report.type,
				status: report.status,
				code: report.code,
				host: report.host,
				suppresses: report.suppresses,
				reason: report.reason,
				feedback_type: report.feedbackType,
			}),
		}),
		createdAt: item.at,
	};
}

function toAbout(match: Match, newEvents: ReadonlyMap<Match['recipient'], EventType | null>): About {
	const {recipient, via, report} = match;
	return {
		recipientId: recipient.id,
		messageId: recipient.message_id,
		workspaceId: recipient.workspace_id,
		recipient: recipient.address,
		via,
		action: toAction(match),
		report: report ?? null,
		isNew: newEvents.has(recipient),
		event: newEvents.get(recipient) ?? null,
	};
}

function toAction({via, report}: Match): ReportAction {
	return via === 'unsubscribe_mail' ? 'unsubscribe' : (report?.action ?? 'none');
}

/** Returns why the operator should see the mail itself, or `null` if it need not be stored. */
function toRetentionReason(
	item: ReadMail,
	matches: readonly Match[],
	isNew: boolean,
	known: Known,
): RetentionReason | null {
	const {inbound, reading} = item;
	if (inbound.rcptTo.some(isOperatorAddress)) {
		return 'operator';
	}
	if (item.received?.length) {
		return null; // Its workspace has it.
	}
	if (matches.length === 0 && reading.kind === 'provider' && reading.reports.every(({action}) => action === 'none')) {
		return null; // For example "processed", which has no effect.
	}
	if (matches.length === 0) {
		return item.candidates.some(candidate => isErased(candidate, known)) ? null : 'unmatched';
	}
	const isRequest = matches.some(match => toAction(match) === 'unsubscribe');
	return isNew && (reading.fault !== null || (reading.kind === 'other' && !isRequest)) ? 'unread' : null;
}

/** Reports about an erased person's mail are not stored either: nothing is left that they could be matched to. */
function isErased({id}: Candidate, {recipients, messages}: Known): boolean {
	const recipient = recipients.get(id) ?? messages.get(id)?.find(({address}) => address === erasedAddress);
	return recipient?.address === erasedAddress;
}

function toInboundEnd(item: ReadMail, {about, kept}: ReportEffect, known: Known, acceptMs: number): InboundEnd {
	return {
		id: item.inbound.id,
		at: item.at,
		kept,
		isDiscarded: !about.some(({isNew}) => isNew) && !item.received?.length,
		reading: kept === null ? null : reviewText(item, known, acceptMs),
		fault: item.reading.fault,
	};
}
