import type {Knex} from 'knex';
import {isCounted} from '../mail/simulator.ts';
import {type ChangedCopy, endWaiting, type Step} from '../store/queue/queue-change.ts';
import {announce} from './announce.ts';
import type {Outbox} from './outbox.ts';

/** How an operator ends copies that wait: quietly, or as a bounce that webhooks tell of. Neither suppresses. */
export type GivenUp = {readonly kind: 'drop'} | {readonly kind: 'fail'; readonly reason: string};

/** Takes copies out of the queue at an operator's wish, with their timeline entries; those being tried are left alone. */
export async function giveUp(
	trx: Knex.Transaction,
	step: Step,
	how: GivenUp,
	outbox: Outbox,
): Promise<readonly ChangedCopy[]> {
	const state = how.kind === 'drop' ? 'errored' : 'bounced';
	const ended = await endWaiting(trx, step, state);
	await announce(
		trx,
		ended.map(copy => ({
			id: outbox.newId('evt'),
			workspaceId: copy.workspace_id,
			messageId: copy.message_id,
			recipientId: copy.id,
			recipient: copy.address,
			type: state,
			occurredAt: step.now,
			recordedAt: step.now,
			detail: JSON.stringify({recipient: copy.address, role: copy.role, ...explanation(how, copy)}),
			counted: isCounted(copy.role, copy.destination),
		})),
		outbox,
	);
	return ended;
}

function explanation(how: GivenUp, {attempts}: ChangedCopy): Record<string, unknown> {
	return how.kind === 'drop'
		? {reason: 'dropped'}
		: {attempt: attempts, type: 'transient', category: 'operator', reason: how.reason};
}
