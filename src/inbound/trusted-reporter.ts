import type {dkimVerify} from 'mailauth/lib/dkim/verify.js';
import type {Reading} from '../mail/report.ts';
import type {Resolver} from '../net/dns.ts';

type TrustedReporterOptions = {
	/** Domains (`d=`) that the operator trusts, in lower case. */
	readonly reporters: readonly string[];
	readonly resolver: Pick<Resolver, 'txt'>;
};

/** Answers which trusted reporter signed a mail; null: none did. Never rejects. */
export type TrustedReporter = (raw: Buffer, reading: Reading) => Promise<string | null>;

/** A signature of a part of the body (`l=`) says nothing about the rest; the library's types lack the field. */
type Verified = Awaited<ReturnType<typeof dkimVerify>>['results'][number] & {readonly canonBodyLengthLimited?: boolean};

/**
 * To verify ten megabytes of line ends, or a million fields, takes minutes, and the time that a header or a signature takes
 * grows with its square; this much takes less than a second.
 */
const longestSigned = 512 * 1024;
const longestHeader = 32_768;
const longestSignature = 4096;
const mostSignatures = 5;
/** A field that is parsed as one, folded or not (RFC 6376, 8617). */
const signature = /^(?:dkim-signature|arc-[a-z-]{1,40})[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*/gm;
/** Counts for nothing, and the library prints what it misses. */
const inPart = /[:;]\s*l\s*=/;

/**
 * Finds the reporter of a report that has no token of ours (R3.19). Verifies nothing, and does not ask DNS, unless it is a
 * feedback report with the name of a trusted reporter.
 */
export function createTrustedReporter({reporters, resolver}: TrustedReporterOptions): TrustedReporter {
	const trusted = new Set(reporters);

	return async (raw, reading) => {
		if (reading.kind !== 'arf' || raw.length > longestSigned || !mayBeSigned(raw)) {
			return null;
		}
		try {
			const {dkimVerify} = await import('mailauth/lib/dkim/verify.js');
			const {results} = await dkimVerify(raw, {resolver: keyOf});
			const right = (results as readonly Verified[]).find(
				({status, signingDomain, canonBodyLengthLimited}) =>
					status.result === 'pass' && !canonBodyLengthLimited && trusted.has(signingDomain?.toLowerCase() ?? ''),
			);
			return right?.signingDomain?.toLowerCase() ?? null;
		} catch {
			return null;
		}
	};

	function mayBeSigned(raw: Buffer): boolean {
		const text = raw.toString('latin1', 0, longestHeader).toLowerCase();
		const end = text.search(/\r?\n\r?\n/);
		const header = text.slice(0, Math.max(0, end));
		const signatures = header.match(signature) ?? [];
		if (signatures.some(field => field.length > longestSignature || inPart.test(field))) {
			return false;
		}
		const own = signatures.filter(field => field.startsWith('dkim'));
		const domains = own.map(field => /[:;\s]d=\s*([^\s;]+)/.exec(field)?.[1] ?? '');
		return domains.length <= mostSignatures && domains.some(name => trusted.has(name));
	}

	async function keyOf(name: string): Promise<string[][]> {
		const answer = await resolver.txt(name);
		if (answer.kind === 'found') {
			return answer.records.map(record => [record]);
		}
		throw Object.assign(new Error(`no key at ${name}`), {code: answer.kind === 'failed' ? 'ETIMEOUT' : 'ENOTFOUND'});
	}
}
