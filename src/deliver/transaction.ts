import {setImmediate as yieldToEvents} from 'node:timers/promises';
import {toBuffer} from '../kit/text.ts';
import type {Phase, PreviousAttempt, SmtpReply} from '../mail/outcome.ts';
import type {Precedence, Terms} from '../mail/route.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import type {Extensions, Session} from './open-session.ts';
import type {ReplyOrLost, SmtpConnection} from './smtp-connection.ts';
import {readable, type Stop, stopped} from './verdict.ts';

/** One recipient of a message, ready to be delivered. */
export type Delivery = {
	readonly recipientId: string;
	/** The recipient's domain as an A-label, lower case. */
	readonly destination: string;
	readonly envelope: {
		/** The return path, or empty for the null reverse-path. */
		readonly from: string;
		/** The validated address. Its domain is an A-label. */
		readonly to: string;
		/**
		 * This address or one in the headers is not ASCII, so only a server that offers SMTPUTF8 may get the message
		 * (RFC 6531).
		 */
		readonly smtputf8: boolean;
	};
	/** The envelope id (RFC 3461 §4.4), which bounces carry back. */
	readonly ref: string;
	readonly terms: Terms;
	/** The message's workspace. Workspaces take turns for connections. */
	readonly workspaceId: string;
	/** Absent for a message of normal priority that may use any connection. */
	readonly precedence?: Precedence;
	/** The complete message, with CRLF line ends, 7-bit unless `smtputf8`, not dot-stuffed. */
	readonly data: Uint8Array;
	/** The number of this attempt, starting at 1. */
	readonly attempt: number;
	/** The last 50 addresses contacted in earlier attempts, oldest first. */
	readonly previousAttempts?: readonly PreviousAttempt[];
	/** End of the lifetime, in milliseconds since the epoch. After it, no further mail server is contacted. */
	readonly endsAt: number;
	/** The send has an expiry: a conversation that has not reached the data by then is ended as well. */
	readonly expires?: true;
	/** Nothing leaves the machine (test keys). Messages to `simulator.test` are always simulated. */
	readonly isSimulated: boolean;
	/** An earlier attempt was deferred as `unknown_domain` long enough ago for a second such response to be final. */
	readonly wasNxdomain?: boolean;
	/** The same for `no_address`. */
	readonly hadNoAddress?: boolean;
};

export type Accepted = {readonly by: 'acceptance'; readonly phase: 'dot'; readonly reply: SmtpReply};

export type Transaction = {
	readonly end: Accepted | Stop;
	/** Whether MAIL, RCPT and DATA were sent together. */
	readonly isGrouped: boolean;
	/**
	 * What the session needs before the next message: nothing, RSET, or an empty message and RSET; or it is unusable.
	 */
	readonly after: 'ready' | 'reset' | 'dot' | 'over';
};

type TransactionOptions = {
	readonly notify: Notify;
	/** Waits for each reply before sending the next command, even if the server offers PIPELINING. */
	readonly isLockStep: boolean;
};

type TransactionWatch = {
	/** The server replied 2xx to MAIL FROM. */
	readonly senderAccepted: () => void;
	/** From here on the message may be delivered, so the conversation should run to completion. */
	readonly dataBegins: () => void;
};

const blockSize = 64 * 1024;
/** The reply code with which a server closes the connection. It is unrelated to the message. */
const closingCode = 221;
const isPositive = (code: number): boolean => code >= 200 && code < 300;
const isUnexpected = (reply: ReplyOrLost): boolean => !('lost' in reply) && reply.code < 400;
const isRefusal = (reply: ReplyOrLost): boolean => !('lost' in reply) && reply.code >= 400;

