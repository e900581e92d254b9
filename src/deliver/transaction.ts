import {setImmediate as turn} from 'node:timers/promises';
import {bufferOf} from '../kit/text.ts';
import type {Asked, Phase, SmtpReply} from '../mail/outcome.ts';
import type {Precedence, Terms} from '../mail/route.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import type {Extensions, Session} from './open-session.ts';
import type {Answer, SmtpConnection} from './smtp-connection.ts';
import {readable, type Stop, stopped} from './verdict.ts';

/** One recipient of a message, ready to be delivered. */
export type Delivery = {
	readonly recipientId: string;
	/** The recipient's domain as an A-label, lower case. */
	readonly destination: string;
	readonly envelope: {
		/** The return path; empty: the null reverse-path. */
		readonly from: string;
		/** The validated address; its domain is an A-label. */
		readonly to: string;
		/**
		 * It, or an address in the headers, is not ASCII: only a host that offers SMTPUTF8 may get the mail (RFC 6531).
		 */
		readonly smtputf8: boolean;
	};
	/** Envelope id (RFC 3461 §4.4), comes back in reports. */
	readonly ref: string;
	readonly terms: Terms;
	/** Whose mail it is: workspaces take turns for connections. */
	readonly workspaceId: string;
	/** Absent: it waits its turn, and may have any connection. */
	readonly precedence?: Precedence;
	/** The complete message: CRLF, 7-bit unless `smtputf8`, not dot-stuffed. */
	readonly data: Uint8Array;
	/** Which try this is, from 1. */
	readonly attempt: number;
	/** Addresses that earlier tries asked, oldest first, the last 50; absent: none. */
	readonly asked?: readonly Asked[];
	/** End of the lifetime, milliseconds since the epoch. After it no further host is asked. */
	readonly endsAt: number;
	/** The send expires: then a conversation that has not come to the data ends as well. */
	readonly expires?: true;
	/** Nothing leaves the machine (test keys). Mail to `simulator.test` is always simulated. */
	readonly simulated: boolean;
	/** An earlier try was deferred as `unknown_domain`, long enough ago: a second such answer is final. */
	readonly nxdomainBefore?: boolean;
	/** Likewise as `no_address`. */
	readonly noAddressBefore?: boolean;
};

export type Accepted = {readonly by: 'acceptance'; readonly phase: 'dot'; readonly reply: SmtpReply};

export type Transaction = {
	readonly end: Accepted | Stop;
	/** MAIL, RCPT and DATA were sent together. */
	readonly grouped: boolean;
	/** What the session needs before the next mail: nothing, RSET, an empty message and RSET; or it is at its end. */
	readonly after: 'ready' | 'reset' | 'dot' | 'over';
};

type TransactionOptions = {
	readonly notify: Notify;
	/** No command before the reply to the last one, even if the host offers PIPELINING. */
	readonly lockStep: boolean;
};

type TransactionWatch = {
	/** The host answered MAIL FROM with 2xx. */
	readonly senderAccepted: () => void;
	/** From here on the mail may be delivered: let it finish. */
	readonly dataBegins: () => void;
};

const blockSize = 64 * 1024;
/** Says that the server ends the connection, and nothing of the mail. */
const leaving = 221;
const positive = (code: number): boolean => code >= 200 && code < 300;
const outOfPlace = (answer: Answer): boolean => !('lost' in answer) && answer.code < 400;
const refuses = (answer: Answer): boolean => !('lost' in answer) && answer.code >= 400;

