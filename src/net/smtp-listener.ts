import type {AddressInfo} from 'node:net';
import type {SMTPServerAddress, SMTPServerDataStream, SMTPServerOptions, SMTPServerSession} from 'smtp-server';
import {readSettingFile} from '../kit/regular-file.ts';
import type {MailShare} from './allowances.ts';
import {type GuardedOptions, GuardedServer, refusals, reply, sessionOver, shuttingDown} from './guarded-server.ts';
import {clientNetwork} from './ip-address.ts';

/** The limits for clients of a listener (R3.5). */
export type ListenerLimits = {
	readonly mailBytes: number;
	readonly clients: number;
	readonly perClient: number;
	readonly recipients: number;
	/** Errors without a stored message in between, after which the session ends (Postfix: smtpd_hard_error_limit). */
	readonly errors: number;
	readonly idleMs: number;
	/** The limit for a whole session. */
	readonly sessionMs: number;
	/** How long a message in transfer may take once the listener is closed. */
	readonly closeMs: number;
	/** How many octets large messages may occupy together while they are received. */
	readonly heldBytes: number;
};

export const defaultLimits: ListenerLimits = {
	mailBytes: 10 * 1024 * 1024,
	clients: 200,
	perClient: 10,
	recipients: 20,
	errors: 20,
	// RFC 5321 §4.5.3.2.7.
	idleMs: 300_000,
	sessionMs: 30 * 60_000,
	closeMs: 10_000,
	heldBytes: 32 * 1024 * 1024,
};

export type Tls = {readonly cert: Buffer | string; readonly key: Buffer | string};

/** Reads a certificate and its key, or returns `null` if none is set. Throws if a file cannot be read. */
export function readTls(cert: string | null, key: string | null): Tls | null {
	return cert === null || key === null ? null : {cert: readSettingFile(cert), key: readSettingFile(key)};
}

export type ListenerOptions = {
	/** The name in the greeting. */
	readonly hostname: string;
	/** `null` if there is no TLS. */
	readonly tls: Tls | null;
	/** Whether the disk has space for mail. */
	readonly hasDisk: () => boolean;
};

export type Session<State> = State & {
	readonly id: string;
	readonly client: string;
	/** A message is being received or stored. */
	isReceiving: boolean;
	deadline: NodeJS.Timeout;
};

type Done = (error?: Error | null) => void;
type DataDone = (error?: Error | null, message?: string) => void;

/**
 * The common part of the two SMTP listeners, for incoming mail and for submission. It limits the number and duration of
 * each client's sessions on one or more addresses, receives messages, and closes the listener. A subclass judges
 * commands and stores messages.
 */
export abstract class SmtpListener<State extends object> {
	protected readonly limits: ListenerLimits;
	protected readonly options: ListenerOptions;
	readonly #held: HeldBytes;
	readonly #sessions = new Map<string, Session<State>>();
	readonly #servers: GuardedServer[] = [];
	#isClosing = false;

	protected constructor(options: ListenerOptions, limits: ListenerLimits) {
		this.options = options;
		this.limits = limits;
		this.#held = {free: limits.heldBytes};
	}

	/** Returns the state of a new session. */
	protected abstract begin(): State;

	/** Returns how long a new session may take. */
	protected firstMs(): number {
		return this.limits.sessionMs;
	}

	/** Whether a session yields to a new one when a limit is reached. The oldest of these ends first. */
	protected shouldYield(_session: Session<State>): boolean {
		return false;
	}

	/** Reports that a session was refused, or ended for another one, because a session limit was reached. */
	protected abstract tooManySessions(client: string): void;

	/** Reports that the store failed, and returns the reply. */
	protected abstract failed(session: Session<State>, error: unknown): Error;

	/** Returns why a message is refused, or `null` if it may start. */
	protected abstract mayBegin(session: Session<State>, sender: SMTPServerAddress): Promise<Error | null>;