/** Sends one message to one recipient over an open session (RFC 5321 §3.3), grouping commands as RFC 2920 allows. */
export async function transact(
	session: Session,
	job: Delivery,
	{notify, isLockStep}: TransactionOptions,
	timeouts: SmtpTimeouts,
	watch: TransactionWatch,
): Promise<Transaction> {
	const {connection, extensions} = session;
	const obstacle = findObstacle(job, session);
	if (obstacle !== null) {
		return {end: obstacle, isGrouped: false, after: 'ready'};
	}
	session.messageCount += 1;
	const mail = mailCommand(job, extensions);
	const rcpt = rcptCommand(job, extensions, notify);
	const canGroup = extensions.pipelining && !isLockStep;
	connection.write([canGroup ? `${mail}${rcpt}DATA\r\n` : mail], canGroup ? 3 : 1);
	const isGrouped = canGroup && connection.lost() === null;
	const endRefused = async (phase: Phase, reply: ReplyOrLost, remaining: readonly Phase[]) => {
		session.refusals += phase !== 'mail' && isRefusal(reply) ? 1 : 0;
		const end =
			isGrouped && remaining.length > 0
				? await refusal(connection, phase, reply, remaining, timeouts.rset)
				: await confirmRefusal(session, phase, reply, timeouts);
		return {isGrouped, ...end};
	};

	const mailReply = await connection.read(timeouts.mail);
	if ('lost' in mailReply || !isPositive(mailReply.code)) {
		return await endRefused('mail', mailReply, ['rcpt', 'data']);
	}
	watch.senderAccepted();
	if (!isGrouped) {
		connection.write([rcpt], 1);
	}
	const rcptReply = await connection.read(timeouts.rcpt);
	if ('lost' in rcptReply || !isPositive(rcptReply.code)) {
		return await endRefused('rcpt', rcptReply, ['data']);
	}
	if (!isGrouped) {
		connection.write(['DATA\r\n'], 1);
	}
	const dataReply = await connection.read(timeouts.data);
	if ('lost' in dataReply || dataReply.code !== 354) {
		return await endRefused('data', dataReply, []);
	}
	watch.dataBegins();
	const isDotSent = await sendData(connection, job.data, timeouts.block);
	let dotReply = await connection.read(timeouts.dot);
	if (isDotSent && !('lost' in dotReply) && dotReply.code === 354) {
		connection.write([], 1); // Skip a second reply to DATA.
		dotReply = await connection.read(timeouts.dot);
	}
	if (!isDotSent) {
		connection.fail('the server replied before the end of the data');
		return {end: stopped('data', dotReply), isGrouped, after: 'over'};
	}
	if (!('lost' in dotReply) && isPositive(dotReply.code) && dotReply.code !== closingCode) {
		session.acceptedCount += 1;
		session.refusals = 0;
		return {end: {by: 'acceptance', phase: 'dot', reply: readable(dotReply)}, isGrouped, after: 'ready'};
	}
	if (!('lost' in dotReply) && isUnexpected(dotReply)) {
		// This reply neither accepts nor refuses the message, so the outcome is unknown.
		connection.fail(`unexpected reply: ${dotReply.code} ${dotReply.lines.join(' ')}`);
		return {end: stopped('dot', connection.lost() ?? dotReply), isGrouped, after: 'over'};
	}
	return await endRefused('dot', dotReply, []);
}

/**
 * Ends a transaction whose last command was refused. An unsolicited line just before the real reply would look like the
 * reply: it could bounce the message, or send an accepted one again. So QUIT is sent, which only 221 answers. If
 * another reply comes first, the server is out of step, unless it closes after it: that reply was to QUIT. Before the
 * data, an earlier accepted message on this session proves that the server is in step.
 */
