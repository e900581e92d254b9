import type {AddressInfo} from 'node:net';
import type {SMTPServerSession} from 'smtp-server';
import {readSettingFile} from '../kit/regular-file.ts';
import {clientNetwork} from '../net/ip-address.ts';
import {type GuardedServer, reply, shuttingDown} from './guarded-server.ts';

/** What clients of the listener may have and do (R3.5). */
export type ListenerLimits = {
	readonly mailBytes: number;
	readonly clients: number;
	readonly perClient: number;
	readonly recipients: number;
	/** Errors of a client without a mail taken in between; then the session ends (Postfix: smtpd_hard_error_limit). */
	readonly errors: number;
	readonly idleMs: number;
	/** A session in all. */
	readonly sessionMs: number;
	/** How long a mail under way has when the listener is closed. */
	readonly closeMs: number;
	/** What large mails may hold together while they come in, octets. */
	readonly heldBytes: number;
};

export const usualLimits: ListenerLimits = {
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

/** How many sessions each client has. */
function createPerClient(most: number) {
	const counts = new Map<string, number>();
	return {
		/** Whether it has as many as it may. */
		isFull: (client: string): boolean => (counts.get(client) ?? 0) >= most,
		enter: (client: string): void => void counts.set(client, (counts.get(client) ?? 0) + 1),
		leave(client: string): void {
			const count = counts.get(client) ?? 0;
			if (count > 1) {
				counts.set(client, count - 1);
			} else {
				counts.delete(client);
			}
		},
	};
}

export type Tls = {readonly cert: Buffer; readonly key: Buffer};

/** Reads a certificate and its key; null: there is none. Throws what the system says. */
export function readTls(cert: string | null, key: string | null): Tls | null {
	return cert === null || key === null ? null : {cert: readSettingFile(cert), key: readSettingFile(key)};
}

export type Session<State> = State & {
	readonly client: string;
	/** A mail is on its way, or being stored. */
	receiving: boolean;
	deadline: NodeJS.Timeout;
};

type Done = (error?: Error | null) => void;

type SessionsOptions<State> = {
	/** The name in the greeting. */
	readonly hostname: string;
	readonly limits: Pick<ListenerLimits, 'clients' | 'perClient' | 'sessionMs'>;
	/** What a session has besides when it begins. */
	readonly begin: () => State;
	readonly onTooMany: (client: string) => void;
	/** Whether a session makes room for a new one where a limit is reached; the oldest such goes first. */
	readonly givesWay?: (session: Session<State>) => boolean;
};

/** The sessions of a listener, on one address or several: how many each client may have, for how long, and how they end. */
export function createSessions<State extends object>({
	hostname,
	limits,
	begin,
	onTooMany,
	givesWay = () => false,
}: SessionsOptions<State>) {
	const perClient = createPerClient(limits.perClient);
	const sessions = new Map<string, Session<State>>();
	const servers: GuardedServer[] = [];
	let closing = false;

	function onConnect(session: SMTPServerSession, done: Done): void {
		const client = clientNetwork(session.remoteAddress);
		const hasMost = perClient.isFull(client);
		if (closing) {
			done(reply(421, `${hostname} is closing, try again later`));
		} else if ((hasMost || sessions.size >= limits.clients) && !makeRoom(hasMost ? client : null)) {
			onTooMany(client);
			done(reply(421, `${hostname} has too many sessions${hasMost ? ' with you' : ''}, try again later`));
		} else {
			perClient.enter(client);
			sessions.set(session.id, {
				...begin(),
				client,
				receiving: false,
				deadline: endAfter(session.id, limits.sessionMs),
			});
			done();
		}
	}

	/** Ends the oldest session that gives way, one of `client` or anybody's; false: there is none. */
	function makeRoom(client: string | null): boolean {
		for (const [id, session] of sessions) {
			if (givesWay(session) && (client === null || session.client === client)) {
				onTooMany(session.client);
				end(id);
				hangUp(id, '4.7.0 Another session needs the place, log in sooner');
				return true;
			}
		}
		return false;
	}

	function end(id: string): void {
		const session = sessions.get(id);
		if (session) {
			sessions.delete(id);
			clearTimeout(session.deadline);
			perClient.leave(session.client);
		}
	}

	function endAfter(id: string, ms: number): NodeJS.Timeout {
		return setTimeout(hangUp, ms, id, '4.4.2 The session took too long').unref();
	}

	function hangUp(id: string, text: string): void {
		for (const connection of servers.flatMap(server => [...server.connections])) {
			if (connection.id === id) {
				connection.send(421, text);
			}
		}
	}

	return {
		onConnect,
		onClose: ({id}: SMTPServerSession): void => end(id),
		of: (id: string): Session<State> | undefined => sessions.get(id),
		count: (): number => sessions.size,
		/** The session has this long from now. */
		extend(id: string, ms: number): void {
			const session = sessions.get(id);
			if (session) {
				clearTimeout(session.deadline);
				session.deadline = endAfter(id, ms);
			}
		},
		/** A mail was answered. */
		received(id: string): void {
			const session = sessions.get(id);
			if (session) {
				session.receiving = false;
			}
			if (closing) {
				setImmediate(hangUp, id, shuttingDown);
			}
		},
		/** Resolves with the address that it listens on; rejects with what the system says. */
		listen: (
			server: GuardedServer,
			{host, port}: {readonly host: string; readonly port: number},
		): Promise<AddressInfo> =>
			new Promise((resolve, reject) => {
				servers.push(server);
				// What clients do to their connections is theirs.
				server.on('error', () => undefined);
				server.server.once('error', reject);
				server.listen(port, host, () => {
					server.server.off('error', reject);
					resolve(server.server.address() as AddressInfo);
				});
			}),
		/** Sessions that begin from now on get this certificate. */
		useTls(tls: Tls): void {
			for (const server of servers) {
				server.updateSecureContext(tls);
			}
		},
		/** Mails that are on their way come to their end, all other sessions are ended at once. */
		async close(): Promise<void> {
			closing = true;
			const closed = servers.map(server => new Promise<void>(resolve => server.close(resolve)));
			for (const [id, session] of sessions) {
				if (!session.receiving) {
					hangUp(id, shuttingDown);
				}
			}
			await Promise.all(closed);
		},
	};
}

/** What a GuardedServer is made with, whatever it listens for. */
export function serverOptions(hostname: string, limits: ListenerLimits, tls: Tls | null) {
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
	} as const;
}
