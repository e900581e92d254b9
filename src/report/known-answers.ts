import {type Answers, type DnsAnswer, type Question, questionKey} from '../net/dns.ts';

/** The code of an answer that is not there yet: what it means for a verdict is decided once the name is asked. */
export const unknownCode = 'unknown';
const unknown = {kind: 'failed', code: unknownCode} as const;

/** What DNS has said so far of the names that a mail makes us ask. It asks nothing itself: it notes what is missing. */
export class KnownAnswers {
	readonly #answers: Answers;
	readonly #missing = new Map<string, Question>();

	constructor(answers: Answers) {
		this.#answers = answers;
	}

	/** Questions that had no answer. */
	get missing(): readonly Question[] {
		return [...this.#missing.values()];
	}

	ask<T>(type: Question['type'], name: string): DnsAnswer<T> {
		const question = {type, name: name.toLowerCase().replace(/\.$/, '')};
		const known = this.#answers.get(questionKey(question));
		if (known !== undefined) {
			return known as DnsAnswer<T>;
		}
		if (isAskable(question.name)) {
			this.#missing.set(questionKey(question), question);
			return unknown;
		}
		return {kind: 'nxdomain'};
	}
}

const maxNameLength = 253;
const maxLabelLength = 63;

/** Whether a name has a form in which DNS can hold it (RFC 1035 §2.3.4). */
export function isWellFormed(name: string): boolean {
	return (
		name.length <= maxNameLength &&
		name.split('.').every(label => label.length > 0 && label.length <= maxLabelLength)
	);
}

/** Whether it is sent to a resolver: of printable ASCII without the backslash, by which resolvers quote. */
function isAskable(name: string): boolean {
	return isWellFormed(name) && name.includes('.') && /^[!-[\]-~]+$/.test(name);
}
