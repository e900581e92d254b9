import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {ActTools} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {
	deleteSuspension,
	listSiteSuspensions,
	readSuspension,
	resumeSites,
	type Suspension,
	upsertSuspension,
} from '../store/queue/open-recipients.ts';

const noReason = 'suspended by the operator';

/**
 * Nothing is sent to the destination until it is resumed, for all workspaces; mail is accepted, and waits. Said once more
 * without a reason it keeps the one that was given.
 */
export async function suspendDestination(
	trx: Knex.Transaction,
	tools: ActTools,
	{destination, reason: given}: {readonly destination: string; readonly reason?: string | undefined},
): Promise<Suspension> {
	const now = storeTime(tools.clock.now());
	const before = given === undefined ? await readSuspension(trx, destination) : undefined;
	const reason = given ?? before?.reason ?? noReason;
	const suspension = await upsertSuspension(trx, {destination, reason, created_at: now});
	await recordAct(trx, tools, {action: 'queue.suspended', workspaceId: null, target: destination, detail: {reason}});
	await bumpGeneration(trx);
	return suspension;
}

type Resumed = {
	/** Undefined: no operator had suspended it. */
	readonly suspension: Suspension | undefined;
	/** Sites of the destination that were backing off after failures. */
	readonly sites: readonly string[];
};

/**
 * Ends an operator's suspension; where its sites back off after failures one mail tries each at once. `sites`: those
 * that mail to it would go to now, in addition to those of waiting mail.
 */
export async function resumeDestination(
	trx: Knex.Transaction,
	tools: ActTools,
	{destination, sites}: {readonly destination: string; readonly sites: readonly string[]},
): Promise<Resumed> {
	const now = storeTime(tools.clock.now());
	const suspension = await deleteSuspension(trx, destination);
	const waitedFor = await listSiteSuspensions(trx, now, {destination});
	const resumed = await resumeSites(trx, [...new Set([...sites, ...waitedFor.map(({site}) => site)])], now);
	if (suspension || resumed.length > 0) {
		const detail = {sites: resumed};
		await recordAct(trx, tools, {action: 'queue.resumed', workspaceId: null, target: destination, detail});
		await bumpGeneration(trx);
	}
	return {suspension, sites: resumed};
}
