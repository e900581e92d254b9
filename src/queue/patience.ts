import {LRUCache} from 'lru-cache';
import type {Clock} from '../mail/clock.ts';
import {addTurn, type FairRing, takeTurn} from './fair-ring.ts';
import type {MakeJob} from './makers.ts';

type Sort = Pick<MakeJob, 'versionId' | 'workspaceId'>;
type Waiting = {readonly versionId: string; readonly go: (turn: Turn) => void};
/** `mine`: nobody else's until `done`. `none`: the version's mail no longer takes turns. `full`: too many wait already. */
type Turn = 'mine' | 'none' | 'full';

/** A version takes turns until so many of its mails in a row were made. */
const madeAgain = 10;
/** Of one workspace; a copy that waits has a place at its site. */
const mostWaiting = 16;
const waitPerFailureMs = 1000;
const longestWaitMs = 60_000;
const remembered = 1000;

/**
 * Template versions of which a mail took longer to render than allowed. Their mails are made one after the other, and the
 * makers rest from them as long as each took: good ones are soon through, and bad ones hold up no mail of other templates.
 */
export function createPatience(clock: Clock) {
	const slow = new LRUCache<string, {failed: number; made: number}>({max: remembered});
	const waiting: FairRing<Waiting> = new Map();
	let failures = 0;
	let isTaken = false;
	let began = 0;
	let resting: NodeJS.Timeout | undefined;
	let isStopped = false;

	function next(): void {
		isTaken = false;
		const first = takeTurn(waiting);
		if (first) {
			isTaken = true;
			began = clock.monotonic();
			first.go('mine');
		}
	}

	return {
		/** How many failures are known so far. */
		known: () => failures,

		isSlow: (versionId: string): boolean => slow.has(versionId),

		/** One of the version's mails took too long. */
		failed(versionId: string): void {
			failures++;
			slow.set(versionId, {failed: (slow.peek(versionId)?.failed ?? 0) + 1, made: 0});
		},

		/** One of them takes long at this moment. */
		doubt(versionId: string): void {
			slow.set(versionId, {failed: slow.peek(versionId)?.failed ?? 0, made: 0});
		},

		/** One was made in time. */
		made(versionId: string): void {
			const known = slow.get(versionId);
			if (!known) {
				return;
			}
			Object.assign(known, {failed: 0, made: known.made + 1});
			if (known.made >= madeAgain) {
				slow.delete(versionId);
				for (const [workspaceId, items] of waiting) {
					for (const item of [...items].filter(item => item.versionId === versionId)) {
						items.delete(item);
						item.go('none');
					}
					if (items.size === 0) {
						waiting.delete(workspaceId);
					}
				}
			}
		},

		turn({versionId, workspaceId}: Sort): Promise<Turn> | Turn {
			if (isStopped) {
				return 'none';
			}
			if ((waiting.get(workspaceId)?.size ?? 0) >= mostWaiting) {
				return 'full';
			}
			return new Promise(go => {
				addTurn(waiting, workspaceId, {versionId, go});
				if (!isTaken) {
					next();
				}
			});
		},

		done(): void {
			resting = setTimeout(next, clock.monotonic() - began);
		},

		/** After how long it is worth to look again for a mail that found no place, milliseconds. */
		waitMs: (versionId: string): number =>
			Math.min(longestWaitMs, waitPerFailureMs * Math.max(1, slow.peek(versionId)?.failed ?? 0)),

		/** Nobody waits any more. */
		stop(): void {
			isStopped = true;
			clearTimeout(resting);
			for (const items of waiting.values()) {
				for (const {go} of items) {
					go('none');
				}
			}
			waiting.clear();
		},
	};
}
