/** The fields common to both kinds of aggregate reports. */
type Head = {
	/** The reporter's own name, in which anyone can write anything. */
	readonly org: string;
	readonly reportId: string;
	/** The domain that the report is about, in A-labels. */
	readonly domain: string;
	/** In milliseconds. */
	readonly begin: number;
	readonly end: number;
	/** The number of records left out because they exceeded a limit or made no sense. */
	readonly cut: number;
};

/** Messages from one source with the same result. `dkim` and `spf`: passed for a domain aligned with `From`. */
export type DmarcCount = {
	readonly ip: string;
	readonly dkim: boolean;
	readonly spf: boolean;
	readonly disposition: 'none' | 'quarantine' | 'reject';
	/** Why they are not aligned, as a clause, or empty if they are. */
	readonly why: string;
	readonly n: number;
};

/** Stands in place of an address for the sum of all groups beyond a limit. */
export const otherAddresses = 'others';

/** Who sent messages with a domain in `From`, as one receiver saw it (RFC 7489 §7.2). */
export type DmarcReport = Head & {
	readonly kind: 'dmarc';
	/**
	 * The registered domains in the reporter's email address and name. If one of them signed the report, they are
	 * proven.
	 */
	readonly reporterDomains: readonly string[];
	/** The largest groups first. */
	readonly counts: readonly DmarcCount[];
};

export type TlsCount = {readonly policy: string; readonly result: string; readonly n: number};

/** The TLS results of one sender of messages to a domain (RFC 8460). */
export type TlsReport = Head & {
	readonly kind: 'tls';
	readonly counts: readonly TlsCount[];
	/** The first failures, described in one line each. */
	readonly failures: readonly string[];
};

export type AggregateReport = DmarcReport | TlsReport;

/** The local parts that receive reports at each return-path host. */
export const reportLocals = {dmarc: 'dmarc', tls: 'tlsrpt'} as const;
