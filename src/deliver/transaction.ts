import type {SmtpReply} from '../mail/smtp-reply.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import {mailCommand, type Notify, rcptCommand} from './commands.ts';
import type {Delivery} from './delivery.ts';
import type {Session} from './session.ts';
import type {SmtpConnection} from './smtp-connection.ts';
import {readable, type Stop, stopped} from './stop.ts';

export type Accepted = {readonly by: 'acceptance'; readonly phase: 'dot'; readonly reply: SmtpReply};

export type Transaction = {
	readonly end: Accepted | Stop;
	/** Replies to pipelined commands that were not read yet, the last one to DATA. */
	readonly unread: number;
};

export type TransactionWatch = {
	/** The host answered MAIL FROM with 250. */
	readonly senderAccepted: () => void;
	/** From here on the mail may be delivered: let it finish. */
	readonly dataBegins: () => void;
};

const blockSize = 64 * 1024;
const positive = (code: number): boolean => code >= 200 && code < 300;

/** Sends one mail to one recipient over an open session (RFC 5321 §3.3; commands grouped as RFC 2920 allows). */
export async function transact(
	session: Session,
	job: Delivery,
	notify: Notify,
	timeouts: SmtpTimeouts,
	watch: TransactionWatch,
): Promise<Transaction> {
	const {connection, extensions} = session;
	const unfit = unfitness(job, session);
	if (unfit !== null) {
		return {end: unfit, unread: 0};
	}

	session.mails += 1;
	const mail = mailCommand(job, extensions);
	const rcpt = rcptCommand(job, extensions, notify);
	const grouped = extensions.pipelining;
	connection.write([grouped ? `${mail}${rcpt}DATA\r\n` : mail], grouped ? 3 : 1);

	const toMail = await connection.read(timeouts.mail);
	if ('lost' in toMail || !positive(toMail.code)) {
		return {end: stopped('mail', toMail), unread: grouped ? 2 : 0};
	}

	watch.senderAccepted();
	if (!grouped) {
		connection.write([rcpt], 1);
	}

	const toRcpt = await connection.read(timeouts.rcpt);
	if ('lost' in toRcpt || !positive(toRcpt.code)) {
		return {end: stopped('rcpt', toRcpt), unread: grouped ? 1 : 0};
	}

	if (!grouped) {
		connection.write(['DATA\r\n'], 1);
	}

	const toData = await connection.read(timeouts.data);
	if ('lost' in toData || toData.code !== 354) {
		return {end: stopped('data', toData), unread: 0};
	}

	watch.dataBegins();
	const dotSent = await sendData(connection, job.data, timeouts.block);
	const toDot = await connection.read(timeouts.dot);
	if (dotSent && !('lost' in toDot) && positive(toDot.code)) {
		return {end: {by: 'acceptance', phase: 'dot', reply: readable(toDot)}, unread: 0};
	}

	if (!dotSent) {
		connection.fail('the server spoke before the end of the data');
	}

	return {end: stopped(dotSent ? 'dot' : 'data', toDot), unread: 0};
}

/** What can be seen before a byte of the mail is sent. */
function unfitness(job: Delivery, {extensions}: Session): Stop | null {
	if (job.envelope.smtputf8 && !extensions.smtputf8) {
		return {by: 'utf8', phase: 'ehlo', text: 'the host does not offer SMTPUTF8, which an address of this mail needs'};
	}

	const {largest} = extensions;
	return largest !== null && job.data.length > largest
		? {by: 'size', phase: 'ehlo', text: `the host takes ${largest} octets, the message has ${job.data.length}`}
		: null;
}

/** Sends the message and its final dot; false: the server spoke or went before the dot was on its way. */
async function sendData(connection: SmtpConnection, data: Uint8Array, blockMs: number): Promise<boolean> {
	const pieces = dotStuffed(data);
	if (data.length <= blockSize) {
		connection.write(pieces, 1);
		return true;
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

			if (connection.hasReply() || connection.lost() !== null) {
				return false;
			}
		}
	}

	connection.write([final], expected);
	return true;
}

/**
 * Brings a session back to where the next mail can begin after one that was not accepted. False: end the session.
 * The outcome is known already, so none of this gets more time than RSET.
 * RFC 2920 §3.1: a server that says 354 although it refused the recipient must be given an empty message.
 */
export async function recover(
	{connection}: Session,
	{end, unread}: Transaction,
	timeouts: SmtpTimeouts,
): Promise<boolean> {
	if (end.by === 'acceptance' || end.by === 'size' || end.by === 'utf8') {
		return connection.lost() === null;
	}

	// It leaves, or we are out of step with each other.
	if (end.by === 'reply' && (end.reply.code === 421 || end.reply.code < 400)) {
		return false;
	}

	let code = 0;
	for (let left = unread; left > 0; left--) {
		const reply = await connection.read(timeouts.rset);
		code = 'lost' in reply ? 421 : reply.code;
		if (code === 421) {
			return false;
		}
	}

	if (code === 354) {
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
	const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
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