	/** Returns why a recipient is refused, or `null` if it is accepted. May rewrite its `address`. */
	protected abstract judge(
		session: Session<State>,
		recipient: {address: string},
		smtp: SMTPServerSession,
	): Promise<Error | null>;

	/** Returns a message's share of the allowances, or `null` if none is left. */
	protected abstract share(session: Session<State>): Promise<MailShare | null>;

	/** Stores a message. Returns the text of the reply, or why the message is refused. */
	protected abstract store(
		session: Session<State>,
		raw: Buffer,
		share: MailShare,
		smtp: SMTPServerSession,
	): Promise<string | Error>;

	/** Reports that a message was not received. */
	protected abstract notReceived(session: Session<State>, reason: Refused): void;

	/** Starts another server and resolves with its address. Rejects with the system's error if it cannot listen. */
	protected listenAs(
		options: GuardedOptions,
		{host, port}: {readonly host: string; readonly port: number},
		maxHandshakes?: number,
	): Promise<AddressInfo> {
		const server = new GuardedServer({...this.#serverOptions(), ...options}, this.limits.errors, maxHandshakes);
		return new Promise((resolve, reject) => {
			this.#servers.push(server);
			// Errors of a connection concern only its client.
			server.on('error', () => undefined);
			server.server.once('error', reject);
			server.listen(port, host, () => {
				server.server.off('error', reject);
				resolve(server.server.address() as AddressInfo);
			});
		});
	}

	#serverOptions(): SMTPServerOptions {
		const {limits} = this;
		const {hostname, tls} = this.options;
		return {
			name: hostname,
			heloResponse: '%s',
			logger: false,
			hideENHANCEDSTATUSCODES: false,
			hideSTARTTLS: tls === null,
			size: limits.mailBytes,
			rejectOversized: true,
			maxRecipients: limits.recipients,
			disableReverseLookup: true,
			socketTimeout: limits.idleMs,
			closeTimeout: limits.closeMs,
			...tls,
			minVersion: 'TLSv1.2',
			onConnect: this.#connect.bind(this),
			onMailFrom: this.#mailFrom.bind(this),
			onRcptTo: this.#rcptTo.bind(this),
			onData: this.#data.bind(this),
			onClose: this.#end.bind(this),
		};
	}

	#connect(smtp: SMTPServerSession, done: Done): void {
		const {limits} = this;
		const {hostname} = this.options;
		const client = clientNetwork(smtp.remoteAddress);
		const sessionCount = [...this.#sessions.values()].filter(session => session.client === client).length;
		const isClientFull = sessionCount >= limits.perClient;
		const isFull = isClientFull || this.#sessions.size >= limits.clients;
		if (this.#isClosing) {
			done(reply(421, `${hostname} is shutting down, try again later`));
		} else if (isFull && !this.#dropOldest(isClientFull ? client : null)) {
			this.tooManySessions(client);
			const source = isClientFull ? ' from your address' : '';
			done(reply(421, `${hostname} has too many sessions${source}, try again later`));
		} else {
			const {id} = smtp;
			const deadline = this.#endAfter(id, this.firstMs());
			this.#sessions.set(id, {...this.begin(), id, client, isReceiving: false, deadline});
			done();
		}
	}

	/** Ends the oldest session that yields, of `client` or of any client. Returns `false` if there is none. */
	#dropOldest(client: string | null): boolean {
		for (const session of this.#sessions.values()) {
			if (this.shouldYield(session) && (client === null || session.client === client)) {
				this.tooManySessions(session.client);
				this.#end(session);
				this.#hangUp(session.id, '4.7.0 Another session needs this slot, authenticate sooner');
				return true;
			}
		}
		return false;
	}

	#end({id}: Pick<SMTPServerSession, 'id'>): void {
		clearTimeout(this.#sessions.get(id)?.deadline);
		this.#sessions.delete(id);
	}

	#endAfter(id: string, ms: number): NodeJS.Timeout {
		return setTimeout(() => this.#hangUp(id, '4.4.2 The session took too long'), ms).unref();
	}

