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

/** New information about a recipient. */
export type Reported = Match & {readonly reportId: string};
type MatchedReport = Reported & {readonly report: Report};

/**
 * Applies reports in the order in which their states may follow one another. Returns the event of each report; one
 * without an event changed nothing.
 */
export async function actOn(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	reported: readonly Reported[],
): Promise<Map<string, EventType>> {
	const matched = reported.filter((one): one is MatchedReport => one.report !== undefined);
	const arrived = matched.filter(actionIs('delivered', 'relayed', 'expanded')).filter(wasTaken);
	const failed = matched.filter(actionIs('failed'));
	const complaints = matched.filter(actionIs('complaint')).filter(wasTaken);
	const already = await readRecordedEnds(
		trx,
		[...arrived, ...failed, ...complaints].map(({recipient}) => recipient.message_id),
	);
	const newlyArrived = once(arrived, () => arrivalClass, already);
	const written = [
		...(await recordArrivals(trx, eventWriter, newlyArrived)),
		...(await recordRefusals(trx, eventWriter, once(failed, classOfRefusal, already))),
		...(await complain(
			trx,
			eventWriter,
			once(complaints, () => complaintClass, already),
		)),
		...(await unsubscribe(trx, eventWriter, reported.filter(isUnsubscribe))),
		...(await engage(trx, eventWriter, matched.filter(actionIs('opened', 'clicked')))),
	];
	await restoreArrived(trx, newlyArrived, matched, already);
	await countReported(trx, reweighed(written, already), eventWriter);
	return new Map(written.map(({one, event}) => [one.reportId, event]));
}

/** The new events and their weight in the workspace's reputation. */
type Written = ReadonlyArray<{readonly one: Reported; readonly event: EventType; readonly weight?: Weight | null}>;

