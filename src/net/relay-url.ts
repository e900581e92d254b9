import {createHash} from 'node:crypto';
import {isIP, isIPv4} from 'node:net';
import {hostName} from './host-name.ts';

/** How a relay's connection is protected. */
const relayTlsModes = ['required', 'opportunistic', 'unverified', 'none'] as const;
/**
 * `required`: TLS with a verified certificate. `unverified`: TLS with any certificate. `opportunistic`: TLS if offered,
 * with any certificate (with smtps: always TLS). `none`: no STARTTLS. A password is sent without TLS only with `none`.
 */
type RelayTls = (typeof relayTlsModes)[number];

/**
 * A relay, also called smarthost (MAILCTL_RELAY_URL in docs/reference/settings.md). User and password are decoded;
 * either both are set or neither.
 */
export type Relay = {
	/** A host name in A-labels, or an IP address without brackets. */
	readonly host: string;
	readonly port: number;
	/** TLS from the first byte, for smtps (RFC 8314 §3.3). */
	readonly secure: boolean;
	readonly tls: RelayTls;
	readonly user: string | null;
	readonly password: string | null;
	/**
	 * Set if the provider accepts messages through its HTTPS API; absent for SMTP. `password` is then the secret or
	 * token, and `user` identifies the account: the key id for SES, the domain for Mailgun, a digest of the token for
	 * Postmark.
	 */
	readonly api?: RelayApi;
};

/** The providers that accept messages over HTTPS. */
export type RelayApi = 'ses' | 'mailgun' | 'postmark';

/** Matches the beginning of a relay URL, for SMTP or an API. */
export const relayScheme = /^(?:smtps?|ses|(?:mailgun|postmark)\+https):/i;

type RelayUrl = {readonly ok: true; readonly relay: Relay} | {readonly ok: false; readonly problem: string};

