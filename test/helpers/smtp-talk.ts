import {once} from 'node:events';
import {connect, type Socket} from 'node:net';
import {type ConnectionOptions, connect as connectTls, type TLSSocket} from 'node:tls';
import type {ExecutionContext} from 'ava';
import {waitFor} from './wait.ts';

/** An SMTP client by hand, for what no client would say. */
export type SmtpTalk = {
	/** The next reply, its lines joined by spaces; `closed` where the server hung up. */
	readonly reply: () => Promise<string>;
	/** Says a line and answers the reply. */
	readonly say: (line: string) => Promise<string>;
	/** Sends bytes as they are and waits for nothing. */
	readonly send: (bytes: string | Buffer) => void;
	/** DATA, the mail with dots stuffed, and the reply after the dot. */
	readonly data: (mail: string | Buffer) => Promise<string>;
	/** The handshake after STARTTLS. */
	readonly secure: (options: ConnectionOptions) => Promise<TLSSocket>;
	readonly ended: () => boolean;
	readonly end: () => void;
};

/** Connects; the greeting is the first reply. */
export async function talkTo(t: Pick<ExecutionContext, 'teardown'>, port: number): Promise<SmtpTalk> {
	let socket: Socket = connect(port, '127.0.0.1');
	t.teardown(() => socket.destroy());
	let received = '';
	let closed = false;

	function listen(to: Socket): void {
		to.on('data', chunk => {
			received += chunk.toString('latin1');
		});
		to.on('error', () => undefined);
		to.on('close', () => {
			closed = true;
		});
		to.on('end', () => {
			closed = true;
		});
	}
	listen(socket);
	await once(socket, 'connect');

	function takeReply(): string | null {
		const whole = /^(?:\d{3}-[^\n]*\n)*\d{3} [^\n]*\n/.exec(received)?.[0];
		if (whole === undefined) {
			return closed ? 'closed' : null;
		}
		received = received.slice(whole.length);
		return whole.trim().replaceAll('\r\n', ' ');
	}

	const reply = () => waitFor('a reply', takeReply);
	const say = async (line: string) => {
		socket.write(`${line}\r\n`);
		return await reply();
	};
	return {
		reply,
		say,
		send: bytes => void socket.write(bytes),
		async data(mail) {
			const answer = await say('DATA');
			if (!answer.startsWith('354')) {
				return answer;
			}
			const text = Buffer.from(mail).toString('latin1').replace(/^\./gm, '..');
			socket.write(Buffer.from(text, 'latin1'));
			return await say(text.endsWith('\r\n') ? '.' : '\r\n.');
		},
		async secure(options) {
			socket.removeAllListeners('data');
			const secure = connectTls({...options, socket});
			await once(secure, 'secureConnect');
			listen(secure);
			socket = secure;
			return secure;
		},
		ended: () => closed,
		end: () => socket.end(),
	};
}