/** Returns the recipients that have an event with a weight. */
function reweighed(written: Written, already: ReadonlyMap<string, RecordedEnds>): Reweighed[] {
	const weighing = groupBy(
		written.filter(({weight}) => weight),
		({one}) => one.recipient.id,
	);
	return [...weighing].map(([id, its]) => {
		const before = already.get(id)?.weights ?? new Set<Weight>();
		const after = new Set([...before, ...its.flatMap(({weight}) => weight ?? [])]);
		return {recipient: (its[0] as Written[number]).one.recipient, before, after};
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
function wasTaken({recipient: {state, sent_at: sentAt}, item}: MatchedReport): boolean {
	return item.reading.kind === 'provider' || sentAt !== null || state === 'sent' || state === 'delivered';
}

const classOfRefusal = ({report}: MatchedReport) => refusalClass(typeOf(report), categoryOf(report));

/** Returns those that are not yet in the timelines. */
function once(
	matched: readonly MatchedReport[],
	classOf: (one: MatchedReport) => string,
	already: ReadonlyMap<string, RecordedEnds>,
): MatchedReport[] {
	const first = new Map(matched.toReversed().map(one => [`${one.recipient.id} ${classOf(one)}`, one]));
	return matched.filter(
		one =>
			first.get(`${one.recipient.id} ${classOf(one)}`) === one &&
			!already.get(one.recipient.id)?.classes.has(classOf(one)),
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
	const moving = await move(trx, matched, 'delivered');
	const arrived = matched.filter(one => moving.has(one) || cameBack.has(one.recipient.state));
	await announce(
		trx,
		arrived.map(one => toEvent(one, eventWriter.newId('evt'), 'delivered', true)),
		eventWriter,
	);
	return arrived.map(one => ({one, event: 'delivered'}));
}

/**
 * Restores recipients whose provider reported a soft bounce and then the delivery: it had not given up. A hard bounce
 * stands, and so does any bounce that follows the delivery.
 */
async function restoreArrived(
	trx: Knex.Transaction,
	arrived: readonly MatchedReport[],
	matched: readonly MatchedReport[],
	already: ReadonlyMap<string, RecordedEnds>,
): Promise<void> {
	const reportsOf = groupBy(matched, ({recipient}) => recipient.id);
	const restored = arrived.filter(one => {
		const {recipient, item} = one;
		const its = reportsOf.get(recipient.id) ?? [];
		const refusals = its.filter(actionIs('failed'));
		const names = [...refusals.map(classOfRefusal), ...(already.get(recipient.id)?.classes ?? [])];
		const isLast = refusals.every(refusal => its.indexOf(refusal) < its.indexOf(one));
		return item.reading.kind === 'provider' && isLast && !names.some(isPermanentRefusal);
	});
	const at = restored.at(-1)?.item.at;
	if (at !== undefined) {
		const ids = restored.map(({recipient}) => recipient.id);
		await moveRecipients(trx, ids, 'delivered', at, ['bounced']);
	}
}

const cameBack: ReadonlySet<string> = new Set(['bounced', 'complained']);

/**
 * Records rejections. The recipient leaves the queue if it is still there. Suppresses the address that the mail was
 * sent to, never one from the report (R3.3).
 */
async function recordRefusals(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matched: readonly MatchedReport[],
): Promise<Written> {
	const moving = await move(trx, matched, 'bounced');
	const escalated = await escalate(trx, matched.flatMap(toSoftBounce));
	const escalations = new Map([...escalated].map(([{one}, how]) => [one, how]));
	const blocking = matched.filter(one => (one.report.suppresses || escalations.has(one)) && mayBlock(one.recipient));
	await announce(
		trx,
		matched.map(one => ({
			...toEvent(one, eventWriter.newId('evt'), 'bounced', moving.has(one), escalations.get(one)),
			suppressed: blocking.includes(one),
		})),
		eventWriter,
	);
	await suppressAddresses(
		trx,
		blocking.map(({recipient, item}) => hardBounceOf(recipient, item.at, eventWriter.newId('sup'))),
		eventWriter,
	);
	return matched.map(one => {
		const isHard = one.report.suppresses || escalations.has(one);
		return {one, event: 'bounced', weight: weightOfRefusal(categoryOf(one.report), isHard)};
	});
}

/** Returns a failure that says little by itself but counts towards too many (R2.1). */
function toSoftBounce(one: MatchedReport): Array<SoftBounce & {readonly one: MatchedReport}> {
	const {recipient, report, item} = one;
	const {workspace_id: workspaceId, message_id: messageId, address_key: addressKey} = recipient;
	const isSoft = !report.suppresses && isSoftOfAddress(categoryOf(report), report.status);
	return isSoft && mayBlock(recipient)
		? [{one, workspaceId, messageId, addressKey, at: item.inbound.receivedAt}]
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
	const first = new Map([...matched].reverse().map(one => [one.recipient.id, one]));
	const moved = await moveRecipients(trx, [...first.keys()], to, at);
	return new Set([...first.values()].filter(({recipient}) => moved.has(recipient.id)));
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
			...saidOf(matched),
		}),
	};
}

/** Returns what a report said, for the timeline, without absent fields. */
function saidOf({report, item, via, reportId}: MatchedReport): Record<string, unknown> {
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

async function complain(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matched: readonly MatchedReport[],
): Promise<Written> {
	await recordComplaints(
		trx,
		eventWriter,
		matched.map(one => ({
			recipient: one.recipient,
			occurredAt: one.item.inbound.receivedAt,
			recordedAt: one.item.at,
			suppresses: mayBlock(one.recipient),
			detail: saidOf(one),
		})),
	);
	return matched.map(one => ({one, event: 'complained', weight: 'complained'}));
}

/** Mail of a test key was not sent, so it suppresses no real address. */
function mayBlock({destination, address_key: addressKey}: Match['recipient']): boolean {
	return destination !== simulatorDomain || isSimulated(addressKey);
}

function isUnsubscribe({via, report}: Reported): boolean {
	return via === 'unsubscribe_mail' || report?.action === 'unsubscribe';
}

/** Unsubscribes as the hosted page does: from the message's topic, or from everything if it has none. */
async function unsubscribe(
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
	return reported.filter((_, index) => results[index]?.isAnnounced).map(one => ({one, event: 'unsubscribed'}));
}

/** Records opens and clicks that a provider tracked, if the operator wants them counted like our own. */
async function engage(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	matched: readonly MatchedReport[],
): Promise<Written> {
	const engaged = matched.map(one => ({one, event: one.report.action === 'opened' ? 'opened' : 'clicked'}) as const);
	await recordEngagement(
		trx,
		eventWriter,
		engaged.map(({one: {recipient, report, item}, event}) => ({
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
