import {storeTime} from '../kit/time.ts';
import type {afterAttempt} from '../mail/webhook.ts';
import type {GroupWrite} from '../store/engine/writer.ts';
import {
	type ClaimedDeliveries,
	type ClaimedDelivery,
	claimDeliveries,
	type DeliveryEnd,
	type EndpointPermit,
	type Failing,
	noteFailing,
	writeDeliveryEnds,
} from '../store/webhook-queue.ts';
import type {PostEnd} from './post.ts';

/** The end of an attempt, with what follows from it. */
export type Attempted = {
	readonly delivery: ClaimedDelivery;
	/** Null: it could not begin. */
	readonly end: PostEnd | null;
	/** When it began and ended, milliseconds since the epoch. */
	readonly began: number;
	readonly ended: number;
	readonly after: ReturnType<typeof afterAttempt>;
	/** The endpoint's attempt that ended before it had failed: what its claim says may be older. */
	readonly wasFailing: boolean;
};

/** What the dispatcher writes in one transaction: ends of attempts, then claims in the capacity that they left. */
type Turn = {
	readonly boot: string;
	readonly ends: readonly DeliveryEnd[];
	readonly failing: readonly Failing[];
	readonly permits: readonly EndpointPermit[];
	/** In the store's form. */
	readonly now: string;
};

export type Turned = ClaimedDeliveries & {
	/** Deliveries that their attempt moved; others were replayed or deleted meanwhile. */
	readonly moved: ReadonlySet<string>;
};

export const turnWrite: GroupWrite<Turn, Turned> = {
	name: 'webhook',
	rank: 4,
	bytes: ({ends, permits}) => 256 * (ends.length + permits.length),
	async apply(trx, turns) {
		const turned: Turned[] = [];
		for (const {boot, ends, failing, permits, now} of turns) {
			const moved = ends.length === 0 ? new Set<string>() : await writeDeliveryEnds(trx, boot, ends);
			await noteFailing(trx, failing);
			turned.push({moved, ...(await claimDeliveries(trx, boot, {permits, now}))});
		}
		return turned;
	},
};

/** What is written of attempts: much less than what was posted. */
export function endsOf(attempted: readonly Attempted[]): Pick<Turn, 'ends' | 'failing'> {
	return {ends: attempted.map(endOf), failing: failingOf(attempted)};
}

/** Endpoints that began to fail, or to answer again: seldom any. */
function failingOf(attempted: readonly Attempted[]): Failing[] {
	const changes = new Map<string, Failing>();
	for (const {delivery, end, ended, wasFailing} of attempted) {
		if (end === null) {
			continue;
		}
		const {endpointId, failingSince} = delivery;
		const fails = end.error !== null;
		if (changes.has(endpointId) || fails !== (failingSince !== null) || fails !== wasFailing) {
			const since = changes.get(endpointId)?.since ?? storeTime(ended);
			changes.set(endpointId, {endpointId, since: fails ? since : null});
		}
	}
	return [...changes.values()];
}

function endOf({delivery, end, began, after}: Attempted): DeliveryEnd {
	return {
		id: delivery.id,
		generation: delivery.generation,
		n: after.attempts,
		state: after.state,
		nextAttemptAt: after.nextAttemptAt === null ? null : storeTime(after.nextAttemptAt),
		at: storeTime(began),
		end: end && {status: end.status, error: end.error, answer: end.answer, ms: end.ms},
	};
}
