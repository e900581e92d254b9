import type {Clock} from '../mail/clock.ts';
import type {NewId} from '../mail/ids.ts';
import type {Acting} from '../mail/operator.ts';

/** What every workflow takes from outside: time, ids, chance. */
export type Tools = {
	readonly clock: Clock;
	readonly newId: NewId;
	readonly random: (size: number) => Buffer;
};

/** The same, and whose act it is: a workflow that changes something records it. */
export type ActTools = Tools & Acting;
