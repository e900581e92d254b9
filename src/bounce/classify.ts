import type {Evidence, Judgement} from '../mail/bounce.ts';
import type {BounceCategory, Phase} from '../mail/outcome.ts';
import type {SmtpReply} from '../mail/smtp-reply.ts';
import {bounceRules} from './bounce-rules.ts';

const recipientPhases: ReadonlySet<Phase> = new Set<Phase>(['rcpt', 'data', 'dot']);

/** The categories that say: this address takes no mail, now or later. They alone suppress. */
const hardCategories: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'unknown_user',
	'unknown_domain',
	'moved',
	'disabled',
]);

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

/** Whether a refusal of this category means the recipient, for good. */
export function suppresses(category: BounceCategory): boolean {
	return hardCategories.has(category);
}

/** Why a host refused: the first rule that matches, `undetermined` where none does. */
export function classifyReply(reply: SmtpReply, phase: Phase, host: string): BounceCategory {
	const category = firstMatch(reply, phase, host);
	// Before RCPT nothing is said about the recipient, and a 4xx is no verdict on one.
	if (!recipientPhases.has(phase)) {
		return senderCategories.has(category) ? category : 'undetermined';
	}

	return reply.code < 500 && suppresses(category) ? 'undetermined' : category;
}

function firstMatch(reply: SmtpReply, phase: Phase, host: string): BounceCategory {
	// An address may hold any word (`<spam@…>`).
	const text = reply.text.replace(/[^\s<>]{1,64}@[^\s<>]{1,255}/g, '');
	const detail = reply.enhanced?.slice(2) ?? '';
	const code = String(reply.code);
	const rule = bounceRules.find(
		rule =>
			(rule.phase === undefined || rule.phase === phase) &&
			(rule.detail?.test(detail) ?? true) &&
			(rule.code?.test(code) ?? true) &&
			(rule.host?.test(host) ?? true) &&
			(rule.text?.test(text) ?? true),
	);
	return rule?.category ?? 'undetermined';
}

/** Reads a refusal by the rule table: of a session, a DSN or the text of a bounce. */
export function classify(evidence: Evidence): Judgement {
	const {phase, code, enhanced, status, text, host} = evidence;
	const best = enhanced ?? status;
	const reply: SmtpReply = {
		code: code ?? (best?.startsWith('4') ? 450 : 550),
		enhanced: best,
		text,
	};
	const category = classifyReply(reply, phase ?? 'rcpt', host ?? '');
	const hard = suppresses(category);
	return {category, type: hard ? 'permanent' : 'transient', suppresses: hard, rule: null, matched: null};
}
