import {createHash} from 'node:crypto';
import {isIP} from 'node:net';
import {isLoopbackAddress} from '../net/ip-address.ts';
import type {Listen} from './parsers.ts';
import type {TableValues} from './table.ts';

/** Fills the defaults that follow from other settings. */
export function deriveSettings(values: TableValues) {
	const returnPathDomain = values.returnPathDomain ?? defaultReturnPathDomain(values);
	return {
		...values,
		/** Null: `http://` and the address listened on, see `linkBase`. */
		publicUrl: values.publicUrl,
		adminListen: adminListen(values),
		returnPathDomain,
		feedbackAddress: values.feedbackAddress ?? `fbl@${returnPathDomain}`,
		senderId: values.senderId ?? defaultSenderId(returnPathDomain),
	};
}

/** Where the operator's pages are served: `shared`, by the HTTP listener; null, nowhere. */
function adminListen({adminListen: given, httpListen}: TableValues): Listen | 'shared' | null {
	if (given === null) {
		return isLoopback(httpListen.host) ? 'shared' : {host: '127.0.0.1', port: 8126};
	}
	if (given === 'off') {
		return null;
	}
	const isSame = given.host === httpListen.host && given.port === httpListen.port && given.port !== 0;
	return isSame ? 'shared' : given;
}

/** Where submission begins with TLS (RFC 8314 §3.3). */
export const implicitTlsPort = 465;

/** Whether only this machine can reach a listener. */
export function isLoopback(host: string): boolean {
	return host === 'localhost' || isLoopbackAddress(host);
}

/** The same at every start; 12 characters, made from a name, for the name itself may be too long. */
function defaultSenderId(returnPathDomain: string): string {
	return `mc${createHash('sha256').update(returnPathDomain).digest('hex').slice(0, 10)}`;
}

/** Where a listener is, as a URL without a slash at its end. */
export function listenUrl({host, port}: Listen): string {
	return `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

/** Whether a listener takes what comes to any address of the machine. */
export function isWildcard(host: string): boolean {
	return host === '0.0.0.0' || host === '::' || host === '[::]';
}

/** Where this machine reaches a listener: one that takes all addresses by loopback. */
export function localUrl(url: string): string {
	const {hostname, port} = new URL(url);
	return isWildcard(hostname) ? listenUrl({host: '127.0.0.1', port: Number(port || 80)}) : url;
}

/**
 * Where this machine reaches the dashboard, without a slash at its end; null: nowhere. `bound`: where a daemon serves
 * it.
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
 * The base of links, without a slash at its end: as set, else where the server listens (`bound`: port 0 is known only
 * then). No link names a wildcard address: the machine's full name takes its place, or loopback.
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

/** `bounces.` + public host while the listener is on; a host that cannot be mailed to gives way to MAILCTL_HOSTNAME. */
function defaultReturnPathDomain(values: TableValues): string {
	const host = publicHost(values);
	return values.inboundListen && isMailable(host) ? `bounces.${host}` : values.hostname;
}

/** Host of the links in mail. */
export function publicHost({publicUrl, httpListen}: Pick<TableValues, 'publicUrl' | 'httpListen'>): string {
	return publicUrl === null ? httpListen.host : new URL(publicUrl).hostname.replace(/^\[|\]$/g, '');
}

/** Whether https is served here, with certificates of a CA: a name without one is not reached then. */
export function servesHttps({acme, httpsListen}: Pick<TableValues, 'acme' | 'httpsListen'>): boolean {
	return acme && httpsListen !== null;
}

/** Whether a name may stand after the `@` of an address that other machines answer to. */
export function isMailable(host: string): boolean {
	return isIP(host) === 0 && !/(?:^|\.)localhost$|^localhost\./.test(host);
}
