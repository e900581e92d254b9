/** How long each step of a session may take, in milliseconds (RFC 5321 §4.5.3.2). */
export type SmtpTimeouts = {
	readonly connect: number;
	readonly greeting: number;
	/** Also used for AUTH. */
	readonly ehlo: number;
	readonly starttls: number;
	readonly mail: number;
	readonly rcpt: number;
	readonly data: number;
	/** Until the peer accepts the next block of a large message. */
	readonly block: number;
	/** A short value causes duplicates, because the peer may already be delivering the message. */
	readonly dot: number;
	readonly rset: number;
	readonly quit: number;
};

/** The default timeouts, which are also Postfix's. */
export const smtpTimeoutDefaults: SmtpTimeouts = {
	connect: 30_000,
	greeting: 300_000,
	ehlo: 300_000,
	starttls: 60_000,
	mail: 300_000,
	rcpt: 300_000,
	data: 120_000,
	block: 180_000,
	dot: 600_000,
	rset: 20_000,
	quit: 5_000,
};
