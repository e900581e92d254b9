import {type BounceRule, type Classification, type Classify, type Evidence, suppresses} from './bounce.ts';
import type {BounceCategory, Phase} from './outcome.ts';

const recipientPhases: ReadonlySet<Phase> = new Set<Phase>(['rcpt', 'data', 'dot']);

/** The categories that a refusal of the connection or the sender can have. */
const senderCategories: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'block',
	'reputation',
	'auth',
	'rate',
	'greylist',
	'policy',
	'sender',
	'system',
	'relay_denied',
]);

/**
 * Classifies refusals in SMTP replies, DSNs and plain-text bounces: which category they have, and whether they suppress
 * the address. The rules come from a table (`parseRuleTable`), of which the first matching rule decides. This folder
 * only judges: it parses no messages, looks up nothing, and stores nothing.
 */
export function createClassify(rules: readonly BounceRule[]): Classify {
	return evidence => {
		for (const facts of toFacts(evidence)) {
			const rule = rules.find(candidate => matches(candidate, facts));
			if (rule !== undefined) {
				return toClassification(rule, facts);
			}
		}
		return undetermined;
	};
}

const undetermined: Classification = {
	category: 'undetermined',
	type: 'transient',
	suppresses: false,
	rule: null,
	matched: null,
};

function matches(rule: BounceRule, {code, enhanced, class: firstDigit, phase, host, text, original}: Facts): boolean {
	return (
		(rule.class === null || rule.class === firstDigit) &&
		(rule.phases === null || (phase !== null && rule.phases.includes(phase))) &&
		(rule.enhanced === null || rule.enhanced.test(enhanced ?? 'none')) &&
		(rule.code === null || rule.code.test(code === null ? 'none' : String(code))) &&
		(rule.hosts === null || rule.hosts.some(name => isInDomain(host || 'none', name))) &&
		(rule.address === null || rule.address === containsAddress(original)) &&
		(rule.text === null || rule.text.test(text)) &&
		(rule.unless === null || !rule.unless.test(text))
	);
}

function isInDomain(host: string, name: string): boolean {
	return host === name || host.endsWith(`.${name}`);
}

function toClassification(rule: BounceRule, facts: Facts): Classification {
	const category = limitToPhase(rule.category, facts);
	const isHard = suppresses(category);
	return {
		category,
		type: isHard ? 'permanent' : 'transient',
		suppresses: isHard,
		rule: rule.name,
		matched: rule.text?.exec(facts.text)?.[0] ?? matchCodes(rule, facts),
	};
}

/** A refusal before RCPT says nothing about the recipient, and a 4xx is not a final verdict on one. */
function limitToPhase(category: BounceCategory, {phase, class: firstDigit}: Facts): BounceCategory {
	if (phase !== null && !recipientPhases.has(phase)) {
		return senderCategories.has(category) ? category : phase === 'mail' ? 'sender' : 'undetermined';
	}
	return firstDigit === 4 && suppresses(category) ? 'undetermined' : category;
}

function matchCodes(rule: BounceRule, {code, enhanced}: Facts): string | null {
	return (rule.enhanced === null ? code : enhanced)?.toString() ?? null;
}

/** The facts that rules are matched against. */
type Facts = {
	readonly code: number | null;
	/** The most specific enhanced code. */
	readonly enhanced: string | null;
	readonly class: 4 | 5;
	/** `null` if unknown. */
	readonly phase: Phase | null;
	/** In lower case, or empty if unknown. */
	readonly host: string;
	/** The normalized text (`plainText`). */
	readonly text: string;
	/** The text as received. */
	readonly original: string;
};

/** A longer text about one recipient adds only cost. */
const maxTextLength = 4096;

const replyCodes =
	'(?:4(?:21|22|31|32|4[1267]|5[0-589]|7[12])|5(?:0[0-4]|1[0-9]|2[1-5]|3[013458]|4[1-9]|5[0-9]|63|7[0-9]))';
const firstCode = new RegExp(`^["'<([]?(${replyCodes})(?=[ -]|$)`);
const anyCode = new RegExp(`(?:^|[\\s<([{"':;=])(${replyCodes})(?=[ \\-:,;"'#]|$)`);
const enhancedCodes = /(?<![\d.])[45]\.\d{1,3}\.\d{1,3}(?![\d.]\d)/g;

