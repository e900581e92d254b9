import {createHash} from 'node:crypto';
import {isIP} from 'node:net';
import {isLoopbackAddress} from '../net/ip-address.ts';
import type {Listen} from './parsers.ts';
import type {TableValues} from './table.ts';

/** Fills in the defaults that depend on other settings. */
export function deriveSettings(values: TableValues) {
	const returnPathDomain = values.returnPathDomain ?? defaultReturnPathDomain(values);
	return {
		...values,
		/** `null` if links use the address of the listener (see `linkBase`). */
		publicUrl: values.publicUrl,
		adminListen: adminListen(values),
		returnPathDomain,
		feedbackAddress: values.feedbackAddress ?? `fbl@${returnPathDomain}`,
		senderId: values.senderId ?? defaultSenderId(returnPathDomain),
	};
}

/** Returns where the operator's pages are served: `shared` for the HTTP listener, `null` for nowhere. */
function adminListen({adminListen: configured, httpListen}: TableValues): Listen | 'shared' | null {
	if (configured === null) {
		return isLoopback(httpListen.host) ? 'shared' : {host: '127.0.0.1', port: 8126};
	}
	if (configured === 'off') {
		return null;
	}
	const {host, port} = configured;
	return host === httpListen.host && port === httpListen.port && port !== 0 ? 'shared' : configured;
}

/** The port on which submission uses implicit TLS (RFC 8314 §3.3). */
export const implicitTlsPort = 465;

/** Reports whether only this machine can reach a listener. */
export function isLoopback(host: string): boolean {
	return host === 'localhost' || isLoopbackAddress(host);
}

/** Derives a stable id of 12 characters. It is a hash because the name itself may be too long. */
function defaultSenderId(returnPathDomain: string): string {
	return `mc${createHash('sha256').update(returnPathDomain).digest('hex').slice(0, 10)}`;
}

/** Returns the URL of a listener, without a trailing slash. */
export function listenUrl({host, port}: Listen): string {
	return `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

/** Reports whether a listener accepts connections to every address of the machine. */
export function isWildcard(host: string): boolean {
	return host === '0.0.0.0' || host === '::' || host === '[::]';
}

/** Returns the URL at which this machine reaches a listener: loopback for one on all addresses. */
export function localUrl(url: string): string {
	const {hostname, port} = new URL(url);
	return isWildcard(hostname) ? listenUrl({host: '127.0.0.1', port: Number(port || 80)}) : url;
}

/**
 * Returns the URL at which this machine reaches the dashboard, without a trailing slash, or `null` if it is not served.
 * `bound` is the address at which a daemon serves it.
 */
export function dashboardUrl(
	{
		dashboard,
		adminListen,
		httpListen,
	}: Pick<ReturnType<typeof deriveSettings>, 'dashboard' | 'adminListen' | 'httpListen'>,
	bound: string | null,
): string | null {
	return dashboard && adminListen !== null
		? localUrl(bound ?? listenUrl(adminListen === 'shared' ? httpListen : adminListen))
		: null;
}

/**
 * Returns the base URL of links, without a trailing slash: the setting, else the address of the server (`bound`,
 * because port 0 is resolved only by listening). A wildcard address is replaced by the machine's full name, or by
 * loopback.
 */
export function linkBase(
	{publicUrl, httpListen, hostname}: Pick<TableValues, 'publicUrl' | 'httpListen' | 'hostname'>,
	bound: string | null = null,
): string {
	const base = publicUrl ?? bound ?? listenUrl(httpListen);
	const {hostname: host, port} = new URL(base);
	return publicUrl === null && isWildcard(host)
		? listenUrl({host: hostname.includes('.') ? hostname : '127.0.0.1', port: Number(port || 80)})
		: base;
}

/** Returns `bounces.` + public host if the listener is on and mail can be sent to that host, else MAILCTL_HOSTNAME. */
function defaultReturnPathDomain(values: TableValues): string {
	const host = publicHost(values);
	return values.inboundListen && isMailable(host) ? `bounces.${host}` : values.hostname;
}

/** Returns the host of the links in messages. */
export function publicHost({publicUrl, httpListen}: Pick<TableValues, 'publicUrl' | 'httpListen'>): string {
	return publicUrl === null ? httpListen.host : new URL(publicUrl).hostname.replace(/^\[|\]$/g, '');
}

/** Reports whether https is served here with certificates from a CA: a name without one is then unreachable. */
export function servesHttps({acme, httpsListen}: Pick<TableValues, 'acme' | 'httpsListen'>): boolean {
	return acme && httpsListen !== null;
}

/** Reports whether other machines can send mail to addresses at a name. */
export function isMailable(host: string): boolean {
	return isIP(host) === 0 && !/(?:^|\.)localhost$|^localhost\./.test(host);
}
