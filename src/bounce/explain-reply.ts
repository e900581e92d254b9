import type {Classify, Judgement} from '../mail/bounce.ts';
import type {Phase} from '../mail/outcome.ts';
import {smtpReply} from '../mail/smtp-reply.ts';

/** A reply and how it is read. */
export type ExplainedReply = Judgement & {
	readonly code: number | null;
	readonly enhanced: string | null;
	readonly phase: Phase;
	readonly host: string | null;
	/** The reply's text without its codes at the beginnings of lines. */
	readonly text: string;
};

const lineCode = /^\s*([245]\d\d)(?:[ -]|$)/;

/**
 * Reads a reply as a person copies it out of a log, `550 5.1.1 no such user`, all its lines, in the phase in which it came
 * (`rcpt` if left out) and by the host that gave it.
 */
export function explainReply(
	classify: Classify,
	reply: string,
	{phase = 'rcpt', mx = null}: {readonly phase?: Phase; readonly mx?: string | null} = {},
): ExplainedReply {
	const lines = reply.trim().split(/\r\n|[\r\n]/);
	const code = lineCode.exec(lines[0] ?? '')?.[1];
	const read = smtpReply(
		Number(code ?? 0),
		lines.map(line => line.replace(lineCode, '')),
	);
	const {enhanced, text} = read;
	const known = {phase, code: code === undefined ? null : Number(code), enhanced, host: mx};
	return {...known, text, ...classify({...known, status: null, text})};
}
