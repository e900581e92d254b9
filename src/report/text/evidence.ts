import {phaseIn} from '../../bounce/spoken-phase.ts';
import type {Evidence} from '../../mail/bounce.ts';
import {hostIn} from '../reply.ts';

const pair = /(?<![\w.:-])([245]\d\d)[ \t]*[-: ]{1,3}[ \t]*\(?#?([245]\.\d{1,3}\.\d{1,3})(?![\w.])/;
const spoken =
	/(?:^[ \t]*(?:<<<[ \t]*)?|(?:said|says|saying|responded|response|returned|returned was|was|error|code|reply|smtp;|rejected|with|because|reason|:|ERROR_CODE|ResponseCode|\],)[ \t:'"([]+)([245]\d\d)(?=[ \t:,;.'"-]|$)/im;
const detail = /(?<![\w.])([245]\.\d{1,3}\.\d{1,3})(?![\w]|\.\d)/g;
const detailAlone = /(?<![\w.])[245]\.\d{1,3}\.\d{1,3}(?!\w|\.\d)/;
const vague = /^[245]\.(?:0|5)\.0$/;

const longestText = 4096;
// What daemons say behind a reply.
const trailers =
	/\n[ \t]*\n|\n[ \t]*(?:Giving up on|\(Other MXes|I.m not going to try|STARTTLS proto|Generating server|-{3,}|={3,})|\bGiving up on\b/i;

/** What a text about one recipient tells for the rule table: codes, how far the session came, the host that spoke. */
export function evidenceIn(whole: string): Evidence {
	const text = whole.slice(0, longestText);
	const both = pair.exec(text);
	const code = both?.[1] ?? spoken.exec(text)?.[1];
	const details = [...text.matchAll(detail)].map(match => match[1] as string).filter(found => !found.startsWith('2'));
	const enhanced =
		both?.[2] ?? details.find(found => !vague.test(found) && (code === undefined || found[0] === code[0]));
	return {
		phase: phaseIn(text),
		code: code === undefined ? null : Number(code),
		enhanced: enhanced ?? null,
		status: enhanced === undefined ? (details[0] ?? null) : null,
		text,
		host: hostIn(text),
	};
}

/** The reply in a text, from its code to where the daemon goes on with words of its own; the text where there is none. */
export function replyIn(whole: string): string {
	const text = whole.slice(0, longestText);
	const found = pair.exec(text) ?? spoken.exec(text) ?? detailAlone.exec(text);
	if (found === null) {
		return text;
	}
	const start = found.index + found[0].search(/[245]\d\d|[245]\.\d/);
	const reply = text.slice(start);
	return reply.slice(0, trailers.exec(reply)?.index);
}
