import {isIP, isIPv4} from 'node:net';
import {resolve} from 'node:path';
import ipaddr from 'ipaddr.js';
import {parseDuration} from '../kit/time.ts';
import {type RateLimit, readRateLimit} from '../mail/api-key.ts';
import type {RetrySchedule} from '../mail/retry.ts';
import {hostName} from '../net/host-name.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';
import {decodeLogin, parseRelayUrl, type Relay} from '../net/relay-url.ts';
import {type SmtpTimeouts, smtpTimeoutDefaults} from '../net/smtp-timeouts.ts';

const controls = /[\u0000-\u001f\u007f]/;

export const boolean: Parser<boolean> = text =>
	text === 'true' || text === 'false' ? value(text === 'true') : allowed('use true or false');

/** Accepts one of the words. */
export function choice<const T extends string>(words: readonly T[]): Parser<T> {
	return text => {
		const word = words.find(candidate => candidate === text);
		return word === undefined ? allowed(`use ${orList(words)}`) : value(word);
	};
}

/** Accepts a whole number from `min` to `max`, in plain decimal digits. */
export function count(min: number, max: number): Parser<number> {
	return text => {
		const number = /^\d{1,12}$/.test(text) ? Number(text) : -1;
		return number >= min && number <= max ? value(number) : allowed(`use a whole number, ${min} to ${max}`);
	};
}

const maxDuration = 3650 * 86_400_000;
const maxTimerMs = 12 * 86_400_000;

/** Converts `500ms 90s 5m 4h 4d` to milliseconds; a plain number is seconds. The maximum is ten years. */
export function duration(min = 0): Parser<number> {
	return durationUpTo(maxDuration, min, '');
}

/** Like `duration`, for a single timer or the sum of two: Node fires a timer of more than 2^31 ms immediately. */
export function timerDuration(min = 0): Parser<number> {
	return durationUpTo(maxTimerMs, min, ', at most 12d');
}

function durationUpTo(max: number, min: number, atMost: string): Parser<number> {
	return text => {
		const milliseconds = parseDuration(text) ?? -1;
		return milliseconds >= min && milliseconds <= max
			? value(milliseconds)
			: allowed(
					`use a duration such as 500ms, 90s, 5m, 4h or 4d (a plain number is seconds)${min ? ', not 0' : ''}${atMost}`,
				);
	};
}

const sizeUnits: Readonly<Record<string, number>> = {KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3};
const maxSize = 1024 ** 4;

/** Converts `512KiB 200MiB 1GiB` to octets; a plain number is octets. The maximum is 1024 GiB. */
export function size(min = 0): Parser<number> {
	return text => {
		const [, digits, unit = ''] = /^(\d{1,13})(KiB|MiB|GiB)?$/.exec(text) ?? [];
		const octets = digits === undefined ? -1 : Number(digits) * (sizeUnits[unit] ?? 1);
		return octets >= min && octets <= maxSize
			? value(octets)
			: allowed(`use a size such as 512KiB, 200MiB or 1GiB (a plain number is octets)${min ? ', not 0' : ''}`);
	};
}

/** A secret that is sent unencoded in a header field. */
export const token: Parser<string> = text =>
	/^[!-~]{1,256}$/.test(text) ? value(text) : allowed('use 1 to 256 printable ASCII characters without spaces');

/** Parses items separated by commas, none of them empty. */
export function list<T>(item: Parser<T>): Parser<readonly T[]> {
	return (text, cwd) => {
		const values: T[] = [];
		for (const part of text.split(',')) {
			const parsed = item(part.trim(), cwd);
			if (!parsed.ok) {
				return allowed(`${parsed.allowed}; separate several with commas`);
			}
			values.push(parsed.value);
		}
		return value(values);
	};
}

/** Like `list`, without duplicates. */
export function wordSet<const T extends string>(words: readonly T[]): Parser<readonly T[]> {
	const parse = list(choice(words));
	return (text, cwd) => {
		const parsed = parse(text, cwd);
		return parsed.ok ? value([...new Set(parsed.value)]) : parsed;
	};
}

/** Resolves a path against the working directory. */
export const path: Parser<string> = (text, cwd) =>
	controls.test(text) ? allowed('use a path without control characters') : value(resolve(cwd, text));

