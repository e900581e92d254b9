import type {AddressInfo} from 'node:net';
import type {SMTPServerAddress, SMTPServerAuthentication, SMTPServerSession} from 'smtp-server';
import type {Caller} from '../../api/caller.ts';
import type {Address} from '../../mail/address.ts';
import type {MailShare} from '../../net/allowances.ts';
import {noDisk, reply, sessionOver, storeFails} from '../../net/guarded-server.ts';
import {
	defaultLimits,
	type ListenerLimits,
	type ListenerOptions,
	type Refused,
	type Session,
	SmtpListener,
} from '../../net/smtp-listener.ts';
import {extensionsAt, readParameters} from './parameters.ts';
import type {OfEnvelope, Refusal, Submission, Submitted} from './submit.ts';

/** A message that was accepted with 250. */
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

type SubmissionListenerOptions = ListenerOptions & {
	readonly submission: Submission;
	readonly now: () => number;
	readonly observer: SubmissionObserver;
	readonly limits?: Partial<ListenerLimits>;
};

type SubmissionAddress = {
	readonly host: string;
	readonly port: number;
	/** Whether TLS begins with the first octet. */
	readonly implicitTls: boolean;
	/** Whether passwords are allowed without TLS. */
	readonly isLoopback: boolean;
};

/** Programs on one machine share its address and keep sessions open. */
const submissionLimits: ListenerLimits = {...defaultLimits, perClient: 50, recipients: 100};
/** How long a client has to authenticate. */
const authenticationMs = 60_000;
const disabledCommands = ['HELP', 'WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'];

type State = {
	/**
	 * The API key that authenticated the session. It is checked again for each message, as it may be revoked meanwhile.
	 */
	key: string;
	caller: Caller | null;
	/** The recipients of the current message. */
	recipients: Map<string, Address>;
	envelope: OfEnvelope;
};

const storeFailed: Refusal = {code: 451, text: storeFails, reason: 'store'};
const sessionEnded: Refusal = {code: 421, text: sessionOver, reason: 'session_over'};

/**
 * The submission listener (RFC 6409), for programs that send over SMTP instead of the API. A client authenticates with
 * an API key and gets a 250 once its message is on stable storage. The folder relies on the API's keys, on the checks
 * of `send`, and on the SMTP sessions of `net`. It never accepts a message without a key, and never delivers one: that
 * is up to the queue.
 */
export class SubmissionListener extends SmtpListener<State> {
	declare protected readonly options: SubmissionListenerOptions;

	constructor(options: SubmissionListenerOptions) {
		super(options, {...submissionLimits, ...options.limits});
	}

	/** Listens on one of possibly several addresses. */
	listen(address: SubmissionAddress): Promise<AddressInfo> {
		const serverOptions = {
			banner: 'mailctl submission',
			secure: address.implicitTls,
			authMethods: ['PLAIN', 'LOGIN'],
			allowInsecureAuth: address.isLoopback,
			// Without STARTTLS, the library would otherwise allow a key to be sent unencrypted.
			awaitsTls: this.options.tls === null && (address.implicitTls || !address.isLoopback),
			authRequiredMessage: '5.7.0 Authenticate first: any user name, an API key as the password',
			hideSMTPUTF8: true,
			hideDSN: true,
			hideREQUIRETLS: true,
			disabledCommands: this.options.tls === null ? ['STARTTLS', ...disabledCommands] : disabledCommands,
			onAuth: this.#auth.bind(this),
			extensions: () => extensionsAt(this.options.now()),
		};
		return this.listenAs(serverOptions, address, this.limits.clients);
	}

