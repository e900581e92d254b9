import {addressesIn} from './addresses-in-text.ts';
import {type Finding, readListed, splitAtHeadings} from './text/listed.ts';

/** A recipient of a report, as the words around its fields are searched. */
export type Subject = {
	/** The recipient and the address that was sent to. */
	readonly addresses: readonly string[];
	/** There is no other recipient, so every reply in the text is about this one. */
	readonly only: boolean;
	/** Its fields hold a reply of their own, so words that several recipients share are not needed. */
	readonly hasReply: boolean;
};

/** A paragraph, with what it says of each recipient. */
export type Paragraph = {readonly text: string; readonly listed: readonly Finding[]};

const introduction = /(?:response|error|reason|answer|reply|said|returned|was)\b[^\n]{0,80}:[ \t]*$/i;
/** What the sender wrote himself, quoted. */
const quotedHeader = /^[ \t]*(?:subject|message-id|date)[ \t]*:/im;
const maxAboutLength = 4096;

/** The paragraphs of a text about recipients with these addresses, which are in lower case. */
export function paragraphsOf(said: string, known: ReadonlySet<string>): Paragraph[] {
	const isNaming = (line: string) => addressesIn(line.slice(0, 1000)).some(one => known.has(one.toLowerCase()));
	return said
		.split(/\n[ \t]*(?:\n[ \t]*)+/)
		.flatMap(paragraph => splitAtHeadings(paragraph, isNaming))
		.map(text => ({text, listed: readListed(text, {known})}));
}

/** What paragraphs say about one recipient: those that name it, with what they introduce. */
export function paragraphsOn(subject: Subject, paragraphs: readonly Paragraph[]): string {
	const {only} = subject;
	return paragraphs
		.map((paragraph, index) => {
			const before = paragraphs[index - 1] ?? {text: '', listed: []};
			const follows = introduction.test(before.text) && (only || endsWith(before, subject));
			const isWhole = follows || (only && introduction.test(firstLine(paragraph.text)));
			const isQuoted = quotedHeader.test(paragraph.text);
			return isQuoted ? '' : wordsOn(subject, paragraph) || (isWhole ? paragraph.text : '');
		})
		.filter(words => words !== '')
		.join('\n')
		.slice(0, maxAboutLength);
}

/** The words about a recipient in a paragraph end where those about the next one begin. Empty: it is not named. */
function wordsOn({addresses, hasReply}: Subject, {text: whole, listed}: Paragraph): string {
	if (!addresses.some(address => names(whole, address))) {
		return '';
	}
	const own = listed.filter(finding => isOf(finding, addresses));
	if (own.length === listed.length || listed.length < 2 || listed.every(({text}) => !/\p{L}{3}/u.test(text))) {
		return whole;
	}
	const isShared = ({text}: Finding) => listed.some(other => other.text === text && !own.includes(other));
	return own
		.filter(finding => !hasReply || !isShared(finding))
		.map(({text}) => text)
		.join('\n');
}

function isOf({recipient, originalRecipient}: Finding, addresses: readonly string[]): boolean {
	const stated = [recipient, originalRecipient].map(one => one?.toLowerCase());
	return addresses.some(address => stated.includes(address.toLowerCase()));
}

/** Whether a recipient is the last one that a paragraph names, so that what follows is about it. */
function endsWith({text, listed}: Paragraph, {addresses}: Subject): boolean {
	const last = listed.at(-1);
	return last === undefined ? addresses.some(address => names(text, address)) : isOf(last, addresses);
}

function firstLine(text: string): string {
	return text.split('\n', 1)[0] ?? '';
}

/** Whether a text holds an address, and not only a longer one that ends or begins with it. */
function names(text: string, address: string): boolean {
	const lower = text.toLowerCase();
	const wanted = address.toLowerCase();
	for (let at = lower.indexOf(wanted); at !== -1; at = lower.indexOf(wanted, at + 1)) {
		const end = at + wanted.length;
		if (!/[\w.+-]/.test(lower[at - 1] ?? '') && !/^(?:[\w-]|\.\w)/.test(lower.slice(end, end + 2))) {
			return true;
		}
	}
	return false;
}
