import {type BounceRule, type Classify, type Judgement, suppresses} from '../mail/bounce.ts';
import type {BounceCategory, Phase} from '../mail/outcome.ts';
import {type Facts, factsOf} from './facts.ts';

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
