import type {DestinationQueue} from './site.ts';

/**
 * The ranks of a workspace's mail, in the order in which it is sent:
 * - `high`: high-priority mail that was just accepted
 * - `highBacklog`: high-priority mail that was attempted before or found in the store
 * - `fresh`: normal mail that was just accepted
 * - `mixed`: the same, in a queue that may also contain older mail that is due
 * - `backlog`: normal mail that was attempted before or found in the store
 * - `low`: low-priority mail
 *
 * `rankAt` adjusts the rank of `rankOf` to the state of the provider.
 */
export const ranks = ['high', 'highBacklog', 'fresh', 'mixed', 'backlog', 'low'] as const;
export type Rank = (typeof ranks)[number];

/** Mail that was just accepted is `new`, unless it has low priority. All other mail is `late`. */
export const phases = ['new', 'late'] as const;
export type Phase = (typeof phases)[number];

export const phaseOf = (rank: Rank): Phase =>
	rank === 'high' || rank === 'fresh' || rank === 'mixed' ? 'new' : 'late';

/** Returns the rank of a queue's mail, regardless of the state of the provider. */
export function rankOf({priority, hasNewMail, asksNext}: DestinationQueue): Rank {
	switch (priority) {
		case 'high':
			return hasNewMail ? 'high' : 'highBacklog';
		case 'normal':
			return hasNewMail ? (asksNext ? 'mixed' : 'fresh') : 'backlog';
		case 'low':
			return 'low';
	}
}

export const isHighRank = (rank: Rank): boolean => rank === 'high' || rank === 'highBacklog';