	#hangUp(id: string, text: string): void {
		for (const connection of this.#servers.flatMap(server => [...server.connections])) {
			if (connection.id === id) {
				connection.send(421, text);
			}
		}
	}

	#mailFrom(sender: SMTPServerAddress, smtp: SMTPServerSession, done: Done): void {
		this.respond(smtp, done, session => this.mayBegin(session, sender));
	}

	#rcptTo(recipient: {address: string}, smtp: SMTPServerSession, done: Done): void {
		this.respond(smtp, done, session => this.judge(session, recipient, smtp));
	}

	/** Replies to a command with the result of a check: `null`, or why the command is refused. */
	protected respond(
		{id}: Pick<SMTPServerSession, 'id'>,
		done: Done,
		check: (session: Session<State>) => Promise<Error | null>,
	): void {
		this.#inSession(id, done, session => {
			check(session).then(done, (error: unknown) => done(this.failed(session, error)));
		});
	}

	/** The library may still pass on a command after its session has ended. */
	#inSession(id: string, done: Done, work: (session: Session<State>) => void): void {
		const session = this.#sessions.get(id);
		if (session) {
			work(session);
		} else {
			done(reply(421, sessionOver));
		}
	}

	#data(stream: SMTPServerDataStream, smtp: SMTPServerSession, done: DataDone): void {
		this.#inSession(smtp.id, done, session => this.#receive(session, stream, smtp, done));
	}

	#receive(session: Session<State>, stream: SMTPServerDataStream, smtp: SMTPServerSession, done: DataDone): void {
		const buffer = new MailBuffer(this.#held);
		let share: MailShare | null = null;
		session.isReceiving = true;

		const end = (response: string | Error | null): void => {
			buffer.release();
			if (typeof response === 'string') {
				done(null, response);
			} else {
				done(response);
			}
			this.#received(session);
		};

		const receive = async (): Promise<void> => {
			share = await this.share(session);
			const received = await receiveMail(stream, buffer, share);
			if (received.kind === 'whole') {
				end(await this.store(session, buffer.bytes(), received.share, smtp));
			} else if (received.kind === 'refused') {
				this.notReceived(session, received.reason);
				end(refusals[received.reason]);
			} else {
				this.#received(session);
			}
		};

		receive().catch((error: unknown) => {
			share?.giveBack();
			end(this.failed(session, error));
		});
	}

	/** Finishes a message that has been replied to. */
	#received(session: Session<State>): void {
		session.isReceiving = false;
		if (this.#isClosing) {
			setImmediate(() => this.#hangUp(session.id, shuttingDown));
		}
	}

	/** Sets a new deadline for the session, counted from now. */
	protected extend(session: Session<State>, ms: number): void {
		if (this.#sessions.has(session.id)) {
			clearTimeout(session.deadline);
			session.deadline = this.#endAfter(session.id, ms);
		}
	}

	sessions(): number {
		return this.#sessions.size;
	}

	/** Uses a certificate for new sessions. */
	useTls(tls: Tls): void {
		for (const server of this.#servers) {
			server.useTls(tls);
		}
	}

	/** Ends all sessions. One that is receiving a message ends after the reply to it. */
	async close(): Promise<void> {
		this.#isClosing = true;
		const closed = this.#servers.map(server => new Promise<void>(resolve => server.close(resolve)));
		for (const session of this.#sessions.values()) {
			if (!session.isReceiving) {
				this.#hangUp(session.id, shuttingDown);
			}
		}
		await Promise.all(closed);
	}
}

/** The octets that all messages of a listener may still use together, beyond what each may use anyway. */
type HeldBytes = {free: number};

/** Every message may use this many octets without reserving them. Nearly all reports are smaller. */
const unreservedBytes = 256 * 1024;
const initialBytes = 8 * 1024;

/** Collects a message in one buffer, because a hostile client may send ten million chunks of one byte. */
class MailBuffer {
	readonly #held: HeldBytes;
	#buffer = Buffer.alloc(0);
	#length = 0;
	#reserved = 0;

