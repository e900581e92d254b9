import {isIP} from 'node:net';
import {resolve} from 'node:path';
import {hostName} from '../net/host-name.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';
import {decodeLogin, parseRelayUrl, type Relay} from '../net/relay-url.ts';
import {allowed, type Parser, value} from './parsers.ts';

/** Where bounces are fetched (MAILCTL_BOUNCE_MAILBOX). */
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
	const fault = parsed.findIndex(relay => !relay.ok);
	const first = parsed[fault];
	return first && !first.ok
		? allowed(`URL ${fault + 1} ${first.fault}`)
		: value(parsed.flatMap(relay => (relay.ok ? [relay.relay] : [])));
};

/** The base of links: http or https, perhaps with a path, kept without a slash at its end. */
export const publicUrl: Parser<string> = text => {
	const url = parseUrl(text);
	const isBase = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(text);
	return isBase ? value(url.href.replace(/\/+$/, '')) : allowed('use http://host[:port][/path] or https://…');
};

/** An OpenID Connect issuer; unencrypted only on this machine. It is compared octet by octet, so it stays as it is. */
export const issuer: Parser<string> = text => {
	const url = parseUrl(text);
	const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackName(url.hostname));
	return url && isSafe && !url.username && !/[?#]/.test(text) ? value(text) : allowed('use https://host[:port][/path]');
};

const isLoopbackName = (host: string) => host === 'localhost' || isLoopbackAddress(host.replace(/^\[|\]$/g, ''));

/** A `postgres://` URL, kept as it is for the driver. */
export const databaseUrl: Parser<string> = text =>
	/^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text)
		? value(text)
		: allowed('use postgres://user:password@host[:port]/database (leave it out for SQLite)');

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
		? value({kind: 'imap', host, port: Number(url.port) || (isSecure ? 993 : 143), tls, user, password, folder: name})
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

/** Hides what stands between `user:` and the last `@` of a URL's authority, and query parameters named like a password. */
export function maskPassword(url: string): string {
	return url.replace(/(:\/\/[^:@/?#]*):[^/?#]*@/, '$1:***@').replace(/([?&][^=&#]*pass[^=&#]*=)[^&#]*/gi, '$1***');
}

/** As `maskPassword`, for URLs between commas. */
export function maskPasswords(urls: string): string {
	return urls.split(',').map(maskPassword).join(',');
}
