import {addressesIn} from './addresses-in-text.ts';
import {type Finding, readListed, splitAtHeadings} from './text/listed.ts';

/** A recipient of a report, as needed to search the text around its fields. */
export type Subject = {
	/** The recipient, and the address that the message was sent to. */
	readonly addresses: readonly string[];
	/** There is no other recipient, so every reply in the text is about this one. */
	readonly isOnlyRecipient: boolean;
	/** Its fields contain a reply, so text shared by several recipients is not needed. */
	readonly hasReply: boolean;
};

/** A paragraph, with what it says about each recipient. */
export type Paragraph = {readonly text: string; readonly listed: readonly Finding[]};

const introduction = /(?:response|error|reason|answer|reply|said|returned|was)\b[^\n]{0,80}:[ \t]*$/i;
/** Quoted header fields of the sender's own message. */
const quotedHeader = /^[ \t]*(?:subject|message-id|date)[ \t]*:/im;
const maxAboutLength = 4096;

/** Splits a text into paragraphs about recipients with these addresses, which are in lower case. */
export function splitParagraphs(text: string, known: ReadonlySet<string>): Paragraph[] {
	const namesKnown = (line: string) => addressesIn(line.slice(0, 1000)).some(name => known.has(name.toLowerCase()));
	return text
		.split(/\n[ \t]*(?:\n[ \t]*)+/)
		.flatMap(paragraph => splitAtHeadings(paragraph, namesKnown))
		.map(paragraph => ({text: paragraph, listed: readListed(paragraph, {known})}));
}

/** Returns what paragraphs say about one recipient: those that name it, and what they introduce. */
export function paragraphsOn(subject: Subject, paragraphs: readonly Paragraph[]): string {
	const {isOnlyRecipient} = subject;
	return paragraphs
		.map((paragraph, index) => {
			const previous = paragraphs[index - 1] ?? {text: '', listed: []};
			const isIntroduced =
				introduction.test(previous.text) && (isOnlyRecipient || isLastNamed(previous, subject));
			const isRelated = isIntroduced || (isOnlyRecipient && introduction.test(firstLine(paragraph.text)));
			const isQuoted = quotedHeader.test(paragraph.text);
			return isQuoted ? '' : textOn(subject, paragraph) || (isRelated ? paragraph.text : '');
		})
		.filter(text => text !== '')
		.join('\n')
		.slice(0, maxAboutLength);
}

/** Returns the text about a recipient, up to where the next one is named. Empty if the paragraph does not name it. */
function textOn({addresses, hasReply}: Subject, {text, listed}: Paragraph): string {
	if (!addresses.some(address => containsAddress(text, address))) {
		return '';
	}
	const own = listed.filter(finding => isOf(finding, addresses));
	if (own.length === listed.length || listed.length < 2 || listed.every(finding => !/\p{L}{3}/u.test(finding.text))) {
		return text;
	}
	const isShared = (finding: Finding) => listed.some(other => other.text === finding.text && !own.includes(other));
	return own
		.filter(finding => !hasReply || !isShared(finding))
		.map(finding => finding.text)
		.join('\n');
}

function isOf({recipient, originalRecipient}: Finding, addresses: readonly string[]): boolean {
	const named = [recipient, originalRecipient].map(address => address?.toLowerCase());
	return addresses.some(address => named.includes(address.toLowerCase()));
}

/** Whether a recipient is the last one named in a paragraph, so that the following text is about it. */
function isLastNamed({text, listed}: Paragraph, {addresses}: Subject): boolean {
	const last = listed.at(-1);
	return last === undefined ? addresses.some(address => containsAddress(text, address)) : isOf(last, addresses);
}

function firstLine(text: string): string {
	return text.split('\n', 1)[0] ?? '';
}

/** Whether a text contains an address that is not merely part of a longer one. */
function containsAddress(text: string, address: string): boolean {
	const lower = text.toLowerCase();
	const lowerAddress = address.toLowerCase();
	for (let start = lower.indexOf(lowerAddress); start !== -1; start = lower.indexOf(lowerAddress, start + 1)) {
		const end = start + lowerAddress.length;
		if (!/[\w.+-]/.test(lower[start - 1] ?? '') && !/^(?:[\w-]|\.\w)/.test(lower.slice(end, end + 2))) {
			return true;
		}
	}
	return false;
}
