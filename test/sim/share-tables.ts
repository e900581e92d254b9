import type {NodeShares} from '../../src/queue/node-shares.ts';
import {termMs} from '../../src/queue/node-shares.ts';
import type {NodeTerm} from '../../src/store/queue/sites.ts';
import type {Time} from './time.ts';

type RenewTerm = ConstructorParameters<typeof NodeShares>[0]['renewTerm'];

/** To the server and back, and how long a renewal holds the lock, milliseconds. */
const tripMs = 1;
const lockMs = 3;

/**
 * What the table `lease_terms` holds, with the transaction of src/store/queue/sites.ts. Nobody hangs with a connection
 * to the server.
 */
export function createShareTables(time: Time) {
	const terms = new Map<string, {readonly until: number; readonly knows: string}>();
	let freeAt = 0;
	const told = {renewals: 0, lockedMs: 0, maxMs: 0};

	function renew(node: string, choose: Parameters<RenewTerm>[0]): readonly NodeTerm[] {
		for (const [other, {until}] of terms) {
			if (other !== node && until <= time.now()) {
				terms.delete(other);
			}
		}
		const list = () => Array.from(terms, ([other, {knows}]): NodeTerm => ({node: other, knows}));
		terms.set(node, {until: time.now() + termMs, knows: choose(list())});
		return list();
	}

	return {
		/**
		 * The store as a node sees it; `answers`: whether the node reaches it. One after the other, as the lock has it.
		 */
		renewTermOf:
			(node: string, answers: () => boolean): RenewTerm =>
			choose =>
				new Promise((resolve, reject) => {
					if (!answers()) {
						time.after(tripMs, () => {
							time.settle();
							reject(new Error('the store is away'));
						});
						return;
					}
					const asked = time.now();
					const begins = Math.max(asked + tripMs, freeAt);
					freeAt = begins + lockMs;
					told.renewals++;
					told.lockedMs += lockMs;
					told.maxMs = Math.max(told.maxMs, freeAt + tripMs - asked);
					time.after(begins - asked, () => {
						const result = renew(node, choose);
						time.after(lockMs + tripMs, () => {
							time.settle();
							resolve(result);
						});
					});
				}),
		told,
	};
}

export type ShareTables = ReturnType<typeof createShareTables>;
