import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {afterAttempt, DisabledReason} from '../../mail/webhook.ts';
import {disabledNotice, type EventWriter, notify} from '../../outcome/outbox.ts';
import type {GroupWrite} from '../../store/engine/writer.ts';
import type {PostResult} from './post.ts';
import {
	type ClaimedDeliveries,
	type ClaimedDelivery,
	claimDeliveries,
	type DeliveryOutcome,
	type EndpointPermit,
	type Failing,
	noteFailing,
	writeDeliveryOutcomes,
} from './queue-store.ts';
import {disableEndpoint} from './store.ts';

/** A finished attempt, and what follows from it. */
export type FinishedAttempt = {
	readonly delivery: ClaimedDelivery;
	/** `null` if it could not start. */
	readonly end: PostResult | null;
	/** When it started and finished, in milliseconds since the epoch. */
	readonly began: number;
	readonly ended: number;
	readonly after: ReturnType<typeof afterAttempt>;
	/** Whether the endpoint's previous attempt failed. The claim's information may be older. */
	readonly wasFailing: boolean;
};

/** What the dispatcher writes in one transaction: results of attempts, then claims for the capacity they free. */
type DispatchBatch = {
	readonly boot: string;
	readonly ends: readonly DeliveryOutcome[];
	readonly failing: readonly Failing[];
	readonly disabled: readonly Disabled[];
	readonly permits: readonly EndpointPermit[];
	/** In the store's form. */
	readonly now: string;
};

export type DispatchResult = ClaimedDeliveries & {
	/** Deliveries whose state the attempt changed. Others were replayed or deleted in the meantime. */
	readonly moved: ReadonlySet<string>;
};

export const createDispatchWrite = (eventWriter: EventWriter): GroupWrite<DispatchBatch, DispatchResult> => ({
	name: 'webhook',
	rank: 4,
	bytes: ({ends, permits}) => 256 * (ends.length + permits.length),
	async apply(trx, batches) {
		const turned: DispatchResult[] = [];
		for (const {boot, ends, failing, disabled, permits, now} of batches) {
			const moved = ends.length === 0 ? new Set<string>() : await writeDeliveryOutcomes(trx, boot, ends);
			await noteFailing(trx, failing);
			await disable(
				trx,
				disabled.filter(({id}) => moved.has(id)),
				eventWriter,
			);
			turned.push({moved, ...(await claimDeliveries(trx, boot, {permits, now}))});
		}
		return turned;
	},
});

/** An endpoint to disable because of a delivery's result. */
type Disabled = Pick<ClaimedDelivery, 'id' | 'endpointId'> & {readonly reason: DisabledReason; readonly at: string};

async function disable(trx: Knex.Transaction, disabled: readonly Disabled[], eventWriter: EventWriter): Promise<void> {
	for (const {endpointId, ...cause} of disabled) {
		const endpoint = await disableEndpoint(trx, endpointId, cause);
		if (endpoint) {
			await notify(trx, [disabledNotice({id: endpointId, ...endpoint}, cause)], eventWriter);
		}
	}
}

/** Returns what is written about attempts, which is much less than what was posted. */
export function toBatchResults(
	attempted: readonly FinishedAttempt[],
): Pick<DispatchBatch, 'ends' | 'failing' | 'disabled'> {
	return {ends: attempted.map(endOf), failing: failingOf(attempted), disabled: attempted.flatMap(disabledOf)};
}

/** Returns the few endpoints that started to fail, or recovered. */
function failingOf(attempted: readonly FinishedAttempt[]): Failing[] {
	const changes = new Map<string, Failing>();
	for (const {delivery, end, ended, wasFailing} of attempted) {
		if (end === null) {
			continue;
		}
		const {endpointId, failingSince} = delivery;
		const hasFailed = end.error !== null;
		if (changes.has(endpointId) || hasFailed !== (failingSince !== null) || hasFailed !== wasFailing) {
			const since = changes.get(endpointId)?.since ?? storeTime(ended);
			changes.set(endpointId, {endpointId, since: hasFailed ? since : null});
		}
	}
	return [...changes.values()];
}

function disabledOf({delivery: {id, endpointId}, after: {disables: reason}, ended}: FinishedAttempt): Disabled[] {
	return reason === undefined ? [] : [{id, endpointId, reason, at: storeTime(ended)}];
}

function endOf({delivery, end, began, after}: FinishedAttempt): DeliveryOutcome {
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
