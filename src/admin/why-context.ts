import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import {claimMarginMs, lifetimeOf, noOwnRetry, type OwnRetry} from '../mail/retry.ts';
import {findAudit} from '../store/audit.ts';
import {listNodes} from '../store/nodes.ts';
import type {RecipientFacts} from '../store/queue/queue-summary.ts';
import {textOrNull} from './timeline-text.ts';
import type {WhyContext} from './why.ts';

/** The daemons of a store, as far as the queue depends on them. */
export type Daemons = Pick<WhyContext, 'running' | 'delivering' | 'lives'> & {
	/** For compare-and-set beside them: claims of nodes last seen before this are dead; null: all are alive. */
	readonly silentSince: string | null;
};

/** Those on PostgreSQL: every node says when it was there. */
export async function daemonsOfNodes(reader: Knex, silentSince: string): Promise<Daemons> {
	const nodes = await listNodes(reader, silentSince);
	return {
		running: nodes.length > 0,
		delivering: nodes.some(({roles}) => roles.includes('deliver')),
		lives: claimedBy => nodes.some(({id}) => id === claimedBy),
		silentSince,
	};
}

type WhyInput = {
	readonly now: number;
	readonly daemons: Daemons;
	/** Milliseconds. */
	readonly settings: {readonly attemptDeadline: number; readonly queueLifetime: number};
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
};

/** What decides, in addition to the recipients themselves, when they are tried. */
export async function readWhyContext(
	reader: Knex,
	facts: readonly RecipientFacts[],
	{now, daemons, settings: {attemptDeadline, queueLifetime}, ownRetryOf}: WhyInput,
): Promise<WhyContext> {
	const holds = await readHolds(reader, facts);
	const destinations = [...new Set(facts.map(({destination}) => destination))];
	const ownRetries = new Map(
		await Promise.all(destinations.map(async destination => [destination, await ownRetryOf(destination)] as const)),
	);
	const {running, delivering, lives} = daemons;
	return {
		now,
		running,
		delivering,
		lives,
		attemptDeadlineMs: attemptDeadline,
		claimedAt({claimed_until: until}) {
			// A daemon with other settings cannot be noticed.
			const at = Date.parse(until ?? '') - attemptDeadline - claimMarginMs;
			return at <= now && at > now - attemptDeadline - claimMarginMs ? storeTime(at) : null;
		},
		givesUpAt: ({accepted_at: accepted, destination, queue_lifetime_s: ofWorkspace}) =>
			storeTime(
				Date.parse(accepted) + lifetimeOf(ownRetries.get(destination) ?? noOwnRetry, queueLifetime, ofWorkspace),
			),
		heldBy: ({id}) => holds.get(id) ?? {user: null, reason: null},
	};
}

async function readHolds(reader: Knex, facts: readonly RecipientFacts[]) {
	const known = new Map<string, ReturnType<WhyContext['heldBy']>>();
	for (const {id, workspace_id: workspaceId, held_at: at} of facts) {
		const act = at === null ? undefined : await findAudit(reader, {workspaceId, action: 'queue.held', at});
		known.set(id, {user: act?.actor.replace(/^(?:cli|user):/, '') ?? null, reason: textOrNull(act?.detail.reason)});
	}
	return known;
}
