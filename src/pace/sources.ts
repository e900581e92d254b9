import {createHash} from 'node:crypto';
import {isIPv6} from 'node:net';
import type {Source} from '../mail/way.ts';

/**
 * The addresses that a destination gets its mail from: one of each family that there is. A destination keeps its own, for
 * greylisting and reputation go by it, also when others are added: each address draws a lot with each destination, and the
 * highest wins.
 */
export function sourcesFor(sources: readonly Source[], destination: string): readonly Source[] {
	const families = [sources.filter(({address}) => !isIPv6(address)), sources.filter(({address}) => isIPv6(address))];
	return families.flatMap(family => best(family, ({address}) => lot(address, destination)));
}

function lot(address: string, destination: string): string {
	return createHash('sha256').update(`${address} ${destination}`).digest('hex');
}

function best<T>(items: readonly T[], worth: (item: T) => string): T[] {
	const ranked = items.map(item => ({item, worth: worth(item)})).sort((a, b) => (a.worth < b.worth ? 1 : -1));
	return ranked.slice(0, 1).map(({item}) => item);
}
