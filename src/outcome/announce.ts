import type {Knex} from 'knex';
import {insertEvents, type NewEvent} from '../store/events.ts';

/** A timeline entry with whom it is about. */
export type Happening = NewEvent & {
	readonly workspaceId: string;
	/** The address that the event is about, as the caller spelled it. */
	readonly recipient: string;
};

/** Writes what happened to copies into the timeline. Every event that comes after the acceptance passes here. */
export async function announce(trx: Knex.Transaction, happenings: readonly Happening[]): Promise<void> {
	await insertEvents(trx, happenings);
}
