import type {Knex} from 'knex';
import {suppresses} from '../mail/bounce.ts';
import type {Recipient} from '../mail/message.ts';
import type {BounceCategory} from '../mail/outcome.ts';
import type {Figures} from '../mail/reputation.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {readEnds} from '../store/reports.ts';
import {countHours, type EarlierTries, type ReputationCount, readTries} from '../store/reputation.ts';
import type {EventWriter} from './outbox.ts';
import type {JudgedTry} from './settle.ts';

/** The weight of a recipient's end: no such address, rejected because of us, or reported as spam. */
export type Weight = 'hard' | 'of_us' | 'complained';
type Weights = ReadonlySet<Weight>;

/** How far a recipient has come, given everything known about it. */
type Course = {
	/** Whether an attempt has ended: a mail server was contacted, or none was found. */
	readonly isAttempted: boolean;
	/** Whether a mail server accepted it. */
	readonly isAccepted: boolean;
	/** The weights of all its ends, in sessions and from reports. */
	readonly weights: Weights;
};

/** Rejections of us that are independent of the recipient. They do not concern a workspace's mail (R7.1). */
const ofUs: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'block',
	'reputation',
	'auth',
	'relay_denied',
	'policy',
	'sender',
	'config',
]);

export function weightOfRefusal(category: BounceCategory, isHard: boolean): Weight | null {
	return isHard ? 'hard' : ofUs.has(category) ? 'of_us' : null;
}

/**
 * Returns what a recipient adds to the figures. It depends on what is known, in any order, so nothing counts twice. A
 * recipient rejected because of us is left out unless something else is known about its address.
 */
export function toFigures({isAttempted, isAccepted, weights}: Course): Figures {
	const isHard = weights.has('hard');
	const isComplained = weights.has('complained');
	const isCounted = isAttempted && (isHard || isComplained || !weights.has('of_us'));
	const one = (isTrue: boolean) => (isCounted && isTrue ? 1 : 0);
	return {attempted: one(true), hard: one(isHard), delivered: one(isAccepted), complained: one(isComplained)};
}

/**
 * Counts ends of attempts in their transaction, each recipient in the hour of its first attempt.
 *
 * @param earlier the recipients that were attempted before
 * @param reported the weights of reports that arrived during the attempts; they could not be counted before a first one
 * ended
 */
export async function countTries(
	trx: Knex.Transaction,
	recorded: readonly JudgedTry[],
	{
		earlier,
		reported,
	}: {
		readonly earlier: ReadonlyMap<string, EarlierTries>;
		readonly reported: ReadonlyMap<string, {readonly weights: Weights}>;
	},
	eventWriter: EventWriter,
): Promise<void> {
	const changes = recorded.flatMap(one => {
		const change = changeOf(one.recipient, ...coursesOfTry(one, reported.get(one.recipient.id)?.weights ?? none));
		return change === null ? [] : [{one, change}];
	});
	await count(
		trx,
		changes.map(({one: {recipient, result}, change}) => ({
			...change,
			workspaceId: recipient.workspace_id,
			at: earlier.get(recipient.id)?.at ?? result.attempts[0]?.at ?? result.at,
		})),
		eventWriter,
	);
}

const none: Weights = new Set();
const triedKinds: ReadonlySet<string> = new Set(['delivered', 'relayed', 'deferred', 'bounced']);

/** Returns how far a recipient had come before its attempt and after it. */
function coursesOfTry(
	{recipient, verdict: {outcome, attempts}}: JudgedTry,
	reported: Weights,
): [before: Course, after: Course] {
	const before = {isAttempted: recipient.attempts > 0, isAccepted: false, weights: reported};
	const weight = outcome.kind === 'bounced' ? weightOfRefusal(outcome.category, outcome.suppresses) : null;
	return [
		before,
		{
			// A recipient whose lifetime ended before its turn came was not attempted.
			isAttempted: before.isAttempted || (attempts > 0 && triedKinds.has(outcome.kind)),
			isAccepted: outcome.kind === 'delivered' || outcome.kind === 'relayed',
			weights: weight === null ? reported : new Set([...reported, weight]),
		},
	];
}

