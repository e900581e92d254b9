import {type Attachment, type RecipientState, recipientStates, submittedId} from './message.ts';

/** A searchable text of a message, in addition to its columns. The store indexes these. */
export type Term = string;

// Subject words are normalized for both storage and search. Longer or further words do not improve the search.
const maxWordLength = 40;
const maxWords = 30;
/** PostgreSQL limits index keys to 2,700 octets. */
const maxValueLength = 500;
/** The maximum number of words in a query. */
export const maxQueryTerms = 10;

/** Returns the distinct words of a text: runs of letters, digits and marks, normalized, in lower case. */
function parseWords(text: string): string[] {
	const words =
		text
			.normalize('NFKC')
			.toLowerCase()
			.match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
	return [...new Set(words.map(word => [...word].slice(0, maxWordLength).join('')))];
}

export function subjectTerms(subject: string): Term[] {
	return parseWords(subject)
		.slice(0, maxWords)
		.map(word => `w:${word}`);
}

/** One condition of a search: this term, or any of these. */
export type SearchCondition = Term | readonly Term[];

/** Returns the terms for a search by subject words, or `null` if there are no words, or more than `maxQueryTerms`. */
export function queryTerms(words: string): Term[] | null {
	const terms = parseWords(words).map(word => `w:${word}`);
	return terms.length > 0 && terms.length <= maxQueryTerms ? terms : null;
}

/** Returns the term of a metadata entry. The length marks the end of the key, whatever characters it contains. */
export function metadataTerm(key: string, value: string): Term {
	return `m${key.length}:${key}=${value}`;
}

/** Returns the term of a metadata value under any key, normalized like words, so that case does not matter. */
export function valueTerm(value: string): Term {
	const folded = value.normalize('NFKC').toLowerCase().trim().replace(/\s+/gu, ' ');
	return `v:${[...folded].slice(0, maxValueLength).join('')}`;
}

/**
 * Returns the conditions for a text search. Either the whole text is a metadata value, or each part between spaces is
 * one or consists of subject words.
 */
export function searchTerms(text: string): SearchCondition[] {
	const wholeText = valueTerm(text);
	const conditions = text
		.trim()
		.split(/\s+/u)
		.flatMap((part): SearchCondition[] => {
			const values = [...new Set([valueTerm(part), wholeText])];
			const words = parseWords(part);
			return words.length === 0 ? [values] : words.map(word => [`w:${word}`, ...values]);
		});
	return conditions.length > maxQueryTerms ? [wholeText] : conditions;
}

export function tagTerm(tag: string): Term {
	return `t:${tag}`;
}

/**
 * Returns the term of a state that the `to` recipient has reached. It remains when the state changes, so a reader must
 * also compare the recipient's current state.
 */
export function stateTerm(state: ListedState): Term {
	return `s:${state}`;
}

/** Messages that are accepted or queued are found through the queue, and need no term. */
type ListedState = Exclude<RecipientState, 'accepted' | 'queued'>;

export function isListed(state: RecipientState): state is ListedState {
	return state !== 'accepted' && state !== 'queued';
}

export const listedStates = recipientStates.filter(isListed);

/** Returns the term of a submitted message's Message-ID, with or without angle brackets. */
export function messageIdTerm(messageId: string): Term {
	return `i:${messageId.trim().replace(/^<|>$/g, '')}`;
}

/** A stored message: JSON texts or `null`, and the names of its files. */
type Findable = {
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly attachments: ReadonlyArray<Pick<Attachment, 'filename' | 'contentType'>>;
};

export function toTerms({metadata, tags, attachments}: Findable): Term[] {
	const messageId = submittedId(attachments);
	const pairs = Object.entries<string>(metadata === null ? {} : JSON.parse(metadata));
	const tagNames: string[] = tags === null ? [] : JSON.parse(tags);
	return [
		...pairs.map(([key, value]) => metadataTerm(key, value)),
		...new Set(pairs.filter(([, value]) => value.trim() !== '').map(([, value]) => valueTerm(value))),
		...new Set(tagNames.map(tagTerm)),
		...(messageId === null ? [] : [messageIdTerm(messageId)]),
	];
}