async function confirmRefusal(
	{connection, acceptedCount}: Session,
	phase: Phase,
	reply: ReplyOrLost,
	timeouts: SmtpTimeouts,
): Promise<Omit<Transaction, 'isGrouped'>> {
	const isProven = acceptedCount > 0 && (phase === 'mail' || phase === 'rcpt');
	const minRefusalCode = phase === 'dot' ? 400 : 500;
	if ('lost' in reply || reply.code < minRefusalCode || isProven || connection.lost() !== null) {
		return await refusal(connection, phase, reply, [], timeouts.rset);
	}
	connection.write(['QUIT\r\n'], 2);
	const next = await connection.read(timeouts.quit);
	if (!('lost' in next) && next.code < 500 && next.code !== closingCode) {
		if (next.code === 354 || !('lost' in (await connection.read(timeouts.quit)))) {
			const text = `the server sent one reply too many: ${reply.code} ${reply.lines.join(' ').slice(0, 200)}`;
			connection.fail(text, 'outOfStep');
			return {end: stopped(phase, connection.lost() ?? reply), after: 'over'};
		}
	}
	const lost = connection.lost();
	connection.fail('quit');
	return {end: stopped(phase, lost?.cause === 'outOfStep' ? lost : reply), after: 'over'};
}

/**
 * Ends a transaction that a reply stops before the data. The replies to the commands sent together with the refused one
 * (`remaining`) show whether the refusal belonged to it: after one reply too many, it belongs to another command. RFC
 * 2920 §3.1: a server may reply 354 although it refused the recipient.
 */
async function refusal(
	connection: SmtpConnection,
	phase: Phase,
	reply: ReplyOrLost,
	remaining: readonly Phase[],
	timeoutMs: number,
): Promise<Omit<Transaction, 'isGrouped'>> {
	let last = reply;
	for (const next of remaining) {
		if ('lost' in last || last.code === 421 || isUnexpected(reply)) {
			break;
		}
		last = await connection.read(timeoutMs);
		if (!('lost' in last) && cannotReplyTo(next, last.code)) {
			return {end: stopped(next, last), after: 'over'};
		}
	}
	const lost = connection.lost();
	if (lost?.cause === 'outOfStep') {
		return {end: stopped(phase, lost), after: 'over'};
	}
	if ('lost' in last || last.code === 421 || isUnexpected(reply)) {
		return {end: stopped(phase, reply), after: 'over'};
	}
	return {end: stopped(phase, reply), after: last.code === 354 ? 'dot' : 'reset'};
}

/** RFC 5321 §4.3.2: DATA alone gets 354, and never 2xx. */
function cannotReplyTo(phase: Phase, code: number): boolean {
	return phase === 'data' ? code < 400 && code !== 354 : code >= 300 && code < 400;
}

/** Checks what can be known before any byte of the message is sent. */
function findObstacle(job: Delivery, {extensions}: Session): Stop | null {
	if (job.envelope.smtputf8 && !extensions.smtputf8) {
		return {
			by: 'utf8',
			phase: 'ehlo',
			text: 'the mail server does not offer SMTPUTF8, which an address in this message requires',
		};
	}
	const {maxSize} = extensions;
	return maxSize !== null && job.data.length > maxSize
		? {
				by: 'size',
				phase: 'ehlo',
				text: `the mail server accepts ${maxSize} octets, the message has ${job.data.length}`,
			}
		: null;
}

/** Sends the message and its final dot. Returns false if the server replied or closed before the dot was sent. */
async function sendData(connection: SmtpConnection, data: Uint8Array, blockMs: number): Promise<boolean> {
	const pieces = dotStuffed(data);
	if (connection.lost() !== null) {
		return false;
	}
	if (data.length <= blockSize) {
		connection.write(pieces, 1);
		return connection.lost() === null;
	}
	const ending = pieces.pop() as Buffer;
	let expected = 1; // The reply to the dot may come too early.
	for (const piece of pieces) {
		for (let start = 0; start < piece.length; start += blockSize) {
			const isFlowing = connection.write([piece.subarray(start, start + blockSize)], expected);
			expected = 0;
			if (!isFlowing) {
				await connection.drained(blockMs);
			}
			await yieldToEvents(); // The system may accept all data at once, so yield to read early replies.

			if (connection.hasReply() || connection.lost() !== null) {
				return false;
			}
		}
	}
	connection.write([ending], expected);
	return true;
}

/**
 * Returns a session to the state in which the next message can start. If it returns false, close the session. The
 * outcome is known already, so each step gets no more time than RSET.
 */
