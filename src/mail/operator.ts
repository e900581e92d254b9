import type {Clock} from '../kit/clock.ts';
import type {NewId} from './ids.ts';

/**
 * What a user of the dashboard may do, each with all that the one before may: look, act on mail and lists, change the
 * set-up.
 */
export const roles = ['viewer', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

/** Whether a role may do what needs at least another one. */
export function mayActAs(role: Role, needed: Role): boolean {
	return roles.indexOf(role) >= roles.indexOf(needed);
}

/** Who does something that others may ask about later. */
export type Operator = {
	/** The id of an API key, `cli:<user>` for a user of the system, or `daemon`. */
	readonly actor: string;
	/** The address of the API's client, or the host that the program runs on. */
	readonly from: string;
	/** The user who called sudo; absent without sudo. */
	readonly sudoUser?: string;
};

/** What an act takes that the audit trail records. */
export type Acting = {
	readonly clock: Pick<Clock, 'now'>;
	readonly newId: NewId;
	readonly operator: Operator;
};

/** What a workflow takes from outside: time, ids, randomness. */
export type Tools = {
	readonly clock: Clock;
	readonly newId: NewId;
	readonly random: (size: number) => Buffer;
};

/** The same for a workflow that changes something: it records the actor. */
export type ActTools = Tools & Acting;
