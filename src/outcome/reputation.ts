import type {Knex} from 'knex';
import type {BounceCategory} from '../mail/outcome.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {countHours, type ReputationCount, readFirstTries, readTried} from '../store/reputation.ts';
import type {Outbox} from './outbox.ts';
import type {Recorded} from './record.ts';

const nothing = {attempted: 0, hard: 0, delivered: 0, complained: 0};

/** Refusals of us, whoever the recipient is: they say nothing of a workspace's mail (delivery.md R7.1). */
const ofUs: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'block',
	'reputation',
	'auth',
	'relay_denied',
	'policy',
	'sender',
	'config',
]);

/**
 * Counts ends of tries in the reputation of their workspaces, in their transaction. A copy counts as attempted from its
 * first try on, unless it ends refused because of us; its later end counts in the hour of its first try.
 */
export async function countTries(trx: Knex.Transaction, recorded: readonly Recorded[], outbox: Outbox): Promise<void> {
	const counted = recorded.flatMap(one => {
		const figures = one.copy.destination === simulatorDomain ? null : figuresOf(one);
		return figures === null ? [] : [{one, figures}];
	});
	const later = counted.filter(({one}) => one.copy.attempts > 0).map(({one}) => one.copy.id);
	const firstTries = await readFirstTries(trx, later);
	await count(
		trx,
		counted.map(({one: {copy, result}, figures}) => ({
			...figures,
			workspaceId: copy.workspace_id,
			at: firstTries.get(copy.id) ?? result.attempts[0]?.at ?? result.at,
		})),
		outbox,
	);
}

/** What the end of a try adds; null: nothing. */
function figuresOf({copy, verdict: {outcome}}: Recorded): Omit<ReputationCount, 'workspaceId' | 'at'> | null {
	const first = copy.attempts === 0 ? 1 : 0;
	switch (outcome.kind) {
		case 'delivered':
		case 'relayed':
			return {...nothing, attempted: first, delivered: 1};
		case 'deferred':
			return first === 1 ? {...nothing, attempted: 1} : null;
		case 'bounced':
			if (ofUs.has(outcome.category)) {
				return first === 1 ? null : {...nothing, attempted: -1};
			}
			return {...nothing, attempted: first, hard: outcome.suppresses ? 1 : 0};
		default:
			return null;
	}
}

/** What is learnt of a copy after its last try. */
export type LaterReport = {readonly recipientId: string; readonly what: 'hard' | 'complained'};

/**
 * Counts bounces and complaints that came after the mail was taken, in the transaction that writes them and in the hour of
 * the copy's first try. To be called once per copy and kind: when its state changed.
 */
export async function countReputation(
	trx: Knex.Transaction,
	reports: readonly LaterReport[],
	outbox: Outbox,
): Promise<void> {
	if (reports.length === 0) {
		return;
	}
	const ids = reports.map(({recipientId}) => recipientId);
	const copies = new Map((await readTried(trx, ids)).map(copy => [copy.id, copy]));
	const firstTries = await readFirstTries(trx, ids);
	await count(
		trx,
		reports.flatMap(({recipientId, what}) => {
			const copy = copies.get(recipientId);
			const at = firstTries.get(recipientId) ?? copy?.sentAt ?? null;
			const counts = copy !== undefined && copy.destination !== simulatorDomain && at !== null;
			return counts ? [{...nothing, [what]: 1, workspaceId: copy.workspaceId, at}] : [];
		}),
		outbox,
	);
}

async function count(trx: Knex.Transaction, counts: readonly ReputationCount[], {onCounted}: Outbox): Promise<void> {
	await countHours(trx, counts);
	if (counts.length > 0 && onCounted !== undefined) {
		const workspaceIds = [...new Set(counts.map(({workspaceId}) => workspaceId))];
		void trx.executionPromise.then(
			() => onCounted(workspaceIds),
			() => undefined, // Rolled back: whoever asked for the transaction is told.
		);
	}
}
