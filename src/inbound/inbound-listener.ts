import type {AddressInfo} from 'node:net';
import type {SMTPServerDataStream, SMTPServerSession} from 'smtp-server';
import type {Addressee, JudgeAddressee, Role} from './addressee.ts';
import type {Allowances, MailShare} from './allowances.ts';
import {announcedSize, GuardedServer, refusals, reply, sessionOver, storeFails, tooMany} from './guarded-server.ts';
import {createCapacity, createMailBuffer, isLooping, receiveMail} from './receive-mail.ts';
import {
	createSessions,
	type ListenerLimits,
	type Session,
	serverOptions,
	type Tls,
	usualLimits,
} from './smtp-sessions.ts';
import {shortKey, type TakeIn, type TakenIn} from './take-in.ts';

/** A mail that the listener answered with 250. */
export type ReceivedMail = {
	readonly client: string;
	readonly roles: readonly Role[];
	readonly size: number;
	readonly tls: string | null;
	/** Null: it went round in circles and was dropped. */
	readonly taken: TakenIn | null;
	/** What it took of the allowances. */
	readonly share: MailShare;
};

export type RefusalReason =
	| 'unknown'
	| 'foreign'
	| 'too_many'
	| 'too_many_sessions'
	| 'too_large'
	| 'no_room'
	| 'no_disk'
	| 'store';

export type InboundObserver = {
	readonly inboundTaken: (mail: ReceivedMail) => void;
	readonly inboundRefused: (reason: RefusalReason, client: string) => void;
	readonly storeFailed: (error: unknown) => void;
};

export type ListenerOptions = {
	/** The name in the greeting. */
	readonly hostname: string;
	/** Names of ours in `X-Loop`. */
	readonly ourNames: readonly string[];
	/** Null: no STARTTLS. */
	readonly tls: Tls | null;
	readonly judge: JudgeAddressee;
	readonly allowances: Allowances;
	readonly takeIn: TakeIn;
	/** Whether the disk has room for mail; where it has none, senders keep theirs and come again. */
	readonly hasDisk: () => boolean;
	readonly observer: InboundObserver;
	readonly limits?: Partial<ListenerLimits>;
};

type State = {
	/** Of the mail whose recipients are being named, repeated ones too: the library counts those once. */
	addressees: Addressee[];
};

/** AUTH would let `MAIL` wait for it (530); the others are of no use here. */
const disabledCommands = ['AUTH', 'HELP', 'WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'];

/**
 * The SMTP listener: takes reports for signed addresses, and for the operator, and answers 250 when they are on stable
 * storage. It relays nothing, makes no mail, and reads none (R3.5 to R3.8).
 */
export function createListener(options: ListenerOptions) {
	const limits = {...usualLimits, ...options.limits};
	const room = createCapacity(limits.heldBytes);
	const sessions = createSessions<State>({
		hostname: options.hostname,
		limits,
		begin: () => ({addressees: []}),
		onTooMany: client => options.observer.inboundRefused('too_many_sessions', client),
	});

	const server = new GuardedServer(
		{
			...serverOptions(options.hostname, limits, options.tls),
			banner: 'mailctl, for reports only',
			authOptional: true,
			disabledCommands: options.tls === null ? [...disabledCommands, 'STARTTLS'] : disabledCommands,
			onConnect: sessions.onConnect,
			onMailFrom,
			onRcptTo,
			onData,
			onClose: sessions.onClose,
		},
		limits.errors,
	);

	function onMailFrom(_: unknown, {id}: SMTPServerSession, done: (error?: Error | null) => void): void {
		const session = sessions.of(id);
		if (!session) {
			done(reply(421, sessionOver));
			return;
		}
		session.addressees = [];
		if (!options.hasDisk()) {
			options.observer.inboundRefused('no_disk', session.client);
			done(reply(452, '4.3.1 Too little space on the disk, try again later'));
			return;
		}
		done();
	}

	function onRcptTo(
		recipient: {address: string},
		{id, envelope}: SMTPServerSession,
		done: (error?: Error | null) => void,
	): void {
		const session = sessions.of(id);
		if (!session) {
			done(reply(421, sessionOver));
			return;
		}
		if (session.addressees.length >= limits.recipients) {
			done(reply(452, '4.5.3 Too many recipients'));
			return;
		}
		judge(recipient, session, announcedSize(envelope)).then(done, (error: unknown) => {
			refusedByStore(session, error);
			done(reply(451, storeFails));
		});
	}

	/** Answers why a recipient is refused; null: it is not. */
	async function judge(recipient: {address: string}, session: Session<State>, bytes: number): Promise<Error | null> {
		const judged = await options.judge(recipient.address);
		if (!judged.ok) {
			options.observer.inboundRefused(judged.reason, session.client);
			return reply(judged.code, judged.text);
		}
		if (!(await options.allowances.has(judged, session.client, bytes))) {
			options.observer.inboundRefused('too_many', session.client);
			return reply(450, tooMany);
		}
		session.addressees.push(judged);
		recipient.address = judged.address;
		return null;
	}

	function refusedByStore({client}: Session<State>, error: unknown): void {
		options.observer.inboundRefused('store', client);
		options.observer.storeFailed(error);
	}

	function onData(
		stream: SMTPServerDataStream,
		{id, envelope, secure, tlsOptions}: SMTPServerSession,
		done: (error?: Error | null, message?: string) => void,
	): void {
		const session = sessions.of(id);
		if (!session) {
			done(reply(421, sessionOver));
			return;
		}
		const {client, addressees} = session;
		const buffer = createMailBuffer(room);
		let share: MailShare | null = null;
		session.receiving = true;

		const end = (error: Error | null, message?: string): void => {
			buffer.release();
			done(error, message);
			sessions.received(id);
		};

		/** Answers what the client is told. */
		async function take(share: MailShare): Promise<string> {
			const raw = buffer.bytes();
			const roles = [...new Set(addressees.map(({role}) => role))];
			const heard = {client, roles, size: raw.length, tls: secure && tlsOptions ? tlsOptions.version : null, share};
			if (isLooping(raw, options.ourNames)) {
				share.giveBack();
				options.observer.inboundTaken({...heard, taken: null});
				return '2.6.0 Dropped: it goes round in circles';
			}
			const taken = await options.takeIn({
				raw,
				source: 'smtp',
				mailFrom: envelope.mailFrom ? envelope.mailFrom.address : '',
				rcptTo: [...new Set(envelope.rcptTo.map(({address}) => address))],
			});
			if (!taken.isNew) {
				share.giveBack();
			}
			options.observer.inboundTaken({...heard, taken});
			return `2.6.0 Stored as ${shortKey(taken.id)}`;
		}

		const receive = async (): Promise<void> => {
			share = await options.allowances.take(addressees, client);
			const received = await receiveMail(stream, buffer, share);
			if (received.kind === 'whole') {
				end(null, await take(received.share));
			} else if (received.kind === 'refused') {
				options.observer.inboundRefused(received.reason, client);
				end(refusals[received.reason]);
			} else {
				sessions.received(id);
			}
		};

		receive().catch((error: unknown) => {
			share?.giveBack();
			refusedByStore(session, error);
			end(reply(451, storeFails));
		});
	}

	return {
		listen: (at: {readonly host: string; readonly port: number}): Promise<AddressInfo> => sessions.listen(server, at),
		sessions: sessions.count,
		useTls: sessions.useTls,
		close: sessions.close,
	};
}

export type Listener = ReturnType<typeof createListener>;
