import type {DestinationQueue} from './site.ts';

/**
 * The ranks of a workspace's mail, in the order in which it goes:
 * - `high`: high-priority mail that was just accepted
 * - `highBacklog`: high-priority mail that was attempted before or found in the store
 * - `fresh`: normal mail that was just accepted, for a provider that is not known to be silent
 * - `mixed`: the same, in a queue in which other unclaimed mail was found
 * - `backlog`: normal mail that was attempted before or found in the store
 * - `low`: low-priority mail
 */
export const ranks = ['high', 'highBacklog', 'fresh', 'mixed', 'backlog', 'low'] as const;
export type Rank = (typeof ranks)[number];

/** Mail that was just accepted is `new`. All other mail is `late`, and low-priority mail always is. */
export const phases = ['new', 'late'] as const;
export type Phase = (typeof phases)[number];

export const phaseOf = (rank: Rank): Phase =>
	rank === 'high' || rank === 'fresh' || rank === 'mixed' ? 'new' : 'late';

/** Returns the rank of the queue's mail. */
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
