import type {Socket} from 'node:net';
import type {TLSSocket} from 'node:tls';
import {SMTPServer, type SMTPServerDataStream, type SMTPServerOptions, type SMTPServerSession} from 'smtp-server';
import {SMTPConnection, type SMTPConnectionOptions} from 'smtp-server/lib/smtp-connection';
import {SMTPStream} from 'smtp-server/lib/smtp-stream';

/** `extensions` returns additional EHLO keywords. With `awaitsTls`, no session starts before there is a certificate. */
export type GuardedOptions = SMTPServerOptions & {
	readonly extensions?: () => readonly string[];
	readonly awaitsTls?: boolean;
};

/** Extends smtp-server with ten changes that it has no options for. */
export class GuardedServer extends SMTPServer {
	readonly #extensions: () => readonly string[];
	readonly #maxErrors: number;
	readonly #maxHandshakes: number;
	#awaitsTls: boolean;

	/**
	 * `maxErrors` ends a session after that many errors without a stored message in between. `maxHandshakes` limits the
	 * concurrent TLS handshakes before sessions.
	 */
	constructor(options: GuardedOptions, maxErrors: number, maxHandshakes = Number.POSITIVE_INFINITY) {
		super(options);
		this.#extensions = options.extensions ?? (() => []);
		this.#maxErrors = maxErrors;
		this.#maxHandshakes = maxHandshakes;
		this.#awaitsTls = options.awaitsTls === true;
	}

	/** Uses a certificate for new sessions, and offers STARTTLS from now on. */
	useTls(tls: {readonly cert: Buffer | string; readonly key: Buffer | string}): void {
		this.#awaitsTls = false;
		this.updateSecureContext(tls);
		this.options.hideSTARTTLS = false;
		this.options.disabledCommands = this.options.disabledCommands?.filter(command => command !== 'STARTTLS');
	}

	/**
	 * Closes the oldest connection without a finished handshake to make room. The library accepts any number, or
	 * refuses the newest.
	 */
	override _acceptSocket(socket: Socket, handshake: boolean): (() => void) | false {
		const waiting = [...this._pendingSockets.values()].filter(pending => !pending.destroyed);
		if (waiting.length >= this.#maxHandshakes) {
			waiting[0]?.destroy();
		}
		return super._acceptSocket(socket, handshake);
	}

	/** Node crashes if a handshake starts on a socket that was destroyed in the same tick in which it was accepted. */
	override _upgrade(socket: Socket, callback: (error: Error | null, secure?: TLSSocket) => void): void {
		if (this.#awaitsTls) {
			socket.destroy();
		}
		if (socket.destroyed) {
			callback(new Error('the connection has ended'));
		} else {
			super._upgrade(socket, callback);
		}
	}

	override connect(socket: Socket | TLSSocket, options?: SMTPConnectionOptions | null): void {
		if (this.#awaitsTls) {
			socket.on('error', () => undefined);
			socket.end('421 4.7.0 No certificate yet, try again later\r\n', () => socket.destroy());
			return;
		}
		const session = new GuardedSession(this, socket, options, this.#maxErrors, this.#extensions);
		this.connections.add(session);
		session.on('error', error => this.emit('error', error));
		session.init();
		session.connectionReady();
	}
}

/** Returns the SIZE parameter of MAIL in octets (RFC 1870), or 1 if the client does not announce it. */
export function announcedSize({mailFrom}: SMTPServerSession['envelope']): number {
	const args = mailFrom ? mailFrom.args : false;
	const size = args ? args.SIZE : undefined;
	return typeof size === 'string' && /^\d{1,15}$/.test(size) ? Number(size) : 1;
}

const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3} /;
/**
 * Codes that are not the client's error: our own problems, and recipients to be sent in the next message. 421 ends the
 * session anyway.
 */
const uncountedCodes: ReadonlySet<number> = new Set([421, 451, 452]);

class GuardedSession extends SMTPConnection {
	readonly #maxErrors: number;
	readonly #extensions: () => readonly string[];
	#errors = 0;
	#hasGreeted = false;

	constructor(
		server: SMTPServer,
		socket: Socket | TLSSocket,
		options: SMTPConnectionOptions | null | undefined,
		maxErrors: number,
		extensions: () => readonly string[],
	) {
		super(server, socket, options);
		this.#maxErrors = maxErrors;
		this.#extensions = extensions;
	}

	/** Greets at once. The library waits 100 ms, in which a busy server could have sent a report. */
	override connectionReady(next?: () => void): void {
		if (!this.#hasGreeted) {
			this.#hasGreeted = true;
			super.connectionReady(next);
		}
	}

