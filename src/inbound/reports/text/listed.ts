import type {Phase} from '../../../mail/outcome.ts';
import type {ReportAction} from '../../../mail/report.ts';
import {findAddresses, isSameAddress} from '../addresses-in-text.ts';
import type {BounceText} from './bounce-text.ts';

/** One more than may have an effect, so that an excess is noticed. */
export const maxFindings = 101;

/** What a bounce's text says about one recipient. */
export type Finding = {
	/** `null` if the text names no recipient. */
	readonly recipient: string | null;
	/** The address that was sent to, if the text has it: `(expanded from <neko@example.org>)`. */
	readonly originalRecipient?: string;
	/** The text about this recipient alone (R2.3). */
	readonly text: string;
	/** Set if `evidenceIn` cannot derive it from the text. */
	readonly phase?: Phase;
	readonly host?: string;
	/** Failed, unless the text says that the daemon will retry. */
	readonly action?: ReportAction;
};

/** Reads the bounces of one family of mail systems. Returns an empty list for all others. */
export type Detector = (bounce: BounceText) => Finding[];

/** How a text lists recipients: each on its own line, with the reason after or below it. */
type Listing = {
	/** The line that announces the list. Without it, recipients may be anywhere. */
	readonly after?: RegExp;
	/** The text after the last recipient. */
	readonly until?: RegExp;
	/** How a recipient's line begins, if that sets it apart from other lines. */
	readonly line?: RegExp;
	/** The sender's addresses, which are not recipients. */
	readonly except?: readonly string[];
	/** Recipients, in lower case, that any line may name. The text about a recipient starts at its name. */
	readonly known?: ReadonlySet<string>;
};

const labels =
	'recipient(?: address)?|failed recipient|final-recipient|original-recipient|rcpt to|to|addressed to|could not be delivered to|unable to deliver message to|user|unknown user|address|e-?mail(?: address)?|mailbox|undeliverable to|empf[äa]nger|destinataire|destinatario|destinat[áa]rio|宛先|受信者|收件人|받는사람|수신자|alıcı|получатель|адрес';
