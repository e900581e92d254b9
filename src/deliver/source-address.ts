import {isIPv6} from 'node:net';

/** An address of this machine that connections are made from, and the name said in EHLO there. */
export type SourceAddress = {readonly address: string; readonly hostname?: string | undefined};

/**
 * The source for a target address: null where the list has none of its family, undefined where there is no list.
 * One destination always gets the same one: greylisting and pace go by it.
 */
export function sourceFor(
	sources: readonly SourceAddress[],
	targetAddress: string,
	destination: string,
): SourceAddress | null | undefined {
	if (sources.length === 0) {
		return undefined;
	}

	const fitting = sources.filter(({address}) => isIPv6(address) === isIPv6(targetAddress));
	let hash = 0;
	for (const character of destination) {
		hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 0x7f_ff_ff_ff;
	}

	return fitting[hash % Math.max(fitting.length, 1)] ?? null;
}
