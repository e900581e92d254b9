import type {Knex} from 'knex';
import {suppresses} from '../mail/bounce.ts';
import type {BounceCategory} from '../mail/outcome.ts';
import {readEnds} from '../store/reports.ts';
import {type Weight, type Weights, weightOfRefusal} from './reputation.ts';

/** The refusals and complaints in a recipient's timeline. */
export type RecordedEnds = {
	/** Each is recorded once (R3.4). */
	readonly classes: ReadonlySet<string>;
	readonly weights: Weights;
};

/** The ends in the timelines of recipients, by their ids. */
export async function readRecordedEnds(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<Map<string, RecordedEnds>> {
	const ends = new Map<string, {classes: Set<string>; weights: Set<Weight>}>();
	for (const {recipientId, type, detail} of await readEnds(trx, [...new Set(messageIds)])) {
		const its = ends.get(recipientId) ?? {classes: new Set(), weights: new Set()};
		ends.set(recipientId, its);
		its.classes.add(type === 'complained' ? complaintClass : classOf(detail));
		const weight = type === 'complained' ? 'complained' : weightOf(detail);
		if (weight !== null) {
			its.weights.add(weight);
		}
	}
	return ends;
}

export const complaintClass = 'complained';

/** `type`: as it was before it was one too many (R2.1). */
export function refusalClass(type: string, category: unknown): string {
	return `bounced ${type} ${category}`;
}

type Detail = Readonly<Record<string, unknown>>;

function classOf({type, category, escalated}: Detail): string {
	return refusalClass(escalated === undefined ? String(type) : 'transient', category);
}

/** A bounce is also permanent if the route was refused permanently, which does not concern the address. */
function weightOf({type, category, escalated}: Detail): Weight | null {
	const known = category as BounceCategory;
	return weightOfRefusal(known, type === 'permanent' && (escalated !== undefined || suppresses(known)));
}
