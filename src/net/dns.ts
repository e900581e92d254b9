/** What DNS said. `failed` (no answer, SERVFAIL, REFUSED, garbage) says nothing about the name. */
export type DnsAnswer<T> =
	| {readonly kind: 'found'; readonly records: readonly T[]}
	| {readonly kind: 'nodata'}
	| {readonly kind: 'nxdomain'}
	| {readonly kind: 'failed'; readonly code: string};

/** An empty exchange is the root: a null MX (RFC 7505). */
export type MxRecord = {readonly exchange: string; readonly priority: number};

/** Asks for one type of record; `fresh` asks DNS even if the answer is known, to confirm it. */
type Ask<T> = (name: string, fresh?: boolean) => Promise<DnsAnswer<T>>;

/** Looks names up. */
export type Resolver = {
	readonly mx: Ask<MxRecord>;
	readonly a: Ask<string>;
	readonly aaaa: Ask<string>;
	/** Each record as one text. */
	readonly txt: Ask<string>;
	readonly cname: Ask<string>;
	/** Of a name in `in-addr.arpa` or `ip6.arpa`. */
	readonly ptr: Ask<string>;
};

/** One look-up: the type, and a name in lower case without the last dot. */
export type Question = {readonly type: 'a' | 'aaaa' | 'mx' | 'ptr' | 'txt'; readonly name: string};

/** What DNS answered, by `questionKey`. */
export type Answers = ReadonlyMap<string, DnsAnswer<unknown>>;

export const questionKey = ({type, name}: Question): string => `${type} ${name}`;

/** The code of a failed answer with a text that is longer than anybody needs: it is not looked at. */
export const oversizedCode = 'oversized';

/** What a certificate must be (RFC 6698 §2.1); `data` in lower-case hex. */
export type TlsaRecord = {
	readonly usage: number;
	readonly selector: number;
	readonly matching: number;
	readonly data: string;
};

/** What a validating resolver said, and whether it has proved it: `authentic` is its AD bit (RFC 4035 §3.2.3). */
export type SecureAnswer<T> =
	| {
			readonly kind: 'found' | 'nodata' | 'nxdomain';
			readonly authentic: boolean;
			readonly records: readonly T[];
			/** The name at the end of all aliases. */
			readonly canonicalName: string;
	  }
	/** No answer, or one that did not validate. */
	| {readonly kind: 'failed'; readonly code: string};

export type AskSecurely<T> = (name: string) => Promise<SecureAnswer<T>>;

/** Looks names up where DNSSEC vouches for the answer. */
export type SecureResolver = {
	/** Names of MX hosts, lower case, without the last dot; the root is empty. */
	readonly mx: AskSecurely<string>;
	readonly a: AskSecurely<string>;
	readonly aaaa: AskSecurely<string>;
	readonly tlsa: AskSecurely<TlsaRecord>;
};
