import type {Mode, Role} from './message.ts';

/** Addresses here decide the outcome of their mail; nothing leaves the machine. */
export const simulatorDomain = 'simulator.test';

/** Where the simulated recipient of a mail without a tracked link clicks. */
export const simulatedLink = 'https://simulator.test/';

/** The destination that a recipient is queued for: its domain, or the simulator for all mail of test keys. */
export function destinationOf(mode: Mode, domain: string): string {
	return mode === 'test' ? simulatorDomain : domain;
}

/** Whether usage counts a recipient's events: one recipient per message, and only mail that may leave the machine. */
export function isCounted(role: Role, destination: string): boolean {
	return role === 'to' && destination !== simulatorDomain;
}

/** Whether the address, in comparison form, is one of the simulator. */
export function isSimulated(addressKey: string): boolean {
	return addressKey.endsWith(`@${simulatorDomain}`);
}
