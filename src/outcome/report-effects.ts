import type {Knex} from 'knex';
import {groupBy} from '../kit/collections.ts';
import type {EventType} from '../mail/message.ts';
import type {Escalated} from '../mail/outcome.ts';
import type {Report, ReportAction} from '../mail/report.ts';
import {isCounted, isSimulated, simulatorDomain} from '../mail/simulator.ts';
import {moveRecipients} from '../store/recipients.ts';
import {recordComplaints} from './complaint.ts';
import {recordEngagement} from './engagement.ts';
import {escalate, isSoftOfAddress, type SoftBounce} from './escalation.ts';
import type {Match} from './matches.ts';
import {type AnnouncedEvent, announce, type EventWriter, ofRecipient} from './outbox.ts';
import {
	arrivalClass,
	complaintClass,
	countReported,
	isPermanentRefusal,
	type RecordedEnds,
	type Reweighed,
	readRecordedEnds,
	refusalClass,
	type Weight,
	weightOfRefusal,
} from './reputation.ts';
import {hardBounceOf, suppressAddresses} from './suppress.ts';
import {type Unsubscription, unsubscribeAll} from './unsubscribe.ts';

/** A match that is stored as a new report. */
export type Reported = Match & {readonly reportId: string};
type MatchedReport = Reported & {readonly report: Report};

/**
 * Applies reports in the order in which their states may follow one another. Returns the event of each report; one
 * without an event changed nothing.
 */
export async function applyReports(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	reported: readonly Reported[],
): Promise<Map<string, EventType>> {
	const matched = reported.filter((match): match is MatchedReport => match.report !== undefined);
	const arrived = matched.filter(actionIs('delivered', 'relayed', 'expanded')).filter(wasAccepted);
	const failed = matched.filter(actionIs('failed'));
	const complaints = matched.filter(actionIs('complaint')).filter(wasAccepted);
	const recordedEnds = await readRecordedEnds(
		trx,
		[...arrived, ...failed, ...complaints].map(({recipient}) => recipient.message_id),
	);
	const newlyArrived = selectUnrecorded(arrived, () => arrivalClass, recordedEnds);
	const written = [
		...(await recordArrivals(trx, eventWriter, newlyArrived)),
		...(await recordRefusals(trx, eventWriter, selectUnrecorded(failed, classOfRefusal, recordedEnds))),
		...(await recordComplaintReports(
			trx,
			eventWriter,
			selectUnrecorded(complaints, () => complaintClass, recordedEnds),
		)),
		...(await recordUnsubscribes(trx, eventWriter, reported.filter(isUnsubscribe))),
		...(await recordTracked(trx, eventWriter, matched.filter(actionIs('opened', 'clicked')))),
	];
	await restoreArrived(trx, newlyArrived, matched, recordedEnds);
	await countReported(trx, toReweighed(written, recordedEnds), eventWriter);
	return new Map(written.map(({match, event}) => [match.reportId, event]));
}

/** The new events and their weight in the workspace's reputation. */
type Written = ReadonlyArray<{readonly match: Reported; readonly event: EventType; readonly weight?: Weight | null}>;

/** Returns the recipients that have an event with a weight. */
function toReweighed(written: Written, recordedEnds: ReadonlyMap<string, RecordedEnds>): Reweighed[] {
	const weighing = groupBy(
		written.filter(({weight}) => weight),
		({match}) => match.recipient.id,
	);
	return [...weighing].map(([id, group]) => {
		const before = recordedEnds.get(id)?.weights ?? new Set<Weight>();
		const after = new Set([...before, ...group.flatMap(({weight}) => weight ?? [])]);
		return {recipient: (group[0] as Written[number]).match.recipient, before, after};
	});
}

const actionIs =
	(...actions: readonly ReportAction[]) =>
	({report}: MatchedReport) =>
		actions.includes(report.action);

/**
 * Whether the mail was accepted, without which it can neither be delivered nor complained about. A report by a provider
 * proves that, even if the daemon exited before it stored it.
 */
function wasAccepted({recipient: {state, sent_at: sentAt}, item}: MatchedReport): boolean {
	return item.reading.kind === 'provider' || sentAt !== null || state === 'sent' || state === 'delivered';
}

const classOfRefusal = ({report}: MatchedReport) => refusalClass(typeOf(report), categoryOf(report));