/** Sends one mail to one recipient over an open session (RFC 5321 §3.3; commands grouped as RFC 2920 allows). */
export async function transact(
	session: Session,
	job: Delivery,
	{notify, lockStep}: TransactionOptions,
	timeouts: SmtpTimeouts,
	watch: TransactionWatch,
): Promise<Transaction> {
	const {connection, extensions} = session;
	const unfit = unfitness(job, session);
	if (unfit !== null) {
		return {end: unfit, grouped: false, after: 'ready'};
	}
	session.mails += 1;
	const mail = mailCommand(job, extensions);
	const rcpt = rcptCommand(job, extensions, notify);
	const together = extensions.pipelining && !lockStep;
	connection.write([together ? `${mail}${rcpt}DATA\r\n` : mail], together ? 3 : 1);
	const grouped = together && connection.lost() === null;
	const refused = async (phase: Phase, answer: Answer, left: readonly Phase[]) => {
		session.refusals += phase !== 'mail' && refuses(answer) ? 1 : 0;
		const end =
			grouped && left.length > 0
				? await refusal(connection, phase, answer, left, timeouts.rset)
				: await loneRefusal(session, phase, answer, timeouts);
		return {grouped, ...end};
	};

	const toMail = await connection.read(timeouts.mail);
	if ('lost' in toMail || !positive(toMail.code)) {
		return await refused('mail', toMail, ['rcpt', 'data']);
	}
	watch.senderAccepted();
	if (!grouped) {
		connection.write([rcpt], 1);
	}
	const toRcpt = await connection.read(timeouts.rcpt);
	if ('lost' in toRcpt || !positive(toRcpt.code)) {
		return await refused('rcpt', toRcpt, ['data']);
	}
	if (!grouped) {
		connection.write(['DATA\r\n'], 1);
	}
	const toData = await connection.read(timeouts.data);
	if ('lost' in toData || toData.code !== 354) {
		return await refused('data', toData, []);
	}
	watch.dataBegins();
	const dotSent = await sendData(connection, job.data, timeouts.block);
	let toDot = await connection.read(timeouts.dot);
	if (dotSent && !('lost' in toDot) && toDot.code === 354) {
		connection.write([], 1); // It belongs to DATA, and was said twice.
		toDot = await connection.read(timeouts.dot);
	}
	if (!dotSent) {
		connection.fail('the server spoke before the end of the data');
		return {end: stopped('data', toDot), grouped, after: 'over'};
	}
	if (!('lost' in toDot) && positive(toDot.code) && toDot.code !== leaving) {
		session.taken += 1;
		session.refusals = 0;
		return {end: {by: 'acceptance', phase: 'dot', reply: readable(toDot)}, grouped, after: 'ready'};
	}
	if (!('lost' in toDot) && outOfPlace(toDot)) {
		// It neither takes nor refuses the mail: the outcome is unknown.
		connection.fail(`an answer out of place: ${toDot.code} ${toDot.lines.join(' ')}`);
		return {end: stopped('dot', connection.lost() ?? toDot), grouped, after: 'over'};
	}
	return await refused('dot', toDot, []);
}

/**
 * The end of a transaction by an answer with none behind it. What the host says unasked just before it answers passes
 * for the answer, and would refuse the mail for good, or send again what was taken. So QUIT is said: only that is
 * answered with 221, and where another reply comes first, the server is out of step (one that closes behind it meant
 * QUIT). Before the data an earlier mail that was taken shows that it is in step.
 */
async function loneRefusal(
	{connection, taken}: Session,
	phase: Phase,
	answer: Answer,
	timeouts: SmtpTimeouts,
): Promise<Omit<Transaction, 'grouped'>> {
	const isProven = taken > 0 && (phase === 'mail' || phase === 'rcpt');
	const least = phase === 'dot' ? 400 : 500;
	if ('lost' in answer || answer.code < least || isProven || connection.lost() !== null) {
		return await refusal(connection, phase, answer, [], timeouts.rset);
	}
	connection.write(['QUIT\r\n'], 2);
	const next = await connection.read(timeouts.quit);
	if (!('lost' in next) && next.code < 500 && next.code !== leaving) {
		if (next.code === 354 || !('lost' in (await connection.read(timeouts.quit)))) {
			const text = `the server gave a reply too many: ${answer.code} ${answer.lines.join(' ').slice(0, 200)}`;
			connection.fail(text, 'outOfStep');
			return {end: stopped(phase, connection.lost() ?? answer), after: 'over'};
		}
	}
	const lost = connection.lost();
	connection.fail('quit');
	return {end: stopped(phase, lost?.cause === 'outOfStep' ? lost : answer), after: 'over'};
}

