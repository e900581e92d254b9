import {storeTime} from '../../kit/time.ts';
import {idTime} from '../../mail/ids.ts';
import type {RecipientState} from '../../mail/recipient-state.ts';

/*
 * A copy is queued from its first claim on, but the claim does not write that into its row: the end of the claim does
 * (`queued-events.ts`). Until then it is told from the claim, which has the id of the `queued` event. Whoever shows a state
 * reads it here.
 */

/** An expression: the id of the event, if the copy is in its first claim. */
export const queuedOf = (recipient: string): string =>
	`case when ${recipient}.state = 'accepted' then (select c.queued from claims as c where c.recipient_id = ${recipient}.id) end`;

/** An expression: the state of a copy. */
export const stateOf = (recipient: string): string =>
	`case when ${queuedOf(recipient)} is null then ${recipient}.state else 'queued' end`;

/** Columns for `shown`. */
export const stateColumns = (recipient: string): string =>
	`${recipient}.state, ${recipient}.state_at, ${queuedOf(recipient)} as queued_event`;

type ReadState = {
	readonly state: RecipientState;
	readonly state_at: string;
	readonly queued_event: string | null;
};

/** A row with the state that its copy has, and since when. */
export function shown<Row extends ReadState>({queued_event: queued, ...row}: Row): Omit<Row, 'queued_event'> {
	return queued === null ? row : {...row, state: 'queued', state_at: storeTime(idTime(queued))};
}
