import type {AddressInfo} from 'node:net';
import type {SMTPServerAuthentication, SMTPServerDataStream, SMTPServerSession} from 'smtp-server';
import type {Caller} from '../api/caller.ts';
import {GuardedServer, refusals, reply, sessionOver, storeFails} from '../inbound/guarded-server.ts';
import {createCapacity, createMailBuffer, receiveMail} from '../inbound/receive-mail.ts';
import {
	createSessions,
	type ListenerLimits,
	type Session,
	serverOptions,
	type Tls,
	usualLimits,
} from '../inbound/smtp-sessions.ts';
import type {Address} from '../mail/address.ts';
import type {createSubmit, LoggedIn, Refusal, Submitted} from './submit.ts';

/** A mail that was answered with 250. */
export type SubmittedMail = Pick<Submitted, 'ids' | 'left' | 'leftFor'> & {
	readonly client: string;
	readonly key: string;
	readonly size: number;
	readonly tls: string | null;
};

export type SubmissionRefusal = Refusal & {readonly client: string};

export type SubmissionObserver = {
	readonly submitted: (mail: SubmittedMail) => void;
	readonly submissionRefused: (refusal: SubmissionRefusal) => void;
	readonly storeFailed: (error: unknown) => void;
};

export type ListenerOptions = {
	/** The name in the greeting and in the trace field. */
	readonly hostname: string;
	/** Null: no TLS. */
	readonly tls: Tls | null;
	readonly logIn: (password: string, client: string) => Promise<LoggedIn>;
	readonly submit: ReturnType<typeof createSubmit>;
	/** Whether the disk has room for mail. */
	readonly hasDisk: () => boolean;
	readonly now: () => number;
	readonly observer: SubmissionObserver;
	readonly limits?: Partial<ListenerLimits>;
};

export type SubmissionAddress = {
	readonly host: string;
	readonly port: number;
	/** TLS from the first octet. */
	readonly implicitTls: boolean;
	/** A password may come unencrypted. */
	readonly isLoopback: boolean;
};

/** Programs on one machine share its address, and keep sessions open. */
const submissionLimits: ListenerLimits = {...usualLimits, perClient: 50, recipients: 100};
/** A client that does not log in has this long. */
const logInMs = 60_000;

type State = {
	/** Of whoever logged in; it is asked again for each mail, as it may be revoked meanwhile. */
	key: string;
	caller: Caller | null;
	/** Of the mail whose recipients are being named. */
	recipients: Map<string, Address>;
};
type Done = (error?: Error | null) => void;

const unavailable: Refusal = {code: 451, text: storeFails, reason: 'store'};
const over: Refusal = {code: 421, text: sessionOver, reason: 'session_over'};

