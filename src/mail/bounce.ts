import type {BounceCategory, Phase} from './outcome.ts';

/** The known facts about a refusal, from a session, a DSN or the text of a bounce. Missing ones are `null`. */
export type Evidence = {
	/** How far the session got, or `null` if a report does not say. */
	readonly phase: Phase | null;
	/** The reply code. */
	readonly code: number | null;
	/** The enhanced code in the reply's text (RFC 3463). */
	readonly enhanced: string | null;
	/** The `Status:` field of a DSN. The reply takes precedence over it (R2.2). */
	readonly status: string | null;
	/** The reply, or the text about one recipient, without the returned message. */
	readonly text: string;
	/** The name of the mail server that replied (Remote-MTA). */
	readonly host: string | null;
};

/** The classification of a refusal. */
export type Classification = {
	readonly category: BounceCategory;
	/** `permanent` means that the address does not accept mail, now or later. */
	readonly type: 'permanent' | 'transient';
	readonly suppresses: boolean;
	/** The name of the matching rule, or `null` if none matched. */
	readonly rule: string | null;
	/** The text or code that matched. */
	readonly matched: string | null;
};

/** Classifies a refusal with the rule table. */
export type Classify = (evidence: Evidence) => Classification;

/** The categories that mean the address will never accept mail. Only these suppress it. */
const hardCategories: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'unknown_user',
	'unknown_domain',
	'moved',
	'disabled',
]);

/** Whether a refusal of this category is about the recipient, and permanent. */
export function suppresses(category: BounceCategory): boolean {
	return hardCategories.has(category);
}

/** A classification rule. It matches if all of its conditions that are not `null` match. It can be sent to a thread. */
export type BounceRule = {
	readonly name: string;
	/** Matches the enhanced code, or `none` if there is no code. */
	readonly enhanced: RegExp | null;
	/** Matches the reply code, or `none` if there is no code. */
	readonly code: RegExp | null;
	/** 4 for temporary, 5 for permanent. */
	readonly class: 4 | 5 | null;
	readonly phases: readonly Phase[] | null;
	/** The server's name, or a parent domain of it; `none` if the name is unknown. */
	readonly hosts: readonly string[] | null;
	/** Whether the reply itself contains an address. */
	readonly address: boolean | null;
	/** Matches the plain text. */
	readonly text: RegExp | null;
	/** If this matches the text, the rule does not apply. */
	readonly unless: RegExp | null;
	readonly category: BounceCategory;
};
