import {type BounceRule, type Classify, type Evidence, type Judgement, suppresses} from '../mail/bounce.ts';
import type {BounceCategory, Phase} from '../mail/outcome.ts';
import {phaseIn, plainText} from './reply-text.ts';

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

/** Reads refusals by a rule table, of sessions, of DSNs, of texts: the first rule that holds decides. */
export function createClassify(rules: readonly BounceRule[]): Classify {
	return evidence => {
		for (const facts of factsOf(evidence)) {
			const rule = rules.find(candidate => holds(candidate, facts));
			if (rule !== undefined) {
				return judgement(rule, facts);
			}
		}
		return undecided;
	};
}

const undecided: Judgement = {
	category: 'undetermined',
	type: 'transient',
	suppresses: false,
	rule: null,
	matched: null,
};

function holds(rule: BounceRule, {code, enhanced, class: digit, phase, host, text}: Facts): boolean {
	return (
		(rule.class === null || rule.class === digit) &&
		(rule.phases === null || (phase !== null && rule.phases.includes(phase))) &&
		(rule.enhanced === null || rule.enhanced.test(enhanced ?? 'none')) &&
		(rule.code === null || rule.code.test(code === null ? 'none' : String(code))) &&
		(rule.hosts === null || rule.hosts.some(name => host === name || host.endsWith(`.${name}`))) &&
		(rule.text === null || rule.text.test(text)) &&
		(rule.unless === null || !rule.unless.test(text))
	);
}

function judgement(rule: BounceRule, facts: Facts): Judgement {
	const category = asFarAsSaid(rule.category, facts);
	const hard = suppresses(category);
	return {
		category,
		type: hard ? 'permanent' : 'transient',
		suppresses: hard,
		rule: rule.name,
		matched: rule.text?.exec(facts.text)?.[0] ?? codesOf(rule, facts),
	};
}

/** Before RCPT nothing is said about the recipient, and a 4xx is no verdict on one. */
function asFarAsSaid(category: BounceCategory, {phase, class: digit}: Facts): BounceCategory {
	if (phase !== null && !recipientPhases.has(phase)) {
		return senderCategories.has(category) ? category : phase === 'mail' ? 'sender' : 'undetermined';
	}
	return digit === 4 && suppresses(category) ? 'undetermined' : category;
}

function codesOf(rule: BounceRule, {code, enhanced}: Facts): string | null {
	return (rule.enhanced === null ? code : enhanced)?.toString() ?? null;
}

/** What rules are tried on. */
type Facts = {
	readonly code: number | null;
	/** The enhanced code that says most. */
	readonly enhanced: string | null;
	readonly class: 4 | 5;
	/** Null: unknown. */
	readonly phase: Phase | null;
	/** In lower case; empty if unknown. */
	readonly host: string;
	readonly text: string;
};

/** A longer text about one recipient says nothing new and costs time. */
const longestText = 4096;

const replyCodes =
	'(?:4(?:21|22|31|32|4[1267]|5[0-589]|7[12])|5(?:0[0-4]|1[0-9]|2[1-5]|3[013458]|4[1-9]|5[0-9]|63|7[0-9]))';
const firstCode = new RegExp(`^["'<([]?(${replyCodes})(?=[ -]|$)`);
const anyCode = new RegExp(`(?:^|[\\s<([{"':;=])(${replyCodes})(?=[ \\-:,;"'#]|$)`);
const enhancedCodes = /(?<![\d.])[45]\.\d{1,3}\.\d{1,3}(?![\d.]\d)/g;

/** Codes that say nothing: another one is asked first. Exchange wraps the reply of another host in the last two. */
const emptyCode = /^[45]\.0\.\d+$|^5\.1\.351$|^5\.4\.350$/;

/** Words before the reply of another host. The last ones count: the innermost reply follows them. */
const introductions = new RegExp(
	[
		'\\bsaid:? ', // Postfix, qmail
		'\\bsmtp; ?', // Diagnostic-Code, Exchange 2003 to 2010
		'-> ?["\']?', // Exchange Online
		'server returned was:?\\s{1,3}', // Gmail
		'(?:returned|responded with|replied|answered|response was|error)[ :]{1,3}["\'<]?',
		'\\b[45]\\d\\d-["\'](?=[45]\\.|[45]\\d\\d)', // Cisco: Unknown address error 550-'5.1.1 …'
		'error from remote [^]{1,300}?:\\s{1,3}', // Exim
	]
		.map(one => `(?:${one})`)
		.join('|'),
	'gi',
);
const beginsWithCode = /^["'<]?(?:[45][0-57]\d[ \-:#]|#?[45]\.\d{1,3}\.\d{1,3}\b)/;
/** What another host said of the sender when it was asked about it is nothing about the recipient. */
const ofSender = /sender|verification failed for|callout/i;
/** The first reply of a transcript: later ones follow from it. */
const transcript = /<<< ?(?=[45]\d\d)/;

/**
 * The facts of a refusal, twice if the text has another host's reply: of that reply alone, then of all. The reply's own
 * codes precede those that a report adds, and a specific code precedes an unspecific one (`5.0.0`).
 */
function factsOf(evidence: Evidence): Facts[] {
	const text = evidence.text.slice(0, longestText);
	const phase = evidence.phase ?? phaseIn(text);
	const said = innermostReply(text) ?? (evidence.code === null ? firstReply(text) : null);
	const whole = facts(evidence, text, phase);
	// Without words the code follows them: `The mailbox is full (550 5.1.1)`.
	return said === null || !/\p{L}{3}/u.test(plainText(said)) ? [whole] : [facts(evidence, said, phase, true), whole];
}

function facts(evidence: Evidence, text: string, phase: Phase | null, introduced = false): Facts {
	const {enhanced, status, host} = evidence;
	const inText = text.match(enhancedCodes) ?? [];
	const codes = [inText[0], enhanced, ...inText, status].filter(one => one !== null && one !== undefined);
	const best = codes.find(one => !emptyCode.test(one)) ?? codes[0] ?? null;
	const said = introduced ? firstCode.exec(text) : evidence.code === null ? anyCode.exec(text) : null;
	const code = said === null ? evidence.code : Number(said[1]);
	return {
		code,
		enhanced: best,
		class: classOf(code, best),
		phase,
		host: host?.toLowerCase().replace(/\.$/, '') ?? '',
		text: plainText(text),
	};
}

/** RFC 5321 §4.2.1: the reply's first digit alone decides. A report's `4.0.0` without one is no promise of another try. */
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
	let at = 0;
	for (const {index, 0: words} of text.matchAll(introductions)) {
		const end = index + words.length;
		if (ofSender.test(text.slice(at, index))) {
			break;
		}
		at = beginsWithCode.test(text.slice(end, end + 12)) ? end : at;
	}
	return at === 0 ? null : text.slice(at);
}

/** A reply without an introduction: from the first reply code on. */
function firstReply(text: string): string | null {
	const found = anyCode.exec(text);
	return found === null || found.index === 0 ? null : text.slice(found.index + 1);
}
