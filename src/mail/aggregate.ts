/** What both kinds of aggregate reports say of themselves. */
type Head = {
	/** The reporter, as it calls itself: anyone can write anything there. */
	readonly org: string;
	readonly reportId: string;
	/** What is reported about, A-labels. */
	readonly domain: string;
	/** Milliseconds. */
	readonly begin: number;
	readonly end: number;
	/** Records that were left out: beyond a limit, or without sense. */
	readonly cut: number;
};

/** Mails of one source that were judged alike. `dkim` and `spf`: they pass for a domain that is aligned with `From`. */
export type DmarcCount = {
	readonly ip: string;
	readonly dkim: boolean;
	readonly spf: boolean;
	readonly disposition: 'none' | 'quarantine' | 'reject';
	/** Why they are not aligned, a clause for people; empty if they are. */
	readonly why: string;
	readonly n: number;
};

/** In the place of an address: the sum of groups of mails that are beyond a limit. */
export const otherAddresses = 'others';

/** Who sent mail with a domain in `From`, as one receiver saw it (RFC 7489 §7.2). */
export type DmarcReport = Head & {
	readonly kind: 'dmarc';
	/**
	 * Registered domains of the reporter, by its email address and its name. A report proves them if one of them signed
	 * it.
	 */
	readonly reporterDomains: readonly string[];
	/** Those of most mail first. */
	readonly counts: readonly DmarcCount[];
};

export type TlsCount = {readonly policy: string; readonly result: string; readonly n: number};

/** How TLS went for one sender of mail to a domain (RFC 8460). */
export type TlsReport = Head & {
	readonly kind: 'tls';
	readonly counts: readonly TlsCount[];
	/** The first failures, a line for people each. */
	readonly failures: readonly string[];
};

export type AggregateReport = DmarcReport | TlsReport;

/** Who takes reports at each of our return path hosts. */
export const reportLocals = {dmarc: 'dmarc', tls: 'tlsrpt'} as const;
