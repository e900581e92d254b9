import type {Clock} from '../kit/clock.ts';
import type {NewId} from './ids.ts';

/**
 * The roles of dashboard users. Each role includes the one before: view, act on messages and lists, change the setup.
 */
export const roles = ['viewer', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

/** Whether a role includes the rights of another. */
export function mayActAs(role: Role, needed: Role): boolean {
	return roles.indexOf(role) >= roles.indexOf(needed);
}

/** Who performed an action, for the audit trail. */
export type Operator = {
	/** The id of an API key, `cli:<user>` for a system user, or `daemon`. */
	readonly actor: string;
	/** The address of the API client, or the host on which the program runs. */
	readonly from: string;
	/** The user who called sudo; absent without sudo. */
	readonly sudoUser?: string;
};

/** The tools of an action that the audit trail records. */
export type Acting = {
	readonly clock: Pick<Clock, 'now'>;
	readonly newId: NewId;
	readonly operator: Operator;
};

/** The external tools of a workflow: time, ids and randomness. */
export type Tools = {
	readonly clock: Clock;
	readonly newId: NewId;
	readonly random: (size: number) => Buffer;
};

/** The tools of a workflow that changes something and records the actor. */
export type ActTools = Tools & Acting;
