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
	/** Resolves when one more mail may be put on the wire; absent: always. */
	readonly permit?: ((recipientId: string) => Promise<void>) | undefined;
	/**
	 * Whether the site may have connections still; asked after the wait for the permit, which lasts as long as the
	 * store is silent.
	 */
	readonly isAllowed: () => boolean;
};

/** One conversation to have with one host. */
export type Plan = {
	readonly host: Host;
	/** An idle session to have it on; null: open one. */
	readonly session: Session | null;
	readonly source: Source | undefined;
	readonly hello: Hello;
	/** STARTTLS has failed at this address, so `hello` is `none`. */
	readonly tlsFailed: boolean;
	readonly plainHelo: boolean;
	/** The host mishandles commands that are sent together. */
	readonly lockStep: boolean;
};

/** Ends an attempt from outside: at its deadline, or by a stop that spares mail with data under way. */
export type TryLimits = {
	/** The connection that is in use from now on. */
	readonly use: (connection: SmtpConnection) => void;
	/** Whether the data is being sent, so that the mail may be delivered. */
	readonly committed: (committed: boolean) => void;
	/** Whether no other conversation may begin. */
	readonly over: () => boolean;
	readonly done: () => void;
};

/** A session on which a transaction took place; it is recovered or ended before anything else. */
export type Used = {readonly session: Session; readonly transaction: Transaction};

export type Conversation = {
	readonly end: Accepted | Stop;
	readonly attempt: Attempt;
	/** When the host answered MAIL FROM with 2xx; null: never. */
	readonly senderAcceptedAt: string | null;
	readonly used: Used | null;
};

/** Opens a session if none is there and offers the mail. Null: before that the site lost its connections. */
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
	const begun = clock.monotonic();
	const at = storeTime(clock.now());
	const dialogue = plan.session?.connection.dialogue ?? new Dialogue(clock.monotonic);
	// A smarthost wants no reports, and a session is counted once.
	const isCounted = job.terms.nextHop.kind === 'mx' && plan.session === null;
	let connection: SmtpConnection | null = null;
	const opened = (used: SmtpConnection) => {
		connection = used;
		limits.use(used);
	};
	const record = (end: Accepted | Stop): Attempt => ({
		at,
		host: host.name,
		ip: host.address,
		tls: connection === null ? null : tlsText(host, connection.tls()),
		tlsResult: isCounted ? tlsResult(plan, connection?.tls() ?? null, end) : undefined,
		ms: Math.round(clock.monotonic() - begun),
		...lastWord(end),
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
			tlsFailed: plan.tlsFailed,
			clock,
			plainHelo: plan.plainHelo,
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
	const how = {notify: options.notify, lockStep: plan.lockStep};
	const transaction = await transact(session, job, how, timeouts, {
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

/** The same at the HTTPS API of a provider, which knows no sessions. */
async function offer(
	host: ApiHost,
	job: Delivery,
	{clock, permit, isAllowed, apis}: ConversationOptions,
	limits: TryLimits,
): Promise<Conversation | null> {
	const begun = clock.monotonic();
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
		...{at, host: host.name, ip: null, tls: end.phase === 'connect' ? null : 'HTTPS'},
		ms: Math.round(clock.monotonic() - begun),
		...lastWord(end),
		dialogue: end.by === 'acceptance' ? null : dialogue.text(),
	};
	const mayHaveIt = end.by === 'acceptance' || (end.by === 'loss' && end.phase === 'dot');
	return {end, attempt, senderAcceptedAt: mayHaveIt ? storeTime(clock.now()) : null, used: null};
}

function lastWord(end: Accepted | Stop): Pick<Attempt, 'phase' | 'isSilent' | 'code' | 'enhanced' | 'reply'> {
	if (end.by === 'acceptance' || end.by === 'reply') {
		const {code, enhanced, text: reply} = end.reply;
		return {phase: end.phase, code, enhanced, reply};
	}
	// Of RFC 3463, as a server would say it.
	const enhanced = {size: '5.3.4', utf8: '5.6.7', loss: null, tls: null, login: '5.7.4'}[end.by];
	const reply = end.phase === 'dot' ? `possible duplicate, no answer to the data: ${end.text}` : end.text;
	const isSilent = end.by === 'loss' && end.cause === 'silent' && end.phase !== 'dot';
	return {phase: end.phase, ...(isSilent && {isSilent}), code: null, enhanced, reply};
}

/** Ends a used session, politely where the host waits for a command. */
export async function leave({session: {connection}, transaction: {after}}: Used, {quit}: SmtpTimeouts): Promise<void> {
	if (after === 'ready' || after === 'reset') {
		await connection.quit(quit);
	} else {
		connection.fail('the session is at its end');
	}
}

/** Makes a used session ready for the next mail, null where it cannot be: it is at its end then, politely. */
export async function readyForNext(
	{session, transaction}: Used,
	mailsPerSession: number,
	timeouts: SmtpTimeouts,
): Promise<Session | null> {
	const {connection} = session;
	if (connection.lost() === null && (await recover(session, transaction, timeouts))) {
		// The next mail may find that TLS works.
		if (session.mails < mailsPerSession && !session.tlsFailed) {
			return session;
		}
	}
	if (transaction.after === 'over') {
		connection.fail('the session is at its end');
	} else {
		await connection.quit(timeouts.quit);
	}
	return null;
}

/** The TLS of an attempt for people: `TLSv1.3 TLS_AES_256_GCM_SHA384 verified (MTA-STS)`, null in plain text. */
export function tlsText({tlsPolicy: policy}: Host, tls: Tls | null): string | null {
	if (tls === null) {
		return null;
	}
	const judged = policy?.kind !== 'tlsa' || policy.records.length > 0;
	const verified = judged && tls.failure === null ? 'verified' : 'unverified';
	const by =
		policy === undefined
			? ''
			: policy.kind === 'tlsa'
				? ' (DANE)'
				: policy.enforce
					? ' (MTA-STS)'
					: ' (MTA-STS testing)';
	return `${tls.text} ${verified}${by}`;
}

/** How starting TLS ended, as RFC 8460 counts it; undefined: it was not reached, or not asked for. */
function tlsResult(plan: Pick<Plan, 'host' | 'hello'>, tls: Tls | null, end: Accepted | Stop): TlsResult | undefined {
	const policy = plan.host.tlsPolicy;
	const type = policy?.kind ?? 'no-policy-found';
	if (end.by === 'tls') {
		return {policy: type, result: end.failure};
	}
	if (tls !== null) {
		const wrong = policy?.kind === 'sts' ? (policy.names ? tls.failure : 'validation-failure') : null;
		return {policy: type, result: wrong ?? 'success'};
	}
	const before = end.phase === 'connect' || end.phase === 'greeting' || end.phase === 'ehlo';
	return before || plan.hello === 'none' ? undefined : {policy: type, result: 'starttls-not-supported'};
}
