/** What DNS said. `failed` (no answer, SERVFAIL, REFUSED, garbage) says nothing about the name. */
export type DnsAnswer<T> =
	| {readonly kind: 'found'; readonly records: readonly T[]}
	| {readonly kind: 'nodata'}
	| {readonly kind: 'nxdomain'}
	| {readonly kind: 'failed'; readonly code: string};

/** An empty exchange is the root: a null MX (RFC 7505). */
export type MxRecord = {readonly exchange: string; readonly priority: number};

/** Asks for one type of record; `fresh` asks DNS even if the answer is known, to confirm it. */
export type Ask<T> = (name: string, fresh?: boolean) => Promise<DnsAnswer<T>>;

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
