import type {X509Certificate} from 'node:crypto';
import {createSecureContext, rootCertificates, type SecureContext} from 'node:tls';
import type {Clock} from '../kit/clock.ts';
import {printable} from '../mail/outcome.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';
import {base64, conceal, type Login, plainResponse} from '../net/relay-url.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import type {Dialogue} from './dialogue.ts';
import {certificateProblem, type Host, tlsaFailure, toTlsFailure} from './host.ts';
import {type Lost, type ReplyOrLost, SmtpConnection} from './smtp-connection.ts';
import {type Stop, stopped, toReason} from './verdict.ts';

/** A connection that is ready to carry messages. */
export type Session = {
	readonly host: Host;
	readonly connection: SmtpConnection;
	readonly extensions: Extensions;
	/** The address it was opened from, or `undefined` if the system chose. */
	readonly localAddress: string | undefined;
	/** Whether it is in plain text because STARTTLS was offered but failed, now or recently. */
	readonly hasTlsFailed: boolean;
	/** The number of messages started on it, and how many of them the mail server accepted. */
	messageCount: number;
	acceptedCount: number;
	/** The number of recipients refused since the mail server last accepted a message. */
	refusals: number;
};

type SessionOptions = {
	readonly timeouts: SmtpTimeouts;
	readonly hostname: string;
	readonly localAddress?: string | undefined;
	readonly secureContexts: SecureContexts;
	/** With `none`, STARTTLS is skipped where plain text is allowed, because the handshake failed with this address. */
	readonly hello: Hello;
	readonly hasTlsFailed: boolean;
	readonly clock: Pick<Clock, 'now'>;
	/** The server did not understand EHLO, so HELO is sent and no extension is used. */
	readonly isHeloOnly: boolean;
	/** Called as soon as the connection exists, so that it can be closed from outside. */
	readonly opened: (connection: SmtpConnection) => void;
	/** Records the exchange. */
	readonly dialogue: Dialogue;
};

/** Connects, greets the server, starts TLS and authenticates as the route requires. */
export async function openSession(host: Host, options: SessionOptions): Promise<Session | Stop> {
	const {timeouts, hostname, localAddress, dialogue} = options;
	const {address, port, implicitTls} = host;
	const connection = new SmtpConnection({address, port, localAddress, implicitTls, dialogue});
	options.opened(connection);
	const lost = await connection.connected(timeouts.connect);
	if (lost !== null) {
		return stopped('connect', lost);
	}
	if (implicitTls) {
		const stop = await startTls(connection, host, options);
		if (stop !== null) {
			return stop;
		}
	}
	const greeting = await connection.read(timeouts.greeting);
	if ('lost' in greeting || greeting.code !== 220) {
		const stop = stopped('greeting', greeting);
		return quitAfter(connection, implicitTls ? afterHandshake(host, stop) : stop);
	}
	// Plain text is acceptable only where the route allows it.
	const allowsPlainText = host.tls === 'none' || (host.tls === 'opportunistic' && options.hello === 'none');
	const needsTls = !implicitTls && !allowsPlainText;
	// STARTTLS and AUTH need EHLO; a server that fails on EHLO gets HELO.
	const shouldUseHelo = options.isHeloOnly && !needsTls && host.login === null;
	let extensions = shouldUseHelo
		? await helo(connection, hostname, timeouts.ehlo)
		: await ehlo(connection, hostname, timeouts.ehlo);
	if ('by' in extensions) {
		return quitAfter(connection, extensions);
	}
	let {hasTlsFailed} = options;
	if (needsTls) {
		const upgraded = await upgrade(connection, host, extensions, options);
		if ('by' in upgraded) {
			return quitAfter(connection, upgraded);
		}
		hasTlsFailed = extensions.starttls && connection.tls() === null;
		extensions = upgraded;
	}
	const stop = host.login === null ? null : await logInSafely(connection, host, extensions, timeouts.ehlo);
	if (stop !== null) {
		return quitAfter(connection, stop);
	}
	const usedExtensions = options.isHeloOnly ? noExtensions : extensions;
	return {
		host,
		connection,
		extensions: usedExtensions,
		localAddress,
		hasTlsFailed,
		messageCount: 0,
		acceptedCount: 0,
		refusals: 0,
	};
}

