import type {AddressInfo} from 'node:net';
import type {SMTPServerSession} from 'smtp-server';
import {withoutControls} from '../kit/text.ts';
import type {Allowances, MailShare} from '../net/allowances.ts';
import {announcedSize, noDisk, reply, storeFails, tooMany} from '../net/guarded-server.ts';
import {
	defaultLimits,
	isLooping,
	type ListenerLimits,
	type ListenerOptions,
	type Refused,
	type Session,
	SmtpListener,
} from '../net/smtp-listener.ts';
import {type Accepted, type AcceptInbound, shortKey} from './accept-inbound.ts';
import {type Addressee, type AddresseeVerdict, isForPeople, type Role, turnOf} from './addressee.ts';

/** A message that the listener accepted with 250. */
export type ReceivedMail = {
	readonly client: string;
	readonly roles: readonly Role[];
	readonly size: number;
	readonly tls: string | null;
	/** `null` if it was dropped because of a mail loop. */
	readonly accepted: Accepted | null;
	/** Its share of the allowances. */
	readonly share: MailShare;
};

export type RefusalReason = Refused | 'unknown' | 'foreign' | 'looping' | 'too_many_sessions' | 'no_disk' | 'store';

type InboundObserver = {
	readonly inboundTaken: (mail: ReceivedMail) => void;
	readonly inboundRefused: (reason: RefusalReason, client: string) => void;
	readonly storeFailed: (error: unknown) => void;
};

export type InboundListenerOptions = ListenerOptions & {
	/** The names by which `X-Loop` identifies this installation. */
	readonly ourNames: readonly string[];
	/** Judges the address of a RCPT command. Rejects if the store cannot be read. */
	readonly judge: (address: string) => Promise<AddresseeVerdict>;
	readonly allowances: Allowances;
	readonly acceptMessage: AcceptInbound;
	readonly observer: InboundObserver;
	readonly limits?: Partial<ListenerLimits>;
};

type State = {
	/** The addressees of the current message, including repeated ones, which the library counts once. */
	addressees: Addressee[];
};

const maxNameLength = 255;
/** Clients do not log in to this listener, and the other commands are useless here. */
const disabledCommands = ['AUTH', 'HELP', 'WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'];

/**
 * The SMTP listener for incoming mail. It accepts messages for signed addresses and those of workspaces and the
 * operator, and replies 250 once they are on stable storage. Like the mailbox readers of this folder, it hands them to
 * `acceptInbound`, and `ReadingLoop` reads them later in a thread. It relies on the store and on the readers in
 * `reports`. It never relays or sends mail, and never parses it (R3.5 to R3.8).
 */
export class InboundListener extends SmtpListener<State> {
	declare protected readonly options: InboundListenerOptions;

	constructor(options: InboundListenerOptions) {
		super(options, {...defaultLimits, ...options.limits});
	}

	listen(address: {readonly host: string; readonly port: number}): Promise<AddressInfo> {
		const serverOptions = {
			banner: 'mailctl',
			authOptional: true,
			disabledCommands: this.options.tls === null ? [...disabledCommands, 'STARTTLS'] : disabledCommands,
		};
		return this.listenAs(serverOptions, address);
	}

	#refuse(reason: RefusalReason, {client}: Session<State>, refusal: Error): Error {
		this.options.observer.inboundRefused(reason, client);
		return refusal;
	}

	protected begin(): State {
		return {addressees: []};
	}

	protected tooManySessions(client: string): void {
		this.options.observer.inboundRefused('too_many_sessions', client);
	}

	protected failed(session: Session<State>, error: unknown): Error {
		const refusal = this.#refuse('store', session, reply(451, storeFails));
		this.options.observer.storeFailed(error);
		return refusal;
	}

	protected async mayBegin(session: Session<State>): Promise<Error | null> {
		session.addressees = [];
		return this.options.hasDisk() ? null : this.#refuse('no_disk', session, reply(452, noDisk));
	}

	protected async judge(
		session: Session<State>,
		recipient: {address: string},
		{envelope}: SMTPServerSession,
	): Promise<Error | null> {
		if (session.addressees.length >= this.limits.recipients) {
			return reply(452, '4.5.3 Too many recipients');
		}
		const verdict = await this.options.judge(recipient.address);
		if (!verdict.ok) {
			return this.#refuse(verdict.reason, session, reply(verdict.code, verdict.text));
		}
		if (!(await this.options.allowances.has(verdict, session.client, announcedSize(envelope)))) {
			return this.#refuse('too_many', session, reply(450, tooMany));
		}
		session.addressees.push(verdict);
		recipient.address = verdict.address;
		return null;
	}

	protected share({addressees, client}: Session<State>): Promise<MailShare | null> {
		return this.options.allowances.take(addressees, client);
	}

	protected notReceived(session: Session<State>, reason: Refused): void {
		this.options.observer.inboundRefused(reason, session.client);
	}

	protected async store(
		{addressees, client}: Session<State>,
		raw: Buffer,
		share: MailShare,
		{envelope, secure, tlsOptions, remoteAddress, hostNameAppearsAs}: SMTPServerSession,
	): Promise<string | Error> {
		const {observer, ourNames, acceptMessage} = this.options;
		const roles = [...new Set(addressees.map(({role}) => role))];
		const received = {
			client,
			roles,
			size: raw.length,
			tls: secure && tlsOptions ? tlsOptions.version : null,
			share,
		};
		if (isLooping(raw, ourNames)) {
			// A person should learn about the loop. The sender of a report cannot act on it, so the report is dropped.
			if (roles.some(isForPeople)) {
				share.giveBack();
				observer.inboundRefused('looping', client);
				return reply(554, '5.4.6 Mail loop detected: too many Received fields, or an X-Loop with our name');
			}
			share.giveBack();
			observer.inboundTaken({...received, accepted: null});
			return '2.6.0 Dropped: mail loop detected';
		}
		const accepted = await acceptMessage({
			raw,
			source: 'smtp',
			mailFrom: envelope.mailFrom ? envelope.mailFrom.address : '',
			turn: turnOf(addressees),
			rcptTo: [...new Set(envelope.rcptTo.map(({address}) => address))],
			client: remoteAddress.replace(/^::ffff:(?=\d+\.)/i, ''),
			helo: withoutControls(String(hostNameAppearsAs || '')).slice(0, maxNameLength),
		});
		if (!accepted.isNew) {
			share.giveBack();
		}
		observer.inboundTaken({...received, accepted});
		return `2.6.0 Stored as ${shortKey(accepted.id)}`;
	}
}
