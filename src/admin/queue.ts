import {setTimeout as sleep} from 'node:timers/promises';
import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {Recipient} from '../mail/message.ts';
import type {Acting, ActTools} from '../mail/operator.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {type GivenUp, giveUp} from '../outcome/settle.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {
	deleteSuspension,
	findClaimed,
	holdRecipients,
	listSiteSuspensions,
	listSuspensions,
	makeDue,
	readSuspension,
	releaseHeld,
	resumeSites,
	type Step,
	type Suspension,
	upsertSuspension,
} from '../store/queue/open-recipients.ts';
import {noPriorities, type QueueSummary, summarizeQueue} from '../store/queue/queue-summary.ts';

/** What stops all mail to a destination. */
export type Stopped = {
	/** `operator`, `failures` of its site, or its `route`: a smarthost that refuses us. */
	readonly suspended_by: 'operator' | 'failures' | 'route' | null;
	readonly suspended_until: string | null;
	readonly suspension_reason: string | null;
	/** Where to ask, if the destination blocks our address. */
	readonly suspension_advice: string | null;
};

/** What waits for a destination. */
export type QueueStatus = Omit<QueueSummary, 'oldest'> &
	Stopped & {readonly oldest: string | null; readonly suspended: boolean};

export const free: Stopped = {
	suspended_by: null,
	suspended_until: null,
	suspension_reason: null,
	suspension_advice: null,
};
const empty = {
	ready: 0,
	deferred: 0,
	in_flight: 0,
	held: 0,
	by_priority: noPriorities(),
	oldest: null,
	last_reply: null,
};

type StatusQuery = {
	/** Milliseconds. */
	readonly now: number;
	readonly workspaceId: string | undefined;
	/** Also destinations that are suspended and have no mail. */
	readonly idle: boolean;
	/** This one alone. */
	readonly destination?: string;
};

/** What waits, by destination, the most first. */
export async function readQueueStatus(
	reader: Knex,
	{now, workspaceId, idle, destination}: StatusQuery,
): Promise<QueueStatus[]> {
	const counted = await summarizeQueue(reader, {now: storeTime(now), workspaceId, destination});
	const stopped = await readStopped(reader, storeTime(now));
	const known = new Set(counted.map(({destination}) => destination));
	// Those without mail are shown too, or they would be forgotten.
	const others = [...stopped].filter(([name]) => idle && !known.has(name) && name === (destination ?? name));
	return [
		...counted.map(row => withStop(row, stopped.get(row.destination) ?? free)),
		...others.map(([destination, stop]) => withStop({destination, ...empty}, stop)),
	];
}

/** By destination, at a time in the store's form. */
export async function readStopped(reader: Knex, now: string): Promise<Map<string, Stopped>> {
	const stopped = new Map<string, Stopped>();
	for (const {destination, reason, waits_for: waitsFor, advice, suspended_until: until} of await listSiteSuspensions(
		reader,
		now,
	)) {
		const by = waitsFor === 'route' ? 'route' : 'failures';
		const stop: Stopped = {
			suspended_by: by,
			suspended_until: until,
			suspension_reason: reason,
			suspension_advice: advice,
		};
		stopped.set(destination, stop);
	}
	for (const {destination, reason} of await listSuspensions(reader)) {
		stopped.set(destination, {...free, suspended_by: 'operator', suspension_reason: reason});
	}
	return stopped;
}

function withStop(row: Omit<QueueStatus, keyof Stopped | 'suspended'>, stop: Stopped): QueueStatus {
	return {...row, suspended: stop.suspended_by !== null, ...stop};
}

/** What is done to recipients of the queue. */
export type QueueChange = {
	/** Names the count in the result, and the action in the audit trail: `held`. */
	readonly done: string;
	/**
	 * Whether a recipient that is being tried needs nothing done; else it is looked at again when its attempt may be
	 * over.
	 */
	readonly passesOver: boolean;
	readonly apply: (trx: Knex.Transaction, step: Step, eventWriter: EventWriter) => Promise<readonly Recipient[]>;
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

/** How many recipients were changed, and those that were being tried all the time. */
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

/** What was done to recipients of the queue in one transaction. */
type QueueAction = {
	/** `queue.held` and the like. */
	readonly action: string;
	readonly at: string;
	/** How they were chosen, and why. */
	readonly detail: Readonly<Record<string, unknown>>;
};

/** One row for each workspace with changed recipients. */
async function auditQueue(
	trx: Knex.Transaction,
	acting: Acting,
	{action, at, detail}: QueueAction,
	changed: readonly Recipient[],
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

const noReason = 'suspended by the operator';

/**
 * Nothing is sent to the destination until it is resumed, for all workspaces; mail is accepted, and waits. Said once
 * more without a reason it keeps the one that was given.
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
 * Ends an operator's suspension. Of the sites that its mail waits for, those that back off are tried at once, with one
 * message each.
 */
export async function resumeDestination(trx: Knex.Transaction, tools: ActTools, destination: string): Promise<Resumed> {
	const now = storeTime(tools.clock.now());
	const suspension = await deleteSuspension(trx, destination);
	const waitedFor = await listSiteSuspensions(trx, now, {destination});
	const resumed = await resumeSites(trx, [...new Set(waitedFor.map(({site}) => site))], now);
	if (suspension || resumed.length > 0) {
		const detail = {sites: resumed};
		await recordAct(trx, tools, {action: 'queue.resumed', workspaceId: null, target: destination, detail});
		await bumpGeneration(trx);
	}
	return {suspension, sites: resumed};
}
