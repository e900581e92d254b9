/** What clients of the listener may have and do (R3.5). */
export type ListenerLimits = {
	readonly mailBytes: number;
	readonly clients: number;
	readonly perClient: number;
	readonly recipients: number;
	/** Errors of a client without a mail taken in between; then the session ends (Postfix: smtpd_hard_error_limit). */
	readonly errors: number;
	readonly idleMs: number;
	/** A session in all. */
	readonly sessionMs: number;
	/** How long a mail under way has when the listener is closed. */
	readonly closeMs: number;
	/** What large mails may hold together while they come in, octets. */
	readonly heldBytes: number;
};

export const usualLimits: ListenerLimits = {
	mailBytes: 10 * 1024 * 1024,
	clients: 200,
	perClient: 10,
	recipients: 20,
	errors: 20,
	// RFC 5321 §4.5.3.2.7.
	idleMs: 300_000,
	sessionMs: 30 * 60_000,
	closeMs: 10_000,
	heldBytes: 32 * 1024 * 1024,
};

/** How many sessions each client has. */
export function createPerClient(most: number) {
	const counts = new Map<string, number>();
	return {
		/** Whether it has as many as it may. */
		isFull: (client: string): boolean => (counts.get(client) ?? 0) >= most,
		enter: (client: string): void => void counts.set(client, (counts.get(client) ?? 0) + 1),
		leave(client: string): void {
			const count = counts.get(client) ?? 0;
			if (count > 1) {
				counts.set(client, count - 1);
			} else {
				counts.delete(client);
			}
		},
	};
}
