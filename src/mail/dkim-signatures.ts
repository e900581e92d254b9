import type {dkimVerify} from 'mailauth/lib/dkim/verify.js';
import type {Verdict} from './received.ts';

/** A signature of a part of the body (`l=`) says nothing about the rest; the library's types lack the field. */
type Verified = Awaited<ReturnType<typeof dkimVerify>>['results'][number] & {readonly canonBodyLengthLimited?: boolean};

/** What comes of each DKIM signature. `resolver`: as that of the system, for texts. */
export async function verifySignatures(
	raw: Buffer,
	resolver: (name: string, type: string) => Promise<string[] | string[][]>,
): Promise<Verdict[]> {
	const {dkimVerify} = await import('mailauth/lib/dkim/verify.js');
	const {results} = await dkimVerify(raw, {resolver});
	return (results as readonly Verified[]).flatMap(({status, signingDomain: domain, canonBodyLengthLimited}) => {
		const result = status.result === 'pass' && canonBodyLengthLimited ? 'policy' : status.result;
		return domain ? [{result, domain: domain.toLowerCase()}] : [];
	});
}