/** The submission listener (RFC 6409): a key logs in, and a mail is answered with 250 when it is on stable storage. */
export function createSubmissionListener(options: ListenerOptions) {
	const {hostname, tls, logIn, submit} = options;
	const limits = {...submissionLimits, ...options.limits};
	const room = createCapacity(limits.heldBytes);
	const sessions = createSessions<State>({
		hostname,
		limits: {...limits, sessionMs: Math.min(logInMs, limits.sessionMs)},
		begin: () => ({key: '', caller: null, recipients: new Map()}),
		onTooMany: client =>
			options.observer.submissionRefused({client, code: 421, text: 'too many sessions', reason: 'too_many_sessions'}),
		// Strangers who only connect keep nobody out.
		givesWay: session => session.key === '',
	});

	function createServer({implicitTls, isLoopback}: SubmissionAddress): GuardedServer {
		return new GuardedServer(
			{
				...serverOptions(hostname, limits, tls),
				banner: 'mailctl submission',
				secure: implicitTls,
				authMethods: ['PLAIN', 'LOGIN'],
				allowInsecureAuth: isLoopback,
				authRequiredMessage: '5.7.0 Log in first: any user name, an API key as the password',
				hideSMTPUTF8: true,
				hideDSN: true,
				hideREQUIRETLS: true,
				disabledCommands: [
					...(tls === null ? ['STARTTLS'] : []),
					'HELP',
					'WIZ',
					'SHELL',
					'KILL',
					'XCLIENT',
					'XFORWARD',
				],
				onConnect: sessions.onConnect,
				onAuth,
				onMailFrom: (_, session, done) => answer(session, done, mayBegin),
				onRcptTo: ({address}, session, done) => answer(session, done, state => judge(state, address)),
				onData,
				onClose: sessions.onClose,
			},
			limits.errors,
			limits.clients,
		);
	}

	function refuse({client}: {readonly client: string}, refusal: Refusal): Error {
		options.observer.submissionRefused({...refusal, client});
		return reply(refusal.code, refusal.text);
	}

	/** Answers what a check says: nothing, or why the command is refused. */
	function answer(
		{id}: SMTPServerSession,
		done: Done,
		check: (session: Session<State>) => Promise<Refusal | null>,
	): void {
		const session = sessions.of(id);
		if (!session) {
			done(reply(over.code, over.text));
			return;
		}
		check(session).then(
			refusal => done(refusal && refuse(session, refusal)),
			(error: unknown) => done(fail(session, error)),
		);
	}

	function fail(session: Session<State>, error: unknown): Error {
		options.observer.storeFailed(error);
		return refuse(session, unavailable);
	}

	function onAuth(
		{password}: SMTPServerAuthentication,
		{id, remoteAddress}: SMTPServerSession,
		done: (error: Error | null | undefined, response?: {user: string}) => void,
	): void {
		const session = sessions.of(id);
		if (!session) {
			done(reply(over.code, over.text));
			return;
		}
		const key = password ?? '';
		logIn(key, remoteAddress).then(
			loggedIn => {
				if (!loggedIn.ok) {
					done(refuse(session, loggedIn));
					return;
				}
				session.key = key;
				sessions.extend(id, limits.sessionMs);
				done(null, {user: loggedIn.caller.keyId});
			},
			(error: unknown) => done(Object.assign(fail(session, error), {responseCode: 454})),
		);
	}

	async function mayBegin(session: Session<State>): Promise<Refusal | null> {
		session.recipients = new Map();
		if (!options.hasDisk()) {
			return {code: 452, text: '4.3.1 Too little space on the disk, try again later', reason: 'no_disk'};
		}
		const loggedIn = await logIn(session.key, session.client);
		session.caller = loggedIn.ok ? loggedIn.caller : null;
		return loggedIn.ok ? await submit.refuse(loggedIn.caller) : loggedIn;
	}

	async function judge(session: Session<State>, text: string): Promise<Refusal | null> {
		const judged = session.caller === null ? {ok: false as const, ...over} : await submit.judge(session.caller, text);
		if (!judged.ok) {
			return judged;
		}
		session.recipients.set(judged.address.key, judged.address);
		return null;
	}

	function onData(
		stream: SMTPServerDataStream,
		{id, secure, tlsOptions}: SMTPServerSession,
		done: (error?: Error | null, message?: string) => void,
	): void {
		const session = sessions.of(id);
		const by = session?.caller;
		if (!session || !by) {
			done(reply(over.code, over.text));
			return;
		}
		const {client, recipients} = session;
		const buffer = createMailBuffer(room);
		session.receiving = true;

		const end = (error: Error | null, message?: string): void => {
			buffer.release();
			done(error, message);
			sessions.received(id);
		};

		async function take(caller: Caller): Promise<void> {
			const raw = buffer.bytes();
			const date = new Date(options.now()).toUTCString().replace('GMT', '+0000');
			const submitted = await submit.submit({
				caller,
				recipients: [...recipients.values()],
				raw,
				trace: `Received: by ${hostname} (mailctl) with ${secure ? 'ESMTPSA' : 'ESMTPA'};\r\n ${date}`,
			});
			const {code, text, reason, ids, left, leftFor} = submitted;
			if (reason !== null) {
				end(refuse({client}, {code, text, reason}));
				return;
			}
			const version = secure && tlsOptions ? tlsOptions.version : null;
			options.observer.submitted({client, key: caller.keyId, ids, left, leftFor, size: raw.length, tls: version});
			end(null, text);
		}

		async function receive(by: Caller): Promise<void> {
			const received = await receiveMail(stream, buffer, unlimited);
			if (received.kind === 'whole') {
				await take(by);
			} else if (received.kind === 'refused') {
				// `too_many` is for those who have an allowance.
				const reason = received.reason === 'too_large' ? 'too_large' : 'no_room';
				options.observer.submissionRefused({client, code: reason === 'too_large' ? 552 : 452, text: reason, reason});
				end(refusals[reason]);
			} else {
				sessions.received(id);
			}
		}

		receive(by).catch((error: unknown) => end(fail(session, error)));
	}

	return {
		/** Resolves with the address that it listens on; rejects with what the system says. */
		listen: (at: SubmissionAddress): Promise<AddressInfo> => sessions.listen(createServer(at), at),
		useTls: sessions.useTls,
		sessions: sessions.count,
		close: sessions.close,
	};
}

export type SubmissionListener = ReturnType<typeof createSubmissionListener>;

/** What a key may send is counted by its rate limit and quota. */
const unlimited = {add: () => true, giveBack: () => undefined, prove: () => undefined};
