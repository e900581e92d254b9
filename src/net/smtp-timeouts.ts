/** How long each step of a session may take, in milliseconds (RFC 5321 §4.5.3.2). */
export type SmtpTimeouts = {
	readonly connect: number;
	readonly greeting: number;
	/** Also for AUTH. */
	readonly ehlo: number;
	readonly starttls: number;
	readonly mail: number;
	readonly rcpt: number;
	readonly data: number;
	/** Until the peer takes the next piece of a large message. */
	readonly block: number;
	/** Short values make duplicates: the peer may be delivering already. */
	readonly dot: number;
	readonly rset: number;
	readonly quit: number;
};

/** The usual ones, those of Postfix too. */
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
