import {isIP, isIPv6} from 'node:net';
import {networkInterfaces} from 'node:os';
import ipaddr from 'ipaddr.js';
import type {Settings} from '../config/settings.ts';

/**
 * The addresses where this system takes mail as an MX would: mail that leads there would come back to us (RFC 5321 §5.1).
 * None where the listener has another port than mail hosts have; all of the machine where it listens on all.
 */
export function ownAddresses(
	{inboundListen, mxPort}: Pick<Settings, 'inboundListen' | 'mxPort'>,
	interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces(),
): string[] {
	if (inboundListen === null || inboundListen.port !== mxPort) {
		return [];
	}

	const {host} = inboundListen;
	if (host !== '0.0.0.0' && host !== '::') {
		// A name is not looked up: what it leads to may change, and a lab's listener is named by its address.
		return isIP(host) === 0 ? [] : [canonical(host)];
	}

	// A socket on :: takes IPv4 too.
	const all = Object.values(interfaces).flatMap(list => (list ?? []).map(({address}) => address));
	return all.filter(address => host === '::' || !isIPv6(address)).map(canonical);
}

/** As the resolver spells it. */
function canonical(address: string): string {
	return ipaddr.parse(address.replace(/%.*$/, '')).toString();
}