	constructor(held: HeldBytes) {
		this.#held = held;
	}

	/** Returns `false` if there is no room for it. */
	add(chunk: Buffer): boolean {
		const length = this.#length + chunk.length;
		if (length > this.#buffer.length && !this.#grow(length)) {
			return false;
		}
		this.#length += chunk.copy(this.#buffer, this.#length);
		return true;
	}

	#grow(minSize: number): boolean {
		const {length} = this.#buffer;
		const size = Math.max(initialBytes, minSize, Math.min(2 * length, length + 1024 * 1024));
		const missing = Math.max(0, size - unreservedBytes - this.#reserved);
		if (missing > this.#held.free) {
			return false;
		}
		this.#held.free -= missing;
		this.#reserved += missing;
		const larger = Buffer.allocUnsafeSlow(size);
		this.#buffer.copy(larger, 0, 0, this.#length);
		this.#buffer = larger;
		return true;
	}

	bytes(): Buffer {
		return this.#buffer.subarray(0, this.#length);
	}

	/** Frees the space for other messages. */
	release(): void {
		this.#held.free += this.#reserved;
		this.#reserved = 0;
		this.#length = 0;
		this.#buffer = Buffer.alloc(0);
	}
}

export type Refused = 'too_large' | 'too_many' | 'no_room';

type Received =
	/** The bytes are in the buffer. */
	| {readonly kind: 'whole'; readonly share: MailShare}
	| {readonly kind: 'refused'; readonly reason: Refused}
	/** The client disconnected. */
	| {readonly kind: 'lost'};

/**
 * Receives a whole message, keeping its bytes while there is room and allowance left. Bytes count as they arrive, so
 * that concurrent sessions cannot use the same allowance. Discarded bytes do not count.
 */
async function receiveMail(
	stream: SMTPServerDataStream,
	buffer: MailBuffer,
	share: MailShare | null,
): Promise<Received> {
	const received = await new Promise<Received>(resolve => {
		let reason: Refused | null = share === null ? 'too_many' : null;
		stream.on('data', (chunk: Buffer) => {
			reason ??= stream.sizeExceeded ? 'too_large' : null;
			reason ??= share?.add(chunk.length) ? null : 'too_many';
			reason ??= buffer.add(chunk) ? null : 'no_room';
			if (reason !== null) {
				buffer.release();
			}
		});
		stream.on('end', () => {
			reason = stream.sizeExceeded ? 'too_large' : reason;
			resolve(
				share !== null && reason === null
					? {kind: 'whole', share}
					: {kind: 'refused', reason: reason ?? 'too_many'},
			);
		});
		// The stream may have ended before it had a listener.
		stream.on('error', () => resolve({kind: 'lost'}));
		stream.on('close', () => resolve({kind: 'lost'}));
		if (stream.destroyed) {
			resolve({kind: 'lost'});
		}
	});
	if (received.kind !== 'whole') {
		share?.giveBack();
		buffer.release();
	}
	return received;
}

const maxReceived = 25;
/** How much of a header is searched. */
const maxHeaderLength = 256 * 1024;

/** Whether a message loops: it has more trace fields than any real route (RFC 5321 §6.3), or our `X-Loop`. */
export function isLooping(raw: Buffer, ourNames: readonly string[]): boolean {
	const header = parseHeader(raw);
	if ((header.match(/^received:/gim)?.length ?? 0) > maxReceived) {
		return true;
	}
	const loops = header.match(/^x-loop:.*$/gim) ?? [];
	return loops.some(field =>
		field
			.toLowerCase()
			.split(/[\s:;,<>@]+/)
			.some(word => ourNames.includes(word)),
	);
}

function parseHeader(raw: Buffer): string {
	const text = raw.toString('latin1', 0, maxHeaderLength);
	const end = text.search(/\r?\n\r?\n/);
	return end === -1 ? text : text.slice(0, end + 1);
}
