import {domainOf} from '../../mail/address.ts';
import type {ParsedMessage, Verdict, Verdicts} from '../../mail/received.ts';
import type {Envelope} from '../../mail/report.ts';
import {oversizedCode, type Question} from '../../net/dns.ts';
import {alignmentOf} from './alignment.ts';
import {policyFor} from './dmarc-policy.ts';
import {KnownAnswers} from './known-answers.ts';
import {authorDomains, domainName, readHeader} from './raw-header.ts';
import {keyNames} from './signatures.ts';
import {checkSpf} from './spf.ts';

// Checks whether a message is really from its stated author: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 7489). Runs in
// the reader's thread without network access: the daemon sends the DNS questions that `missingAnswers` returns.

const noVerdict: Verdict = {result: 'none', domain: null};

/**
 * Returns the DNS questions still needed to judge a message with this header. `envelope` is `null` if SPF and DMARC do
 * not matter, as for a report, which is trusted by its signatures alone.
 */
export function missingAnswers(head: Buffer, envelope: Envelope | null, answers: KnownAnswers): readonly Question[] {
	const header = readHeader(head);
	// The results of these checks are not used: each check adds the questions that it needs to `answers.missing`.
	for (const name of keyNames(header)) {
		answers.ask('txt', name);
	}
	if (envelope !== null) {
		judgeSpf(envelope, answers);
		for (const domain of authorDomains(header)) {
			policyFor(domain, answers);
		}
	}
	return answers.missing;
}

/** Judges who sent a message. Missing DNS answers yield `temperror`. */
export function judgeMessage(
	envelope: Envelope,
	parsedMessage: Pick<ParsedMessage, 'from' | 'isAmbiguous' | 'signatures'>,
	known: ConstructorParameters<typeof KnownAnswers>[0],
): Verdicts {
	const {from, isAmbiguous, signatures} = parsedMessage;
	const domain = domainName(domainOf(from?.address ?? '')) ?? null;
	// SPF and DMARC each get their own `KnownAnswers`, because a missing answer affects only the check that needs it.
	const spf = judgeSpf(envelope, new KnownAnswers(known));
	const dmarc = judgeDmarc({domain, isAmbiguous, spf, signatures}, new KnownAnswers(known));
	const passed = signatures.filter(({result}) => result === 'pass');
	// `signatures` begins with those of the author's domain.
	return {spf, dkim: passed[0] ?? signatures[0] ?? noVerdict, dmarc};
}

function judgeSpf({client, helo, mailFrom}: Envelope, answers: KnownAnswers): Verdict {
	return client ? checkSpf(answers, {client, helo: helo || `[${client}]`, sender: mailFrom ?? ''}) : noVerdict;
}

type Author = Pick<ParsedMessage, 'isAmbiguous' | 'signatures'> & {
	readonly domain: string | null;
	readonly spf: Verdict;
};

/** Checks each mechanism against the policy by itself: one aligned pass is enough (RFC 7489 §6.6.2). */
function judgeDmarc({domain, isAmbiguous, spf, signatures}: Author, answers: KnownAnswers): Verdict {
	// §6.6.1: a From field with several authors has no single domain to check. If fields are repeated, the signatures
	// may not cover the ones that people see.
	if (domain === null || isAmbiguous) {
		return {result: domain === null ? 'none' : 'permerror', domain};
	}
	const answer = policyFor(domain, answers);
	switch (answer.kind) {
		case 'none':
			return {result: 'none', domain};
		case 'failed':
			return {result: answer.code === oversizedCode ? 'permerror' : 'temperror', domain};
		default:
	}
	const {isDkimStrict, isSpfStrict} = answer.policy;
	const isAlignedPass = (verdict: Verdict, isStrict: boolean): boolean =>
		verdict.result === 'pass' && verdict.domain !== null && isAligned(verdict.domain, domain, isStrict);
	const isPassed = isAlignedPass(spf, isSpfStrict) || signatures.some(dkim => isAlignedPass(dkim, isDkimStrict));
	return {result: isPassed ? 'pass' : 'fail', domain};
}

function isAligned(authenticated: string, author: string, isStrict: boolean): boolean {
	const alignment = alignmentOf(authenticated, author);
	return alignment === 'strict' || (alignment === 'relaxed' && !isStrict);
}