/** Codes without information, so others are preferred. Exchange wraps another server's reply in the last two. */
const emptyCode = /^[45]\.0\.\d+$|^5\.1\.351$|^5\.4\.350$/;

const verificationFailed = 'verif(?:y|ication) (?:has )?failed';
/** The address that the queried server refused, before its text: `<neko@example.org>: 550 …`. */
const refusedAddress = '(?:<?[^\\s<>@]{1,64}@[^\\s<>]{1,255}?>?:?\\s{1,9})?';

/**
 * Phrases that introduce another server's reply. The last one counts, because the innermost reply follows it. That
 * reply starts with a code, except after a callout (the group `callout`), which may pass on text alone.
 */
const introductions = new RegExp(
	[
		'\\bsaid:? ', // Postfix, qmail
		'\\bsmtp; ?', // Diagnostic-Code, Exchange 2003 to 2010
		'-> ?["\']?', // Exchange Online
		'server returned was:?\\s{1,3}', // Gmail
		'(?:returned|responded with|replied|answered|response was|error)[ :]{1,3}["\'<]?',
		'\\b[45]\\d\\d-["\'](?=[45]\\.|[45]\\d\\d)', // Cisco: Unknown address error 550-'5.1.1 …'
		'error from remote [^]{1,300}?:\\s{1,9}', // Exim
		// Exim, about a recipient. The text before `callout` may show that it was about the sender.
		`(?<callout>(?<=^|[\\d:;>("'\\n-]\\s?)(?:recipient )?call-?out ${verificationFailed}\\s{0,9}(?:[:;,(\\n]|[-–—]{1,2})\\s{0,9}${refusedAddress}(?!\\s{0,9}for\\b))`,
		`\\b(?:call-?out|recipient|address) ${verificationFailed}(?:\\s{0,9}(?:[:;,(]|[-–—]{1,2}))?\\s{0,9}${refusedAddress}`,
		'\\bresponse to [^:\\n]{1,20}:?[^:\\n]{0,300}\\bwas:? ["\']?',
	]
		.map(phrase => `(?:${phrase})`)
		.join('|'),
	'gi',
);
const beginsWithCode = /^["'<]?(?:[45][0-57]\d[ \-:#]|#?[45]\.\d{1,3}\.\d{1,3}\b)/;
/** What another server said about the sender in a callout says nothing about the recipient. */
const aboutSender = /sender|verification failed for|(?<!recipient )callout/i;
/** The first refusal in a transcript: later ones follow from it. */
const transcript = /<<< ?(?=[45]\d\d)/;

/**
 * Returns the facts of a refusal. If the text contains another server's reply, facts of that reply alone come before
 * those of the whole text. The reply's own codes take precedence over those that a report adds, and specific codes over
 * unspecific ones (`5.0.0`).
 */
function toFacts(evidence: Evidence): Facts[] {
	const text = evidence.text.slice(0, maxTextLength);
	const phase = evidence.phase ?? phaseIn(text);
	const innerReply = innermostReply(text) ?? (evidence.code === null ? firstReply(text) : null);
	const textFacts = facts({...evidence, code: evidence.code ?? codeIn(text, anyCode)}, text, phase);
	// A reply without text has its text before the code: `The mailbox is full (550 5.1.1)`.
	if (innerReply === null || !/\p{L}{3}/u.test(plainText(innerReply))) {
		return [textFacts];
	}
	const code = codeIn(innerReply, firstCode) ?? evidence.code ?? codeIn(text.slice(0, -innerReply.length), anyCode);
	return [facts({...evidence, code}, innerReply, phase), textFacts];
}

function codeIn(text: string, codes: RegExp): number | null {
	const match = codes.exec(text);
	return match === null ? null : Number(match[1]);
}

function facts({code, enhanced, status, host}: Evidence, text: string, phase: Phase | null): Facts {
	const textCodes = text.match(enhancedCodes) ?? [];
	const codes = [textCodes[0], enhanced, ...textCodes, status].filter(item => item != null);
	const mostSpecific = codes.find(item => !emptyCode.test(item)) ?? codes[0] ?? null;
	return {
		code,
		enhanced: mostSpecific,
		class: classOf(code, mostSpecific),
		phase,
		host: host?.toLowerCase().replace(/\.$/, '') ?? '',
		text: plainText(text),
		original: text,
	};
}

/** The first digit of the reply alone decides (RFC 5321 §4.2.1): a report's `4.0.0` does not promise a retry. */
function classOf(code: number | null, enhanced: string | null): 4 | 5 {
	if (code !== null) {
		return code < 500 ? 4 : 5;
	}
	return enhanced?.startsWith('4') && !emptyCode.test(enhanced) ? 4 : 5;
}

function innermostReply(text: string): string | null {
	const first = transcript.exec(text);
	if (first !== null) {
		return text.slice(first.index + first[0].length);
	}
	let start = 0;
	for (const {index, 0: words, groups} of text.matchAll(introductions)) {
		const end = index + words.length;
		if (aboutSender.test(text.slice(start, index))) {
			break;
		}
		start = groups?.callout !== undefined || beginsWithCode.test(text.slice(end, end + 12)) ? end : start;
	}
	return start === 0 ? null : text.slice(start);
}

/** Returns a reply without an introduction, starting at the first reply code. */
function firstReply(text: string): string | null {
	const match = anyCode.exec(text);
	return match === null || match.index === 0 ? null : text.slice(match.index + 1);
}

const nonAscii = /[^\x00-\x7f]/;
const accents = /[\u0300-\u036f]/g;
const address = /[^\s<>()[\]{};:,"'|]{1,64}@(?:[\w\u0080-\uffff-]{1,63}\.){0,8}[\w\u0080-\uffff-]{1,63}/g;
const linkPath = /\b(https?:\/\/[^\s/<>"')]{1,255})[^\s<>"')]{1,2000}/gi;
const hostWithAddress = /\b(?:unknown|[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,8})\.?[ (]{0,2}\[[\da-f.:]{3,45}\]\)?/gi;
const lineCode = /(?<=\s)[245]\d\d-(?:#?[245]\.\d{1,3}\.\d{1,3}[ :-]?)?/g;
const attribution =
	/\bhost\s{1,3}(?:\S{1,255}\s{1,3})?said:|\bwhile talking to \S{1,255}|\bremote server returned(?! unknown)|\berror from remote mail ?(?:er|server)\b/gi;
// Exim puts a verified sender in brackets, and may omit the closing `Sender verify failed`.
const verifiedSender = /(?<![a-z] )\bverification failed for <[^<>\s]{1,320}>/gi;
const command = /\(in reply to [^()]{1,60}\)/gi;
const emptyBrackets = /<\s?>|\(\s?\)|\[\s?\]/g;
// As in `BAD_RECIPIENT` and `user_unknown`.
const wordUnderscore = /(?<=[a-z])_(?=[a-z])/gi;
const whiteSpace = /\s+/g;

/** Whether the first reply in a text names an address. Text that daemons write around it always names the recipient. */
function containsAddress(text: string): boolean {
	const reply = text.slice(anyCode.exec(text)?.index ?? 0).trimStart();
	return reply.slice(0, reply.search(/\n|$/)).search(address) >= 0;
}

/** Removes accents, so that a rule matches however a mail server writes a word (`boîte`, `boite`). */
export function unaccented(text: string): string {
	return nonAscii.test(text)
		? text
				.normalize('NFD')
				.replace(accents, '')
				.normalize('NFC')
				.replace(/[łŁ]/g, 'l')
				.replaceAll('ı', 'i')
				.replaceAll('ß', 'ss')
				.replaceAll('’', "'")
		: text;
}

/**
 * Normalizes a reply for the rules. Removes what may contain any word (addresses, link paths, host names beside their
 * IP addresses) and the codes of continuation lines, which split sentences, and collapses white space.
 */
export function plainText(text: string): string {
	return unaccented(text)
		.replace(linkPath, '$1')
		.replace(verifiedSender, 'sender verification failed')
		.replace(address, '')
		.replace(hostWithAddress, ' ')
		.replace(lineCode, ' ')
		.replace(attribution, ' ')
		.replace(command, '')
		.replace(emptyBrackets, '')
		.replace(wordUnderscore, ' ')
		.replace(whiteSpace, ' ')
		.trim();
}

/** How mailers report the phase of the session: Postfix, Exim, qmail, DragonFly, OpenSMTPD, Sendmail. */
const phasePatterns: ReadonlyArray<readonly [RegExp, Phase]> = [
	[
		/after (?:sending )?(?:pipelined )?RCPT|in reply to (?:the )?RCPT|RCPT[ _]TO command|\bRCPT command|RCPT_TO|SMTP:RCPT/i,
		'rcpt',
	],
	[
		/did not like (?:our )?RCPT|does not like recipient|recipient was rejected|response to RCPT|RCPT TO response/i,
		'rcpt',
	],
	[
		/after (?:sending )?(?:pipelined )?MAIL|in reply to (?:the )?MAIL|MAIL FROM command|\bMAIL command\b|\[MAIL_FROM\]|SMTP:MAIL/i,
		'mail',
	],
	[/did not like (?:our )?MAIL|sender was rejected|response to MAIL/i, 'mail'],
	[
		/after (?:pipelined )?(?:end of (?:data|message)|sending data block)|in reply to (?:the )?end of (?:DATA|message)|final DATA|failed after I sent the message|\[BODY\]|SMTP:(?:BODY|EOM)/i,
		'dot',
	],
	[
		/in reply to (?:the )?DATA|after (?:sending )?(?:pipelined )?DATA\b|did not like (?:our )?DATA|failed on DATA|\bDATA command\b|\[DATA\]|SMTP:DATA/i,
		'data',
	],
	[/after (?:sending )?(?:EHLO|HELO)|in reply to (?:the )?(?:EHLO|HELO)|(?:EHLO|HELO) command/i, 'ehlo'],
	[/after STARTTLS|in reply to (?:the )?STARTTLS/i, 'starttls'],
	[
		/after initial connection|greeting failed|refused to talk to me|while receiving the initial server greeting/i,
		'greeting',
	],
];

/** The refused command in a transcript. */
const refusedCommand = /(?:^| )>>> ?([a-z]{4,8}|\.)(?=[ :]|$)(?:(?!>>>).){0,600}?<<< ?[45]\d\d/i;
const commands: Readonly<Record<string, Phase>> = {
	rcpt: 'rcpt',
	mail: 'mail',
	// Sendmail shows its last command, and the final dot is not a command.
	data: 'dot',
	'.': 'dot',
	ehlo: 'ehlo',
	helo: 'ehlo',
	starttls: 'starttls',
};

/** Returns the phase that a session reached according to a text, or `null` if the text does not say. */
export function phaseIn(text: string): Phase | null {
	const line = text.replace(/\s+/g, ' ');
	const reportedPhase = phasePatterns.find(([pattern]) => pattern.test(line))?.[1];
	return reportedPhase ?? commands[refusedCommand.exec(line)?.[1]?.toLowerCase() ?? ''] ?? null;
}

/** Longer replies are distinguished by their beginnings. */
const maxReplyLength = 300;
const code = /^[245]\d\d$/;
/** The code in a line of a reply that continues. */
const multilineCode = /^([245]\d\d)-/;
const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}$/;
const digit = /\d/;
const variable = '…';

/**
 * Returns a reply's wording without addresses, numbers, ids or host names with digits, so that the same reply to
 * different recipients has the same wording. Codes at its beginning are retained.
 */
export function toWording(reply: string): string {
	const words = plainText(reply.slice(0, maxReplyLength)).replace(multilineCode, '$1 ').split(' ');
	const afterCode = code.test(words[0] ?? '') ? 1 : 0;
	const afterCodes = enhancedCode.test(words[afterCode] ?? '') ? afterCode + 1 : afterCode;
	return words
		.map((word, index) => (index >= afterCodes && digit.test(word) ? variable : word))
		.filter((word, index, all) => word !== variable || all[index - 1] !== variable)
		.join(' ');
}
