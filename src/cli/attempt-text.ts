import type {Phase} from '../mail/outcome.ts';
import type {StoredAttempt} from '../store/message-copies.ts';
import {printable, shortTime, wrapped} from './text.ts';

/**
 * One conversation for people: where and when, how far it came, the reply in full and, where it was kept, what was said.
 * Everything that came from outside is made safe to print.
 */
export function attemptLines(attempt: StoredAttempt, width: number): string[] {
	const {n, at, host, ip, tls, phase, ms, dialogue} = attempt;
	const security = ip === null ? [] : [tls ?? 'no TLS'];
	const end = `${stages[phase]}, ${ms} ms`;
	const where = `${host ?? 'no host'}${ip === null ? '' : ` [${ip}]`}`;
	return [
		`  ${n}. ${shortTime(at)}  ${printable(where)}`,
		...wrapped(printable([...security, end].join(', ')), width, '     '),
		...replyOf(attempt).flatMap(line => wrapped(printable(line), width, '     ')),
		...(dialogue?.split('\n') ?? []).flatMap(line => saidLines(printable(line.trimEnd()), width)),
	];
}

/** `    12 S: 250 Ok`: what is too long goes on under itself. */
function saidLines(line: string, width: number): string[] {
	const head = /^ *\d+ [CS*]: /.exec(line)?.[0] ?? '';
	const bar = '     | ';
	const [first = '', ...rest] = wrapped(line.slice(head.length), width - bar.length - head.length);
	return [`${bar}${head}${first}`, ...rest.map(more => `${bar}${' '.repeat(head.length)}${more}`)];
}

/** The lines of the reply, each with its code. */
function replyOf({code, reply}: StoredAttempt): string[] {
	return reply.split('\n').map(line => (code === null || line.startsWith(String(code)) ? line : `${code} ${line}`));
}

const stages: Readonly<Record<Phase, string>> = {
	route: 'ended before any connection',
	connect: 'ended at the connection',
	greeting: 'ended at the greeting',
	ehlo: 'ended at EHLO',
	starttls: 'ended at STARTTLS',
	auth: 'ended at AUTH',
	mail: 'ended at MAIL FROM',
	rcpt: 'ended at RCPT TO',
	data: 'ended at DATA',
	dot: 'ended after the mail',
};
