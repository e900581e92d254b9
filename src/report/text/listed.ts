import type {Phase} from '../../mail/outcome.ts';
import type {ReportAction} from '../../mail/report.ts';
import {findAddresses, sameAddress} from '../addresses-in-text.ts';
import type {BounceText} from './bounce-text.ts';

/** One more than may have an effect: it shows that there are more. */
export const mostFindings = 101;

/** What a bounce's text says of one recipient. */
export type Finding = {
	/** Null: the text names no recipient. */
	readonly recipient: string | null;
	/** The address that was sent to, if the text has it: `(expanded from <neko@example.org>)`. */
	readonly originalRecipient?: string;
	/** The words about this recipient alone (R2.3). */
	readonly text: string;
	/** If `evidenceIn` cannot derive it from the text. */
	readonly phase?: Phase;
	readonly host?: string;
	/** Failed, unless the text says that the daemon goes on trying. */
	readonly action?: ReportAction;
};

/** Reads the bounces of one family of mail systems; an empty list for all others. */
export type Detector = (bounce: BounceText) => Finding[];

/** Where in a text recipients stand, each on a line of its own with its reason behind or below. */
type Listing = {
	/** The line that announces them; without it they may stand anywhere. */
	readonly after?: RegExp;
	/** What comes after the last one. */
	readonly until?: RegExp;
	/** How a recipient's line begins, if that distinguishes it from other lines. */
	readonly line?: RegExp;
	/** The sender's addresses, which are not recipients. */
	readonly except?: readonly string[];
};

const labels =
	'recipient(?: address)?|failed recipient|final-recipient|original-recipient|rcpt to|to|addressed to|could not be delivered to|unable to deliver message to|user|unknown user|address|e-?mail(?: address)?|mailbox|undeliverable to|empf[äa]nger|destinataire|destinatario|destinat[áa]rio|宛先|受信者|收件人|받는사람|수신자|alıcı|получатель|адрес';
// X.400 puts ours into its own: `c=de;a= ;p=firm;dda:SMTP=neko@example.org; on …`.
const x400 = /^\s*(?:[a-z]{1,3}=[^;@]{0,64};\s?){1,10}(?:dda:)?(?:smtp=)?$/i;
const before = new RegExp(
	`^[\\s>*•·▪\\-–+]{0,40}(?:(?:${labels})\\s{0,8}[:：]?\\s{0,8})?["'<(\\[*]{0,4}(?:(?:rfc822|smtp|mailto)\\s?[:;]\\s?<?)?$`,
	'iu',
);
// `Neko Kijitora <neko@example.org>`, alone on its line.
const named =
	/^(?!.{0,60}\b(?:reply|contact|write|please|help|from|questions?|support|by)\b)[^@:;]{1,60}[<(](?:mailto:|smtp:)?$/iu;
// What was said in the session is about a recipient, it does not begin one.
const command = /^\s*(?:>>>|<<<)\s?\w/;
// Before an address these words are its reason.
const telling = /unknown|undeliverable|unable|could not|invalid|disabled|full/i;
const origin =
	/\(?(?:(?:ultimately )?generated (?:from|by)|expanded from|originally to|forwarded from|alias of|redirected from|original(?:ly)? (?:address|recipient))[:\s]{1,3}<?["']?/i;

/** What follows the first match of a pattern; null if the text has no match. */
export function behind(text: string, pattern: RegExp): string | null {
	const found = pattern.exec(text);
	return found === null ? null : text.slice(found.index + found[0].length);
}

/** The recipients of a list, each with the words that are about it; those without any share what comes after the last of them. */
export function readListed(text: string, {after, until, line = /^/, except = []}: Listing = {}): Finding[] {
	const start = after === undefined ? {index: 0, 0: ''} : after.exec(text);
	if (start === null) {
		return [];
	}
	const rest = text.slice(start.index + start[0].length);
	const listed = cutPerRecipient(until === undefined ? rest : rest.slice(0, until.exec(rest)?.index), line, except);
	const findings = shareReasons(listed, text.slice(0, start.index));
	return mergeSame(findings);
}

type Cut = {recipient: string; originalRecipient?: string | undefined; text: string};

const none = {addresses: [], rest: ''};

function cutPerRecipient(text: string, begins: RegExp, except: readonly string[]): Cut[] {
	const cuts: Cut[] = [];
	let indent = Number.POSITIVE_INFINITY;
	for (const line of text.split('\n')) {
		const {addresses, rest} = begins.test(line) && indentOf(line) <= indent ? recipientsOf(line) : none;
		const named = isOrigin(line) ? [] : addresses.filter(address => !except.some(one => sameAddress(one, address)));
		for (const recipient of named) {
			// What is about a recipient may begin with an address too, further in.
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

function indentOf(line: string): number {
	return line.search(/[^ \t]|$/);
}

/** The addresses at the beginning of a line, or of a line that is a list of addresses. */
function recipientsOf(line: string): {addresses: string[]; rest: string} {
	const found = findAddresses(line.slice(0, 1000));
	const first = found[0];
	if (first === undefined || command.test(line)) {
		return none;
	}
	const between = found.map(({start}, i) => line.slice(found[i - 1]?.end ?? 0, start));
	const last = line.slice(found.at(-1)?.end);
	if (found.length > 1 && [...between, last].every(gap => /^[\s,;<>"'()]*$/.test(gap))) {
		return {addresses: found.map(({address}) => address), rest: ''};
	}
	const rest = line.slice(first.end).replace(/^["'>)\]*]{0,4}(?:<mailto:[^>]{0,320}>)?/, '');
	const ahead = line.slice(0, first.start);
	return (before.test(ahead) && (first.address.includes('.', first.address.lastIndexOf('@')) || /[<"']/.test(ahead))) ||
		x400.test(ahead) ||
		(named.test(ahead) && /^[\s.,;:>)]*$/.test(rest))
		? {addresses: [first.address], rest: telling.test(ahead) ? line : rest}
		: none;
}

function isOrigin(line: string): boolean {
	return /^\s*\(/.test(line) && origin.test(line.slice(0, 100));
}

/** The address that a recipient came from by an alias or a forward. */
export function originIn(line: string): string | undefined {
	const found = origin.exec(line.slice(0, 1000));
	return found === null ? undefined : findAddresses(line.slice(found.index, found.index + 400))[0]?.address;
}

function shareReasons(cuts: readonly Cut[], ahead: string): Finding[] {
	let shared = '';
	const findings: Finding[] = [];
	for (const cut of cuts.toReversed()) {
		shared = /[\p{L}\d]/u.test(cut.text.replace(/\([^)]{0,400}\)/g, match => (origin.test(match) ? '' : match)))
			? cut.text
			: shared;
		const {recipient, originalRecipient} = cut;
		findings.push({recipient, ...(originalRecipient && {originalRecipient}), text: shared === '' ? ahead : shared});
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

function joined(one: string, other: string): string {
	return one.includes(other.trim()) ? one : `${one}\n${other}`;
}