/** Returns the first report of each class about a recipient, unless the timeline already has that class. */
function selectUnrecorded(
	matched: readonly MatchedReport[],
	classOf: (match: MatchedReport) => string,
	recordedEnds: ReadonlyMap<string, RecordedEnds>,
): MatchedReport[] {
	const first = new Map(matched.toReversed().map(match => [`${match.recipient.id} ${classOf(match)}`, match]));
	return matched.filter(
		match =>
			first.get(`${match.recipient.id} ${classOf(match)}`) === match &&
			!recordedEnds.get(match.recipient.id)?.classes.has(classOf(match)),
	);
}

const typeOf = ({type}: Report) => (type === 'permanent' ? 'permanent' : 'transient');
const categoryOf = ({category}: Report) => category ?? 'undetermined';

/**
 * Records that a relay has sent on the mail it accepted, which is the last report about it (RFC 3461 §5.2.5). A bounce
 * may be read earlier and still applies.
 */
async function recordArrivals(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matched: readonly MatchedReport[],
): Promise<Written> {
	const moved = await move(trx, matched, 'delivered');
	const arrived = matched.filter(match => moved.has(match) || statesAfterArrival.has(match.recipient.state));
	await announce(
		trx,
		arrived.map(match => toEvent(match, eventWriter.newId('evt'), 'delivered', true)),
		eventWriter,
	);
	return arrived.map(match => ({match, event: 'delivered'}));
}

/**
 * Restores recipients whose provider reported a soft bounce and then the delivery: it had not given up. A hard bounce
 * stands, and so does any bounce that follows the delivery.
 */
async function restoreArrived(
	trx: Knex.Transaction,
	arrived: readonly MatchedReport[],
	matched: readonly MatchedReport[],
	recordedEnds: ReadonlyMap<string, RecordedEnds>,
): Promise<void> {
	const reportsOf = groupBy(matched, ({recipient}) => recipient.id);
	const restored = arrived.filter(match => {
		const {recipient, item} = match;
		const ownReports = reportsOf.get(recipient.id) ?? [];
		const refusals = ownReports.filter(actionIs('failed'));
		const classes = [...refusals.map(classOfRefusal), ...(recordedEnds.get(recipient.id)?.classes ?? [])];
		const isLast = refusals.every(refusal => ownReports.indexOf(refusal) < ownReports.indexOf(match));
		return item.reading.kind === 'provider' && isLast && !classes.some(isPermanentRefusal);
	});
	const at = restored.at(-1)?.item.at;
	if (at !== undefined) {
		const ids = restored.map(({recipient}) => recipient.id);
		await moveRecipients(trx, ids, 'delivered', at, ['bounced']);
	}
}

const statesAfterArrival: ReadonlySet<string> = new Set(['bounced', 'complained']);

/**
 * Records rejections. The recipient leaves the queue if it is still there. Suppresses the address that the mail was
 * sent to, never one from the report (R3.3).
 */
async function recordRefusals(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matched: readonly MatchedReport[],
): Promise<Written> {
	const moved = await move(trx, matched, 'bounced');
	const escalated = await escalate(trx, matched.flatMap(toSoftBounce));
	const escalations = new Map([...escalated].map(([{match}, escalation]) => [match, escalation]));
	const suppressing = matched.filter(
		match => (match.report.suppresses || escalations.has(match)) && canSuppress(match.recipient),
	);
	await announce(
		trx,
		matched.map(match => ({
			...toEvent(match, eventWriter.newId('evt'), 'bounced', moved.has(match), escalations.get(match)),
			suppressed: suppressing.includes(match),
		})),
		eventWriter,
	);
	await suppressAddresses(
		trx,
		suppressing.map(({recipient, item}) => hardBounceOf(recipient, item.at, eventWriter.newId('sup'))),
		eventWriter,
	);
	return matched.map(match => {
		const isHard = match.report.suppresses || escalations.has(match);
		return {match, event: 'bounced', weight: weightOfRefusal(categoryOf(match.report), isHard)};
	});
}

/** Returns a failure that suppresses nothing by itself but counts toward escalation (R2.1). */
function toSoftBounce(match: MatchedReport): Array<SoftBounce & {readonly match: MatchedReport}> {
	const {recipient, report, item} = match;
	const {workspace_id: workspaceId, message_id: messageId, address_key: addressKey} = recipient;
	const isSoft = !report.suppresses && isSoftOfAddress(categoryOf(report), report.status);
	return isSoft && canSuppress(recipient)
		? [{match, workspaceId, messageId, addressKey, at: item.inbound.receivedAt}]
		: [];
}