/** Converts a domain to A-labels. */
export const domain: Parser<string> = text => {
	const name = hostName(text);
	return name === undefined || name.includes('_') ? allowed('use a host name such as mail.example.com') : value(name);
};

/** A bare address whose local part needs no quotes (RFC 5321 §4.1.2, Dot-string). Its domain gets A-labels. */
export const mailAddress: Parser<string> = (text, cwd) => {
	const atSign = text.lastIndexOf('@');
	const local = text.slice(0, Math.max(0, atSign));
	const host = domain(text.slice(atSign + 1), cwd);
	const isLocal = local.length <= 64 && /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/.test(local);
	return isLocal && host.ok ? value(`${local}@${host.value}`) : allowed('use an address such as fbl@example.com');
};

/** Base64 of exactly 32 bytes. */
export const key256: Parser<Uint8Array> = text => {
	const bytes = Buffer.from(text, 'base64');
	const isExact = bytes.length === 32 && bytes.toString('base64').replace('=', '') === text.replace(/=$/, '');
	return isExact ? value(new Uint8Array(bytes)) : allowed('use base64 of 32 bytes (openssl rand -base64 32)');
};

/** One or more of `key256`, all different. */
export const keys256: Parser<readonly Uint8Array[]> = (text, cwd) => {
	const keys = list(key256)(text, cwd);
	const texts = keys.ok ? keys.value.map(key => Buffer.from(key).toString('base64')) : [];
	return new Set(texts).size === texts.length ? keys : allowed('use each key only once');
};