export async function recover({connection}: Session, {after}: Transaction, timeouts: SmtpTimeouts): Promise<boolean> {
	if (after === 'ready' || after === 'over') {
		return after === 'ready' && connection.lost() === null;
	}
	// RFC 2920 §3.1: a server that waits for data although it refused the recipient gets an empty message.
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
 * Returns the pieces of a message as transmitted: dots at line starts doubled (RFC 5321 §4.5.2), the final dot last. A
 * dot after a bare CR or LF is doubled too. mailctl's messages contain no such lines, but a lax server must not mistake
 * one for the end of the data (SMTP smuggling). A message without such dots is not copied.
 */
export function dotStuffed(data: Uint8Array): Buffer[] {
	const bytes = toBuffer(data);
	const pieces: Buffer[] = [];
	let start = 0;
	if (bytes[0] === 46) {
		pieces.push(dot);
	}
	for (const position of dotPositions(bytes)) {
		pieces.push(bytes.subarray(start, position), dot);
		start = position;
	}
	pieces.push(start === 0 ? bytes : bytes.subarray(start), bytes.subarray(-2).equals(lineEnd) ? end : lineEndAndEnd);
	return pieces;
}

/** Returns the positions of dots that follow a CR or LF, in order. */
function dotPositions(bytes: Buffer): number[] {
	const positions: number[] = [];
	for (const pattern of [lineFeedDot, carriageReturnDot]) {
		for (let position = bytes.indexOf(pattern); position !== -1; position = bytes.indexOf(pattern, position + 2)) {
			positions.push(position + 1);
		}
	}
	return positions.sort((a, b) => a - b);
}

/** Which reports are requested from the recipient's mail server (RFC 3461 §4.1). */
export type Notify = 'FAILURE' | 'SUCCESS,FAILURE';

const plainPath = /^[\x21-\x3b\x3d\x3f-\x7e]*$/;
const utf8Path = /^[\x21-\x3b\x3d\x3f-\x7e\u00a0-\u{10ffff}]*$/u;

/** Whether the addresses can safely stand between `<` and `>`. This is the last defense against command injection. */
export function isSafeEnvelope({from, to, smtputf8}: Delivery['envelope']): boolean {
	const path = smtputf8 ? utf8Path : plainPath;
	return to !== '' && path.test(to) && plainPath.test(from);
}

/** Returns the MAIL command with the parameters that the server supports. */
function mailCommand({envelope, ref, data}: Delivery, {size, smtputf8, dsn}: Extensions): string {
	return (
		`MAIL FROM:<${envelope.from}>` +
		(size ? ` SIZE=${data.length}` : '') +
		(smtputf8 && envelope.smtputf8 ? ' SMTPUTF8' : '') +
		(dsn && ref !== '' ? ` RET=HDRS ENVID=${xtext(ref)}` : '') +
		'\r\n'
	);
}

/** Returns the RCPT command. ORCPT makes bounces name the original address, even after forwarding. */
function rcptCommand({envelope}: Delivery, {dsn}: Extensions, notify: Notify): string {
	const isAscii = plainPath.test(envelope.to);
	const original = isAscii ? `rfc822;${xtext(envelope.to)}` : `utf-8;${unitext(envelope.to)}`;
	return `RCPT TO:<${envelope.to}>${dsn ? ` NOTIFY=${notify} ORCPT=${original}` : ''}\r\n`;
}

/** RFC 3461 §4: anything but a plain printable character becomes `+` and two hexadecimal digits. */
function xtext(text: string): string {
	return Buffer.from(text)
		.toString('latin1')
		.replace(
			/[^\x21-\x2a\x2c-\x3c\x3e-\x7e]/g,
			byte => `+${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
		);
}

/** RFC 6533 §3, utf-8-addr-unitext: UTF-8 unchanged, except `\x{…}` for characters that would break the parameter. */
function unitext(text: string): string {
	return text.replace(/[\x00-\x20+=\\\x7f]/g, byte => `\\x{${byte.charCodeAt(0).toString(16).toUpperCase()}}`);
}
