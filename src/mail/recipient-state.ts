/**
 * The states of a recipient (one address of one message); the status of a message is the state of its `to` recipient. A
 * deferral keeps the state: `next_attempt_at` says that the recipient is still in the queue.
 */
export const nextStates = {
	accepted: ['queued', 'suppressed', 'errored', 'bounced'],
	queued: ['sent', 'delivered', 'bounced', 'suppressed', 'errored', 'complained'],
	sent: ['delivered', 'bounced', 'complained', 'suppressed', 'errored'],
	delivered: ['bounced', 'complained'], // A DSN or an ARF report may arrive days after the 250.
	bounced: ['complained'], // A complaint wins over a bounce: both events are kept.
	complained: [],
	suppressed: [],
	errored: [],
} as const satisfies Record<string, readonly string[]>;

export type RecipientState = keyof typeof nextStates;

export const recipientStates = Object.keys(nextStates) as RecipientState[];

/** Whether the state table allows this step. */
export function canMove(from: RecipientState, to: RecipientState): boolean {
	return (nextStates[from] as readonly string[]).includes(to);
}

/** The states from which `to` may be reached, for compare-and-set updates. */
export function statesBefore(to: RecipientState): RecipientState[] {
	return recipientStates.filter(from => canMove(from, to));
}
