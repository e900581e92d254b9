import type {AddressInfo} from 'node:net';
import type {SMTPServerDataStream, SMTPServerSession} from 'smtp-server';
import type {JudgeAddressee, Role} from './addressee.ts';
import {type ListenerLimits, usualLimits} from './listener-limits.ts';
import {isLooping} from './loop.ts';
import {createMailBuffer, createRoom} from './mail-buffer.ts';
import {createPerClient, networkOf} from './per-client.ts';
import {ReportServer} from './smtp-session.ts';
import {shortKey, type TakeIn, type TakenIn} from './take-in.ts';

export type Tls = {readonly cert: Buffer; readonly key: Buffer};

/** A mail that the listener answered with 250. */
export type Heard = {
	readonly client: string;
	readonly roles: readonly Role[];
	readonly size: number;
	readonly tls: string | null;
	/** Null: it went round in circles and was dropped. */
	readonly taken: TakenIn | null;
};

export type RefusalReason =
	| 'unknown'
	| 'foreign'
	| 'too_many'
	| 'too_many_sessions'
	| 'too_large'
	| 'no_room'
	| 'store';

export type ListenerOptions = {
	/** The name in the greeting. */
	readonly hostname: string;
	/** Names of ours in `X-Loop`. */
	readonly ourNames: readonly string[];
	/** Null: no STARTTLS. */
	readonly tls: Tls | null;
	readonly judge: JudgeAddressee;
	readonly takeIn: TakeIn;
	readonly onMail: (mail: Heard) => void;
	readonly onRefused: (reason: RefusalReason, client: string) => void;
	readonly onStoreError: (error: unknown) => void;
	readonly limits?: Partial<ListenerLimits>;
};

type Session = {
	readonly client: string;
	/** Of the mail whose recipients are being named. */
	readonly roles: Set<Role>;
	/** Recipients of that mail, repeated ones too: the library counts those once. */
	named: number;
	refusals: number;
	/** A mail is on its way, or being stored. */
	receiving: boolean;
	readonly deadline: NodeJS.Timeout;
};

/** AUTH would let `MAIL` wait for it (530); the others are of no use here. */
const disabledCommands = ['AUTH', 'HELP', 'WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'];

/**
 * The SMTP listener: takes reports for signed addresses, and for the operator, and answers 250 when they are on stable
 * storage. It relays nothing, makes no mail, and reads none (delivery.md R3.5 to R3.8).
 */
