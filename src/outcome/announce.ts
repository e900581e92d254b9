import type {Knex} from 'knex';
import {insertEvents, type NewEvent} from '../store/events.ts';
import {countDays, type UsageStatus} from '../store/usage.ts';
import {addToOutbox, type Outbox} from './outbox.ts';

/** A timeline entry with whom it is about. */
export type Happening = NewEvent & {
	readonly workspaceId: string;
	/** The address that the event is about, as the caller spelled it. */
	readonly recipient: string;
	/** Whether usage counts it: what happened to the `to` copy of real mail (`isCounted`). */
	readonly counted: boolean;
};

const countedTypes: ReadonlySet<string> = new Set(['delivered', 'bounced', 'complained'] satisfies UsageStatus[]);

/**
 * Writes what happened to copies into the timeline and the counts of the day, and into the outbox of the webhooks. Every
 * event that comes after the acceptance passes here.
 */
export async function announce(trx: Knex.Transaction, happenings: readonly Happening[], outbox: Outbox): Promise<void> {
	await insertEvents(trx, happenings);
	await addToOutbox(trx, happenings, outbox);
	const counted = happenings.filter(one => one.counted && countedTypes.has(one.type));
	await countDays(
		trx,
		counted.map(one => ({
			workspaceId: one.workspaceId,
			day: one.recordedAt.slice(0, 10),
			status: one.type as UsageStatus,
			n: 1,
		})),
	);
}
