import {type DnsAnswer, type DnsAnswers, type Question, questionKey} from '../../net/dns.ts';

/** The code of an answer that is still missing. Its effect on a verdict is decided once the name has been looked up. */
export const unknownCode = 'unknown';
const unknown = {kind: 'failed', code: unknownCode} as const;

/** The DNS answers received so far for a message. Never queries DNS: it only records which answers are missing. */
export class KnownAnswers {
	readonly #answers: DnsAnswers;
	readonly #missing = new Map<string, Question>();

	constructor(answers: DnsAnswers) {
		this.#answers = answers;
	}

	/** The questions that have no answer yet. */
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

/** Whether a name has a form that DNS allows (RFC 1035 §2.3.4). */
export function isWellFormed(name: string): boolean {
	return (
		name.length <= maxNameLength &&
		name.split('.').every(label => label.length > 0 && label.length <= maxLabelLength)
	);
}

/** Whether to send a name to a resolver: only printable ASCII, without the backslash that resolvers quote with. */
function isAskable(name: string): boolean {
	return isWellFormed(name) && name.includes('.') && /^[!-[\]-~]+$/.test(name);
}
