import {setTimeout as sleep} from 'node:timers/promises';
import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {Acting, ActTools} from '../mail/operator.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {type GivenUp, giveUp} from '../outcome/settle.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {
	type ChangedRecipient,
	findClaimed,
	holdRecipients,
	makeDue,
	releaseHeld,
	type Step,
} from '../store/queue/open-recipients.ts';

/** What is done to copies of the queue. */
export type QueueChange = {
	/** Names the count in the result, and the action in the audit trail: `held`. */
	readonly done: string;
	/** Whether a copy that is being tried needs nothing done; else it is asked for again when its try may be over. */
	readonly passesOver: boolean;
	readonly apply: (trx: Knex.Transaction, step: Step, eventWriter: EventWriter) => Promise<readonly ChangedRecipient[]>;
};

export const hold: QueueChange = {done: 'held', passesOver: false, apply: holdRecipients};
export const release: QueueChange = {done: 'released', passesOver: true, apply: releaseHeld};
export const flush: QueueChange = {done: 'flushed', passesOver: true, apply: makeDue};

const end = (done: string, how: GivenUp): QueueChange => ({
	done,
	passesOver: false,
	apply: (trx, step, eventWriter) => giveUp(trx, step, how, eventWriter),
});

/** It ends as errored, without a webhook. */
export const drop: QueueChange = end('dropped', {kind: 'drop'});

/** It ends as bounced, with its webhook. */
export const fail = (reason = 'given up by the operator'): QueueChange => end('failed', {kind: 'fail', reason});

type ChangeOptions = {
	readonly transaction: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	readonly tools: ActTools;
	readonly eventWriter: EventWriter;
	/** Of `Daemons`, asked before each step. */
	readonly readSilentSince: () => Promise<string | null>;
	readonly onStep?: (done: number, of: number) => void;
};

/** How many copies were changed, and those that were being tried all the time. */
type QueueChanged = {readonly changed: number; readonly busy: readonly string[]};

const recipientsPerStep = 500;
/** How long tries under way are waited for, milliseconds: before the second look, before the third … */
const patience = [250, 500, 1000, 2000];

/** Changes recipients step by step, in short transactions: the daemon goes on writing, and learns of each step. */
export async function changeQueue(
	options: ChangeOptions,
	change: QueueChange,
	recipients: readonly string[],
	detail: Readonly<Record<string, unknown>>,
): Promise<QueueChanged> {
	let {changed, busy} = await takeSteps(options, change, recipients, detail);
	for (const wait of change.passesOver ? [] : patience) {
		if (busy.length === 0) {
			break;
		}
		await sleep(wait);
		const again = await takeSteps(options, change, busy, detail);
		changed += again.changed;
		busy = again.busy;
	}
	return {changed, busy};
}

async function takeSteps(
	{transaction, tools, eventWriter, readSilentSince, onStep}: ChangeOptions,
	change: QueueChange,
	ids: readonly string[],
	detail: Readonly<Record<string, unknown>>,
): Promise<QueueChanged> {
	let changed = 0;
	const busy: string[] = [];
	for (let from = 0; from < ids.length; from += recipientsPerStep) {
		const some = ids.slice(from, from + recipientsPerStep);
		const silentSince = await readSilentSince();
		const now = storeTime(tools.clock.now());
		const done = await transaction(async trx => {
			const recipients = await change.apply(trx, {ids: some, now, silentSince}, eventWriter);
			await auditQueue(trx, tools, {action: `queue.${change.done}`, at: now, detail}, recipients);
			if (recipients.length > 0) {
				await bumpGeneration(trx);
			}
			return {changed: recipients.length, busy: await findClaimed(trx, some)};
		});
		changed += done.changed;
		busy.push(...done.busy);
		onStep?.(from + some.length, ids.length);
	}
	return {changed, busy};
}

/** What was done to copies of the queue in one transaction. */
type QueueAction = {
	/** `queue.held` and the like. */
	readonly action: string;
	readonly at: string;
	/** How they were chosen, and why. */
	readonly detail: Readonly<Record<string, unknown>>;
};

/** One row for each workspace with changed recipients. */
export async function auditQueue(
	trx: Knex.Transaction,
	acting: Acting,
	{action, at, detail}: QueueAction,
	changed: readonly ChangedRecipient[],
): Promise<void> {
	for (const workspaceId of new Set(changed.map(recipient => recipient.workspace_id))) {
		const recipients = changed.filter(recipient => recipient.workspace_id === workspaceId);
		await recordAct(trx, acting, {
			action,
			at,
			workspaceId,
			target: recipients.length === 1 ? (recipients[0]?.id ?? null) : null,
			detail: {...detail, copies: recipients.length},
		});
	}
}
