import {type Attachment, type RecipientState, recipientStates, submittedId} from './message.ts';

/** A text that finds a message, in addition to its columns; the store has an index of them. */
export type Term = string;

// A word of a subject is stored and asked for in one form. Longer words, and more of them, say nothing more.
const maxWordLength = 40;
const maxWords = 30;
/** PostgreSQL takes keys of 2,700 octets. */
const maxValueLength = 500;
/** The most words of one query. */
export const maxQueryTerms = 10;

/** The words of a text: runs of letters, digits and marks, compatibility forms folded, lower case, each once. */
function wordsOf(text: string): string[] {
	const words =
		text
			.normalize('NFKC')
			.toLowerCase()
			.match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
	return [...new Set(words.map(word => [...word].slice(0, maxWordLength).join('')))];
}

export function subjectTerms(subject: string): Term[] {
	return wordsOf(subject)
		.slice(0, maxWords)
		.map(word => `w:${word}`);
}

/** What is asked for: this term, or any of these. */
export type Asked = Term | readonly Term[];

/**
 * What a message must have to be found by words of its subject; null: there is no word, or there are more than
 * `maxQueryTerms`.
 */
export function askedTerms(words: string): Term[] | null {
	const terms = wordsOf(words).map(word => `w:${word}`);
	return terms.length > 0 && terms.length <= maxQueryTerms ? terms : null;
}

/** The length says where the key ends, for any characters in it. */
export function metadataTerm(key: string, value: string): Term {
	return `m${key.length}:${key}=${value}`;
}

/** A value of the metadata under any key, in the form of words: upper and lower case are one. */
export function valueTerm(value: string): Term {
	const folded = value.normalize('NFKC').toLowerCase().trim().replace(/\s+/gu, ' ');
	return `v:${[...folded].slice(0, maxValueLength).join('')}`;
}

/**
 * What a message must have to be found by a text: the text is a value of its metadata, or each part between spaces is
 * one or consists of words of its subject.
 */
export function searchTerms(text: string): Asked[] {
	const whole = valueTerm(text);
	const asked = text
		.trim()
		.split(/\s+/u)
		.flatMap((part): Asked[] => {
			const values = [...new Set([valueTerm(part), whole])];
			const words = wordsOf(part);
			return words.length === 0 ? [values] : words.map(word => [`w:${word}`, ...values]);
		});
	return asked.length > maxQueryTerms ? [whole] : asked;
}

export function tagTerm(tag: string): Term {
	return `t:${tag}`;
}

/**
 * A state that the message's `to` recipient has reached. The message stays listed under it when the state changes, so a
 * reader compares the recipient's state.
 */
export function stateTerm(state: ListedState): Term {
	return `s:${state}`;
}

/** What is accepted or queued is in the queue, and needs no term. */
type ListedState = Exclude<RecipientState, 'accepted' | 'queued'>;

export function isListed(state: RecipientState): state is ListedState {
	return state !== 'accepted' && state !== 'queued';
}

export const listedStates = recipientStates.filter(isListed);

/** Of the mail itself, with angle brackets or without. */
export function messageIdTerm(messageId: string): Term {
	return `i:${messageId.trim().replace(/^<|>$/g, '')}`;
}

/** A message as it is stored: JSON texts, null for nothing; the names of its files. */
type Findable = {
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly attachments: ReadonlyArray<Pick<Attachment, 'filename' | 'contentType'>>;
};

export function termsOf({metadata, tags, attachments}: Findable): Term[] {
	const messageId = submittedId(attachments);
	const pairs = Object.entries<string>(metadata === null ? {} : JSON.parse(metadata));
	const named: string[] = tags === null ? [] : JSON.parse(tags);
	return [
		...pairs.map(([key, value]) => metadataTerm(key, value)),
		...new Set(pairs.filter(([, value]) => value.trim() !== '').map(([, value]) => valueTerm(value))),
		...new Set(named.map(tagTerm)),
		...(messageId === null ? [] : [messageIdTerm(messageId)]),
	];
}