export function createListener(options: ListenerOptions) {
	const limits = {...usualLimits, ...options.limits};
	const room = createRoom(limits.heldBytes);
	const perClient = createPerClient(limits.perClient);
	const sessions = new Map<string, Session>();
	let closing = false;

	const server = new ReportServer({
		name: options.hostname,
		banner: 'mailctl, for reports only',
		heloResponse: '%s',
		logger: false,
		authOptional: true,
		disabledCommands: options.tls === null ? [...disabledCommands, 'STARTTLS'] : disabledCommands,
		hideSTARTTLS: options.tls === null,
		hideENHANCEDSTATUSCODES: false,
		size: limits.mailBytes,
		rejectOversized: true,
		maxRecipients: limits.recipients,
		disableReverseLookup: true,
		socketTimeout: limits.idleMs,
		closeTimeout: limits.closeMs,
		...options.tls,
		minVersion: 'TLSv1.2',
		onConnect,
		onMailFrom,
		onRcptTo,
		onData,
		onClose,
	});
	// What clients do to their connections is theirs.
	server.on('error', () => undefined);

	function onConnect(session: SMTPServerSession, done: (error?: Error | null) => void): void {
		const client = networkOf(session.remoteAddress);
		if (closing) {
			done(reply(421, `${options.hostname} is closing, try again later`));
		} else if (sessions.size >= limits.clients) {
			options.onRefused('too_many_sessions', client);
			done(reply(421, `${options.hostname} has too many sessions, try again later`));
		} else if (perClient.enter(client)) {
			const deadline = setTimeout(hangUp, limits.sessionMs, session.id, '4.4.2 The session took too long').unref();
			sessions.set(session.id, {client, roles: new Set(), named: 0, refusals: 0, receiving: false, deadline});
			done();
		} else {
			options.onRefused('too_many_sessions', client);
			done(reply(421, `${options.hostname} has too many sessions with you, try again later`));
		}
	}

	function onClose({id}: SMTPServerSession): void {
		const session = sessions.get(id);
		if (session) {
			sessions.delete(id);
			clearTimeout(session.deadline);
			perClient.leave(session.client);
		}
	}

	function hangUp(id: string, text: string): void {
		for (const connection of server.connections) {
			if (connection.id === id) {
				connection.send(421, text);
			}
		}
	}

	function onMailFrom(_: unknown, {id}: SMTPServerSession, done: (error?: Error | null) => void): void {
		const session = sessions.get(id);
		if (session) {
			session.roles.clear();
			session.named = 0;
		}
		done();
	}

	function onRcptTo(recipient: {address: string}, {id}: SMTPServerSession, done: (error?: Error | null) => void): void {
		const session = sessions.get(id);
		if (!session) {
			done(reply(421, '4.4.2 The session is over'));
			return;
		}
		if (session.named >= limits.recipients) {
			done(reply(452, '4.5.3 Too many recipients'));
			return;
		}
		options.judge(recipient.address, session.client).then(
			judged => {
				if (judged.ok) {
					session.named++;
					session.roles.add(judged.role);
					recipient.address = judged.address;
					done();
					return;
				}
				options.onRefused(judged.reason, session.client);
				session.refusals++;
				if (session.refusals > limits.refusals) {
					hangUp(id, '4.7.0 Too many addresses that are not here');
				}
				done(reply(judged.code, judged.text));
			},
			(error: unknown) => {
				refusedByStore(session, error);
				done(reply(451, storeFails));
			},
		);
	}

	function refusedByStore({client}: Session, error: unknown): void {
		options.onRefused('store', client);
		options.onStoreError(error);
	}

	function onData(
		stream: SMTPServerDataStream,
		{id, envelope, secure, tlsOptions}: SMTPServerSession,
		done: (error?: Error | null, message?: string) => void,
	): void {
		const session = sessions.get(id);
		const buffer = createMailBuffer(room);
		let hasRoom = true;
		const roles = [...(session?.roles ?? [])];

		function end(error: Error | null, message?: string): void {
			buffer.release();
			if (session) {
				session.receiving = false;
			}
			done(error, message);
			if (closing) {
				setImmediate(hangUp, id, shuttingDown);
			}
		}

		async function take(client: string): Promise<void> {
			const raw = buffer.bytes();
			const heard = {client, roles, size: raw.length, tls: secure && tlsOptions ? tlsOptions.version : null};
			if (isLooping(raw, options.ourNames)) {
				options.onMail({...heard, taken: null});
				end(null, '2.6.0 Dropped: it goes round in circles');
				return;
			}
			const taken = await options.takeIn({
				raw,
				source: 'smtp',
				mailFrom: envelope.mailFrom ? envelope.mailFrom.address : '',
				rcptTo: [...new Set(envelope.rcptTo.map(({address}) => address))],
			});
			options.onMail({...heard, taken});
			end(null, `2.6.0 Stored as ${shortKey(taken.id)}`);
		}

		if (session) {
			session.receiving = true;
		}
		stream.on('data', (chunk: Buffer) => {
			hasRoom &&= !stream.sizeExceeded && buffer.add(chunk);
			if (!hasRoom) {
				buffer.release();
			}
		});
		stream.on('end', () => {
			if (!session) {
				end(reply(421, '4.4.2 The session is over'));
			} else if (stream.sizeExceeded) {
				options.onRefused('too_large', session.client);
				end(null); // The library answers 552.
			} else if (hasRoom) {
				take(session.client).catch((error: unknown) => {
					refusedByStore(session, error);
					end(reply(451, storeFails));
				});
			} else {
				options.onRefused('no_room', session.client);
				end(reply(452, '4.3.1 Too much mail at once, try again later'));
			}
		});
		stream.on('error', () => {
			buffer.release();
			if (session) {
				session.receiving = false;
			}
		});
	}

	return {
		/** Resolves with the address that it listens on; rejects with what the system says. */
		listen: ({host, port}: {readonly host: string; readonly port: number}): Promise<AddressInfo> =>
			new Promise((resolve, reject) => {
				server.server.once('error', reject);
				server.listen(port, host, () => {
					server.server.off('error', reject);
					resolve(server.server.address() as AddressInfo);
				});
			}),
		sessions: (): number => sessions.size,
		/** Sessions that begin from now on get this certificate. */
		useTls(tls: Tls): void {
			server.updateSecureContext(tls);
		},
		/** Mails that are on their way come to their end, all other sessions are ended at once. */
		close: (): Promise<void> =>
			new Promise(resolve => {
				closing = true;
				server.close(resolve);
				for (const [id, session] of sessions) {
					if (!session.receiving) {
						hangUp(id, shuttingDown);
					}
				}
			}),
	};
}

export type Listener = ReturnType<typeof createListener>;

const shuttingDown = '4.3.2 Shutting down, try again later';
const storeFails = '4.3.0 The mail cannot be stored now, try again later';

function reply(responseCode: number, text: string): Error {
	return Object.assign(new Error(text), {responseCode});
}
