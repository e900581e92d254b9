import type {BounceCategory, Phase} from './outcome.ts';

/** What is known of a refusal, from a session, a DSN or the text of a bounce. Absent things are null. */
export type Evidence = {
	/** How far the session came; null if a report does not say. */
	readonly phase: Phase | null;
	/** The reply code. */
	readonly code: number | null;
	/** The enhanced code of the reply's text, RFC 3463. */
	readonly enhanced: string | null;
	/** The `Status:` field of a DSN; it yields to what the reply says (R2.2). */
	readonly status: string | null;
	/** The reply, or the text about one recipient, without the returned mail. */
	readonly text: string;
	/** The name of the host that spoke (Remote-MTA). */
	readonly host: string | null;
};

/** How a refusal is read. */
export type Judgement = {
	readonly category: BounceCategory;
	/** Permanent: the address takes no mail, now or later. */
	readonly type: 'permanent' | 'transient';
	readonly suppresses: boolean;
	/** The name of the rule that matched; null: none did. */
	readonly rule: string | null;
	/** The text or code that it matched on. */
	readonly matched: string | null;
};

/** Reads a refusal by the rule table. */
export type Classify = (evidence: Evidence) => Judgement;

/** The categories that say: this address takes no mail, now or later. They alone suppress. */
const hardCategories: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'unknown_user',
	'unknown_domain',
	'moved',
	'disabled',
]);

/** Whether a refusal of this category means the recipient, for good. */
export function suppresses(category: BounceCategory): boolean {
	return hardCategories.has(category);
}

/**
 * How refusals are read: a rule matches when each of its conditions that is not null matches. It can be sent to a
 * thread.
 */
export type BounceRule = {
	readonly name: string;
	/** The enhanced code; `none` if there is no code. */
	readonly enhanced: RegExp | null;
	/** The reply code; `none` if there is no code. */
	readonly code: RegExp | null;
	/** 4: try again; 5: never. */
	readonly class: 4 | 5 | null;
	readonly phases: readonly Phase[] | null;
	/** What the host's name is, or ends in behind a dot; `none` if it is unknown. */
	readonly hosts: readonly string[] | null;
	/** Whether the reply itself names an address. */
	readonly address: boolean | null;
	/** Tried on the plain text. */
	readonly text: RegExp | null;
	/** Where it matches, the rule does not hold. */
	readonly unless: RegExp | null;
	readonly category: BounceCategory;
};
