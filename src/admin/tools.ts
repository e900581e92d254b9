import type {Clock} from '../mail/clock.ts';
import type {NewId} from '../mail/ids.ts';

/** What every workflow takes from outside: time, ids, chance. */
export type Tools = {
	readonly clock: Clock;
	readonly newId: NewId;
	readonly random: (size: number) => Buffer;
};
