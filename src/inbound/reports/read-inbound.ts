import {toBuffer} from '../../kit/text.ts';
import type {Classify} from '../../mail/bounce.ts';
import type {Verdict} from '../../mail/received.ts';
import type {InboundMail, Reading, ReportKind} from '../../mail/report.ts';
import type {DnsAnswers} from '../../net/dns.ts';
import {KnownAnswers} from './known-answers.ts';
import {readLetter} from './letter.ts';
import {readReport} from './read-report.ts';
import {letterLimits, reportLimits, type SignatureClocks, tlsReportLimits, verifySignatures} from './signatures.ts';
import {judgeMessage} from './verdicts.ts';

/** Whether a report is trusted because of who signed it. */
export const isTrustedBySigner = ({kind, forwarded}: Reading): boolean => signedKinds.has(kind) && !forwarded;

const signedKinds: ReadonlySet<ReportKind> = new Set(['arf', 'dmarc', 'tls']);

/**
 * Reads everything that an incoming message reports: bounces, complaints, automatic replies, unsubscribe requests,
 * DMARC and TLS reports. For mailboxes it also parses the message itself and checks SPF, DKIM and DMARC. This folder
 * relies on the DNS answers that come with a message. It never queries DNS or touches the store, and bounds the time
 * and memory that a hostile message can take.
 */
export async function readInbound(
	{raw: bytes, envelope, answers}: InboundMail,
	classify: Classify,
	clocks: SignatureClocks,
): Promise<Reading> {
	const raw = toBuffer(bytes);
	const reading = readReport(raw, classify);
	if (answers === null) {
		return reading;
	}
	if (envelope === null) {
		return isTrustedBySigner(reading)
			? {...reading, signers: findSigners(raw, reading.kind, answers, clocks)}
			: reading;
	}
	const limits = letterLimits(raw.length);
	const parsedMessage = await readLetter(raw, verifySignatures(raw, new KnownAnswers(answers), limits, clocks));
	const verdicts = judgeMessage(envelope, parsedMessage, answers);
	if (!isTrustedBySigner(reading)) {
		return {...reading, message: parsedMessage, verdicts};
	}
	// A key that is valid only for TLS reports proves nothing about a message to people.
	const signers =
		reading.kind === 'tls' ? findSigners(raw, 'tls', answers, clocks) : passedOf(parsedMessage.signatures);
	return {...reading, message: parsedMessage, verdicts, signers};
}

/** Returns the domains that signed a report. */
export function findSigners(raw: Buffer, kind: ReportKind, answers: DnsAnswers, clocks: SignatureClocks): string[] {
	const limits = kind === 'tls' ? tlsReportLimits : reportLimits;
	return passedOf(verifySignatures(raw, new KnownAnswers(answers), limits, clocks));
}

const passedOf = (signatures: readonly Verdict[]): string[] =>
	signatures.flatMap(({result, domain}) => (result === 'pass' && domain !== null ? [domain] : []));
