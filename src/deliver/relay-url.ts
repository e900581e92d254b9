import {isIP} from 'node:net';
import {isLoopbackAddress} from '../mail/public-address.ts';
import type {TlsMode} from './route.ts';

/** A smarthost as MAILCTL_RELAY_URL names it. */
export type Relay = {
	/** A name, or a literal address without brackets. */
	readonly host: string;
	readonly port: number;
	readonly tls: TlsMode;
	/** TLS from the first byte. */
	readonly implicitTls: boolean;
	readonly login: {readonly user: string; readonly password: string} | null;
};

const form = /^(smtps?):\/\/(?:([^@/?#]*)@)?(\[[0-9a-fA-F:.]+\]|[^@:/?#[\]]+)(?::(\d{1,5}))?\/?(?:\?([^#]*))?$/i;
const tlsModes: ReadonlySet<string> = new Set<TlsMode>(['none', 'opportunistic', 'unverified', 'required']);
const controls = /[\u0000-\u001f\u007f]/;

/** Reads `smtp://[user:pass@]host[:port][?tls=…]`; a text says what is wrong with it, never the password. */
export function parseRelayUrl(text: string): Relay | string {
	const match = form.exec(text.trim());
	if (match === null) {
		return 'must look like smtp://[user:password@]host[:port][?tls=required|opportunistic|unverified|none] or smtps://…, user and password percent-encoded';
	}

	const [, scheme = '', userinfo, authority = '', portText, query] = match;
	const implicitTls = scheme.toLowerCase() === 'smtps';
	const host = hostOf(authority);
	const login = userinfo === undefined ? null : loginOf(userinfo);
	const tls = tlsOf(query, login !== null);
	if (host === null) {
		return `${authority} is no host name`;
	}

	if (typeof login === 'string') {
		return login;
	}

	if (!tlsModes.has(tls)) {
		return tls;
	}

	const port = portText === undefined ? defaultPort(implicitTls, login !== null) : Number(portText);
	if (port < 1 || port > 65_535) {
		return `${portText} is no port (1 to 65535)`;
	}

	if (implicitTls && tls === 'none') {
		return 'smtps:// is TLS, tls=none contradicts it';
	}

	if (login !== null && tls === 'none' && !isLoopbackHost(host)) {
		return 'a password goes unencrypted (tls=none) only to a loopback address';
	}

	return {host, port, tls: tls as TlsMode, implicitTls, login};
}

/** Reads a comma list of smarthosts, tried in order; all faults at once. */
export function parseRelayUrls(text: string): {readonly relays: Relay[]; readonly faults: string[]} {
	const relays: Relay[] = [];
	const faults: string[] = [];
	for (const part of text.split(',')) {
		const relay = parseRelayUrl(part);
		if (typeof relay === 'string') {
			faults.push(relay);
		} else {
			relays.push(relay);
		}
	}

	return {relays, faults};
}

function hostOf(authority: string): string | null {
	if (authority.startsWith('[')) {
		const address = authority.slice(1, -1);
		return isIP(address) === 6 ? address : null;
	}

	const host = authority.toLowerCase().replace(/\.$/, '');
	const name =
		host.length <= 253 && host.split('.').every(label => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label));
	// What looks like an address must be one: `127.1` means other hosts to other programs.
	return name && (isIP(host) === 4 || /[a-z]/.test(host.split('.').at(-1) ?? '')) ? host : null;
}

function loginOf(userinfo: string): {user: string; password: string} | string {
	const colon = userinfo.indexOf(':');
	const user = decoded(userinfo.slice(0, colon));
	const password = decoded(userinfo.slice(colon + 1));
	if (colon === -1 || user === '' || password === '') {
		return 'needs both user and password before the @ (user:password@host)';
	}

	return user === null || password === null
		? 'has a user or password that is not percent-encoded UTF-8 without control characters'
		: {user, password};
}

function decoded(text: string): string | null {
	try {
		const plain = decodeURIComponent(text);
		return controls.test(plain) ? null : plain;
	} catch {
		return null;
	}
}

function tlsOf(query: string | undefined, hasLogin: boolean): string {
	if (query === undefined || query === '') {
		return hasLogin ? 'required' : 'opportunistic';
	}

	const value = /^tls=(.*)$/.exec(query)?.[1];
	return value !== undefined && tlsModes.has(value)
		? value
		: `?${query} is not known, only tls=required|opportunistic|unverified|none`;
}

function defaultPort(implicitTls: boolean, hasLogin: boolean): number {
	if (implicitTls) {
		return 465;
	}

	return hasLogin ? 587 : 25;
}

function isLoopbackHost(host: string): boolean {
	return host === 'localhost' || isLoopbackAddress(host);
}