/**
 * The end of a transaction that an answer stops short of the data. The replies to what was sent with the refused
 * command (`left`) show whether the refusal was its answer: a host that says one thing too many is out of step, and a
 * refusal then belongs to something else. RFC 2920 §3.1: a server may say 354 although it refused the recipient.
 */
async function refusal(
	connection: SmtpConnection,
	phase: Phase,
	answer: Answer,
	left: readonly Phase[],
	timeoutMs: number,
): Promise<Omit<Transaction, 'grouped'>> {
	let last = answer;
	for (const next of left) {
		if ('lost' in last || last.code === 421 || outOfPlace(answer)) {
			break;
		}
		last = await connection.read(timeoutMs);
		if (!('lost' in last) && cannotAnswer(next, last.code)) {
			return {end: stopped(next, last), after: 'over'};
		}
	}
	const lost = connection.lost();
	if (lost?.cause === 'outOfStep') {
		return {end: stopped(phase, lost), after: 'over'};
	}
	if ('lost' in last || last.code === 421 || outOfPlace(answer)) {
		return {end: stopped(phase, answer), after: 'over'};
	}
	return {end: stopped(phase, answer), after: last.code === 354 ? 'dot' : 'reset'};
}

/** RFC 5321 §4.3.2: only DATA is answered with 354, and with no 2xx. */
function cannotAnswer(phase: Phase, code: number): boolean {
	return phase === 'data' ? code < 400 && code !== 354 : code >= 300 && code < 400;
}

/** What can be seen before a byte of the mail is sent. */
function unfitness(job: Delivery, {extensions}: Session): Stop | null {
	if (job.envelope.smtputf8 && !extensions.smtputf8) {
		return {
			by: 'utf8',
			phase: 'ehlo',
			text: 'the host does not offer SMTPUTF8, which an address of this mail needs',
		};
	}
	const {largest} = extensions;
	return largest !== null && job.data.length > largest
		? {by: 'size', phase: 'ehlo', text: `the host takes ${largest} octets, the message has ${job.data.length}`}
		: null;
}

/** Sends the message and its final dot. False: the server replied or closed before the dot was sent. */
async function sendData(connection: SmtpConnection, data: Uint8Array, blockMs: number): Promise<boolean> {
	const pieces = dotStuffed(data);
	if (connection.lost() !== null) {
		return false;
	}
	if (data.length <= blockSize) {
		connection.write(pieces, 1);
		return connection.lost() === null;
	}
	const final = pieces.pop() as Buffer;
	let expected = 1; // The reply to the dot, which may come too early.
	for (const piece of pieces) {
		for (let start = 0; start < piece.length; start += blockSize) {
			const flowing = connection.write([piece.subarray(start, start + blockSize)], expected);
			expected = 0;
			if (!flowing) {
				await connection.drained(blockMs);
			}
			await turn(); // The system may take all of it at once: what the host says must be read meanwhile.

			if (connection.hasReply() || connection.lost() !== null) {
				return false;
			}
		}
	}
	connection.write([final], expected);
	return true;
}

/**
 * Brings a session back to where the next mail can begin. False: end the session.
 * The outcome is known already, so none of this gets more time than RSET.
 */
export async function recover({connection}: Session, {after}: Transaction, timeouts: SmtpTimeouts): Promise<boolean> {
	if (after === 'ready' || after === 'over') {
		return after === 'ready' && connection.lost() === null;
	}
	// RFC 2920 §3.1: a server that waits for data although it refused the recipient is given an empty message.
	if (after === 'dot') {
		connection.write(['.\r\n'], 1);
		await connection.read(timeouts.rset);
	}
	connection.write(['RSET\r\n'], 1);
	const reply = await connection.read(timeouts.rset);
	return !('lost' in reply) && reply.code === 250;
}

