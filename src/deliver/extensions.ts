/** What a server offers in its answer to EHLO (RFC 5321 §4.1.1.1), as far as we use it. */
export type Extensions = {
	readonly pipelining: boolean;
	readonly starttls: boolean;
	readonly smtputf8: boolean;
	readonly dsn: boolean;
	/** Whether SIZE may be said. */
	readonly size: boolean;
	/** The largest message it takes, in octets; null: it sets no limit. */
	readonly largest: number | null;
	readonly auth: readonly string[];
};

export const noExtensions: Extensions = {
	pipelining: false,
	starttls: false,
	smtputf8: false,
	dsn: false,
	size: false,
	largest: null,
	auth: [],
};

/** Reads the lines of a 250 to EHLO; the first one is the server's greeting. */
export function parseExtensions(lines: readonly string[]): Extensions {
	const offered = new Map<string, string>();
	for (const line of lines.slice(1)) {
		// `AUTH=LOGIN` is an old spelling that some servers add.
		const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
		offered.set(keyword, [offered.get(keyword), ...parameters].filter(Boolean).join(' '));
	}

	const size = offered.get('SIZE');
	// RFC 1870 §4: zero, or no number, is no fixed limit.
	const largest = size !== undefined && /^\d{1,15}$/.test(size) ? Number(size) : 0;
	return {
		pipelining: offered.has('PIPELINING'),
		starttls: offered.has('STARTTLS'),
		smtputf8: offered.has('SMTPUTF8'),
		dsn: offered.has('DSN'),
		size: size !== undefined,
		largest: largest === 0 ? null : largest,
		auth: (offered.get('AUTH') ?? '').split(' ').filter(Boolean),
	};
}
