import type {Knex} from 'knex';
import {readEnds} from '../store/reports.ts';

/** Of copies by their ids, the classes of refusals and complaints that their timelines tell: each once (delivery.md R3.4). */
export async function readToldEnds(
	trx: Knex.Transaction,
	messageIds: readonly string[],
): Promise<Map<string, Set<string>>> {
	const told = new Map<string, Set<string>>();
	for (const {recipientId, type, detail} of await readEnds(trx, [...new Set(messageIds)])) {
		const refusedAs = detail.escalated === undefined ? String(detail.type) : 'transient';
		const its = told.get(recipientId) ?? new Set();
		told.set(recipientId, its.add(type === 'complained' ? complaintClass : refusalClass(refusedAs, detail.category)));
	}
	return told;
}

export const complaintClass = 'complained';

/** `type`: as it was before it was one too many (R2.1). */
export function refusalClass(type: string, category: unknown): string {
	return `bounced ${type} ${category}`;
}