/** Moves the recipients whose state allows it. Returns the first report of each. */
async function move(
	trx: Knex.Transaction,
	matched: readonly MatchedReport[],
	to: 'delivered' | 'bounced',
): Promise<Set<MatchedReport>> {
	const at = matched.at(-1)?.item.at;
	if (at === undefined) {
		return new Set();
	}
	const first = new Map([...matched].reverse().map(match => [match.recipient.id, match]));
	const movedIds = await moveRecipients(trx, [...first.keys()], to, at);
	return new Set([...first.values()].filter(({recipient}) => movedIds.has(recipient.id)));
}

/** `hasChangedState` means that the report changed the recipient's state. */
function toEvent(
	matched: MatchedReport,
	id: string,
	type: 'delivered' | 'bounced',
	hasChangedState: boolean,
	escalated?: Escalated,
): AnnouncedEvent {
	const {recipient, item} = matched;
	return {
		id,
		type,
		...ofRecipient(recipient),
		occurredAt: item.inbound.receivedAt,
		recordedAt: item.at,
		isCounted: hasChangedState && isCounted(recipient.role, recipient.destination),
		detail: JSON.stringify({
			recipient: recipient.address,
			role: recipient.role,
			...(type === 'bounced' && {
				type: escalated ? 'permanent' : typeOf(matched.report),
				category: categoryOf(matched.report),
				escalated,
			}),
			...reportDetail(matched),
		}),
	};
}

/** Returns the timeline detail of a report, without absent fields. */
function reportDetail({report, item, via, reportId}: MatchedReport): Record<string, unknown> {
	return {
		host: report.host ?? undefined,
		code: report.code ?? undefined,
		enhanced: report.status ?? undefined,
		reason: report.reason,
		rule: report.rule ?? undefined,
		matched: report.matched ?? undefined,
		action: report.action,
		feedback_type: report.feedbackType ?? undefined,
		report: reportId,
		via: item.reading.kind,
		found_by: via,
	};
}

async function recordComplaintReports(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matched: readonly MatchedReport[],
): Promise<Written> {
	await recordComplaints(
		trx,
		eventWriter,
		matched.map(match => ({
			recipient: match.recipient,
			occurredAt: match.item.inbound.receivedAt,
			recordedAt: match.item.at,
			suppresses: canSuppress(match.recipient),
			detail: reportDetail(match),
		})),
	);
	return matched.map(match => ({match, event: 'complained', weight: 'complained'}));
}

/** Mail of a test key was not sent, so it suppresses no real address. */
function canSuppress({destination, address_key: addressKey}: Match['recipient']): boolean {
	return destination !== simulatorDomain || isSimulated(addressKey);
}

function isUnsubscribe({via, report}: Reported): boolean {
	return via === 'unsubscribe_mail' || report?.action === 'unsubscribe';
}

/** Unsubscribes as the hosted page does: from the message's topic, or from everything if it has none. */
async function recordUnsubscribes(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	reported: readonly Reported[],
): Promise<Written> {
	const results = await unsubscribeAll(
		trx,
		reported.map(
			({recipient, item}): Unsubscription => ({
				workspaceId: recipient.workspace_id,
				messageId: recipient.message_id,
				topicId: recipient.topic_id,
				role: recipient.role,
				address: recipient.address,
				addressKey: recipient.address_key,
				action: 'topic',
				via: item.reading.kind === 'arf' || item.reading.kind === 'provider' ? 'report' : 'mail',
				at: item.at,
			}),
		),
		eventWriter,
	);
	return reported.filter((_, index) => results[index]?.isAnnounced).map(match => ({match, event: 'unsubscribed'}));
}

/** Records opens and clicks that a provider tracked, if the operator wants them counted like our own. */
async function recordTracked(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matched: readonly MatchedReport[],
): Promise<Written> {
	const engaged = matched.map(
		match => ({match, event: match.report.action === 'opened' ? 'opened' : 'clicked'}) as const,
	);
	await recordEngagement(
		trx,
		eventWriter,
		engaged.map(({match: {recipient, report, item}, event}) => ({
			recipient,
			type: event,
			url: event === 'clicked' ? report.reason : '',
			n: 1,
			machineN: 0,
			machine: false,
			userAgent: null,
			firstAt: item.inbound.receivedAt,
			lastAt: item.inbound.receivedAt,
			recordedAt: item.at,
		})),
	);
	return engaged;
}
