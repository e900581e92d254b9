import type {X509Certificate} from 'node:crypto';
import {createSecureContext, rootCertificates, type SecureContext} from 'node:tls';
import type {Clock} from '../kit/clock.ts';
import {printable} from '../mail/outcome.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';
import {base64, conceal, type Login, plainResponse} from '../net/relay-url.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import type {Dialogue} from './dialogue.ts';
import {certificateFault, type Host, tlsaFailure, tlsFailureOf} from './host.ts';
import {type Answer, type Lost, SmtpConnection} from './smtp-connection.ts';
import {reasonOf, type Stop, stopped} from './verdict.ts';

/** A connection on which mail may be sent. */
export type Session = {
	readonly host: Host;
	readonly connection: SmtpConnection;
	readonly extensions: Extensions;
	/** Where it was made from; undefined: the system chose. */
	readonly localAddress: string | undefined;
	/** In plain text because STARTTLS was offered and failed, now or of late. */
	readonly tlsFailed: boolean;
	/** Mails begun on it so far, and those of them that the host took. */
	mails: number;
	taken: number;
	/** Recipients refused since the host last took a mail. */
	refusals: number;
};

type SessionOptions = {
	readonly timeouts: SmtpTimeouts;
	readonly hostname: string;
	readonly localAddress?: string | undefined;
	readonly secureContexts: SecureContexts;
	/** `none` leaves STARTTLS alone where plain text is allowed: the handshake has failed with this address. */
	readonly hello: Hello;
	readonly tlsFailed: boolean;
	readonly clock: Pick<Clock, 'now'>;
	/** The server did not understand our commands: HELO, and no extension is used. */
	readonly plainHelo: boolean;
	/** Called with the connection at once, so that it can be ended from outside. */
	readonly opened: (connection: SmtpConnection) => void;
	/** Where what is said is kept. */
	readonly dialogue: Dialogue;
};

/** Connects, greets, starts TLS and logs in as the route demands. */
export async function openSession(host: Host, options: SessionOptions): Promise<Session | Stop> {
	const {timeouts, hostname, localAddress, dialogue} = options;
	const {address, port, implicitTls} = host;
	const connection = new SmtpConnection({address, port, localAddress, implicitTls, dialogue});
	options.opened(connection);
	const broken = await connection.connected(timeouts.connect);
	if (broken !== null) {
		return stopped('connect', broken);
	}
	if (implicitTls) {
		const stop = await secure(connection, host, options);
		if (stop !== null) {
			return stop;
		}
	}
	const greeting = await connection.read(timeouts.greeting);
	if ('lost' in greeting || greeting.code !== 220) {
		const stop = stopped('greeting', greeting);
		return refused(connection, implicitTls ? afterHandshake(host, stop) : stop);
	}
	// Plain text may be asked for only where it is allowed.
	const mayDoWithout = host.tls === 'none' || (host.tls === 'opportunistic' && options.hello === 'none');
	const wantsTls = !implicitTls && !mayDoWithout;
	// STARTTLS and AUTH need EHLO; a server that fails on EHLO gets HELO.
	const oldest = options.plainHelo && !wantsTls && host.login === null;
	let extensions = oldest
		? await helo(connection, hostname, timeouts.ehlo)
		: await ehlo(connection, hostname, timeouts.ehlo);
	if ('by' in extensions) {
		return refused(connection, extensions);
	}
	let {tlsFailed} = options;
	if (wantsTls) {
		const upgraded = await upgrade(connection, host, extensions, options);
		if ('by' in upgraded) {
			return refused(connection, upgraded);
		}
		tlsFailed = extensions.starttls && connection.tls() === null;
		extensions = upgraded;
	}
	const stop = host.login === null ? null : await logInSafely(connection, host, extensions, timeouts.ehlo);
	if (stop !== null) {
		return refused(connection, stop);
	}
	const used = options.plainHelo ? noExtensions : extensions;
	return {host, connection, extensions: used, localAddress, tlsFailed, mails: 0, taken: 0, refusals: 0};
}