/** The weights of a recipient's reports, before and now. */
export type Reweighed = {
	readonly recipient: Pick<Recipient, 'id' | 'workspace_id' | 'destination' | 'attempts' | 'sent_at'>;
	readonly before: Weights;
	readonly after: Weights;
};

/** Counts bounces and complaints from reports, like `countTries`, in the transaction that records them. */
export async function countReported(
	trx: Knex.Transaction,
	reweighed: readonly Reweighed[],
	eventWriter: EventWriter,
): Promise<void> {
	const firstTries = await readTries(
		trx,
		reweighed.map(({recipient}) => recipient.id),
	);
	await count(
		trx,
		reweighed.flatMap(({recipient, before, after}) => {
			const first = firstTries.get(recipient.id);
			const at = first?.at ?? recipient.sent_at;
			const course = {isAttempted: recipient.attempts > 0, isAccepted: first?.wasAccepted ?? false};
			const change = changeOf(recipient, {...course, weights: before}, {...course, weights: after});
			return change === null || at === null ? [] : [{...change, workspaceId: recipient.workspace_id, at}];
		}),
		eventWriter,
	);
}

/** Returns the change of the figures, or `null` if they stay the same. */
function changeOf({destination}: {readonly destination: string}, before: Course, after: Course): Figures | null {
	const [was, is] = [toFigures(before), toFigures(after)];
	const change = {
		attempted: is.attempted - was.attempted,
		hard: is.hard - was.hard,
		delivered: is.delivered - was.delivered,
		complained: is.complained - was.complained,
	};
	return destination !== simulatorDomain && Object.values(change).some(n => n !== 0) ? change : null;
}

async function count(
	trx: Knex.Transaction,
	counts: readonly ReputationCount[],
	{onCounted}: EventWriter,
): Promise<void> {
	await countHours(trx, counts);
	if (counts.length > 0 && onCounted !== undefined) {
		const workspaceIds = [...new Set(counts.map(({workspaceId}) => workspaceId))];
		void trx.executionPromise.then(
			() => onCounted(workspaceIds),
			() => undefined, // Rolled back: the caller of the transaction gets the error.
		);
	}
}

/** The arrivals, rejections and complaints in a recipient's timeline. */
export type RecordedEnds = {
	/** Each one is recorded once (R3.4). */
	readonly classes: ReadonlySet<string>;
	readonly weights: Weights;
};

/** Reads the ends in the timelines of recipients, by recipient id. */
export async function readRecordedEnds(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<Map<string, RecordedEnds>> {
	const ends = new Map<string, {classes: Set<string>; weights: Set<Weight>}>();
	for (const {recipientId, type, detail} of await readEnds(trx, [...new Set(messageIds)])) {
		const its = ends.get(recipientId) ?? {classes: new Set(), weights: new Set()};
		ends.set(recipientId, its);
		its.classes.add(type === 'bounced' ? classOf(detail) : type);
		const weight = type === 'complained' ? 'complained' : weightOf(detail);
		if (weight !== null) {
			its.weights.add(weight);
		}
	}
	return ends;
}

export const arrivalClass = 'delivered';
export const complaintClass = 'complained';

/** `type` is the type before escalation (R2.1). */
export function refusalClass(type: string, category: unknown): string {
	return `bounced ${type} ${category}`;
}

export function isPermanentRefusal(name: string): boolean {
	return name.startsWith(refusalClass('permanent', ''));
}

type Detail = Readonly<Record<string, unknown>>;

function classOf({type, category, escalated}: Detail): string {
	return refusalClass(escalated === undefined ? String(type) : 'transient', category);
}

/** A bounce is also permanent if the route was rejected permanently, which does not concern the address. */
function weightOf({type, category, escalated}: Detail): Weight | null {
	const known = category as BounceCategory;
	return weightOfRefusal(known, type === 'permanent' && (escalated !== undefined || suppresses(known)));
}
