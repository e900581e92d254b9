import type {DestinationQueue} from './site.ts';

/**
 * In the order in which one workspace's mail goes. `high` and `low`: mail of these priorities. Of normal mail, `fresh`:
 * just accepted, for a site not known to be silent. `mixed`: such mail where other unclaimed mail was found. `backlog`:
 * mail tried before, or found in the store; `highBacklog`: such mail of high priority.
 */
export const ranks = ['high', 'highBacklog', 'fresh', 'mixed', 'backlog', 'low'] as const;
export type Rank = (typeof ranks)[number];

/** `new`: mail that was just accepted. All other mail is `late`, and low mail always. */
export const phases = ['new', 'late'] as const;
export type Phase = (typeof phases)[number];

export const phaseOf = (rank: Rank): Phase =>
	rank === 'high' || rank === 'fresh' || rank === 'mixed' ? 'new' : 'late';

/** The rank of the queue's mail. */
export function rankOf({priority, fresh, asksNext}: DestinationQueue): Rank {
	switch (priority) {
		case 'high':
			return fresh ? 'high' : 'highBacklog';
		case 'normal':
			return fresh ? (asksNext ? 'mixed' : 'fresh') : 'backlog';
		case 'low':
			return 'low';
	}
}

export const isHighRank = (rank: Rank): boolean => rank === 'high' || rank === 'highBacklog';
