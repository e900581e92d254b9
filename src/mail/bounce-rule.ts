import type {BounceCategory, Phase} from './outcome.ts';

/** How refusals are read: a rule holds when all that it names does; null: it names none. Threads may be handed it. */
export type BounceRule = {
	readonly name: string;
	/** The enhanced code, `none` where there is none. */
	readonly enhanced: RegExp | null;
	/** The reply code, `none` where there is none. */
	readonly code: RegExp | null;
	/** 4: try again; 5: never. */
	readonly class: 4 | 5 | null;
	readonly phases: readonly Phase[] | null;
	/** What the host's name is, or ends in behind a dot. */
	readonly hosts: readonly string[] | null;
	/** Tried on the plain text. */
	readonly text: RegExp | null;
	/** Where it matches, the rule does not hold. */
	readonly unless: RegExp | null;
	readonly category: BounceCategory;
};
