import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {Attempt, TlsResult} from '../mail/outcome.ts';
import type {Source} from '../mail/route.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import {type ApiHost, type Apis, sendByApi} from './api-host.ts';
import {Dialogue} from './dialogue.ts';
import type {Host} from './host.ts';
import {type Hello, openSession, type SecureContexts, type Session} from './open-session.ts';
import type {SmtpConnection, Tls} from './smtp-connection.ts';
import {type Accepted, type Delivery, type Notify, recover, type Transaction, transact} from './transaction.ts';
import type {Stop} from './verdict.ts';

export type ConversationOptions = {
	readonly hostname: string;
	readonly timeouts: SmtpTimeouts;
	readonly secureContexts: SecureContexts;
	readonly clock: Clock;
	readonly notify: Notify;
	readonly apis: Apis;
	/** Resolves when one more message may be transmitted. Without it, there is no limit. */
	readonly permit?: ((recipientId: string) => Promise<void>) | undefined;
	/**
	 * Whether the provider may still have connections. It is checked after waiting for the permit, because that wait
	 * lasts until the store responds.
	 */
	readonly isAllowed: () => boolean;
};

/** One conversation to hold with one mail server. */
export type Plan = {
	readonly host: Host;
	/** An idle session to reuse, or `null` to open one. */
	readonly session: Session | null;
	readonly source: Source | undefined;
	readonly hello: Hello;
	/** STARTTLS has failed at this address, so `hello` is `none`. */
	readonly hasTlsFailed: boolean;
	readonly isHeloOnly: boolean;
	/** The mail server mishandles pipelined commands. */
	readonly isLockStep: boolean;
};

/**
 * Interrupts an attempt from outside: at its deadline, or at a shutdown that spares messages whose data is being sent.
 */
export type TryLimits = {
	/** Registers the connection in use from now on. */
	readonly use: (connection: SmtpConnection) => void;
	/** Reports whether the data is being sent, in which case the message may be delivered. */
	readonly committed: (committed: boolean) => void;
	/** Whether no further conversation may start. */
	readonly isOver: () => boolean;
	readonly done: () => void;
};

/** A session that has carried a transaction. It must be recovered or closed before anything else happens. */
export type Used = {readonly session: Session; readonly transaction: Transaction};

export type Conversation = {
	readonly end: Accepted | Stop;
	readonly attempt: Attempt;
	/** When the mail server replied 2xx to MAIL FROM, or `null` if it never did. */
	readonly senderAcceptedAt: string | null;
	readonly used: Used | null;
};

/**
 * Offers the message on the planned session, opening one if necessary. This is the whole exchange with one mail server
 * over SMTP or a provider's API. Returns `null` if the provider lost its connections before the message was offered.
 */
export async function converse(
	plan: Plan,
	job: Delivery,
	options: ConversationOptions,
	limits: TryLimits,
): Promise<Conversation | null> {
	const {host, source} = plan;
	const {clock, timeouts} = options;
	if (host.api) {
		return await offer({...host, api: host.api}, job, options, limits);
	}
	const startedAt = clock.monotonic();
	const at = storeTime(clock.now());
	const dialogue = plan.session?.connection.dialogue ?? new Dialogue(clock.monotonic);
	// Relays do not receive TLS reports, and a session counts only once.
	const isCounted = job.terms.nextHop.kind === 'mx' && plan.session === null;
	let connection: SmtpConnection | null = null;
	const opened = (newConnection: SmtpConnection) => {
		connection = newConnection;
		limits.use(newConnection);
	};
	const record = (end: Accepted | Stop): Attempt => ({
		at,
		host: host.name,
		ip: host.address,
		tls: connection === null ? null : tlsText(host, connection.tls()),
		tlsResult: isCounted ? tlsResult(plan, connection?.tls() ?? null, end) : undefined,
		ms: Math.round(clock.monotonic() - startedAt),
		...replyFields(end),
		dialogue: end.by === 'acceptance' ? null : dialogue.text(),
	});

	if (plan.session !== null) {
		dialogue.begin();
		opened(plan.session.connection);
	}
	const session =
		plan.session ??
		(await openSession(host, {
			timeouts,
			hostname: source?.hostname ?? options.hostname,
			localAddress: source?.address,
			secureContexts: options.secureContexts,
			hello: plan.hello,
			hasTlsFailed: plan.hasTlsFailed,
			clock,
			isHeloOnly: plan.isHeloOnly,
			opened,
			dialogue,
		}));
	if ('by' in session) {
		return {end: session, attempt: record(session), senderAcceptedAt: null, used: null};
	}
	await options.permit?.(job.recipientId);
	if (!options.isAllowed()) {
		await session.connection.quit(timeouts.quit);
		return null;
	}
	let senderAcceptedAt: string | null = null;
	const transactionOptions = {notify: options.notify, isLockStep: plan.isLockStep};
	const transaction = await transact(session, job, transactionOptions, timeouts, {
		senderAccepted() {
			senderAcceptedAt = storeTime(clock.now());
		},
		dataBegins() {
			limits.committed(true);
		},
	});
	limits.committed(false);
	return {end: transaction.end, attempt: record(transaction.end), senderAcceptedAt, used: {session, transaction}};
}

