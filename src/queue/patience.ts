import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {addTurn, type FairRing, takeTurn} from './fair-ring.ts';
import type {MakeJob} from './renderers.ts';

type Sort = Pick<MakeJob, 'versionId' | 'workspaceId'>;
type Waiting = {readonly versionId: string; readonly go: (turn: Turn) => void};
/** `mine`: nobody else's until `done`. `none`: the version's mail no longer takes turns. `full`: too many wait already. */
type Turn = 'mine' | 'none' | 'full';

/** After this many mails in a row were made, a version no longer takes turns. */
const madeAgain = 10;
/** Per workspace. A waiting copy occupies a place at its site. */
const mostWaiting = {quick: 32, long: 4};
/** Time limit of a first rendering, milliseconds. Mails that need more come after the others. Shorter failures do not count. */
export const quickMs = 100;
/** A long mail gets a turn at least this often, milliseconds. */
const longEveryMs = 5000;
const waitPerFailureMs = 1000;
const longestWaitMs = {quick: 10_000, long: 60_000};
const remembered = 1000;

/**
 * Template versions with a mail that exceeded the render limit. Their mails are rendered one at a time, with a pause as long as
 * each took, so that bad mails do not delay other templates.
 */
export function createPatience(clock: Clock) {
	const slow = new LRUCache<string, {failed: number; made: number}>({max: remembered});
	const quick: FairRing<Waiting> = new Map();
	const long: FairRing<Waiting> = new Map();
	/** Copies that need longer: when they come back they do not try it quickly again. */
	const longRecipients = new LRUCache<string, true>({max: remembered});
	let lastLong = 0;
	let failures = 0;
	let isTaken = false;
	let began = 0;
	let resting: NodeJS.Timeout | undefined;
	let isStopped = false;

	function next(): void {
		isTaken = false;
		began = clock.monotonic();
		const soon = began - lastLong < longEveryMs ? takeTurn(quick) : undefined;
		const late = soon ? undefined : takeTurn(long);
		const first = soon ?? late ?? takeTurn(quick);
		if (late) {
			lastLong = began;
		}
		if (first) {
			isTaken = true;
			first.go('mine');
		}
	}

	return {
		/** How many failures are known so far. */
		known: () => failures,

		isSlow: (versionId: string): boolean => slow.has(versionId),

		needsLong: (recipientId: string): boolean => longRecipients.has(recipientId),

		noteLong: (recipientId: string): void => void longRecipients.set(recipientId, true),

		/** One of the version's mails took too long. */
		failed(versionId: string): void {
			failures++;
			slow.set(versionId, {failed: (slow.peek(versionId)?.failed ?? 0) + 1, made: 0});
		},

		/** One of them takes long at this moment. */
		doubt(versionId: string): void {
			failures++;
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
				for (const [workspaceId, items] of quick) {
					for (const item of [...items].filter(item => item.versionId === versionId)) {
						items.delete(item);
						item.go('none');
					}
					if (items.size === 0) {
						quick.delete(workspaceId);
					}
				}
			}
		},

		turn({versionId, workspaceId}: Sort, isQuick: boolean): Promise<Turn> | Turn {
			const [ring, most] = isQuick ? [quick, mostWaiting.quick] : [long, mostWaiting.long];
			if (isStopped) {
				return 'none';
			}
			if ((ring.get(workspaceId)?.size ?? 0) >= most) {
				return 'full';
			}
			if (!isQuick && long.size === 0) {
				lastLong = clock.monotonic();
			}
			return new Promise(go => {
				addTurn(ring, workspaceId, {versionId, go});
				if (!isTaken) {
					next();
				}
			});
		},

		done(): void {
			resting = setTimeout(next, clock.monotonic() - began);
		},

		/** After how long it is worth to look again for a mail that found no place, milliseconds. */
		waitMs: (versionId: string, isQuick: boolean): number =>
			Math.min(
				longestWaitMs[isQuick ? 'quick' : 'long'],
				waitPerFailureMs * Math.max(1, slow.peek(versionId)?.failed ?? 0),
			),

		/** Nobody waits any more. */
		stop(): void {
			isStopped = true;
			clearTimeout(resting);
			for (const {go} of [quick, long].flatMap(ring => [...ring.values()].flatMap(items => [...items]))) {
				go('none');
			}
			quick.clear();
			long.clear();
		},
	};
}
