import type {X509Certificate} from 'node:crypto';
import {connect, isIP, type Socket} from 'node:net';
import {connect as connectTls, type SecureContext, type TLSSocket} from 'node:tls';
import type {TlsFailure} from '../mail/outcome.ts';
import {printable} from '../mail/outcome.ts';
import {type Dialogue, type RawReply, ReplyReader} from './dialogue.ts';
import {tlsaProblems, toTlsFailure, toWords} from './host.ts';

/** Why the connection can no longer be used. */
export type Lost = {
	readonly lost: string;
	/** The system's error code, if there is one. */
	readonly errno?: string;
	readonly tlsFailure?: TlsFailure;
	/**
	 * `closed`: the server closed it. `outOfStep`: there were more replies than commands, so they cannot be matched.
	 * `silent`: the server did not reply in time.
	 */
	readonly cause?: 'closed' | 'outOfStep' | 'silent';
};
export type ReplyOrLost = RawReply | Lost;

/**
 * Callbacks for a wait longer than `afterMs`. `began` is called at that time, `ended` when the wait is over, whatever
 * the result.
 */
export type SilenceWatch = {
	readonly afterMs: number;
	readonly began: () => void;
	readonly ended: () => void;
};

type ConnectionTarget = {
	readonly address: string;
	readonly port: number;
	readonly localAddress?: string | undefined;
	/** TLS from the first byte: nothing is read before `startTls`. */
	readonly implicitTls: boolean;
	readonly dialogue: Dialogue;
};

type TlsDemand = {
	/** The name sent in SNI, against which the certificate is checked. */
	readonly host: string;
	/** Whether to close the connection if the certificate cannot be verified. */
	readonly verify: boolean;
	/** Checks the certificate instead of the certificate authorities. A failure closes the connection. */
	readonly judge?: ((certificate: X509Certificate) => TlsFailure | null) | undefined;
	readonly secureContext: SecureContext;
};

/** A connection's TLS, such as `TLSv1.3 TLS_AES_256_GCM_SHA384`, and the problem with the certificate, if any. */
export type Tls = {readonly text: string; readonly failure: TlsFailure | null};

/** One TCP connection for lines and replies. The caller limits every wait, in milliseconds; nothing throws. */
export class SmtpConnection {
	readonly dialogue: Dialogue;
	#socket: Socket;
	#lost: Lost | null = null;
	#tls: Tls | null = null;
	#endWait: ((result: ReplyOrLost | null) => void) | null = null;
	#isAwaitingReply = false;
	/** The number of replies still to come. The first one is the greeting. */
	#outstanding = 1;
	/** The number of replies expected to the last write, and the code of the last reply. */
	#expected = 1;
	#lastCode = 0;
	#change: ((reply: RawReply) => RawReply) | null = null;
	#watch: SilenceWatch | null = null;
	readonly #reader = new ReplyReader();
	readonly #replies: RawReply[] = [];
	readonly #lostListeners: Array<() => void> = [];

	/** Starts connecting to a literal IP address. */
	constructor({address: host, port, localAddress, implicitTls, dialogue}: ConnectionTarget) {
		this.dialogue = dialogue;
		this.#socket = connect({host, port, noDelay: true, ...(localAddress === undefined ? {} : {localAddress})});
		this.#listen(this.#socket);
		if (!implicitTls) {
			this.#socket.on('data', this.#received);
		}
	}

	connected(timeoutMs: number): Promise<Lost | null> {
		this.#socket.once('connect', () => this.#endWait?.(null));
		return this.#waitLost('connecting', timeoutMs);
	}

