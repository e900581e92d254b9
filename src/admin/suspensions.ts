import type {Knex} from 'knex';
import type {Operator} from '../mail/operator.ts';
import {storeTime} from '../mail/time.ts';
import {insertAudit} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {
	deleteSuspension,
	endSiteSuspensions,
	listSiteSuspensions,
	type Suspension,
	upsertSuspension,
} from '../store/stops.ts';
import type {Tools} from './tools.ts';

/** Nothing is sent to the destination until it is resumed, whoever's mail it is; mail is accepted, and waits. */
export async function suspendDestination(
	trx: Knex.Transaction,
	tools: Tools,
	{destination, reason}: {readonly destination: string; readonly reason: string},
	operator: Operator,
): Promise<Suspension> {
	const now = storeTime(tools.clock.now());
	const suspension = await upsertSuspension(trx, {destination, reason, created_at: now});
	await record(trx, tools, {action: 'queue.suspended', destination, detail: {reason}}, operator);
	await bumpGeneration(trx);
	return suspension;
}

export type Resumed = {
	/** Undefined: no operator had suspended it. */
	readonly suspension: Suspension | undefined;
	/** Sites of the destination that were left alone after failures. */
	readonly sites: readonly string[];
};

/** Ends an operator's suspension, and one after failures. */
export async function resumeDestination(
	trx: Knex.Transaction,
	tools: Tools,
	destination: string,
	operator: Operator,
): Promise<Resumed> {
	const now = storeTime(tools.clock.now());
	const suspension = await deleteSuspension(trx, destination);
	const sites = (await listSiteSuspensions(trx, now, destination)).map(({site}) => site);
	if (suspension || sites.length > 0) {
		await endSiteSuspensions(trx, sites, now);
		await record(trx, tools, {action: 'queue.resumed', destination, detail: {sites}}, operator);
		await bumpGeneration(trx);
	}
	return {suspension, sites};
}

async function record(
	trx: Knex.Transaction,
	{clock, newId}: Tools,
	{action, destination, detail}: {action: string; destination: string; detail: Record<string, unknown>},
	{actor, user}: Operator,
): Promise<void> {
	await insertAudit(trx, {
		id: newId('aud'),
		at: storeTime(clock.now()),
		workspaceId: null,
		actor,
		action,
		target: destination,
		detail: {...detail, user},
	});
}
