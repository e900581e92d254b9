/** Addresses here steer what becomes of their mail; nothing leaves the machine. */
export const simulatorDomain = 'simulator.test';

/** Where the simulated recipient of a mail without a tracked link clicks. */
export const simulatedLink = 'https://simulator.test/';

/** Where a copy is queued: the recipient's domain, or the simulator for all mail of test keys. */
export function destinationOf(mode: 'live' | 'test', domain: string): string {
	return mode === 'test' ? simulatorDomain : domain;
}