	/** Upgrades to TLS. If the server sent plain text before the handshake, the connection is closed (RFC 3207 §6). */
	startTls(demand: TlsDemand, timeoutMs: number): Promise<Lost | null> {
		if (this.#lost === null && (this.#replies.length > 0 || this.#reader.isPartial)) {
			this.#end('the server sent plain text ahead of the TLS handshake');
		}
		if (this.#lost !== null) {
			return Promise.resolve(this.#lost);
		}
		const plain = this.#socket;
		plain.off('data', this.#received);
		const secure: TLSSocket = connectTls({
			socket: plain,
			host: demand.host,
			// RFC 6066 §3: an IP address is not a server name.
			...(isIP(demand.host) === 0 ? {servername: demand.host} : {}),
			rejectUnauthorized: demand.verify,
			secureContext: demand.secureContext,
		});
		this.#socket = secure;
		this.#listen(secure);
		secure.once('secureConnect', () => {
			const failure = toFailure(secure, demand);
			if (failure !== null && demand.judge !== undefined) {
				this.#end(tlsaProblems[failure] ?? failure, {tlsFailure: failure});
				return;
			}
			this.#tls = {text: `${secure.getProtocol()} ${secure.getCipher().name}`, failure};
			this.dialogue.noted(`${this.#tls.text} ${failure === null ? 'verified' : 'unverified'}`);
			this.#endWait?.(null);
		});
		secure.on('data', this.#received);
		return this.#waitLost('the TLS handshake', timeoutMs);
	}

	/**
	 * Writes all parts at once and expects `replies` more replies. `false` means that the peer is slow: await
	 * `drained`.
	 */
	write(parts: ReadonlyArray<string | Uint8Array>, replies: number): boolean {
		if (this.#lost === null && this.#outstanding === 0 && this.#reader.isBegun) {
			this.#end('the server began a reply before the command', {cause: 'outOfStep'});
		}
		if (this.#lost !== null) {
			return true;
		}
		this.#outstanding += replies;
		this.#expected = replies === 0 ? this.#expected : replies;
		this.#socket.cork();
		let isFlowing = true;
		for (const part of parts) {
			this.dialogue.sent(part);
			isFlowing = this.#socket.write(part);
		}
		this.#socket.uncork();
		return isFlowing;
	}

	drained(timeoutMs: number): Promise<Lost | null> {
		if (!this.#socket.writableNeedDrain) {
			return Promise.resolve(this.#lost);
		}
		this.#socket.once('drain', () => {
			if (!this.#isAwaitingReply) {
				this.#endWait?.(null);
			}
		});
		return this.#waitLost('accepting a part of the data', timeoutMs);
	}

	/**
	 * Returns the next reply. A reply that arrived before its command was written is never returned: it closes the
	 * connection.
	 */
	async read(timeoutMs: number): Promise<ReplyOrLost> {
		const reply =
			this.#replies.shift() ?? this.#lost ?? ((await this.#wait('the reply', timeoutMs, true)) as ReplyOrLost);
		// `outOfStep`: one reply too many arrived with it. An acceptance is trusted, because everything after it fails
		// anyway. A refusal is not.
		const {cause} = this.#lost ?? {};
		const isCertain = cause !== 'outOfStep' || 'lost' in reply || (reply.code >= 200 && reply.code < 300);
		return isCertain ? reply : (this.#lost as Lost);
	}

	/** Sets a function that changes each reply received from now on; `null` leaves replies unchanged. */
	changeReplies(change: ((reply: RawReply) => RawReply) | null): void {
		this.#change = change;
	}

	/** Sets the callbacks for long waits that start from now on. */
	watchSilence(watch: SilenceWatch | null): void {
		this.#watch = watch;
	}

	/** Whether a reply, or the beginning of one, has arrived. */
	hasReply(): boolean {
		return this.#replies.length > 0 || this.#reader.isBegun;
	}

	/** Closes the connection at once. All waits return the reason. */
	fail(reason: string, cause?: Lost['cause']): void {
		this.#end(reason, cause && {cause});
	}

	/** Sends QUIT and waits up to the given time for the reply. */
	async quit(timeoutMs: number): Promise<void> {
		this.write(['QUIT\r\n'], 1);
		await this.read(timeoutMs);
		this.#end('quit');
	}

	lost(): Lost | null {
		return this.#lost;
	}

	/** Calls the listener once when the connection closes, for whatever reason. */
	onceLost(listener: () => void): void {
		this.#lostListeners.push(listener);
	}

	/** The TLS in use, or `null` in plain text. */
	tls(): Tls | null {
		return this.#tls;
	}

	#listen(socket: Socket): void {
		socket.on('error', (error: NodeJS.ErrnoException) =>
			this.#end(toWords(error), {
				...(error.code === undefined ? {} : {errno: error.code}),
				...(error.code === 'ECONNRESET' || error.code === 'EPIPE' ? {cause: 'closed'} : {}),
			}),
		);
		socket.on('end', () => this.#end('the server closed the connection', {cause: 'closed'}));
		socket.on('close', () => this.#end('the connection was closed', {cause: 'closed'}));
	}

	#end(reason: string, details: Omit<Lost, 'lost'> = {}): void {
		if (this.#lost !== null) {
			return;
		}
		const text = printable(reason); // It may contain text from the peer.
		this.#lost = {lost: text, ...details};
		if (details.cause === 'outOfStep') {
			this.#replies.length = 0;
		}
		this.dialogue.noted(text);
		this.#socket.destroy();
		this.#endWait?.(this.#lost);
		for (const listener of this.#lostListeners) {
			listener();
		}
	}

	/** A field, so that the same function can be removed from the plain socket. */
	readonly #received = (chunk: Buffer): void => {
		const problem = this.#reader.push(
			chunk,
			reply => this.#handleReply(reply),
			line => {
				const {lines} = this.#change?.({code: 0, lines: [line]}) ?? {lines: [line]};
				this.dialogue.noted(`a line without a code: ${lines.join('')}`);
			},
		);
		if (problem !== null) {
			this.#end(problem);
		}
	};

	#handleReply(raw: RawReply): void {
		if (this.#lost !== null) {
			return;
		}
		const reply = this.#change?.(raw) ?? raw;
		this.dialogue.received(reply);
		if (this.#outstanding === 0) {
			// RFC 5321 §3.8: a server that shuts down may say so at any time. What it replied before still counts.
			const isLeaving = reply.code === 421 || reply.code === 221;
			// Some servers omit the hyphens in a multi-line refusal, so each line looks like a refusal of its own.
			const isRepeat =
				this.#expected === 1 && this.#lastCode >= 400 && reply.code >= (this.#lastCode < 500 ? 400 : 500);
			const text = `the server sent an unexpected reply: ${reply.code} ${reply.lines.join(' ').slice(0, 200)}`;
			this.#end(text, isLeaving ? {cause: 'closed'} : isRepeat ? {} : {cause: 'outOfStep'});
			return;
		}
		this.#outstanding -= 1;
		this.#lastCode = reply.code;
		if (this.#isAwaitingReply) {
			this.#endWait?.(reply);
		} else {
			this.#replies.push(reply);
			this.#endWait?.(null); // A reply ends the wait for a slow peer to accept data.
		}
	}

	#wait(waitedFor: string, timeoutMs: number, expectsReply: boolean): Promise<ReplyOrLost | null> {
		return new Promise(resolve => {
			const end = () => this.#end(`${waitedFor} took longer than ${timeoutMs} ms`, {cause: 'silent'});
			const watch = this.#watch;
			let isSilent = false;
			let timer =
				watch !== null && watch.afterMs < timeoutMs
					? setTimeout(() => {
							timer = setTimeout(end, timeoutMs - watch.afterMs);
							isSilent = true;
							watch.began();
						}, watch.afterMs)
					: setTimeout(end, timeoutMs);
			this.#isAwaitingReply = expectsReply;
			this.#endWait = result => {
				clearTimeout(timer);
				if (isSilent) {
					watch?.ended();
				}
				this.#endWait = null;
				this.#isAwaitingReply = false;
				resolve(result);
			};
		});
	}

	async #waitLost(waitedFor: string, timeoutMs: number): Promise<Lost | null> {
		return this.#lost ?? ((await this.#wait(waitedFor, timeoutMs, false)) as Lost | null);
	}
}

/** Returns the reason why the certificate is not valid for the host, or `null` if it is. */
function toFailure(socket: TLSSocket, {judge}: TlsDemand): TlsFailure | null {
	if (judge !== undefined) {
		const certificate = socket.getPeerX509Certificate();
		return certificate === undefined ? 'certificate-not-trusted' : judge(certificate);
	}
	if (socket.authorized) {
		return null;
	}
	// Node stores the error code here, contrary to its type declarations.
	const failure = toTlsFailure(String(socket.authorizationError));
	return failure === 'validation-failure' ? 'certificate-not-trusted' : failure;
}
