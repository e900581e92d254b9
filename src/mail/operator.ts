import type {Clock} from '../kit/clock.ts';
import type {NewId} from './ids.ts';

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