// X.400 embeds our addresses in its own: `c=de;a= ;p=firm;dda:SMTP=neko@example.org; on …`.
const x400 = /^\s*(?:[a-z]{1,3}=[^;@]{0,64};\s?){1,10}(?:dda:)?(?:smtp=)?$/i;
const recipientPrefix = new RegExp(
	`^[\\s>*•·▪\\-–+]{0,40}(?:(?:${labels})\\s{0,8}[:：]?\\s{0,8})?["'<(\\[*]{0,4}(?:(?:rfc822|smtp|mailto)\\s?[:;]\\s?<?)?$`,
	'iu',
);
// `Neko Kijitora <neko@example.org>`, alone on its line.
const namePrefix =
	/^(?!.{0,60}\b(?:reply|contact|write|please|help|from|questions?|support|by)\b)[^@:;]{1,60}[<(](?:mailto:|smtp:)?$/iu;
// Lines of the SMTP session are about a recipient; they do not start a new one.
const sessionLine = /^\s*(?:>>>|<<<)\s?\w/;
// Such words before an address are its reason.
const reasonPhrase = /unknown|undeliverable|unable|could not|invalid|disabled|full/i;
const origin =
	/\(?(?:(?:ultimately )?generated (?:from|by)|expanded from|originally to|forwarded from|alias of|redirected from|original(?:ly)? (?:address|recipient))[:\s]{1,3}<?["']?/i;
const originPrefix = new RegExp(`${origin.source}$`, 'i');
/** What separates recipients that share the text after the last one. */
const separator = /^[\s,;<>"'()]*(?:(?:and|or|und|et|y|e)\b[\s<"'(]*)?$/i;
const reasonPrefix = /\p{L}{3}[^:]*:[\s<"'([]*$/u;
const word = /\p{L}{3}/u;

/** Returns the text after the first match of a pattern, or `null` if there is no match. */
export function textAfter(text: string, pattern: RegExp): string | null {
	const match = pattern.exec(text);
	return match === null ? null : text.slice(match.index + match[0].length);
}

/**
 * Reads a list of recipients, each with the text about it. Recipients without text share the text after the last of
 * them.
 */
export function readListed(
	text: string,
	{after, until, line = /^/, except = [], known = noKnownRecipients}: Listing = {},
): Finding[] {
	const start = after === undefined ? {index: 0, 0: ''} : after.exec(text);
	if (start === null) {
		return [];
	}
	const rest = text.slice(start.index + start[0].length);
	const list = until === undefined ? rest : rest.slice(0, until.exec(rest)?.index);
	const parts = known.size > 0 ? [list] : splitAtHeadings(list, isListing);
	const read = (part: string) => cutPerRecipient(part, {line, except, known});
	const findings =
		parts.length === 1
			? shareReasons(read(list), text.slice(0, start.index))
			: parts.flatMap(part => read(part).map(cut => withHeading(cut, findHeading(part))));
	return mergeSame(findings);
}

/** Combines a recipient with the reason above it. */
function withHeading({recipient, originalRecipient, text}: Cut, heading: string): Finding {
	return {recipient, ...(originalRecipient && {originalRecipient}), text: `${heading}\n${text}`};
}

function isListing(line: string): boolean {
	return parseRecipients(line).addresses.length > 0;
}

/** Returns the line above the first recipient. */
function findHeading(part: string): string {
	const lines = part.split('\n');
	return lines[lines.findIndex(isListing) - 1] ?? '';
}

/** Splits a text that has reasons above their recipients: each line that ends with a colon starts a part. */
export function splitAtHeadings(text: string, namesRecipient: (line: string) => boolean): string[] {
	const lines = text.split('\n');
	const naming = lines.map(namesRecipient);
	const headings = lines.flatMap((line, index) => (!naming[index] && naming[index + 1] ? [{line, index}] : []));
	if (naming[0] || headings.length < 2 || !headings.every(({line}) => /:[ \t]*$/.test(line))) {
		return [text];
	}
	const starts = headings.map(({index}) => naming.lastIndexOf(true, index) + 1);
	return starts.map((start, i) => lines.slice(start, starts[i + 1]).join('\n'));
}

type Cut = {recipient: string; originalRecipient?: string | undefined; text: string};
/** Recipients named together in a line, and the text about them. */
type NamedRecipients = {readonly addresses: readonly string[]; readonly rest: string};

const noRecipients: NamedRecipients = {addresses: [], rest: ''};
const noKnownRecipients: ReadonlySet<string> = new Set();

function cutPerRecipient(
	text: string,
	{line: startsRecipient, except, known}: Required<Pick<Listing, 'line' | 'except' | 'known'>>,
): Cut[] {
	const cuts: Cut[] = [];
	let indent = Number.POSITIVE_INFINITY;
	for (const line of text.split('\n')) {
		const listed = startsRecipient.test(line) && indentOf(line) <= indent ? parseRecipients(line) : noRecipients;
		const onLine = listed.addresses.length > 1 ? [] : knownOnLine(line, known);
		const hasSeveral = onLine.flatMap(({addresses}) => addresses).length > 1;
		const parts = hasSeveral || listed.addresses.length === 0 ? onLine : splitAtNext(listed);
		const named = parts
			.flatMap(({addresses, rest}) => addresses.map(recipient => ({recipient, rest})))
			.filter(({recipient}) => !isOrigin(line) && !except.some(excluded => isSameAddress(excluded, recipient)));
		for (const {recipient, rest} of named) {
			// Text about a recipient may start with another address, but further indented.
			indent = Math.min(indent, indentOf(line));
			cuts.push({recipient, originalRecipient: originIn(rest), text: rest});
		}
		const current = cuts.at(-1);
		if (named.length === 0 && current !== undefined) {
			current.text += `\n${line}`;
			current.originalRecipient ??= originIn(line);
		}
	}
	return cuts;
}

/**
 * Returns the recipients that a line names anywhere. A single recipient gets the whole line; several get their own
 * parts of it.
 */
function knownOnLine(line: string, known: ReadonlySet<string>): NamedRecipients[] {
	const groups = groupsOn(line, known);
	if (groups.flatMap(({addresses}) => addresses).length < 2) {
		return groups.map(({addresses}) => ({addresses, rest: line}));
	}
	const before = groups.map(({start}, index) => line.slice(groups[index - 1]?.end ?? 0, start));
	const after = groups.map(({end}, index) => line.slice(end, groups[index + 1]?.start));
	const lead = recipientPrefix.test(before[0] ?? '') ? '' : before[0];
	// For example `User unknown: ann@…; message too big: ben@…`.
	const isReasonFirst = lead !== '' && before.every(gap => reasonPrefix.test(gap)) && !word.test(after.at(-1) ?? '');
	const texts = isReasonFirst ? before : after.map((gap, index) => (index === 0 ? `${lead}${gap}` : gap));
	return groups.map(({addresses}, index) => ({addresses, rest: texts[index] ?? ''}));
}

type Group = {readonly addresses: string[]; readonly start: number; end: number};

/** Finds known recipients in a line. Those with only a separator between them form one group. */
function groupsOn(line: string, known: ReadonlySet<string>): Group[] {
	const groups: Group[] = [];
	for (const {address, start, end} of known.size === 0 ? [] : findAddresses(line.slice(0, 1000))) {
		const last = groups.at(-1);
		const isRepeated = last?.addresses.some(earlier => isSameAddress(earlier, address));
		if (
			isRepeated ||
			!known.has(address.toLowerCase()) ||
			originPrefix.test(line.slice(Math.max(0, start - 40), start))
		) {
			continue;
		}
		if (last !== undefined && separator.test(line.slice(last.end, start))) {
			last.addresses.push(address);
			last.end = end;
		} else {
			groups.push({addresses: [address], start, end});
		}
	}
	return groups;
}

/** Splits `ann@…: 550 5.1.1 unknown; ben@…: 550 not today` where the text about the next recipient begins. */
function splitAtNext({addresses, rest}: NamedRecipients): NamedRecipients[] {
	let last = {addresses, start: 0};
	const split: NamedRecipients[] = [];
	for (const {address, start, end} of findAddresses(rest.slice(0, 1000))) {
		const separated = /[;,][\s"'<(]{0,8}$/.exec(rest.slice(Math.max(0, start - 10), start));
		if (separated && /^["'>)]{0,4}\s{0,4}(?:[:：]|[45]\d\d\b)/.test(rest.slice(end, end + 20))) {
			split.push({addresses: last.addresses, rest: rest.slice(last.start, start - separated[0].length)});
			last = {addresses: [address], start: end};
		}
	}
	return [...split, {addresses: last.addresses, rest: rest.slice(last.start)}];
}

function indentOf(line: string): number {
	return line.search(/[^ \t]|$/);
}

/** Returns the addresses at the start of a line, or all of a line that only lists addresses. */
function parseRecipients(line: string): NamedRecipients {
	const found = findAddresses(line.slice(0, 1000));
	const first = found[0];
	if (first === undefined || sessionLine.test(line)) {
		return noRecipients;
	}
	const gaps = found.map(({start}, i) => line.slice(found[i - 1]?.end ?? 0, start));
	const end = line.slice(found.at(-1)?.end);
	if (found.length > 1 && [...gaps, end].every(gap => /^[\s,;<>"'()]*$/.test(gap))) {
		return {addresses: found.map(({address}) => address), rest: ''};
	}
	const rest = line.slice(first.end).replace(/^["'>)\]*]{0,4}(?:<mailto:[^>]{0,320}>)?/, '');
	const prefix = line.slice(0, first.start);
	return (recipientPrefix.test(prefix) &&
		(first.address.includes('.', first.address.lastIndexOf('@')) || /[<"']/.test(prefix))) ||
		x400.test(prefix) ||
		(namePrefix.test(prefix) && /^[\s.,;:>)]*$/.test(rest))
		? {addresses: [first.address], rest: reasonPhrase.test(prefix) ? line : rest}
		: noRecipients;
}

function isOrigin(line: string): boolean {
	return /^\s*\(/.test(line) && origin.test(line.slice(0, 100));
}

/** Returns the address that an alias or a forward redirected to the recipient. */
export function originIn(line: string): string | undefined {
	const match = origin.exec(line.slice(0, 1000));
	return match === null ? undefined : findAddresses(line.slice(match.index, match.index + 400))[0]?.address;
}

function shareReasons(cuts: readonly Cut[], textBefore: string): Finding[] {
	let shared = '';
	const findings: Finding[] = [];
	for (const cut of cuts.toReversed()) {
		shared = /[\p{L}\d]/u.test(cut.text.replace(/\([^)]{0,400}\)/g, match => (origin.test(match) ? '' : match)))
			? cut.text
			: shared;
		const {recipient, originalRecipient} = cut;
		findings.push({recipient, ...(originalRecipient && {originalRecipient}), text: shared || textBefore});
	}
	return findings.reverse();
}

function mergeSame(findings: readonly Finding[]): Finding[] {
	const merged = new Map<string, Finding>();
	for (const finding of findings) {
		const key = (finding.recipient ?? '').toLowerCase();
		const known = merged.get(key);
		merged.set(key, known === undefined ? finding : {...finding, ...known, text: joined(known.text, finding.text)});
	}
	return [...merged.values()];
}

function joined(text: string, addition: string): string {
	return text.includes(addition.trim()) ? text : `${text}\n${addition}`;
}
