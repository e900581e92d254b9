import ipaddr from 'ipaddr.js';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../mail/clock.ts';

const perWindow = 120;
const windowMs = 60_000;
const mostAddresses = 10_000;

/** Counts a forged token of a client; false: it has sent too many within a minute. */
export type ForgedLimit = (ip: string) => boolean;

/** Slows down who tries tokens. Real ones are never counted: mail providers unsubscribe many people from one address. */
export function createForgedLimit(clock: Clock): ForgedLimit {
	const clients = new LRUCache<string, {since: number; n: number}>({max: mostAddresses});
	return ip => {
		const now = clock.monotonic();
		const network = networkOf(ip);
		let client = clients.get(network);
		if (!client || now - client.since >= windowMs) {
			client = {since: now, n: 0};
			clients.set(network, client);
		}
		client.n++;
		return client.n <= perWindow;
	};
}

// Whoever has one IPv6 address has a /64 of them.
function networkOf(ip: string): string {
	if (!ipaddr.isValid(ip)) {
		return ip;
	}
	const address = ipaddr.process(ip);
	return address instanceof ipaddr.IPv6 ? address.parts.slice(0, 4).join(':') : address.toString();
}
