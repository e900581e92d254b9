import {isIP, isIPv4} from 'node:net';
import ipaddr from 'ipaddr.js';
import {hostName} from '../net/host-name.ts';
import {allowed, list, type Parsed, type Parser, value} from './parsers.ts';

export type Listen = {readonly host: string; readonly port: number};
type SourceAddress = {readonly ip: string; readonly ehlo: string | null};

/** `host:port`, `[::1]:port` or a port (then 127.0.0.1); port 0 lets the system choose. */
export const listen: Parser<Listen> = text => {
	const {host, port} = splitPort(text) ?? {host: '127.0.0.1', port: text};
	const name = isIP(host) ? host : hostName(host);
	const number = portNumber(port);
	return name === undefined || number === undefined
		? allowed('use host:port, [::1]:port or a port, 0 to 65535')
		: value({host: name, port: number});
};

/** As `listen`; `off` is null. */
export const listenOrOff: Parser<Listen | null> = (text, cwd) => {
	return text === 'off' ? value(null) : orOff(listen(text, cwd));
};

/** As `listen`, several between commas; `off` means no address. */
export const listensOrOff: Parser<readonly Listen[]> = (text, cwd) =>
	text === 'off' ? value([]) : orOff(list(listen)(text, cwd));

function orOff<T>(parsed: Parsed<T>): Parsed<T> {
	return parsed.ok ? parsed : allowed(`${parsed.allowed}, or off`);
}

/** As `listen`; `off` stays a word, for a setting that means something else where it is not given. */
export const listenOrWordOff: Parser<Listen | 'off'> = (text, cwd) =>
	text === 'off' ? value(text) : orOff(listen(text, cwd));

/** `ip[:port]` in the form that `dns.setServers` takes: `192.0.2.1:53`, `[::1]:53`. */
export const dnsServer: Parser<string> = text => {
	const {host, port} = isIP(text) ? {host: text, port: '53'} : (splitPort(text) ?? {host: text, port: '53'});
	const number = portNumber(port);
	return isAddress(host) && number
		? value(isIPv4(host) ? `${host}:${number}` : `[${host}]:${number}`)
		: allowed('use ip or ip:port ([::1]:53)');
};

/** A range in its shortest form with its length: `10.1.2.3/8` is `10.0.0.0/8`, an address alone is a range of one. */
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

// A zone (fe80::1%eth0) names an interface of one machine; none of these settings has a use for it.
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