/** RFC 5321 §4.1.1.5 asks for QUIT before closing. The reason is known, so the answer is not awaited. */
function refused(connection: SmtpConnection, stop: Stop): Stop {
	connection.write(['QUIT\r\n'], 1);
	connection.fail('refused');
	return stop;
}

async function ehlo(connection: SmtpConnection, hostname: string, timeoutMs: number): Promise<Extensions | Stop> {
	connection.write([`EHLO ${hostname}\r\n`], 1);
	const reply = await connection.read(timeoutMs);
	// A 2xx that is not for EHLO answers something else.
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

/** STARTTLS where it is offered or demanded, then what the server offers within TLS. */
async function upgrade(
	connection: SmtpConnection,
	host: Host,
	extensions: Extensions,
	options: SessionOptions,
): Promise<Extensions | Stop> {
	const {timeouts, hostname} = options;
	if (!extensions.starttls) {
		return host.tls === 'opportunistic' ? extensions : demanded(connection, host, 'the server does not offer TLS');
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
		// The server's state after 421, or after a code that is no answer to STARTTLS, is unknown.
		return reply.code === 421 && host.tls !== 'opportunistic'
			? stopped('starttls', reply)
			: demanded(connection, host, `the server refused to start TLS: ${reply.code} ${reply.lines.join(' ')}`);
	}
	const stop = await secure(connection, host, options);
	if (stop !== null) {
		return stop;
	}
	const mayDoWithout = host.tls === 'opportunistic';
	const timeoutMs = mayDoWithout ? timeouts.starttls : timeouts.ehlo;
	const offered =
		options.plainHelo && host.login === null
			? await helo(connection, hostname, timeoutMs)
			: await ehlo(connection, hostname, timeoutMs);
	return 'by' in offered ? afterHandshake(host, offered) : offered;
}

/**
 * In TLS 1.3 a server judges our part of the handshake when it is over for us: whether we have a certificate, for
 * example. So a connection that ends before the first reply within TLS is a handshake that failed.
 */
function afterHandshake(host: Host, stop: Stop): Stop {
	const mayDoWithout = host.tls === 'opportunistic' && !host.implicitTls;
	if (stop.by === 'loss' && (mayDoWithout || stop.errno?.startsWith('ERR_SSL_') === true)) {
		return failedTls(host, {lost: stop.text, ...(stop.errno === undefined ? {} : {errno: stop.errno})});
	}
	// It took the same command a moment ago in plain text. One that is busy (4xx) is no reason to do without TLS.
	return stop.by === 'reply' && mayDoWithout && (stop.reply.code < 400 || stop.reply.code >= 500)
		? failedTls(host, {
				lost: `the server does not take us within TLS: ${reasonOf(stop.reply)}`,
				tlsFailure: 'starttls-not-supported',
			})
		: stop;
}

function demanded(connection: SmtpConnection, host: Host, reason: string): Stop {
	const text = printable(reason);
	connection.write(['QUIT\r\n'], 1);
	connection.fail(text);
	return failedTls(host, {lost: text, tlsFailure: 'starttls-not-supported'});
}

async function secure(connection: SmtpConnection, host: Host, options: SessionOptions): Promise<Stop | null> {
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
	const broken = await connection.startTls({...demand, secureContext}, timeouts.starttls);
	return broken === null ? null : failedTls(host, broken);
}

function failedTls({name: host, tls, tlsPolicy}: Host, {lost, errno, tlsFailure}: Lost): Stop {
	const failure = tlsFailure ?? tlsFailureOf(errno);
	const by = tls === 'opportunistic' ? '' : tlsPolicy?.kind === 'sts' ? 'MTA-STS: ' : tlsPolicy ? 'DANE: ' : '';
	const text = tlsFailure === undefined ? certificateFault(failure, host, lost) : lost;
	return {by: 'tls', phase: 'starttls', text: `${by}${text}`, failure, errno};
}

/** A password goes unencrypted only where the operator said so, and only within the machine. */
async function logInSafely(
	connection: SmtpConnection,
	host: Host,
	extensions: Extensions,
	timeoutMs: number,
): Promise<Stop | null> {
	const safe = connection.tls() !== null || (host.tls === 'none' && isLoopbackAddress(host.address));
	if (!safe) {
		return {by: 'login', phase: 'auth', text: 'the password is not sent over an unencrypted connection'};
	}
	return host.login === null ? null : logIn(connection, host.login, extensions.auth, timeoutMs);
}

/**
 * Logs in at a smarthost with the mechanisms it offers (RFC 4954): PLAIN, else LOGIN. Null: done. What the server
 * repeats of the password is masked, to the end of the connection where it refuses.
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
	const say = (line: string): Promise<Answer> => {
		connection.write([`${line}\r\n`], 1);
		return connection.read(timeoutMs);
	};

	if (offered.includes('PLAIN')) {
		return unlessCode(235, await say(`AUTH PLAIN ${plainResponse(login)}`));
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
		const stop = unlessCode(code, await say(line));
		if (stop !== null) {
			return stop;
		}
	}
	return null;
}

function unlessCode(code: number, answer: Answer): Stop | null {
	return 'lost' in answer || answer.code !== code ? stopped('auth', answer) : null;
}

/**
 * How TLS is begun. `usual`: as Node does. `reduced`: a small ClientHello without TLS 1.3, since some hosts and
 * middleboxes choke on a large one. `none`: not at all.
 */
export type Hello = 'usual' | 'reduced' | 'none';

const usual = {minVersion: 'TLSv1.2'} as const;
const small = {maxVersion: 'TLSv1.2', ecdhCurve: 'P-256'} as const;
const strictly = {...small, minVersion: 'TLSv1.2'} as const;
// Where plain text comes next, TLS 1.0 and short keys are better than nothing (RFC 7435 §3); Node refuses them by
// default.
const old = {...small, minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0'} as const;

/**
 * What the TLS of connections is made with. Each context is made once: reading all public certificates costs
 * milliseconds.
 */
export class SecureContexts {
	readonly #trusted: {readonly ca?: string[]};
	readonly #made = new Map<object, SecureContext>();

	/** `ca`: PEM of certificate authorities to trust in addition to the public ones. */
	constructor(ca: string | undefined) {
		this.#trusted = ca === undefined ? {} : {ca: [...rootCertificates, ca]};
	}

	/** `strict`: TLS is demanded. */
	of(hello: 'usual' | 'reduced', strict: boolean): SecureContext {
		const options = hello === 'usual' ? usual : strict ? strictly : old;
		const context = this.#made.get(options) ?? createSecureContext({...this.#trusted, ...options});
		this.#made.set(options, context);
		return context;
	}
}

/** What a server offers in its answer to EHLO (RFC 5321 §4.1.1.1), as far as we use it. */
export type Extensions = {
	readonly pipelining: boolean;
	readonly starttls: boolean;
	readonly smtputf8: boolean;
	readonly dsn: boolean;
	/** Whether SIZE may be said. */
	readonly size: boolean;
	/** The largest message it takes, in octets; null: it sets no limit. */
	readonly largest: number | null;
	readonly auth: readonly string[];
};

const noExtensions: Extensions = {
	pipelining: false,
	starttls: false,
	smtputf8: false,
	dsn: false,
	size: false,
	largest: null,
	auth: [],
};

/** Reads the lines of a 250 to EHLO; the first one is the server's greeting. */
function parseExtensions(lines: readonly string[]): Extensions {
	const offered = new Map<string, string>();
	for (const line of lines.slice(1)) {
		// `AUTH=LOGIN` is an old spelling that some servers add.
		const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
		offered.set(keyword, [offered.get(keyword), ...parameters].filter(Boolean).join(' '));
	}
	const size = offered.get('SIZE');
	// RFC 1870 §4: zero, or no number, is no fixed limit.
	const largest = size !== undefined && /^\d{1,15}$/.test(size) ? Number(size) : 0;
	return {
		pipelining: offered.has('PIPELINING'),
		starttls: offered.has('STARTTLS'),
		smtputf8: offered.has('SMTPUTF8'),
		dsn: offered.has('DSN'),
		size: size !== undefined,
		largest: largest === 0 ? null : largest,
		auth: (offered.get('AUTH') ?? '').split(' ').filter(Boolean),
	};
}
