import type {X509Certificate} from 'node:crypto';
import {connect, isIP, type Socket} from 'node:net';
import {connect as connectTls, type SecureContext, type TLSSocket} from 'node:tls';
import {printable} from '../mail/smtp-reply.ts';
import type {TlsFailure} from '../mail/tls-result.ts';
import {type Dialogue, type RawReply, ReplyReader} from './dialogue.ts';
import {tlsaFaults, tlsFailureOf, wordsOf} from './tls-demand.ts';

/** The connection is of no use any more, and why. */
export type Lost = {
	readonly lost: string;
	/** The system's word where it said one. */
	readonly errno?: string;
	readonly tlsFailure?: TlsFailure;
	/**
	 * `closed`: the server ended it. `outOfStep`: more replies than commands, so replies cannot be matched to commands.
	 */
	readonly cause?: 'closed' | 'outOfStep';
};
export type Answer = RawReply | Lost;

type ConnectionTarget = {
	readonly address: string;
	readonly port: number;
	readonly localAddress?: string | undefined;
	/** TLS from the first byte: nothing is read before `startTls`. */
	readonly implicitTls: boolean;
	readonly dialogue: Dialogue;
};

type TlsDemand = {
	/** The name that is said in SNI and that the certificate is checked against. */
	readonly host: string;
	/** Whether a certificate that does not verify ends the connection. */
	readonly verify: boolean;
	/** Judges the certificate in place of the authorities; one with a failure ends the connection. */
	readonly judge?: ((certificate: X509Certificate) => TlsFailure | null) | undefined;
	readonly secureContext: SecureContext;
};

/** The TLS of a connection: `TLSv1.3 TLS_AES_256_GCM_SHA384`, and what is wrong with the certificate. */
export type Tls = {readonly text: string; readonly failure: TlsFailure | null};

/** One TCP connection with lines and replies. Every wait has a limit from the caller, milliseconds; nothing throws. */
export type SmtpConnection = {
	readonly connected: (timeoutMs: number) => Promise<Lost | null>;
	/** Upgrades to TLS; what the peer sent in plain text ahead of the handshake ends the connection (RFC 3207 §6). */
	readonly startTls: (demand: TlsDemand, timeoutMs: number) => Promise<Lost | null>;
	/** Writes all parts at once and expects `replies` more replies. False: the peer is slow, wait for `drained`. */
	readonly write: (parts: ReadonlyArray<string | Uint8Array>, replies: number) => boolean;
	readonly drained: (timeoutMs: number) => Promise<Lost | null>;
	/** The next reply. One that is there before its command was written ends the connection, and is never answered here. */
	readonly read: (timeoutMs: number) => Promise<Answer>;
	/** Replies that come from now on are kept and read as this makes them; null: as they come. */
	readonly changeReplies: (change: ((reply: RawReply) => RawReply) | null) => void;
	/** Whether a reply is there to be read, or the begin of one. */
	readonly hasReply: () => boolean;
	/** Ends the connection at once; all waits get the reason. */
	readonly fail: (reason: string, cause?: Lost['cause']) => void;
	/** Sends QUIT and waits for the peer to close, for the time given. */
	readonly quit: (timeoutMs: number) => Promise<void>;
	readonly lost: () => Lost | null;
	/** Called once when the connection ends, however it ends. */
	readonly onceLost: (listener: () => void) => void;
	/** Null in plain text. */
	readonly tls: () => Tls | null;
	readonly dialogue: Dialogue;
};