	#refuse({client}: Session<State>, refusal: Refusal): Error {
		this.options.observer.submissionRefused({...refusal, client});
		return reply(refusal.code, refusal.text);
	}

	protected begin(): State {
		return {key: '', caller: null, recipients: new Map(), envelope: {}};
	}

	protected override firstMs(): number {
		return Math.min(authenticationMs, this.limits.sessionMs);
	}

	/** Sessions that have not authenticated yield to those that want to. */
	protected override shouldYield({key}: Session<State>): boolean {
		return key === '';
	}

	protected tooManySessions(client: string): void {
		const refusal = {code: 421, text: 'too many sessions', reason: 'too_many_sessions'} as const;
		this.options.observer.submissionRefused({client, ...refusal});
	}

	protected failed(session: Session<State>, error: unknown): Error {
		this.options.observer.storeFailed(error);
		return this.#refuse(session, storeFailed);
	}

	#auth(
		{password}: SMTPServerAuthentication,
		smtp: SMTPServerSession,
		done: (error: Error | null | undefined, response?: {user: string}) => void,
	): void {
		const key = password ?? '';
		let user = '';
		const respond = (error?: Error | null) => (error ? done(error) : done(null, {user}));
		this.respond(smtp, respond, async session => {
			try {
				const login = await this.options.submission.logIn(key, smtp.remoteAddress);
				if (!login.ok) {
					return this.#refuse(session, login);
				}
				user = login.caller.keyId;
				session.key = key;
				this.extend(session, this.limits.sessionMs);
				return null;
			} catch (error) {
				return Object.assign(this.failed(session, error), {responseCode: 454});
			}
		});
	}

	protected async mayBegin(session: Session<State>, {args}: SMTPServerAddress): Promise<Error | null> {
		const {submission, hasDisk, now} = this.options;
		session.recipients = new Map();
		const parsed = readParameters(args || {}, now());
		if (!parsed.ok) {
			return this.#refuse(session, parsed);
		}
		session.envelope = parsed.envelope;
		if (!hasDisk()) {
			return this.#refuse(session, {code: 452, text: noDisk, reason: 'no_disk'});
		}
		const login = await submission.logIn(session.key, session.client);
		session.caller = login.ok ? login.caller : null;
		const refusal = login.ok ? await submission.refuse(login.caller) : login;
		return refusal && this.#refuse(session, refusal);
	}

	protected async judge(session: Session<State>, {address}: {address: string}): Promise<Error | null> {
		if (session.caller === null) {
			return this.#refuse(session, sessionEnded);
		}
		const recipient = await this.options.submission.judge(session.caller, address);
		if (!recipient.ok) {
			return this.#refuse(session, recipient);
		}
		session.recipients.set(recipient.address.key, recipient.address);
		return null;
	}

	/** Always granted: the key's rate limit and quota apply instead. */
	protected async share(): Promise<MailShare> {
		return {add: () => true, giveBack: () => undefined, prove: () => undefined};
	}

	protected notReceived({client}: Session<State>, refused: Refused): void {
		// `too_many` applies only to clients with an allowance.
		const reason = refused === 'too_large' ? 'too_large' : 'no_room';
		const code = reason === 'too_large' ? 552 : 452;
		this.options.observer.submissionRefused({client, code, text: reason, reason});
	}

	protected async store(
		session: Session<State>,
		raw: Buffer,
		_share: MailShare,
		{secure, tlsOptions}: SMTPServerSession,
	): Promise<string | Error> {
		const {client, caller, recipients, envelope} = session;
		if (caller === null) {
			return this.#refuse(session, sessionEnded);
		}
		const {submission, observer, hostname, now} = this.options;
		const date = new Date(now()).toUTCString().replace('GMT', '+0000');
		const submitted = await submission.submit({
			caller,
			recipients: [...recipients.values()],
			raw,
			envelope,
			trace: `Received: by ${hostname} (mailctl) with ${secure ? 'ESMTPSA' : 'ESMTPA'};\r\n ${date}`,
		});
		const {code, text, reason, ids, left, leftFor} = submitted;
		if (reason !== null) {
			return this.#refuse(session, {code, text, reason});
		}
		const tls = secure && tlsOptions ? tlsOptions.version : null;
		observer.submitted({client, key: caller.keyId, ids, left, leftFor, size: raw.length, tls});
		return text;
	}
}
