import type {Mode, Role} from './message.ts';

/** Addresses in this domain determine the outcome of their messages. Nothing leaves the machine. */
export const simulatorDomain = 'simulator.test';

/** The link that the simulated recipient clicks if the message has no tracked link. */
export const simulatedLink = 'https://simulator.test/';

/** Returns the destination to queue for: the recipient's domain, or the simulator for test keys. */
export function resolveDestination(mode: Mode, domain: string): string {
	return mode === 'test' ? simulatorDomain : domain;
}

/** Whether usage counts a recipient's events: one recipient per message, if it may leave the machine. */
export function isCounted(role: Role, destination: string): boolean {
	return role === 'to' && destination !== simulatorDomain;
}

/** Whether the address, in comparison form, belongs to the simulator. */
export function isSimulated(addressKey: string): boolean {
	return addressKey.endsWith(`@${simulatorDomain}`);
}
