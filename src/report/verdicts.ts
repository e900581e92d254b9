import {domainOf} from '../mail/address.ts';
import type {ReadLetter, Verdict, Verdicts} from '../mail/received.ts';
import type {Envelope} from '../mail/report.ts';
import {oversizedCode, type Question} from '../net/dns.ts';
import {alignmentOf} from './alignment.ts';
import {policyFor} from './dmarc-policy.ts';
import {KnownAnswers} from './known-answers.ts';
import {authorDomains, domainName, headerOf} from './raw-header.ts';
import {keyNames} from './signatures.ts';
import {checkSpf} from './spf.ts';

// Whether a mail is from whom it says: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 7489). All of it is computed in the
// reader's thread, on answers of DNS that the daemon got for it: `missingAnswers` says which ones, and the rest knows
// no network.

const noVerdict: Verdict = {result: 'none', domain: null};

/**
 * What has to be asked yet for the verdicts on a mail with this beginning. `envelope` null: nobody wants SPF and DMARC
 * of it, as of a report, whose signatures alone count.
 */
export function missingAnswers(head: Buffer, envelope: Envelope | null, answers: KnownAnswers): readonly Question[] {
	const header = headerOf(head);
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

/** What there is to say of who sent a mail. Answers of DNS that are missing give `temperror`. */
export function judgeLetter(
	envelope: Envelope,
	letter: Pick<ReadLetter, 'from' | 'isAmbiguous' | 'signatures'>,
	known: ConstructorParameters<typeof KnownAnswers>[0],
): Verdicts {
	const {from, isAmbiguous, signatures} = letter;
	const domain = domainName(domainOf(from?.address ?? '')) ?? null;
	// Each has its own view: what one lacks is no fault of the other.
	const spf = judgeSpf(envelope, new KnownAnswers(known));
	const dmarc = judgeDmarc({domain, isAmbiguous, spf, signatures}, new KnownAnswers(known));
	const passed = signatures.filter(({result}) => result === 'pass');
	// Those of the author's domain come first.
	return {spf, dkim: passed[0] ?? signatures[0] ?? noVerdict, dmarc};
}

function judgeSpf({client, helo, mailFrom}: Envelope, answers: KnownAnswers): Verdict {
	return client ? checkSpf(answers, {client, helo: helo || `[${client}]`, sender: mailFrom ?? ''}) : noVerdict;
}

type Author = Pick<ReadLetter, 'isAmbiguous' | 'signatures'> & {
	readonly domain: string | null;
	readonly spf: Verdict;
};

/** Each mechanism is held against the policy by itself: one that fits makes the mail pass (RFC 7489 §6.6.2). */
function judgeDmarc({domain, isAmbiguous, spf, signatures}: Author, answers: KnownAnswers): Verdict {
	// §6.6.1: a From with several authors has no one domain to check; what people see of fields that are there twice,
	// no signature covers.
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
	const fits = (one: Verdict, isStrict: boolean): boolean =>
		one.result === 'pass' && one.domain !== null && isAligned(one.domain, domain, isStrict);
	const isPassed = fits(spf, isSpfStrict) || signatures.some(one => fits(one, isDkimStrict));
	return {result: isPassed ? 'pass' : 'fail', domain};
}

function isAligned(proved: string, author: string, isStrict: boolean): boolean {
	const alignment = alignmentOf(proved, author);
	return alignment === 'strict' || (alignment === 'relaxed' && !isStrict);
}