/** RFC 5321 §4.1.1.5 requires QUIT before closing. The reason is already known, so the reply is not awaited. */
function quitAfter(connection: SmtpConnection, stop: Stop): Stop {
	connection.write(['QUIT\r\n'], 1);
	connection.fail('refused');
	return stop;
}

async function ehlo(connection: SmtpConnection, hostname: string, timeoutMs: number): Promise<Extensions | Stop> {
	connection.write([`EHLO ${hostname}\r\n`], 1);
	const reply = await connection.read(timeoutMs);
	// A 2xx other than 250 cannot be the reply to EHLO.
	if ('lost' in reply || reply.code === 421 || (reply.code !== 250 && reply.code < 400)) {
		return stopped('ehlo', reply);
	}
	return reply.code === 250 ? parseExtensions(reply.lines) : helo(connection, hostname, timeoutMs);
}

async function helo(connection: SmtpConnection, hostname: string, timeoutMs: number): Promise<Extensions | Stop> {
	connection.write([`HELO ${hostname}\r\n`], 1);
	const reply = await connection.read(timeoutMs);
	return 'lost' in reply || reply.code !== 250 ? stopped('ehlo', reply) : noExtensions;
}

/** Starts TLS if it is offered or required, then reads the extensions offered within TLS. */
async function upgrade(
	connection: SmtpConnection,
	host: Host,
	extensions: Extensions,
	options: SessionOptions,
): Promise<Extensions | Stop> {
	const {timeouts, hostname} = options;
	if (!extensions.starttls) {
		return host.tls === 'opportunistic' ? extensions : lackOfTls(connection, host, 'the server does not offer TLS');
	}
	connection.write(['STARTTLS\r\n'], 1);
	const reply = await connection.read(timeouts.starttls);
	if ('lost' in reply) {
		return failedTls(host, reply);
	}
	if (reply.code !== 220) {
		if (host.tls === 'opportunistic' && reply.code >= 400 && reply.code !== 421) {
			return extensions;
		}
		// After 421, or after a code that is not a reply to STARTTLS, the server's state is unknown.
		return reply.code === 421 && host.tls !== 'opportunistic'
			? stopped('starttls', reply)
			: lackOfTls(connection, host, `the server refused to start TLS: ${reply.code} ${reply.lines.join(' ')}`);
	}
	const stop = await startTls(connection, host, options);
	if (stop !== null) {
		return stop;
	}
	const allowsPlainText = host.tls === 'opportunistic';
	const timeoutMs = allowsPlainText ? timeouts.starttls : timeouts.ehlo;
	const offered =
		options.isHeloOnly && host.login === null
			? await helo(connection, hostname, timeoutMs)
			: await ehlo(connection, hostname, timeoutMs);
	return 'by' in offered ? afterHandshake(host, offered) : offered;
}

/**
 * In TLS 1.3 the server validates the client's part of the handshake after the client considers it complete: whether it
 * has a certificate, for example. So a connection that ends before the first reply within TLS counts as a failed
 * handshake.
 */
function afterHandshake(host: Host, stop: Stop): Stop {
	const allowsPlainText = host.tls === 'opportunistic' && !host.implicitTls;
	if (stop.by === 'loss' && (allowsPlainText || stop.errno?.startsWith('ERR_SSL_') === true)) {
		return failedTls(host, {lost: stop.text, ...(stop.errno === undefined ? {} : {errno: stop.errno})});
	}
	// The server accepted the same command in plain text a moment ago. If it is busy (4xx), TLS is not given up.
	return stop.by === 'reply' && allowsPlainText && (stop.reply.code < 400 || stop.reply.code >= 500)
		? failedTls(host, {
				lost: `the server rejects commands within TLS: ${toReason(stop.reply)}`,
				tlsFailure: 'starttls-not-supported',
			})
		: stop;
}