/** Starts to connect to a literal address. */
export function createSmtpConnection(target: ConnectionTarget): SmtpConnection {
	let lost: Lost | null = null;
	let tls: Tls | null = null;
	let answerWaiting: ((answer: Answer | null) => void) | null = null;
	let awaitsReply = false;
	let outstanding = 1; // The greeting.
	/** What was expected in answer to the last thing that was written, and the last reply. */
	let expected = 1;
	let lastCode = 0;
	let change: ((reply: RawReply) => RawReply) | null = null;
	const reader = new ReplyReader();
	const replies: RawReply[] = [];
	const lostListeners: Array<() => void> = [];

	const {address: host, port, dialogue} = target;
	let socket: Socket = connect({
		host,
		port,
		noDelay: true,
		...(target.localAddress === undefined ? {} : {localAddress: target.localAddress}),
	});
	watch(socket);
	if (!target.implicitTls) {
		socket.on('data', received);
	}
	function watch(watched: Socket): void {
		watched.on('error', (error: NodeJS.ErrnoException) =>
			end(wordsOf(error), {
				...(error.code === undefined ? {} : {errno: error.code}),
				...(error.code === 'ECONNRESET' || error.code === 'EPIPE' ? {cause: 'closed'} : {}),
			}),
		);
		watched.on('end', () => end('the server closed the connection', {cause: 'closed'}));
		watched.on('close', () => end('the connection was closed', {cause: 'closed'}));
	}

	function end(reason: string, more: Omit<Lost, 'lost'> = {}): void {
		if (lost !== null) {
			return;
		}
		const text = printable(reason); // It may hold the peer's words.
		lost = {lost: text, ...more};
		if (more.cause === 'outOfStep') {
			replies.length = 0;
		}
		dialogue.noted(text);
		socket.destroy();
		answerWaiting?.(lost);
		for (const listener of lostListeners) {
			listener();
		}
	}

	function received(chunk: Buffer): void {
		const fault = reader.push(chunk, take, line => {
			const {lines} = change?.({code: 0, lines: [line]}) ?? {lines: [line]};
			dialogue.noted(`a line without a code: ${lines.join('')}`);
		});
		if (fault !== null) {
			end(fault);
		}
	}

	function take(raw: RawReply): void {
		if (lost !== null) {
			return;
		}
		const reply = change?.(raw) ?? raw;
		dialogue.received(reply);
		if (outstanding === 0) {
			// RFC 5321 §3.8: a server that leaves may say so at any time; what it said before still counts.
			const leaves = reply.code === 421 || reply.code === 221;
			// Some servers write no hyphens in a refusal of several lines. Each of these lines refuses.
			const repeats = expected === 1 && lastCode >= 400 && reply.code >= (lastCode < 500 ? 400 : 500);
			const text = `the server said, unasked: ${reply.code} ${reply.lines.join(' ').slice(0, 200)}`;
			end(text, leaves ? {cause: 'closed'} : repeats ? {} : {cause: 'outOfStep'});
			return;
		}
		outstanding -= 1;
		lastCode = reply.code;
		if (awaitsReply) {
			answerWaiting?.(reply);
		} else {
			replies.push(reply);
			answerWaiting?.(null); // The wait for a slow peer to take data ends when it answers.
		}
	}

	function wait(what: string, timeoutMs: number, reply: boolean): Promise<Answer | null> {
		return new Promise(resolve => {
			const timer = setTimeout(() => end(`${what} took longer than ${timeoutMs} ms`), timeoutMs);
			awaitsReply = reply;
			answerWaiting = answer => {
				clearTimeout(timer);
				answerWaiting = null;
				awaitsReply = false;
				resolve(answer);
			};
		});
	}

	const waitLost = async (what: string, timeoutMs: number) =>
		lost ?? ((await wait(what, timeoutMs, false)) as Lost | null);

	const connection: SmtpConnection = {
		connected(timeoutMs) {
			socket.once('connect', () => answerWaiting?.(null));
			return waitLost('connecting', timeoutMs);
		},
		startTls(demand, timeoutMs) {
			if (lost === null && (replies.length > 0 || reader.isPartial)) {
				end('the server sent plain text ahead of the TLS handshake');
			}
			if (lost !== null) {
				return Promise.resolve(lost);
			}
			const plain = socket;
			plain.off('data', received);
			const secure: TLSSocket = connectTls({
				socket: plain,
				host: demand.host,
				// RFC 6066 §3: an address is no server name.
				...(isIP(demand.host) === 0 ? {servername: demand.host} : {}),
				rejectUnauthorized: demand.verify,
				secureContext: demand.secureContext,
			});
			socket = secure;
			watch(secure);
			secure.once('secureConnect', () => {
				const failure = failureOf(secure, demand);
				if (failure !== null && demand.judge !== undefined) {
					end(tlsaFaults[failure] ?? failure, {tlsFailure: failure});
					return;
				}
				tls = {text: `${secure.getProtocol()} ${secure.getCipher().name}`, failure};
				dialogue.noted(`${tls.text} ${failure === null ? 'verified' : 'unverified'}`);
				answerWaiting?.(null);
			});
			secure.on('data', received);
			return waitLost('the TLS handshake', timeoutMs);
		},
		write(parts, count) {
			if (lost === null && outstanding === 0 && reader.isBegun) {
				end('the server began a reply before the command', {cause: 'outOfStep'});
			}
			if (lost !== null) {
				return true;
			}
			outstanding += count;
			expected = count === 0 ? expected : count;
			socket.cork();
			let flowing = true;
			for (const part of parts) {
				dialogue.sent(part);
				flowing = socket.write(part);
			}
			socket.uncork();
			return flowing;
		},
		drained(timeoutMs) {
			if (!socket.writableNeedDrain) {
				return Promise.resolve(lost);
			}
			socket.once('drain', () => {
				if (!awaitsReply) {
					answerWaiting?.(null);
				}
			});
			return waitLost('taking a part of the data', timeoutMs);
		},
		async read(timeoutMs) {
			const answer = replies.shift() ?? lost ?? ((await wait('the reply', timeoutMs, true)) as Answer);
			// A reply too many came with it. What accepts is believed, for what follows fails; what refuses is not.
			const isCertain = lost?.cause !== 'outOfStep' || 'lost' in answer || (answer.code >= 200 && answer.code < 300);
			return isCertain ? answer : (lost as Lost);
		},
		changeReplies(next) {
			change = next;
		},
		hasReply: () => replies.length > 0 || reader.isBegun,
		fail: (reason, cause) => end(reason, cause && {cause}),
		async quit(timeoutMs) {
			connection.write(['QUIT\r\n'], 1);
			await connection.read(timeoutMs);
			end('quit');
		},
		lost: () => lost,
		onceLost(listener) {
			lostListeners.push(listener);
		},
		tls: () => tls,
		dialogue,
	};
	return connection;
}

/** What keeps the certificate from being right for the host; null: nothing. */
function failureOf(socket: TLSSocket, {judge}: TlsDemand): TlsFailure | null {
	if (judge !== undefined) {
		const certificate = socket.getPeerX509Certificate();
		return certificate === undefined ? 'certificate-not-trusted' : judge(certificate);
	}
	if (socket.authorized) {
		return null;
	}
	// Node keeps the code there; its types disagree.
	const failure = tlsFailureOf(String(socket.authorizationError));
	return failure === 'validation-failure' ? 'certificate-not-trusted' : failure;
}
