import {printable, shortTime, wrapped} from '../../cli/terminal-text.ts';
import type {StoredAttempt} from '../../store/recipients.ts';
import {attemptText} from './timeline-text.ts';

/**
 * Formats an attempt for people: where and when, the step it reached, the full reply and, if stored, the SMTP dialogue.
 * Untrusted text is made safe to print.
 */
export function attemptLines(attempt: StoredAttempt, width: number): string[] {
	const {n, at, dialogue} = attempt;
	const {where, how, reply} = attemptText(attempt);
	return [
		`  ${n}. ${shortTime(at)}  ${printable(where)}`,
		...wrapped(printable(how), width, '     '),
		...reply.flatMap(line => wrapped(printable(line), width, '     ')),
		...(dialogue?.split('\n') ?? []).flatMap(line => dialogueLines(printable(line.trimEnd()), width)),
	];
}

/** Formats a line of the dialogue, `    12 S: 250 Ok`; a long one continues below its text. */
function dialogueLines(line: string, width: number): string[] {
	const prefix = /^ *\d+ [CS*]: /.exec(line)?.[0] ?? '';
	const bar = '     | ';
	const [first = '', ...rest] = wrapped(line.slice(prefix.length), width - bar.length - prefix.length);
	return [`${bar}${prefix}${first}`, ...rest.map(text => `${bar}${' '.repeat(prefix.length)}${text}`)];
}