function lackOfTls(connection: SmtpConnection, host: Host, reason: string): Stop {
	const text = printable(reason);
	connection.write(['QUIT\r\n'], 1);
	connection.fail(text);
	return failedTls(host, {lost: text, tlsFailure: 'starttls-not-supported'});
}

async function startTls(connection: SmtpConnection, host: Host, options: SessionOptions): Promise<Stop | null> {
	const {secureContexts, timeouts, clock} = options;
	const {name, tls, tlsPolicy: policy} = host;
	const hello = options.hello === 'reduced' ? 'reduced' : 'usual';
	const secureContext = secureContexts.of(hello, tls !== 'opportunistic');
	const demand =
		policy?.kind === 'tlsa' && policy.records.length > 0
			? {
					host: policy.names[0] ?? name,
					verify: false,
					judge: (certificate: X509Certificate) =>
						tlsaFailure(certificate, policy.records, policy.names, clock.now()),
				}
			: {host: name, verify: tls === 'required'};
	const lost = await connection.startTls({...demand, secureContext}, timeouts.starttls);
	return lost === null ? null : failedTls(host, lost);
}

function failedTls({name: host, tls, tlsPolicy}: Host, {lost, errno, tlsFailure}: Lost): Stop {
	const failure = tlsFailure ?? toTlsFailure(errno);
	const prefix = tls === 'opportunistic' ? '' : tlsPolicy?.kind === 'sts' ? 'MTA-STS: ' : tlsPolicy ? 'DANE: ' : '';
	const text = tlsFailure === undefined ? certificateProblem(failure, host, lost) : lost;
	return {by: 'tls', phase: 'starttls', text: `${prefix}${text}`, failure, errno};
}

/** Authenticates. A password is sent unencrypted only if the operator allowed it, and only within this machine. */
async function logInSafely(
	connection: SmtpConnection,
	host: Host,
	extensions: Extensions,
	timeoutMs: number,
): Promise<Stop | null> {
	const isSafe = connection.tls() !== null || (host.tls === 'none' && isLoopbackAddress(host.address));
	if (!isSafe) {
		return {by: 'login', phase: 'auth', text: 'the password is not sent over an unencrypted connection'};
	}
	return host.login === null ? null : logIn(connection, host.login, extensions.auth, timeoutMs);
}

/**
 * Authenticates at a relay with a mechanism it offers (RFC 4954), preferring PLAIN to LOGIN. Returns `null` on success.
 * If the server repeats the password in a reply, it is masked; after a refusal this lasts until the connection closes.
 */
async function logIn(
	connection: SmtpConnection,
	login: Login,
	offered: readonly string[],
	timeoutMs: number,
): Promise<Stop | null> {
	connection.changeReplies(({code, lines}) => ({code, lines: lines.map(line => conceal(login, line))}));
	const stop = await authenticate(connection, login, offered, timeoutMs);
	if (stop === null) {
		connection.changeReplies(null);
	}
	return stop;
}

async function authenticate(
	connection: SmtpConnection,
	login: Login,
	offered: readonly string[],
	timeoutMs: number,
): Promise<Stop | null> {
	const sendLine = (line: string): Promise<ReplyOrLost> => {
		connection.write([`${line}\r\n`], 1);
		return connection.read(timeoutMs);
	};

	if (offered.includes('PLAIN')) {
		return unlessCode(235, await sendLine(`AUTH PLAIN ${plainResponse(login)}`));
	}
	if (!offered.includes('LOGIN')) {
		const text = `the server offers no way to log in that we know (${offered.join(' ') || 'none'})`;
		return {by: 'login', phase: 'auth', text: printable(text)};
	}
	const steps: ReadonlyArray<readonly [line: string, code: number]> = [
		['AUTH LOGIN', 334],
		[base64(login.user), 334],
		[base64(login.password), 235],
	];
	for (const [line, code] of steps) {
		const stop = unlessCode(code, await sendLine(line));
		if (stop !== null) {
			return stop;
		}
	}
	return null;
}

