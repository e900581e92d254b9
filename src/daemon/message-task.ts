import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {dayMs} from '../kit/time.ts';
import {idFloor} from '../mail/ids.ts';
import {isInUse} from '../store/engine/dialect.ts';
import {type Day, dropDay, emptyBeside, findPast, hurry, makeDays} from '../store/postgres/days.ts';
import {removeMessages} from '../store/retention.ts';
import type {Store} from '../store/store.ts';
import type {SweepTask} from './sweep.ts';
import {inStep} from './sweep-step.ts';

export type MessageTaskOptions = {
	readonly store: Pick<Store, 'writer' | 'reader' | 'dialect'>;
	readonly clock: Pick<Clock, 'now'>;
	/** How long messages are kept; 0: for ever. */
	readonly days: () => number;
	/** Removes the captured mails of copies. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** Removes the captured mails of the copies that were made in a range of time, milliseconds. */
	readonly removeCapturedOf: (from: number, to: number) => Promise<void>;
	readonly messagesPerStep?: number;
};

/** False: somebody else was using a table for so long that the work was given up. */
async function unlessUsed(
	{writer}: Pick<Store, 'writer'>,
	work: (trx: Knex.Transaction) => Promise<void>,
): Promise<boolean> {
	try {
		await writer.transaction(async trx => {
			await hurry(trx);
			await work(trx);
		});
		return true;
	} catch (error) {
		if (isInUse(error)) {
			return false;
		}
		throw error;
	}
}

/** The parts of the days to come; the last resort for a day without one is slower, not wrong. */
export function dayTask({
	store,
	clock,
}: {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
}): SweepTask {
	return {
		name: 'days',
		begin: () => async () => {
			await unlessUsed(store, trx => makeDays(trx, clock.now()));
			return false;
		},
	};
}

const rowsPerMessage = 20;

/** Messages past their retention. */
export function messageTask({
	store,
	clock,
	days,
	removeCaptured,
	removeCapturedOf,
	messagesPerStep = 50,
}: MessageTaskOptions): SweepTask {
	/** A whole day, or what other tables have of it; false: others are using it now. */
	async function removeDay(day: Day): Promise<boolean> {
		if (await inStep(store, trx => emptyBeside(trx, day, messagesPerStep * rowsPerMessage))) {
			return true;
		}
		// Before the commit, as below.
		await removeCapturedOf(day.from, day.to);
		return await unlessUsed(store, trx => dropDay(trx, day));
	}

	return {
		name: 'messages',
		begin() {
			const kept = days() === 0 ? 0 : clock.now() - days() * dayMs;
			let after = '';
			return async () => {
				const {day, rowsBefore} = await findPast(store.reader, kept);
				if (day !== null) {
					// A long reader, such as pg_dump, may have it. All who need the table wait behind an attempt: the next sweep makes another.
					return await removeDay(day);
				}
				const before = idFloor('msg', rowsBefore);
				const next = await inStep(store, async trx => {
					const removed = await removeMessages(trx, store.dialect, {after, before, limit: messagesPerStep});
					// Before the commit: until then the rows lead to the files, if all is interrupted.
					await removeCaptured(removed.recipientIds);
					return removed.next;
				});
				after = next ?? after;
				return next !== null;
			};
		},
	};
}