	/** Suppresses the library's enhanced code if a text has its own. The library knows only one for each code. */
	override send(code: number, data?: string | string[] | null, context?: string | false): void {
		if (Array.isArray(data)) {
			// Do not invite clients to send their password unencrypted (RFC 4954 §4).
			const mayLogIn = this.secure || this._server.options.allowInsecureAuth === true;
			const lines = data.filter(line => mayLogIn || !line.startsWith('AUTH '));
			super.send(code, [...lines, ...this.#extensions()], context);
			return;
		}
		super.send(code, data, typeof data === 'string' && enhancedCode.test(data) ? false : context);
		if (context === 'DATA_OK') {
			this.#errors = 0;
		} else if (code >= 400 && !uncountedCodes.has(code) && ++this.#errors === this.#maxErrors) {
			this.send(421, '4.7.0 Too many errors');
		}
	}

	/**
	 * Protects plus signs from the library, which decodes every value as xtext (RFC 3461 §4), including `BY=+120;R` and
	 * `+02:00`.
	 */
	override _parseAddressCommand(
		name: string,
		command: Buffer | string,
	): ReturnType<SMTPConnection['_parseAddressCommand']> {
		const literalParameters = / (?:BY|HOLDUNTIL)=\S*/gi;
		return super._parseAddressCommand(
			name,
			String(command).replace(literalParameters, text => text.replaceAll('+', '+2B')),
		);
	}

	override _createParser(): SMTPStream {
		const parser = new GuardedStream();
		parser.oncommand = (command, callback) => this._onCommand(command, callback);
		parser.on('error', error => this.send(421, `Error: ${error.message}`));
		return parser;
	}
}

/** Reads messages in one pass. The library needs a turn of the event loop per removed dot: 7 s for 10 MB of dots. */
class GuardedStream extends SMTPStream {
	#unstuffing = new DotUnstuffing();

	override startDataMode(maxBytes?: number | string | null): SMTPServerDataStream {
		this.#unstuffing = new DotUnstuffing();
		return super.startDataMode(maxBytes);
	}

	override _feedDataStream(chunk: Buffer, done: (error?: Error | null) => void): void {
		const {content, end} = this.#unstuffing.next(chunk);
		this._countDataBytes(content.length);
		const stream = this._dataStream;
		if (end !== null) {
			this._endDataMode(content, chunk.subarray(end), done);
		} else if (stream === null || !stream.writable || content.length === 0 || stream.write(content)) {
			done();
		} else {
			const resume = () => {
				stream.off('drain', resume);
				stream.off('close', resume);
				done();
			};
			stream.on('drain', resume);
			stream.on('close', resume);
		}
	}
}

const [lf, cr, dot] = [0x0a, 0x0d, 0x2e];

/** The part of the message in one chunk of DATA. */
type Unstuffed = {
	readonly content: Buffer;
	/** Where the commands continue in the chunk, or `null` if the message has not ended. */
	readonly end: number | null;
};

// The states of `DotUnstuffing`: what precedes the next octet, as far as it matters.
const [inLine, afterCr, lineStart, afterDot, afterDotCr] = [0, 1, 2, 3, 4];

/**
 * Removes the dots that the sender added at the beginning of lines, and finds the end of the message (RFC 5321 §4.5.2).
 * Only CRLF ends a line, so only CRLF `.` CRLF ends the message, however it is split into chunks. Ten million dots take
 * no longer than ten million letters.
 */
export class DotUnstuffing {
	#state = lineStart;

	next(chunk: Buffer): Unstuffed {
		// A dot and CR held back from the last chunk may come first.
		const content = Buffer.allocUnsafe(chunk.length + 2);
		let state = this.#state;
		let length = 0;
		for (let index = 0; index < chunk.length; index++) {
			const octet = chunk[index] as number;
			if (state === lineStart && octet === dot) {
				state = afterDot;
				continue;
			}
			if (state === afterDot && octet === cr) {
				state = afterDotCr;
				continue;
			}
			if (state === afterDotCr && octet === lf) {
				return {content: content.subarray(0, length), end: index + 1};
			}
			if (state === afterDotCr) {
				content[length++] = dot;
				content[length++] = cr;
			} else if (state === afterDot && octet !== dot) {
				content[length++] = dot; // The sender did not stuff dots.
			}
			content[length++] = octet;
			const isAfterCr = state === afterCr || state === afterDotCr;
			state = octet === cr ? afterCr : octet === lf && isAfterCr ? lineStart : inLine;
		}
		this.#state = state;
		return {content: content.subarray(0, length), end: null};
	}
}

export const tooMany = '4.7.1 Too much mail from you for this address, try again in an hour';
export const noDisk = '4.3.1 Too little space on the disk, try again later';
export const shuttingDown = '4.3.2 Shutting down, try again later';
/** The client disconnected while its command was being processed. */
export const sessionOver = '4.4.2 The session is over';
export const storeFails = '4.3.0 The message cannot be stored now, try again later';

/** Creates an error that smtp-server sends with this code and text. */
export function reply(responseCode: number, text: string): Error {
	return Object.assign(new Error(text), {responseCode});
}

/** Replies to messages that cannot be received now. */
export const refusals = {
	too_many: reply(450, tooMany),
	no_room: reply(452, '4.3.1 Too much mail at once, try again later'),
	too_large: null, // The library replies 552.
} as const;
