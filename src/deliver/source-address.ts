import {isIPv6} from 'node:net';
import type {Source} from '../mail/way.ts';

/** The source for a target address: null where there is none of its family, undefined where the system chooses. */
export function sourceFor(sources: readonly Source[], targetAddress: string): Source | null | undefined {
	return sources.length === 0
		? undefined
		: (sources.find(({address}) => isIPv6(address) === isIPv6(targetAddress)) ?? null);
}
