import type {Socket} from 'node:net';

/** Decides how a sink treats the recipients and messages of a session. */
export type SinkPolicy = {
	/** Returns the reply to RCPT. After an empty reply, the session stays silent and reads nothing more. */
	readonly rcpt: (address: string) => string;
	/** Is called with each complete message, which is for the recipient that was accepted last. */
	readonly onMessage: () => void;
};

export const ok = '250 2.0.0 Ok\r\n';

const endOfMail = Buffer.from('\r\n.\r\n');
const replies: Readonly<Record<string, string>> = {
	DATA: '503 5.5.1 No recipient\r\n',
	EHLO: '250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE 52428800\r\n',
	QUIT: '221 Bye\r\n',
};
/** Matches the replies that close the session. */
const closingReply = /^(?:221|421)/m;

/** Serves the part of SMTP (RFC 5321) that a pipelining client (RFC 2920) needs, and discards the messages. */
export function serveSession(socket: Socket, {rcpt, onMessage}: SinkPolicy): void {
	let isData = false;
	let isOver = false;
	let hasRecipient = false;
	let unread: Buffer = Buffer.alloc(0);
	socket.setNoDelay(true);
	socket.on('error', () => socket.destroy());
	socket.write('220 sink ESMTP\r\n');
	socket.on('data', chunk => {
		const bytes = Buffer.concat([unread, chunk]);
		let position = 0;
		let output = '';
		while (!isOver) {
			const terminator = isData ? endOfMail : '\r\n';
			const end = bytes.indexOf(terminator, position);
			if (end === -1) {
				break;
			}
			const reply = isData ? acceptMessage() : replyTo(bytes.toString('latin1', position, end));
			output += reply;
			isOver = reply === '' || closingReply.test(reply);
			position = end + terminator.length;
		}
		// Of a message, keep only the last octets, which may be the beginning of its end marker.
		unread = bytes.subarray(isData ? Math.max(position, bytes.length - endOfMail.length + 1) : position);
		if (output !== '') {
			socket.write(output);
		}
		if (closingReply.test(output)) {
			socket.end();
		}
	});

	function acceptMessage(): string {
		onMessage();
		isData = false;
		return ok;
	}

	function replyTo(line: string): string {
		const verb = line.slice(0, 4).toUpperCase();
		isData = verb === 'DATA' && hasRecipient;
		if (isData) {
			return '354 Go ahead\r\n';
		}
		if (verb !== 'RCPT') {
			return replies[verb] ?? ok;
		}
		const reply = rcpt(line.slice(line.indexOf('<') + 1, line.indexOf('>')));
		hasRecipient = reply === ok;
		return reply;
	}
}