const lineFeedDot = Buffer.from('\n.');
const carriageReturnDot = Buffer.from('\r.');
const dot = Buffer.from('.');
const lineEnd = Buffer.from('\r\n');
const end = Buffer.from('.\r\n');
const lineEndAndEnd = Buffer.from('\r\n.\r\n');

/**
 * The pieces of a message as they go over the wire: dots at line starts doubled (RFC 5321 §4.5.2), the final dot last.
 * A dot after a bare CR or LF is doubled too: such lines do not occur in mail of ours, and a lax server must not find
 * the end of the data in one (SMTP smuggling). A message without such dots is passed on as it is, uncopied.
 */
export function dotStuffed(data: Uint8Array): Buffer[] {
	const bytes = bufferOf(data);
	const pieces: Buffer[] = [];
	let start = 0;
	if (bytes[0] === 46) {
		pieces.push(dot);
	}
	for (const at of dotPositions(bytes)) {
		pieces.push(bytes.subarray(start, at), dot);
		start = at;
	}
	pieces.push(start === 0 ? bytes : bytes.subarray(start), bytes.subarray(-2).equals(lineEnd) ? end : lineEndAndEnd);
	return pieces;
}

/** Where a dot follows a CR or an LF, in order. */
function dotPositions(bytes: Buffer): number[] {
	const positions: number[] = [];
	for (const pattern of [lineFeedDot, carriageReturnDot]) {
		for (let at = bytes.indexOf(pattern); at !== -1; at = bytes.indexOf(pattern, at + 2)) {
			positions.push(at + 1);
		}
	}
	return positions.sort((a, b) => a - b);
}

/** Which reports the recipient's side is asked for (RFC 3461 §4.1). */
export type Notify = 'FAILURE' | 'SUCCESS,FAILURE';

const plainPath = /^[\x21-\x3b\x3d\x3f-\x7e]*$/;
const utf8Path = /^[\x21-\x3b\x3d\x3f-\x7e\u00a0-\u{10ffff}]*$/u;

/** Whether the addresses can stand between `<` and `>` and be nothing else; the last wall against command injection. */
export function isSafeEnvelope({from, to, smtputf8}: Delivery['envelope']): boolean {
	const path = smtputf8 ? utf8Path : plainPath;
	return to !== '' && path.test(to) && plainPath.test(from);
}

/** The MAIL command with the parameters that the server knows. */
function mailCommand({envelope, ref, data}: Delivery, {size, smtputf8, dsn}: Extensions): string {
	return (
		`MAIL FROM:<${envelope.from}>` +
		(size ? ` SIZE=${data.length}` : '') +
		(smtputf8 && envelope.smtputf8 ? ' SMTPUTF8' : '') +
		(dsn && ref !== '' ? ` RET=HDRS ENVID=${xtext(ref)}` : '') +
		'\r\n'
	);
}

/** The RCPT command. ORCPT makes reports name the address that we wrote to, through all aliases. */
function rcptCommand({envelope}: Delivery, {dsn}: Extensions, notify: Notify): string {
	const isAscii = plainPath.test(envelope.to);
	const original = isAscii ? `rfc822;${xtext(envelope.to)}` : `utf-8;${unitext(envelope.to)}`;
	return `RCPT TO:<${envelope.to}>${dsn ? ` NOTIFY=${notify} ORCPT=${original}` : ''}\r\n`;
}

/** RFC 3461 §4: what is not a plain printable character becomes `+` and two hexadecimal digits. */
function xtext(text: string): string {
	return Buffer.from(text)
		.toString('latin1')
		.replace(
			/[^\x21-\x2a\x2c-\x3c\x3e-\x7e]/g,
			byte => `+${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
		);
}

/** RFC 6533 §3, utf-8-addr-unitext: UTF-8 as it is, what would break the parameter as `\x{…}`. */
function unitext(text: string): string {
	return text.replace(/[\x00-\x20+=\\\x7f]/g, byte => `\\x{${byte.charCodeAt(0).toString(16).toUpperCase()}}`);
}
