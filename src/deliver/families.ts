import {isIPv6} from 'node:net';
import {networkInterfaces} from 'node:os';
import type {Clock} from '../mail/clock.ts';
import type {Source} from '../mail/way.ts';
import type {Resolver} from '../net/dns.ts';
import {isPublicAddress} from '../net/public-address.ts';
import {reverseName} from '../net/reverse-name.ts';

/** The address families that there is a way to. */
export type Families = {readonly v4: boolean; readonly v6: boolean};

export type FamiliesOptions = {
	/** MAILCTL_IPV6. */
	readonly ipv6: boolean;
	readonly resolver: Pick<Resolver, 'ptr'>;
	/** For a lab: addresses that are not public do, and need no name. */
	readonly allowPrivate: boolean;
	readonly clock: Clock;
	/** The addresses of this machine. */
	readonly ownAddresses?: () => readonly string[];
};

/** Asking the system for its addresses costs as much as a mail. */
const keptMs = 60_000;

/**
 * What mail may be sent by, from these sources (none: whatever the system has). IPv6 only from an address that DNS has a
 * name for: large providers refuse mail from others for good (R1.6).
 */
export function createFamilies(options: FamiliesOptions) {
	const {ipv6, resolver, allowPrivate, clock, ownAddresses = interfaceAddresses} = options;
	let own: readonly string[] = [];
	let ownUntil = Number.NEGATIVE_INFINITY;

	function ownNow(): readonly string[] {
		if (clock.monotonic() >= ownUntil) {
			own = ownAddresses();
			ownUntil = clock.monotonic() + keptMs;
		}

		return own;
	}

	async function isNamed(address: string): Promise<boolean> {
		// A look-up that failed says nothing.
		const {kind} = await resolver.ptr(reverseName(address));
		return kind === 'found' || kind === 'failed';
	}

	return async (sources: readonly Source[]): Promise<Families> => {
		const v4 = sources.length === 0 || sources.some(({address}) => !isIPv6(address));
		if (!ipv6) {
			return {v4, v6: false};
		}

		const from = (sources.length === 0 ? ownNow() : sources.map(({address}) => address)).filter(isIPv6);
		if (allowPrivate) {
			return {v4, v6: from.length > 0};
		}

		const named = await Promise.all(from.filter(isPublicAddress).map(isNamed));
		return {v4, v6: named.includes(true)};
	};
}

function interfaceAddresses(): string[] {
	return Object.values(networkInterfaces()).flatMap(list => (list ?? []).map(({address}) => address));
}
