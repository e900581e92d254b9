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