function unlessCode(code: number, reply: ReplyOrLost): Stop | null {
	return 'lost' in reply || reply.code !== code ? stopped('auth', reply) : null;
}

/**
 * How TLS is started. `usual`: with Node's defaults. `reduced`: with a small ClientHello without TLS 1.3, since some
 * servers and middleboxes fail on a large one. `none`: not at all.
 */
export type Hello = 'usual' | 'reduced' | 'none';

const tlsDefaults = {minVersion: 'TLSv1.2'} as const;
const smallHello = {maxVersion: 'TLSv1.2', ecdhCurve: 'P-256'} as const;
const strictOptions = {...smallHello, minVersion: 'TLSv1.2'} as const;
// If plain text is the alternative, TLS 1.0 and short keys are better than nothing (RFC 7435 §3). Node refuses them by
// default.
const legacyOptions = {...smallHello, minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0'} as const;

/**
 * The TLS contexts for connections. Each is created once, because reading all public certificates takes milliseconds.
 */
export class SecureContexts {
	readonly #trusted: {readonly ca?: string[]};
	readonly #contexts = new Map<object, SecureContext>();

	/** `ca` holds additional trusted certificate authorities, as PEM. */
	constructor(ca: string | undefined) {
		this.#trusted = ca === undefined ? {} : {ca: [...rootCertificates, ca]};
	}

	/** `isStrict` means that TLS is mandatory. */
	of(hello: 'usual' | 'reduced', isStrict: boolean): SecureContext {
		const options = hello === 'usual' ? tlsDefaults : isStrict ? strictOptions : legacyOptions;
		const context = this.#contexts.get(options) ?? createSecureContext({...this.#trusted, ...options});
		this.#contexts.set(options, context);
		return context;
	}
}

/** The extensions a server offers in its reply to EHLO (RFC 5321 §4.1.1.1), as far as they are used here. */
export type Extensions = {
	readonly pipelining: boolean;
	readonly starttls: boolean;
	readonly smtputf8: boolean;
	readonly dsn: boolean;
	/** Whether the MAIL command may carry SIZE. */
	readonly size: boolean;
	/** The largest message the server accepts, in octets, or `null` if it states no limit. */
	readonly maxSize: number | null;
	readonly auth: readonly string[];
};

const noExtensions: Extensions = {
	pipelining: false,
	starttls: false,
	smtputf8: false,
	dsn: false,
	size: false,
	maxSize: null,
	auth: [],
};

/** Parses the lines of a 250 reply to EHLO. The first line is the server's greeting. */
function parseExtensions(lines: readonly string[]): Extensions {
	const offered = new Map<string, string>();
	for (const line of lines.slice(1)) {
		// Some servers add the obsolete spelling `AUTH=LOGIN`.
		const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
		offered.set(keyword, [offered.get(keyword), ...parameters].filter(Boolean).join(' '));
	}
	const size = offered.get('SIZE');
	// RFC 1870 §4: zero or a missing number means that there is no fixed limit.
	const largest = size !== undefined && /^\d{1,15}$/.test(size) ? Number(size) : 0;
	return {
		pipelining: offered.has('PIPELINING'),
		starttls: offered.has('STARTTLS'),
		smtputf8: offered.has('SMTPUTF8'),
		dsn: offered.has('DSN'),
		size: size !== undefined,
		maxSize: largest === 0 ? null : largest,
		auth: (offered.get('AUTH') ?? '').split(' ').filter(Boolean),
	};
}
