import {phaseIn} from '../../bounce/spoken-phase.ts';
import type {Evidence} from '../../mail/bounce.ts';
import {hostIn, replyIn} from '../reply.ts';

const pair = /(?<![\w.:-])([245]\d\d)[ \t]*[-: ]{1,3}[ \t]*\(?#?([245]\.\d{1,3}\.\d{1,3})(?![\w.])/g;
const spoken =
	/(?:^[ \t]*(?:<<<[ \t]*)?|(?:said|says|saying|responded|response|returned|returned was|was|error|code|reply|smtp;|rejected|with|because|reason|:|ERROR_CODE|ResponseCode|\],)[ \t:'"([]+)([245]\d\d)(?=[ \t:,;.'"-]|$)/gim;
const enhancedAlone = /(?<![\w.])[245]\.\d{1,3}\.\d{1,3}(?!\w|\.\d)/;

const longestText = 4096;
// What daemons say behind a reply.
const trailers =
	/\n[ \t]*\n|\n[ \t]*(?:Giving up on|\(Other MXes|I.m not going to try|STARTTLS proto|Generating server|-{3,}|={3,})|\bGiving up on\b/i;

const word = /\p{L}{3}/u;

/** Evidence for the rule table from a text about one recipient: codes, phase of the session, the host that refused. */
export function evidenceIn(whole: string): Evidence {
	const text = whole.slice(0, longestText);
	const {code, enhanced} = replyIn(text);
	return {phase: phaseIn(text), code, enhanced, status: null, text, host: hostIn(text)};
}

/**
 * The reply in a text, from its code to where the daemon continues in its own words. The whole text if it has no reply,
 * or if the code follows the words as in qmail's `The mailbox is full. (#5.1.1)`.
 */
export function replyAlone(whole: string): string {
	const text = whole.slice(0, longestText);
	const found = refusalOf(text, pair) ?? refusalOf(text, spoken) ?? enhancedAlone.exec(text);
	if (found === null) {
		return text;
	}
	const start = found.index + found[0].search(/[245]\d\d|[245]\.\d/);
	const reply = text.slice(start);
	const cut = reply.slice(0, trailers.exec(reply)?.index);
	const line = text.slice(text.lastIndexOf('\n', start) + 1, start);
	const isBehind = (/\(#?$/.test(line) && word.test(line)) || !word.test(cut);
	return isBehind ? text.slice(0, start + cut.length) : cut;
}

/** Transcripts begin with what went well. */
function refusalOf(text: string, codes: RegExp): RegExpExecArray | undefined {
	const found = [...text.matchAll(codes)];
	return found.find(match => !match[1]?.startsWith('2')) ?? found[0];
}
