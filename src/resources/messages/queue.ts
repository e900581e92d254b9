import {setTimeout as sleep} from 'node:timers/promises';
import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {parseDomain} from '../../mail/address.ts';
import type {Recipient} from '../../mail/message.ts';
import type {Acting, ActTools} from '../../mail/operator.ts';
import {Type} from '../../mail/type.ts';
import type {EventWriter} from '../../outcome/outbox.ts';
import {endByOperator} from '../../outcome/settle.ts';
import {bumpGeneration} from '../../store/changes.ts';
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
} from '../../store/queue/open-recipients.ts';
import {noPriorities, type QueueSummary, summarizeQueue} from '../../store/queue/queue-summary.ts';
import {recordAct} from '../audit/store.ts';
import {field} from '../fields.ts';
import {type OperationContext, operation} from '../operation.ts';

/** Why all mail to a destination is stopped. */
export type Stopped = {
	/** What stopped it: an `operator`, `failures` at its provider, or its `route` if the relay refuses our mail. */
	readonly suspended_by: 'operator' | 'failures' | 'route' | null;
	readonly suspended_until: string | null;
	readonly suspension_reason: string | null;
	/** What to do if the destination blocks our address. */
	readonly suspension_advice: string | null;
};

/** The queue of a destination. */
export type QueueStatus = Omit<QueueSummary, 'oldest'> &
	Stopped & {readonly oldest: string | null; readonly suspended: boolean};

export const notStopped: Stopped = {
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
	/** Whether to include suspended destinations without mail. */
	readonly includesIdle: boolean;
	/** Restricts the result to this destination. */
	readonly destination?: string;
};

/** Returns the queue by destination, the longest first. */
export async function readQueueStatus(
	reader: Knex,
	{now, workspaceId, includesIdle, destination}: StatusQuery,
): Promise<QueueStatus[]> {
	const queued = await summarizeQueue(reader, {now: storeTime(now), workspaceId, destination});
	const stopped = await readStopped(reader, storeTime(now));
	const known = new Set(queued.map(({destination}) => destination));
	// Suspended destinations without mail are included so that operators do not forget them.
	const idle = [...stopped].filter(([name]) => includesIdle && !known.has(name) && name === (destination ?? name));
	return [
		...queued.map(row => withStop(row, stopped.get(row.destination) ?? notStopped)),
		...idle.map(([destination, stop]) => withStop({destination, ...empty}, stop)),
	];
}

/** Returns what is stopped at a time (in the store's format), by destination. */
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
		stopped.set(destination, {...notStopped, suspended_by: 'operator', suspension_reason: reason});
	}
	return stopped;
}

function withStop(row: Omit<QueueStatus, keyof Stopped | 'suspended'>, stop: Stopped): QueueStatus {
	return {...row, suspended: stop.suspended_by !== null, ...stop};
}

/** An operator's change to queued recipients. */
export type QueueChange = {
	/** The name in commands and paths, such as `hold`. */
	readonly verb: string;
	/** The name of the count in the result and of the action in the audit trail, such as `held`. */
	readonly done: string;
	readonly takesReason?: true;
	/** Whether it ends delivery to the recipients. */
	readonly isFinal?: true;
	/**
	 * Whether to skip recipients with an attempt in progress. Otherwise they are changed once the attempt has ended.
	 */
	readonly skipsInFlight: boolean;
	readonly apply: (
		trx: Knex.Transaction,
		step: Step,
		eventWriter: EventWriter,
		reason: string | undefined,
	) => Promise<readonly Recipient[]>;
};

export const hold: QueueChange = {
	verb: 'hold',
	done: 'held',
	takesReason: true,
	skipsInFlight: false,
	apply: holdRecipients,
};
export const release: QueueChange = {verb: 'release', done: 'released', skipsInFlight: true, apply: releaseHeld};
export const flush: QueueChange = {verb: 'flush', done: 'flushed', skipsInFlight: true, apply: makeDue};

/** Ends recipients as errored, without a webhook. */
export const drop: QueueChange = {
	verb: 'drop',
	done: 'dropped',
	isFinal: true,
	skipsInFlight: false,
	apply: (trx, step, eventWriter) => endByOperator(trx, step, {kind: 'drop'}, eventWriter),
};

/** Ends recipients as bounced, with a webhook. */
export const fail: QueueChange = {
	verb: 'fail',
	done: 'failed',
	takesReason: true,
	isFinal: true,
	skipsInFlight: false,
	apply: (trx, step, eventWriter, reason = 'given up by the operator') =>
		endByOperator(trx, step, {kind: 'fail', reason}, eventWriter),
};

type ChangeOptions = {
	readonly transaction: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	readonly tools: ActTools;
	readonly eventWriter: EventWriter;
	/** Reads `silentSince` of `Daemons`. It is called before each step. */
	readonly readSilentSince: () => Promise<string | null>;
	readonly onStep?: (done: number, of: number) => void;
};

