import {bufferOf} from '../kit/text.ts';
import type {Classify} from '../mail/bounce.ts';
import type {Verdict} from '../mail/received.ts';
import type {InboundMail, Reading, ReportKind} from '../mail/report.ts';
import type {Answers} from '../net/dns.ts';
import {KnownAnswers} from './known-answers.ts';
import {readLetter} from './letter.ts';
import {readReport} from './read-report.ts';
import {letterLimits, reportLimits, type SignatureClocks, tlsReportLimits, verifySignatures} from './signatures.ts';
import {judgeLetter} from './verdicts.ts';

/** Whether a report counts by who signed it. */
export const countsBySigner = ({kind, forwarded}: Reading): boolean => signedKinds.has(kind) && !forwarded;

const signedKinds: ReadonlySet<ReportKind> = new Set(['arf', 'dmarc', 'tls']);

/** All that a mail says, to us and to people. */
export async function readInbound(
	{raw: bytes, envelope, answers}: InboundMail,
	classify: Classify,
	clocks: SignatureClocks,
): Promise<Reading> {
	const raw = bufferOf(bytes);
	const reading = readReport(raw, classify);
	if (answers === null) {
		return reading;
	}
	if (envelope === null) {
		return countsBySigner(reading) ? {...reading, signers: signersOf(raw, reading.kind, answers, clocks)} : reading;
	}
	const limits = letterLimits(raw.length);
	const letter = await readLetter(raw, verifySignatures(raw, new KnownAnswers(answers), limits, clocks));
	const verdicts = judgeLetter(envelope, letter, answers);
	if (!countsBySigner(reading)) {
		return {...reading, letter, verdicts};
	}
	// A key for TLS reports alone says nothing of a mail to people.
	const signers = reading.kind === 'tls' ? signersOf(raw, 'tls', answers, clocks) : passedOf(letter.signatures);
	return {...reading, letter, verdicts, signers};
}

/** The domains that signed a report. */
export function signersOf(raw: Buffer, kind: ReportKind, answers: Answers, clocks: SignatureClocks): string[] {
	const limits = kind === 'tls' ? tlsReportLimits : reportLimits;
	return passedOf(verifySignatures(raw, new KnownAnswers(answers), limits, clocks));
}

const passedOf = (signatures: readonly Verdict[]): string[] =>
	signatures.flatMap(({result, domain}) => (result === 'pass' && domain !== null ? [domain] : []));