function orList(words: readonly string[]): string {
	return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** The result of parsing a setting: the value, or what would be allowed, as a clause that follows `name="text" …: `. */
type Parsed<T> = {readonly ok: true; readonly value: T} | {readonly ok: false; readonly allowed: string};
/** Parses a text without side effects and never throws. Relative paths are resolved against `cwd`. */
export type Parser<T> = (text: string, cwd: string) => Parsed<T>;

export function value<T>(parsed: T): Parsed<T> {
	return {ok: true, value: parsed};
}

export function allowed<T>(text: string): Parsed<T> {
	return {ok: false, allowed: text};
}

export type Listen = {readonly host: string; readonly port: number};
type SourceAddress = {readonly ip: string; readonly ehlo: string | null};

/** `host:port`, `[::1]:port` or a port (on 127.0.0.1). With port 0, the system chooses one. */
export const listen: Parser<Listen> = text => {
	const {host, port} = splitPort(text) ?? {host: '127.0.0.1', port: text};
	const name = isIP(host) ? host : hostName(host);
	const number = portNumber(port);
	return name === undefined || number === undefined
		? allowed('use host:port, [::1]:port or a port, 0 to 65535')
		: value({host: name, port: number});
};

/** Like `listen`; `off` is `null`. */
export const listenOrOff: Parser<Listen | null> = (text, cwd) => {
	return text === 'off' ? value(null) : orOff(listen(text, cwd));
};

/** Like `listen`, several separated by commas; `off` is an empty list. */
export const listensOrOff: Parser<readonly Listen[]> = (text, cwd) =>
	text === 'off' ? value([]) : orOff(list(listen)(text, cwd));

function orOff<T>(parsed: Parsed<T>): Parsed<T> {
	return parsed.ok ? parsed : allowed(`${parsed.allowed}, or off`);
}

/** Like `listen`; `off` remains a word, for a setting whose default is something else. */
export const listenOrWordOff: Parser<Listen | 'off'> = (text, cwd) =>
	text === 'off' ? value(text) : orOff(listen(text, cwd));

/** `ip[:port]`, in the form that `dns.setServers` accepts: `192.0.2.1:53`, `[::1]:53`. */
export const dnsServer: Parser<string> = text => {
	const {host, port} = isIP(text) ? {host: text, port: '53'} : (splitPort(text) ?? {host: text, port: '53'});
	const number = portNumber(port);
	return isAddress(host) && number
		? value(isIPv4(host) ? `${host}:${number}` : `[${host}]:${number}`)
		: allowed('use ip or ip:port ([::1]:53)');
};

/** `name=host:port`: replaces a provider's host in a lab. */
export const standIn: Parser<readonly [name: string, listen: Listen]> = (text, cwd) => {
	const [name = '', address = ''] = text.split('=');
	const parsed = address === '' ? undefined : listen(address, cwd);
	return name === '' || !parsed?.ok
		? allowed('use name=host:port, such as ses=127.0.0.1:8443')
		: value([name, parsed.value]);
};

/** Normalizes a range: `10.1.2.3/8` becomes `10.0.0.0/8`, and a bare address becomes a range of one. */
export const cidr: Parser<string> = text => {
	const [address = '', bits, ...rest] = text.split('/');
	if (!isAddress(address) || rest.length > 0) {
		return notCidr;
	}
	const width = isIPv4(address) ? 32 : 128;
	const length = bits === undefined ? width : /^\d{1,3}$/.test(bits) ? Number(bits) : -1;
	if (length < 0 || length > width) {
		return notCidr;
	}
	const family = width === 32 ? ipaddr.IPv4 : ipaddr.IPv6;
	return value(`${family.networkAddressFromCIDR(`${address}/${length}`)}/${length}`);
};

const notCidr: Parsed<string> = allowed('use a range such as 10.0.0.0/8 or fd00::/8');

/** `ip[=ehlo.name]`. */
export const sourceAddress: Parser<SourceAddress> = text => {
	const [ip = '', name, ...rest] = text.split('=');
	const ehlo = name === undefined ? null : hostName(name);
	return isAddress(ip) && ehlo !== undefined && rest.length === 0
		? value({ip, ehlo})
		: allowed('use ip or ip=ehlo.name');
};

// A zone (fe80::1%eth0) names an interface of this machine, which none of these settings can use.
function isAddress(text: string): boolean {
	return isIP(text) !== 0 && !text.includes('%');
}

function splitPort(text: string): {host: string; port: string} | undefined {
	const [, bracketed, plain, port = ''] = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/.exec(text) ?? [];
	if (bracketed !== undefined) {
		return isIP(bracketed) === 6 ? {host: bracketed, port} : undefined;
	}
	return plain === undefined ? undefined : {host: plain, port};
}

function portNumber(text: string): number | undefined {
	const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
	return port >= 0 && port <= 65_535 ? port : undefined;
}

/** The mailbox that bounces are fetched from (MAILCTL_BOUNCE_MAILBOX). */
export type BounceMailbox =
	| {
			readonly kind: 'imap';
			readonly host: string;
			readonly port: number;
			/** `implicit`: TLS from the first byte. */
			readonly tls: 'implicit' | 'starttls' | 'none';
			readonly user: string;
			readonly password: string;
			readonly folder: string;
	  }
	| {readonly kind: 'maildir'; readonly path: string};

/** One or more relays, tried in order. */
export const relays: Parser<readonly Relay[]> = text => {
	const parsed = text.split(',').map(part => parseRelayUrl(part.trim()));
	const index = parsed.findIndex(relay => !relay.ok);
	const invalid = parsed[index];
	return invalid && !invalid.ok
		? allowed(`URL ${index + 1} ${invalid.problem}`)
		: value(parsed.flatMap(relay => (relay.ok ? [relay.relay] : [])));
};

/** Like `relays`, but without relays that use an HTTPS API. */
export const smtpRelays: Parser<readonly Relay[]> = (text, cwd) => {
	const parsed = relays(text, cwd);
	return parsed.ok && parsed.value.some(({api}) => api) ? allowed('use smtp://… or smtps://…') : parsed;
};

/** The base URL of links: http or https with an optional path, stored without a trailing slash. */
export const publicUrl: Parser<string> = text => {
	const url = parseUrl(text);
	const isBase = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(text);
	return isBase ? value(url.href.replace(/\/+$/, '')) : allowed('use http://host[:port][/path] or https://…');
};

/**
 * An OpenID Connect issuer, with plain http only on loopback. It is not normalized: issuers are compared octet by
 * octet.
 */
export const issuer: Parser<string> = text => {
	const url = parseUrl(text);
	const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackName(url.hostname));
	return url && isSafe && !url.username && !/[?#]/.test(text)
		? value(text)
		: allowed('use https://host[:port][/path]');
};

/** The directory of an ACME server (RFC 8555 §7.1.1). */
export const acmeDirectory: Parser<string> = text =>
	parseUrl(text)?.protocol === 'https:' && !/[#@]/.test(text) ? value(text) : allowed('use https://host[:port]/path');

/** The external account binding that identifies a new account to a CA (RFC 8555 §7.3.4). */
export type ExternalAccount = {readonly kid: string; readonly key: Uint8Array};

/** `KID:HMACKEY`, with the key in base64url as CAs display it. */
export const externalAccount: Parser<ExternalAccount> = text => {
	const [, kid, hmac] = /^([!-9;-~]{1,256}):([\w-]{16,1024})=*$/.exec(text) ?? [];
	return kid === undefined || hmac === undefined
		? allowed('use KID:HMACKEY, with the key in base64url as the CA displays it')
		: value({kid, key: new Uint8Array(Buffer.from(hmac, 'base64url'))});
};

const isLoopbackName = (host: string) => host === 'localhost' || isLoopbackAddress(host.replace(/^\[|\]$/g, ''));

/** A `postgres://` URL, passed to the driver unchanged. */
export const databaseUrl: Parser<string> = text =>
	/^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text)
		? value(text)
		: allowed('use postgres://user:password@host[:port]/database (omit the setting for SQLite)');

const mailboxForms = 'use imaps://user:password@host/INBOX, imap://…?tls=starttls|none or maildir:/path';

export const bounceMailbox: Parser<BounceMailbox> = (text, cwd) => {
	const folder = /^maildir:(.+)$/.exec(text)?.[1];
	if (folder !== undefined) {
		return value({kind: 'maildir', path: resolve(cwd, folder)});
	}
	const url = /^imaps?:\/\//.test(text) ? parseUrl(text) : undefined;
	const bare = url?.hostname.replace(/^\[|\]$/g, '') ?? '';
	const host = isIP(bare) ? bare : hostName(bare);
	const user = decodeLogin(url?.username ?? '');
	const password = decodeLogin(url?.password ?? '');
	const name = decodeLogin(url?.pathname.slice(1) || 'INBOX');
	const isSecure = url?.protocol === 'imaps:';
	const tls = isSecure && !url.search ? 'implicit' : !isSecure && imapTls[url?.search ?? ''];
	return url && host && user && password && name && tls
		? value({
				kind: 'imap',
				host,
				port: Number(url.port) || (isSecure ? 993 : 143),
				tls,
				user,
				password,
				folder: name,
			})
		: allowed(mailboxForms);
};

const imapTls: Readonly<Record<string, 'starttls' | 'none'>> = {
	'': 'starttls',
	'?tls=starttls': 'starttls',
	'?tls=none': 'none',
};

function parseUrl(text: string): URL | undefined {
	return URL.canParse(text) ? new URL(text) : undefined;
}

/** Hides the whole value. */
export function hidden(): string {
	return '***';
}

/**
 * Masks the text from `user:` (in `…+https` URLs, from the start) to the last `@` of a URL's authority, and query
 * parameters whose names contain "pass".
 */
export function maskPassword(url: string): string {
	return url
		.replace(/(\+https:\/\/|:\/\/[^:@/?#]*:)[^/?#]*@/i, '$1***@')
		.replace(/([?&][^=&#]*pass[^=&#]*=)[^&#]*/gi, '$1***');
}

/** Like `maskPassword`, for URLs separated by commas. */
export function maskPasswords(urls: string): string {
	return urls.split(',').map(maskPassword).join(',');
}

type WebhookConcurrency = {readonly perEndpoint: number; readonly total: number};

const wait = duration(1);
const stepTimeout = timerDuration(1);

/** `1m,5m,4h*`: a trailing `*` repeats the last delay. */
export const retrySchedule: Parser<RetrySchedule> = (text, cwd) => {
	const shouldRepeatLast = text.endsWith('*');
	const waits: number[] = [];
	for (const part of (shouldRepeatLast ? text.slice(0, -1) : text).split(',')) {
		const parsed = wait(part.trim(), cwd);
		if (!parsed.ok) {
			return allowed('use durations separated by commas, with * after the last to repeat it, such as 1m,5m,4h*');
		}
		waits.push(parsed.value);
	}
	return value({waits, repeatLast: shouldRepeatLast});
};

/** `connect=30s,dot=10m`: any subset of the steps; the others keep their defaults. */
export const smtpTimeouts: Parser<SmtpTimeouts> = (text, cwd) => {
	const timeouts: Record<keyof SmtpTimeouts, number> = {...smtpTimeoutDefaults};
	for (const part of text.split(',')) {
		const [name = '', limit = '', ...rest] = part.trim().split('=');
		const parsed = stepTimeout(limit, cwd);
		if (!parsed.ok || rest.length > 0 || !isStep(name)) {
			return allowed(
				`use step=duration separated by commas, with the steps ${Object.keys(smtpTimeoutDefaults).join(' ')}`,
			);
		}
		timeouts[name] = parsed.value;
	}
	return value(timeouts);
};

function isStep(name: string): name is keyof SmtpTimeouts {
	return Object.hasOwn(smtpTimeoutDefaults, name);
}

/** `6000/60`: requests per window in seconds; `0` is no limit. */
export const rateLimit: Parser<RateLimit | null> = text => {
	const limit = readRateLimit(text);
	return limit === undefined ? allowed('use requests/seconds such as 6000/60, or 0 for no limit') : value(limit);
};

/** `4/256`: concurrent attempts per endpoint, and in total. */
export const webhookConcurrency: Parser<WebhookConcurrency> = (text, cwd) => {
	const [perEndpoint, total] = pair(text, cwd, count(1, 1000), count(1, 10_000));
	return perEndpoint === undefined || total === undefined || perEndpoint > total
		? allowed('use per-endpoint/total such as 4/256, with the first not above the second')
		: value({perEndpoint, total});
};

function pair(text: string, cwd: string, parseFirst: Parser<number>, parseSecond: Parser<number>): [number?, number?] {
	const parts = text.split('/');
	const first = parseFirst(parts[0] ?? '', cwd);
	const second = parseSecond(parts[1] ?? '', cwd);
	return parts.length === 2 && first.ok && second.ok ? [first.value, second.value] : [];
}

/** The facts about a machine that defaults may depend on. */
export type Machine = {readonly hostname: string; readonly cpus: number; readonly isTerminal: boolean};

/** The declaration of a setting, from which the loader, the pages and `config show` work. */
export type Setting<T> = {
	readonly name: string;
	/** Its description, in Markdown. */
	readonly about: string;
	readonly parse: Parser<T>;
	/** Returns the default as the operator would write it, or `null` if there is none. */
	readonly fallback: (machine: Machine) => string | null;
	/** The default as the pages describe it. */
	readonly shownFallback: string;
	/** Whether SIGHUP changes it in a running daemon. */
	readonly live: boolean;
	/** Masks the secret in a value; `null` if the value never holds one. */
	readonly mask: ((text: string) => string) | null;
};

type Fallback = string | {readonly from: (machine: Machine) => string; readonly description: string};
type Traits = {readonly live?: true; readonly mask?: (text: string) => string};

export function setting<T>(
	name: string,
	fallback: Fallback,
	parse: Parser<T>,
	about: string,
	traits: Traits = {},
): Setting<T> {
	const {from, description} =
		typeof fallback === 'string' ? {from: () => fallback, description: `\`${fallback}\``} : fallback;
	return {name, about, parse, fallback: from, shownFallback: description, live: false, mask: null, ...traits};
}

/** Declares a setting that is `null` unless set; `shownFallback` describes what applies then. */
export function optional<T>(
	name: string,
	shownFallback: string,
	parse: Parser<T>,
	about: string,
	traits: Traits = {},
): Setting<T | null> {
	return {name, about, parse, fallback: () => null, shownFallback, live: false, mask: null, ...traits};
}

/** Declares a list that is empty unless set. */
export function optionalList<T>(
	name: string,
	description: string,
	parse: Parser<readonly T[]>,
	about: string,
	traits: Traits = {},
): Setting<readonly T[]> {
	const orEmpty: Parser<readonly T[]> = (text, cwd) => (text === '' ? value([]) : parse(text, cwd));
	return setting(name, {from: () => '', description}, orEmpty, about, traits);
}
