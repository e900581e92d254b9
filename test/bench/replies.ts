import {hash32} from '../../src/kit/collections.ts';

/**
 * How large providers meet mail that they want: KumoMTA's sink defers 5 to 20 % of it. A `share` of all recipients
 * meets `reply` at RCPT (empty: silence; 421 ends the connection) for so many `tries`. No text may match a reaction of
 * `queue/pace/site-state.ts`.
 */
export const realistic = [
	{name: 'greylisted', share: 0.08, tries: 1, reply: '451 4.7.1 Greylisted, please try again later\r\n'},
	{name: 'deferred', share: 0.06, tries: 2, reply: '450 4.2.1 The mailbox is busy, please try again later\r\n'},
	{name: 'throttled', share: 0.03, tries: 1, reply: '421 4.7.0 You send too fast, closing connection\r\n'},
	{name: 'refused', share: 0.02, tries: Number.POSITIVE_INFINITY, reply: '550 5.1.1 No such user\r\n'},
	{name: 'hung', share: 0.005, tries: 1, reply: ''},
] as const;

/** What an address meets, by the seed alone. Undefined: its mail is taken at once. */
export function reluctanceTo(address: string, seed: number): (typeof realistic)[number] | undefined {
	let left = hash32(String(seed), address) / 2 ** 32;
	return realistic.find(({share}) => {
		left -= share;
		return left < 0;
	});
}