/** Like `converse`, through a provider's HTTPS API, which has no sessions. */
async function offer(
	host: ApiHost,
	job: Delivery,
	{clock, permit, isAllowed, apis}: ConversationOptions,
	limits: TryLimits,
): Promise<Conversation | null> {
	const startedAt = clock.monotonic();
	const at = storeTime(clock.now());
	const dialogue = new Dialogue(clock.monotonic);
	await permit?.(job.recipientId);
	if (!isAllowed()) {
		return null;
	}
	limits.committed(true);
	const end = await sendByApi(host, job, {...apis, now: clock.now(), dialogue});
	limits.committed(false);
	const attempt: Attempt = {
		at,
		host: host.name,
		ip: null,
		tls: end.phase === 'connect' ? null : 'HTTPS',
		ms: Math.round(clock.monotonic() - startedAt),
		...replyFields(end),
		dialogue: end.by === 'acceptance' ? null : dialogue.text(),
	};
	const mayBeAccepted = end.by === 'acceptance' || (end.by === 'loss' && end.phase === 'dot');
	return {end, attempt, senderAcceptedAt: mayBeAccepted ? storeTime(clock.now()) : null, used: null};
}

function replyFields(end: Accepted | Stop): Pick<Attempt, 'phase' | 'isSilent' | 'code' | 'enhanced' | 'reply'> {
	if (end.by === 'acceptance' || end.by === 'reply') {
		const {code, enhanced, text: reply} = end.reply;
		return {phase: end.phase, code, enhanced, reply};
	}
	// The codes of RFC 3463 that a server would use.
	const enhanced = {size: '5.3.4', utf8: '5.6.7', loss: null, tls: null, login: '5.7.4'}[end.by];
	const reply = end.phase === 'dot' ? `possible duplicate, no reply to the data: ${end.text}` : end.text;
	const isSilent = end.by === 'loss' && end.cause === 'silent' && end.phase !== 'dot';
	return {phase: end.phase, ...(isSilent && {isSilent}), code: null, enhanced, reply};
}

/** Closes a used session, with QUIT if the mail server is waiting for a command. */
export async function leave({session: {connection}, transaction: {after}}: Used, {quit}: SmtpTimeouts): Promise<void> {
	if (after === 'ready' || after === 'reset') {
		await connection.quit(quit);
	} else {
		connection.fail('the session is over');
	}
}

/** Prepares a used session for the next message. Returns `null` after closing it if it cannot be reused. */
export async function readyForNext(
	{session, transaction}: Used,
	mailsPerSession: number,
	timeouts: SmtpTimeouts,
): Promise<Session | null> {
	const {connection} = session;
	if (connection.lost() === null && (await recover(session, transaction, timeouts))) {
		// A session without TLS because the handshake failed is not reused: TLS may work for the next message.
		if (session.messageCount < mailsPerSession && !session.hasTlsFailed) {
			return session;
		}
	}
	if (transaction.after === 'over') {
		connection.fail('the session is over');
	} else {
		await connection.quit(timeouts.quit);
	}
	return null;
}

/** Describes TLS for people, such as `TLSv1.3 TLS_AES_256_GCM_SHA384 verified (MTA-STS)`; `null` in plain text. */
export function tlsText({tlsPolicy: policy}: Host, tls: Tls | null): string | null {
	if (tls === null) {
		return null;
	}
	const isChecked = policy?.kind !== 'tlsa' || policy.records.length > 0;
	const verified = isChecked && tls.failure === null ? 'verified' : 'unverified';
	const suffix =
		policy === undefined
			? ''
			: policy.kind === 'tlsa'
				? ' (DANE)'
				: policy.isEnforced
					? ' (MTA-STS)'
					: ' (MTA-STS testing)';
	return `${tls.text} ${verified}${suffix}`;
}

/** Returns the result of starting TLS as RFC 8460 counts it, or `undefined` if TLS was not reached or not used. */
function tlsResult(plan: Pick<Plan, 'host' | 'hello'>, tls: Tls | null, end: Accepted | Stop): TlsResult | undefined {
	const policy = plan.host.tlsPolicy;
	const type = policy?.kind ?? 'no-policy-found';
	if (end.by === 'tls') {
		return {policy: type, result: end.failure};
	}
	if (tls !== null) {
		const failure = policy?.kind === 'sts' ? (policy.isHostListed ? tls.failure : 'validation-failure') : null;
		return {policy: type, result: failure ?? 'success'};
	}
	const isBeforeTls = end.phase === 'connect' || end.phase === 'greeting' || end.phase === 'ehlo';
	return isBeforeTls || plan.hello === 'none' ? undefined : {policy: type, result: 'starttls-not-supported'};
}