/** The number of changed recipients, and those whose attempts stayed in progress. */
type QueueChanged = {readonly changed: number; readonly busy: readonly string[]};

const recipientsPerStep = 500;
/** How long to wait for attempts in progress before each further pass, in milliseconds. */
const waitsMs = [250, 500, 1000, 2000];

/** How recipients were selected, and why they are changed, for the audit trail. */
export type QueueDetail = {readonly [Name in 'destination' | 'before' | 'reason']?: string | undefined};

/** Changes recipients in short transactions, so that the daemon can write in between and sees each step. */
export async function changeQueue(
	options: ChangeOptions,
	change: QueueChange,
	recipients: readonly string[],
	detail: QueueDetail,
): Promise<QueueChanged> {
	let {changed, busy} = await changeInSteps(options, change, recipients, detail);
	for (const waitMs of change.skipsInFlight ? [] : waitsMs) {
		if (busy.length === 0) {
			break;
		}
		await sleep(waitMs);
		const pass = await changeInSteps(options, change, busy, detail);
		changed += pass.changed;
		busy = pass.busy;
	}
	return {changed, busy};
}

async function changeInSteps(
	{transaction, tools, eventWriter, readSilentSince, onStep}: ChangeOptions,
	change: QueueChange,
	ids: readonly string[],
	detail: QueueDetail,
): Promise<QueueChanged> {
	let changed = 0;
	const busy: string[] = [];
	for (let start = 0; start < ids.length; start += recipientsPerStep) {
		const stepIds = ids.slice(start, start + recipientsPerStep);
		const silentSince = await readSilentSince();
		const now = storeTime(tools.clock.now());
		const step = await transaction(async trx => {
			const recipients = await change.apply(trx, {ids: stepIds, now, silentSince}, eventWriter, detail.reason);
			await auditQueue(trx, tools, {action: `queue.${change.done}`, at: now, detail}, recipients);
			if (recipients.length > 0) {
				await bumpGeneration(trx);
			}
			return {changed: recipients.length, busy: await findClaimed(trx, stepIds)};
		});
		changed += step.changed;
		busy.push(...step.busy);
		onStep?.(start + stepIds.length, ids.length);
	}
	return {changed, busy};
}

/** A change to queued recipients within one transaction. */
type QueueAction = {
	/** The audit action, such as `queue.held`. */
	readonly action: string;
	readonly at: string;
	readonly detail: QueueDetail;
};

/** Records one audit entry for each workspace with changed recipients. */
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

const suspensionOptions = {
	role: 'operator',
	everywhere: true,
	without: {api: 'a domain is suspended for all workspaces', apply: 'a file describes state, not actions'},
} as const;
const reason = field(Type.Optional(Type.String({format: 'label'})), {
	option: 'reason <text>',
	description: 'The reason, stored and shown by queue why.',
});
const domain = field(Type.String({format: 'domain'}), {normalize: parseDomain});

/**
 * Suspends a destination for all workspaces. Mail to it is accepted and waits until the destination is resumed.
 * Suspending it again without a reason keeps the previous reason.
 */
export const suspendDestination = operation({
	...suspensionOptions,
	name: 'queue suspend',
	input: Type.Object({domain, reason}),
	async run({trx, tools}: OperationContext<null>, {domain: destination, reason: newReason}): Promise<Suspension> {
		const before = newReason === undefined ? await readSuspension(trx, destination) : undefined;
		return await upsertSuspension(trx, {
			destination,
			reason: newReason ?? before?.reason ?? 'suspended by the operator',
			created_at: storeTime(tools.clock.now()),
		});
	},
	audit: 'queue.suspended',
	entry: ({destination: target, reason}) => ({target, detail: {reason}}),
});

type Resumed = {
	/** `undefined` if no operator had suspended it. */
	readonly suspension: Suspension | undefined;
	/** The destination's providers that were backing off after failures. */
	readonly sites: readonly string[];
	/** Whether either was stopped. */
	readonly isResumed: boolean;
};

/**
 * Ends an operator's suspension. Each of the destination's providers that is backing off is sent one message
 * immediately, to test whether it accepts mail again.
 */
export const resumeDestination = operation({
	...suspensionOptions,
	name: 'queue resume',
	input: Type.Object({domain}),
	async run({trx, tools}: OperationContext<null>, {domain: destination}): Promise<Resumed> {
		const now = storeTime(tools.clock.now());
		const suspension = await deleteSuspension(trx, destination);
		const suspensions = await listSiteSuspensions(trx, now, {destination});
		const sites = await resumeSites(trx, [...new Set(suspensions.map(({site}) => site))], now);
		return {suspension, sites, isResumed: suspension !== undefined || sites.length > 0};
	},
	audit: 'queue.resumed',
	entry: ({sites, isResumed}, {domain: target}) => (isResumed ? {target, detail: {sites}} : []),
});
