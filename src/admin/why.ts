import type {RecipientState} from '../mail/recipient-state.ts';
import type {CopyFacts} from '../store/queue/queue-facts.ts';
import {type Reason, reasonsToWait, type WhyContext} from './why-reasons.ts';

/** Why a copy is not sent now; a copy that left the queue waits for nothing (null). */
export type Why = Reason & {
	readonly id: string;
	readonly message_id: string;
	readonly workspace_id: string;
	readonly address: string;
	readonly destination: string;
	readonly state: RecipientState;
	/** Tries that are over. */
	readonly attempts: number;
	readonly next_attempt_at: string | null;
	/** When it is given up, tried or not; null: it is not in the queue. */
	readonly gives_up_at: string | null;
	/** What would keep it if the first reason were gone. */
	readonly also: readonly Reason[];
};

/** What one copy waits for, and until when. */
export function whyWaiting(copy: CopyFacts, context: WhyContext): Why {
	const [first, ...also] = reasonsToWait(copy, context);
	const {id, message_id, workspace_id, address, destination, state, attempts, next_attempt_at} = copy;
	return {
		id,
		message_id,
		workspace_id,
		address,
		destination,
		state,
		attempts,
		next_attempt_at,
		gives_up_at: next_attempt_at === null ? null : context.givesUpAt(copy),
		...first,
		also,
	};
}