const grammar = /^(smtps?):\/\/(?:([^@/?#]*)@)?(\[[^\]]*\]|[^@:/?#[\]]*)(?::([^@:/?#]*))?\/?(?:\?([^#]*))?$/i;
const apiGrammar = /^(ses|mailgun\+https|postmark\+https):\/\/([^@/?#]*)@([^@/?#]*)(?:\/([^/?#]*))?\/?$/i;
const apiForms = {
	ses: 'ses://KEY:SECRET@REGION (write / and + in the secret as %2F and %2B)',
	mailgun: 'mailgun+https://KEY@HOST/DOMAIN',
	postmark: 'postmark+https://TOKEN@HOST',
};
const controls = /[\u0000-\u001f\u007f]/;

/**
 * Parses `smtp://[user:pass@]host[:port][?tls=…]`, `smtps://…`, or one of `apiForms`. The error never repeats the URL,
 * which may contain a password.
 */
export function parseRelayUrl(text: string): RelayUrl {
	const [, api] = /^(ses|mailgun|postmark)[:+]/i.exec(text) ?? [];
	if (api) {
		return parseApiUrl(text, api.toLowerCase() as RelayApi);
	}

	const parts = grammar.exec(text);
	if (!parts) {
		return problem(
			'is not smtp://[user:password@]host[:port][?tls=…] (write @ : / ? # , in a user or password as %40 …)',
		);
	}

	const [, scheme = '', credentials, hostText = '', portText, query] = parts;
	const secure = scheme.toLowerCase() === 'smtps';
	const login = credentials === undefined ? {user: null, password: null} : parseLogin(credentials);
	if (!login) {
		return problem('needs user:password before the @, both percent-encoded and not empty');
	}

	const host = parseHost(hostText);
	if (!host) {
		return problem('has no valid host name or address');
	}

	const port = portText === undefined ? defaultPort(secure, login.password) : parsePort(portText);
	if (!port) {
		return problem('has a port outside 1-65535');
	}

	const tls = parseTls(query, login.password);
	if (!tls) {
		return problem(`has an unknown option; allowed is tls=${relayTlsModes.join('|')}`);
	}

	if (secure && tls === 'none') {
		return problem('has smtps and tls=none, which contradict each other');
	}

	if (login.password !== null && tls === 'none' && !isLoopback(host)) {
		return problem('would send the password unencrypted; tls=none with a password is for loopback only');
	}

	return {ok: true, relay: {host, port, secure, tls, ...login}};
}

function parseApiUrl(text: string, api: RelayApi): RelayUrl {
	const [, , credentials = '', hostPart = '', path] = apiGrammar.exec(text) ?? [];
	const token = api === 'ses' || credentials.includes(':') ? undefined : decodeLogin(credentials);
	const login = api === 'ses' ? parseLogin(credentials) : loginByToken(api, token, path);
	const host = api === 'ses' ? sesHost(hostPart) : hostName(hostPart);
	const isValid = login && printable.test(login.user + login.password) && (api === 'mailgun' || path === undefined);
	return isValid && host && !isIPv4(host)
		? {ok: true, relay: {host, port: 443, secure: true, tls: 'required', ...login, api}}
		: problem(`is not ${apiForms[api]}`);
}

/** Credentials must be printable, because they become parts of header fields. */
const printable = /^[\x21-\x7e]+$/;

function loginByToken(api: RelayApi, token: string | undefined, path: string | undefined) {
	const user =
		api === 'mailgun' ? hostName(path ?? '') : createHash('sha256').update(`${token}`).digest('hex').slice(0, 8);
	return token && user ? {user, password: token} : undefined;
}

function sesHost(region: string): string | undefined {
	return /^[a-z]{2}(?:-[a-z]+)+-\d$/.test(region) ? `email.${region}.amazonaws.com` : undefined;
}

function problem(text: string): RelayUrl {
	return {ok: false, problem: text};
}

function parseLogin(text: string): {user: string; password: string} | undefined {
	const colon = text.indexOf(':');
	const user = decodeLogin(text.slice(0, Math.max(0, colon)));
	const password = decodeLogin(text.slice(colon + 1));
	return user && password ? {user, password} : undefined;
}

/**
 * Decodes a percent-encoded user or password. Returns `undefined` if the encoding is invalid or the result contains a
 * control character. NUL separates the fields of SASL PLAIN (RFC 4616 §2), and other controls are never valid either.
 */
export function decodeLogin(text: string): string | undefined {
	try {
		const decoded = decodeURIComponent(text);
		return controls.test(decoded) ? undefined : decoded;
	} catch {
		return undefined;
	}
}

function parseHost(text: string): string | undefined {
	if (text.startsWith('[')) {
		const address = text.slice(1, -1).toLowerCase();
		return isIP(address) === 6 && !address.includes('%') ? address : undefined;
	}

	return isIPv4(text) ? text : hostName(text);
}

function defaultPort(secure: boolean, password: string | null): number {
	if (secure) {
		return 465;
	}

	return password === null ? 25 : 587;
}

function parsePort(text: string): number | undefined {
	const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
	return port >= 1 && port <= 65_535 ? port : undefined;
}

function parseTls(query: string | undefined, password: string | null): RelayTls | undefined {
	if (query === undefined || query === '') {
		return password === null ? 'opportunistic' : 'required';
	}

	return relayTlsModes.find(mode => query === `tls=${mode}`);
}

function isLoopback(host: string): boolean {
	return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** Credentials for a server. */
export type Login = {readonly user: string; readonly password: string};

const mask = '****';
/** A possible part of a command that a server repeats incompletely. */
const base64Run = /[A-Za-z0-9+/]{8,}={0,2}/g;

/** Returns the response for the PLAIN mechanism (RFC 4616). */
export const plainResponse = ({user, password}: Login): string => base64(`\0${user}\0${password}`);

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Masks credentials that a server repeats in a reply: the password, and any base64 that was sent, even in part. */
export function conceal(login: Login, reply: string): string {
	const {user, password} = login;
	const sent = [plainResponse(login), base64(password), base64(user)].filter(Boolean);
	// The secrets are masked as sent, and as base64 without padding.
	const secrets = [...sent, ...sent.map(text => text.replace(/=+$/, '')), password].filter(Boolean);
	const longestFirst = secrets.toSorted((a, b) => b.length - a.length);
	return longestFirst
		.reduce((text, secret) => text.replaceAll(secret, mask), reply)
		.replace(base64Run, run => (sent.some(text => text.includes(run)) ? mask : run));
}
