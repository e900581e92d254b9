import {PostFault} from './fault.ts';

/** What DNS said of one kind of address. */
type Answer =
	| {readonly kind: 'found'; readonly records: readonly string[]}
	| {readonly kind: 'nodata' | 'nxdomain'}
	| {readonly kind: 'failed'; readonly code: string};

/** Asks DNS for one kind of address; `fresh`: even if the answer is known. */
export type AskDns = (host: string, fresh: boolean) => Promise<Answer>;

/** All addresses of a name, IPv4 first; rejects if it has none. */
export type LookUp = (host: string) => Promise<readonly string[]>;

/**
 * Looks a name up anew for each attempt, so that what it says now is what is checked. Attempts to one host that begin
 * together share the question.
 */
export function createLookUp(resolver: {readonly a: AskDns; readonly aaaa: AskDns}): LookUp {
	return async host => {
		const answers = await Promise.all([resolver.a(host, true), resolver.aaaa(host, true)]);
		const addresses = answers.flatMap(answer => (answer.kind === 'found' ? answer.records : []));
		if (addresses.length > 0) {
			return addresses;
		}
		const failed = answers.find(answer => answer.kind === 'failed');
		if (failed?.kind === 'failed') {
			throw new PostFault(`DNS gave no answer for ${host} (${failed.code})`);
		}
		const unknown = answers.every(({kind}) => kind === 'nxdomain');
		throw new PostFault(unknown ? `there is no host ${host} in DNS` : `${host} has no address in DNS`);
	};
}
