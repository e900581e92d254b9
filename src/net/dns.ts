/** The result of a DNS query. `failed` (no answer, SERVFAIL, REFUSED, garbage) says nothing about the name. */
export type DnsAnswer<T> =
	| {readonly kind: 'found'; readonly records: readonly T[]}
	| {readonly kind: 'nodata'}
	| {readonly kind: 'nxdomain'}
	| {readonly kind: 'failed'; readonly code: string};

/** An empty exchange is the root: a null MX (RFC 7505). */
export type MxRecord = {readonly exchange: string; readonly priority: number};

/** Queries one type of record. `shouldBypassCache` bypasses the cache, to confirm an answer. */
type Ask<T> = (name: string, shouldBypassCache?: boolean) => Promise<DnsAnswer<T>>;

/** A DNS resolver. */
export type Resolver = {
	readonly mx: Ask<MxRecord>;
	readonly a: Ask<string>;
	readonly aaaa: Ask<string>;
	/** Each record's strings are joined. */
	readonly txt: Ask<string>;
	readonly cname: Ask<string>;
	/** For a name in `in-addr.arpa` or `ip6.arpa`. */
	readonly ptr: Ask<string>;
};

/** One query: the type, and a name in lower case without the final dot. */
export type Question = {readonly type: 'a' | 'aaaa' | 'mx' | 'ptr' | 'txt'; readonly name: string};

/** DNS answers by `questionKey`. */
export type DnsAnswers = ReadonlyMap<string, DnsAnswer<unknown>>;

export const questionKey = ({type, name}: Question): string => `${type} ${name}`;

/** The code for an answer whose text is longer than any valid record. It is not examined. */
export const oversizedCode = 'oversized';

/** A constraint on a certificate (RFC 6698 §2.1). `data` is lower-case hex. */
export type TlsaRecord = {
	readonly usage: number;
	readonly selector: number;
	readonly matching: number;
	readonly data: string;
};

/** The answer of a validating resolver. `isAuthentic`: it validated the answer (the AD bit, RFC 4035 §3.2.3). */
export type SecureAnswer<T> =
	| {
			readonly kind: 'found' | 'nodata' | 'nxdomain';
			readonly isAuthentic: boolean;
			readonly records: readonly T[];
			/** The name after following all aliases. */
			readonly canonicalName: string;
	  }
	/** There was no answer, or it did not validate. */
	| {readonly kind: 'failed'; readonly code: string};

export type AskSecurely<T> = (name: string) => Promise<SecureAnswer<T>>;

/** A DNS resolver that reports whether DNSSEC secures an answer. */
export type SecureResolver = {
	/** The names of MX hosts in lower case without the final dot. The root is empty. */
	readonly mx: AskSecurely<string>;
	readonly a: AskSecurely<string>;
	readonly aaaa: AskSecurely<string>;
	readonly tlsa: AskSecurely<TlsaRecord>;
};
