import type {Knex} from 'knex';
import {suppresses} from '../mail/bounce.ts';
import type {Recipient} from '../mail/message.ts';
import type {BounceCategory} from '../mail/outcome.ts';
import type {Figures} from '../mail/reputation.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {readEnds} from '../store/reports.ts';
import {countHours, type EarlierAttempts, type ReputationCount, readEarlier} from '../store/reputation.ts';
import type {EventWriter} from './outbox.ts';
import type {JudgedAttempt} from './settle.ts';

/** What an outcome shows: the address does not exist, our server was rejected, or the recipient reported spam. */
export type Weight = 'hard' | 'server' | 'complained';
type Weights = ReadonlySet<Weight>;

/** Everything known about the delivery to a recipient. */
type History = {
	/** Whether an attempt has ended: a mail server was contacted, or none was found. */
	readonly isAttempted: boolean;
	/** Whether a mail server accepted it. */
	readonly isAccepted: boolean;
	/** The weights of all its outcomes, from attempts and reports. */
	readonly weights: Weights;
};

/** Rejections of our server, regardless of the recipient. They say nothing about a workspace's mail (R7.1). */
const serverCategories: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'block',
	'reputation',
	'auth',
	'relay_denied',
	'policy',
	'sender',
	'config',
]);

export function weightOfRefusal(category: BounceCategory, isHard: boolean): Weight | null {
	return isHard ? 'hard' : serverCategories.has(category) ? 'server' : null;
}

/**
 * Returns what a recipient adds to the figures. It depends only on what is known, not on the order, so nothing counts
 * twice. A recipient is left out if a rejection of our server is all that is known about it.
 */
export function toFigures({isAttempted, isAccepted, weights}: History): Figures {
	const isHard = weights.has('hard');
	const isComplained = weights.has('complained');
	const isCounted = isAttempted && (isHard || isComplained || !weights.has('server'));
	const flag = (isTrue: boolean) => (isCounted && isTrue ? 1 : 0);
	return {attempted: flag(true), hard: flag(isHard), delivered: flag(isAccepted), complained: flag(isComplained)};
}

type KnownBefore = {
	/** The recipients that were attempted before. */
	readonly earlier: ReadonlyMap<string, EarlierAttempts>;
	/** The reports that arrived during the attempts. They cannot be counted before a first attempt has finished. */
	readonly reported: ReadonlyMap<string, {readonly weights: Weights}>;
};

/** Counts finished attempts in their transaction, each recipient in the hour of its first attempt. */
export async function countAttempts(
	trx: Knex.Transaction,
	recorded: readonly JudgedAttempt[],
	{earlier, reported}: KnownBefore,
	eventWriter: EventWriter,
): Promise<void> {
	const changes = recorded.flatMap(attempt => {
		const {recipient} = attempt;
		const weights = reported.get(recipient.id)?.weights ?? noWeights;
		const change = changeOf(recipient, ...toHistories(attempt, weights));
		return change === null ? [] : [{attempt, change}];
	});
	await count(
		trx,
		changes.map(({attempt: {recipient, result}, change}) => ({
			...change,
			workspaceId: recipient.workspace_id,
			at: earlier.get(recipient.id)?.at ?? result.attempts[0]?.at ?? result.at,
		})),
		eventWriter,
	);
}

const noWeights: Weights = new Set();
const attemptedKinds: ReadonlySet<string> = new Set(['delivered', 'relayed', 'deferred', 'bounced']);

/** Returns a recipient's history before its attempt and after it. */
function toHistories(
	{recipient, verdict: {outcome, attempts}}: JudgedAttempt,
	reported: Weights,
): [before: History, after: History] {
	const before = {isAttempted: recipient.attempts > 0, isAccepted: false, weights: reported};
	const weight = outcome.kind === 'bounced' ? weightOfRefusal(outcome.category, outcome.suppresses) : null;
	return [
		before,
		{
			// A recipient whose lifetime ended before its turn came was not attempted.
			isAttempted: before.isAttempted || (attempts > 0 && attemptedKinds.has(outcome.kind)),
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

/** Counts bounces and complaints from reports, like `countAttempts`, in the transaction that records them. */
export async function countReported(
	trx: Knex.Transaction,
	reweighed: readonly Reweighed[],
	eventWriter: EventWriter,
): Promise<void> {
	const firstAttempts = await readEarlier(
		trx,
		reweighed.map(({recipient}) => recipient.id),
	);
	await count(
		trx,
		reweighed.flatMap(({recipient, before, after}) => {
			const first = firstAttempts.get(recipient.id);
			const at = first?.at ?? recipient.sent_at;
			const history = {isAttempted: recipient.attempts > 0, isAccepted: first?.wasAccepted ?? false};
			const change = changeOf(recipient, {...history, weights: before}, {...history, weights: after});
			return change === null || at === null ? [] : [{...change, workspaceId: recipient.workspace_id, at}];
		}),
		eventWriter,
	);
}

/** Returns the change of the figures, or `null` if they stay the same. */
function changeOf({destination}: {readonly destination: string}, before: History, after: History): Figures | null {
	const [old, current] = [toFigures(before), toFigures(after)];
	const change = {
		attempted: current.attempted - old.attempted,
		hard: current.hard - old.hard,
		delivered: current.delivered - old.delivered,
		complained: current.complained - old.complained,
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

/** The deliveries, rejections and complaints in a recipient's timeline. */
export type RecordedEnds = {
	/** Each one is recorded once (R3.4). */
	readonly classes: ReadonlySet<string>;
	readonly weights: Weights;
};

/** Reads the outcomes in the timelines of recipients, by recipient id. */
export async function readRecordedEnds(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<Map<string, RecordedEnds>> {
	const ends = new Map<string, {classes: Set<string>; weights: Set<Weight>}>();
	for (const {recipientId, type, detail} of await readEnds(trx, [...new Set(messageIds)])) {
		const recorded = ends.get(recipientId) ?? {classes: new Set(), weights: new Set()};
		ends.set(recipientId, recorded);
		recorded.classes.add(type === 'bounced' ? classOf(detail) : type);
		const weight = type === 'complained' ? 'complained' : weightOf(detail);
		if (weight !== null) {
			recorded.weights.add(weight);
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
	const bounceCategory = category as BounceCategory;
	const isHard = type === 'permanent' && (escalated !== undefined || suppresses(bounceCategory));
	return weightOfRefusal(bounceCategory, isHard);
}
