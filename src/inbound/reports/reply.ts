import {unprintable} from '../../kit/text.ts';
import type {Evidence} from '../../mail/bounce.ts';
import {phaseIn} from '../../mail/classify-reply.ts';

/** A mail server's reply according to a text. Absent values are `null`. */
export type Reply = {
	readonly code: number | null;
	/** RFC 3463. */
	readonly enhanced: string | null;
	/** The inner reply if the text wraps one, or else the whole text. */
	readonly text: string;
};

const codePair = /(?<![\d.])([245]\d\d)[ \t\-#('"<;,:/]{1,4}([245]\.\d{1,3}\.\d{1,3})(?![.\d])/g;
const lone = /(?<![\d.])([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/;
const leadingCode = /^[^\w]{0,4}([245]\d\d)(?![\d.])/;
const introducedCode =
	/(?:said|returned|responded with|response|was|error|reply|smtp|code|status|reason|command|<<<)[ \t]{0,3}[:;='"(]{0,3}\s{0,3}["'(<#]?([45]\d\d)(?![\d.])/i;
const likelyCode = /(?<![\w.:])(4[25]\d|5[057]\d)(?=[\s\-"'):;,<#]|$)/;
// Codes that mean only that another server replied (Exchange), or nothing at all.
const wrapperCode = /^[45]\.(?:0\.0|0\.350|1\.351)$/;

/** Finds the code and enhanced code in a server's reply, or in what a mailer reports of it. */
export function replyIn(text: string): Reply {
	const inner = unwrap(text);
	const all = [...inner.matchAll(codePair)];
	const isAccepted = leadingCode.exec(inner)?.[1]?.startsWith('2');
	// Transcripts show successful commands before the failed one.
	const refusals = isAccepted ? [] : all.filter(([, code]) => !code?.startsWith('2'));
	const pairs = refusals.length > 0 ? refusals : all;
	const pair = pairs.find(([, , enhanced]) => !wrapperCode.test(enhanced as string)) ?? pairs[0];
	if (pair) {
		return {code: Number(pair[1]), enhanced: pair[2] as string, text: inner};
	}
	const code = (leadingCode.exec(inner) ?? introducedCode.exec(inner) ?? likelyCode.exec(inner))?.[1];
	return {code: code === undefined ? null : Number(code), enhanced: lone.exec(inner)?.[1] ?? null, text: inner};
}

/** Unwraps Exchange's `550 5.1.351 Remote server returned unknown recipient -> 550 5.1.1 …`. */
function unwrap(text: string): string {
	const inner = /remote server returned[^\n]{0,160}?->[ \t]*([\s\S]+)/i.exec(text)?.[1];
	return inner !== undefined && /[245]\d\d/.test(inner) ? inner : text;
}

const hostPatterns: readonly RegExp[] = [
	/while\s{1,8}talking\s{1,8}to\s{1,8}\[?([\w.-]+\.[a-z]{2,}|[\d.]{7,15})/i,
	/\bhost:?\s{1,8}([\w.-]+\.[a-z]{2,})\s{0,8}[[(:]/i,
	/\bhost:?\s{1,8}([\w.-]+\.[a-z]{2,})\b/i,
	/(?:server|by|from|system:|dns;) ?<?([\w-]+(?:\.[\w-]+)+)\.? ?[[(>]/i,
	/(?:remote host|host|server) \[?((?:\d{1,3}\.){3}\d{1,3})\b/i,
	/^[ \t]*([\w-]+(?:\.[\w-]+){1,8})\.? ?\[[\d.a-f:]{3,45}\]/im,
	/^((?:\d{1,3}\.){3}\d{1,3}) (?:does not like|failed after)/im,
	/^Connected to ((?:\d{1,3}\.){3}\d{1,3}|[\w.-]+) but/im,
];

/** Returns the mail server that refused according to a text, or `null` if it names none. */
export function hostIn(text: string): string | null {
	for (const pattern of hostPatterns) {
		const host = pattern.exec(text)?.[1];
		if (host) {
			return host.toLowerCase().slice(0, 253);
		}
	}
	return null;
}

const bothCodes = /(?<![\w.:-])([245]\d\d)[ \t]*[-: ]{1,3}[ \t]*\(?#?([245]\.\d{1,3}\.\d{1,3})(?![\w.])/g;
const codeAfterWord =
	/(?:^[ \t]*(?:<<<[ \t]*)?|(?:said|says|saying|responded|response|returned|returned was|was|error|code|reply|smtp;|rejected|with|because|reason|:|ERROR_CODE|ResponseCode|\],)[ \t:'"([]+)([245]\d\d)(?=[ \t:,;.'"-]|$)/gim;
const enhancedCode = /(?<![\w.])[245]\.\d{1,3}\.\d{1,3}(?!\w|\.\d)/;

const maxTextLength = 4096;
// Text that daemons append to a reply.
const trailer =
	/\n[ \t]*\n|\n[ \t]*(?:Giving up on|\(Other MXes|I.m not going to try|STARTTLS proto|Generating server|-{3,}|={3,})|\bGiving up on\b/i;

const wordPattern = /\p{L}{3}/u;

/** Extracts evidence for the rule table from a text about one recipient: codes, SMTP phase and mail server. */
export function evidenceIn(input: string): Evidence {
	const text = input.slice(0, maxTextLength);
	const {code, enhanced} = replyIn(text);
	return {phase: phaseIn(text), code, enhanced, status: null, text, host: hostIn(text)};
}

/**
 * Returns the reply in a text, from its code to where the daemon continues with its own text. Returns the whole text if
 * it has no reply, or if the code comes last, as in qmail's `The mailbox is full. (#5.1.1)`.
 */
export function replyAlone(input: string): string {
	const text = input.slice(0, maxTextLength);
	const match = findRefusal(text, bothCodes) ?? findRefusal(text, codeAfterWord) ?? enhancedCode.exec(text);
	if (match === null) {
		return text;
	}
	const start = match.index + match[0].search(/[245]\d\d|[245]\.\d/);
	const reply = text.slice(start);
	const refusal = reply.slice(0, trailer.exec(reply)?.index);
	const lineStart = text.slice(text.lastIndexOf('\n', start) + 1, start);
	const isCodeLast = (/\(#?$/.test(lineStart) && wordPattern.test(lineStart)) || !wordPattern.test(refusal);
	return isCodeLast ? text.slice(0, start + refusal.length) : refusal;
}

/** Skips successful replies, with which transcripts begin. */
function findRefusal(text: string, codes: RegExp): RegExpExecArray | undefined {
	const matches = [...text.matchAll(codes)];
	return matches.find(match => !match[1]?.startsWith('2')) ?? matches[0];
}

const unsafe = new RegExp(`[${unprintable}\\s]+`, 'gu');

const maxReasonLength = 1024;

// What separates a name from the text, or underlines a heading.
const leadingSeparators = /^(?:[\s:;.,>)\]]|[-=*_#]{3,})+/;

/** Returns text from a server or a person as one line that is safe to store and print, at most 1,024 characters. */
export function findReason(text: string): string {
	// Cut generously first, because runs of white space collapse.
	const line = text
		.slice(0, 8 * maxReasonLength)
		.replace(unsafe, ' ')
		.replace(leadingSeparators, '')
		.trim();
	return line.length <= maxReasonLength
		? line
		: line
				.slice(0, maxReasonLength)
				.replace(/[\ud800-\udbff]$/, '')
				.trimEnd();
}
