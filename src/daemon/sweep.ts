import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {stepsOf, takeSteps} from '../kit/steps.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import {idFloor} from '../mail/ids.ts';
import type {Acting} from '../mail/operator.ts';
import {retentionCaps} from '../mail/report.ts';
import {aggregateDays, unprovenDays} from '../outcome/aggregates.ts';
import type {Eraser} from '../outcome/erase.ts';
import {firstKeptHour} from '../outcome/reputation-findings.ts';
import {purgeAllowances} from '../resources/alerts/addresses-store.ts';
import {purgeAudit, recordAct} from '../resources/audit/store.ts';
import {purgeAggregates} from '../resources/domains/reports-store.ts';
import {purgePolicies, purgeTlsDays} from '../resources/domains/tls-store.ts';
import {purgeRead} from '../resources/received/inbound-store.ts';
import {type KeptCaps, trimKept} from '../resources/received/kept-store.ts';
import {purgeReceived} from '../resources/received/store.ts';
import {purgePauses} from '../resources/topics/store.ts';
import {sessionLimits} from '../resources/users/sessions.ts';
import {purgeLinks, purgeUserSessions} from '../resources/users/store.ts';
import {deleteDeliveries, deleteEndpoint, findAbandoned, findWithoutMessage} from '../resources/webhooks/store.ts';
import {createRemoval, type RemovalOptions} from '../resources/workspaces/delete-workspace.ts';
import {findRetentionOverrides} from '../resources/workspaces/store.ts';
import {bumpGeneration} from '../store/changes.ts';
import {giveBackPages, isInUse, takeTime} from '../store/engine/dialect.ts';
import {findErasureBefore} from '../store/erasures.ts';
import {purgeIdempotencyKeys} from '../store/idempotency-keys.ts';
import {purgeSealed} from '../store/messages.ts';
import {createDays, type Day, dropDay, findPast, limitLockWait, purgeRelated} from '../store/postgres/days.ts';
import {purgeSites, purgeWarmUp} from '../store/queue/sites.ts';
import {purgeReputation} from '../store/reputation.ts';
import {emptyMessages, removeMessages} from '../store/retention.ts';
import type {Store} from '../store/store.ts';
import {purgeUsageHours} from '../store/usage.ts';

/** Removes old data of one kind in steps. */
type SweepTask = {
	readonly name: string;
	/** Returns a function that removes a part, oldest data first, and returns whether there may be more. */
	readonly begin: () => () => Promise<boolean>;
};

type SweepOptions = {
	readonly tasks: readonly SweepTask[];
	/** The current time between the end of a sweep and the next one. */
	readonly intervalMs: () => number;
	readonly clock: Pick<Clock, 'monotonic'>;
	/** A task failed and will be attempted again at the next sweep. */
	readonly failed: (error: unknown, task: string) => void;
};

type Sweep = {
	/** Call this when the interval has changed. */
	readonly reschedule: () => void;
	/** Resolves when all removals have stopped. */
	readonly stop: () => Promise<void>;
};

const maxTimerMs = 2 ** 31 - 1;

/** Sweeps at intervals. Several nodes may sweep one store at once. */
export function startSweep({tasks, intervalMs, clock, failed}: SweepOptions): Sweep {
	let isStopping = false;
	let timer: NodeJS.Timeout | undefined;
	let sweeping: Promise<void> | null = null;

	function schedule(): void {
		clearTimeout(timer);
		timer = setTimeout(
			() => {
				sweeping = sweep().finally(() => {
					sweeping = null;
					if (!isStopping) {
						schedule();
					}
				});
			},
			Math.min(intervalMs(), maxTimerMs),
		);
	}

	async function sweep(): Promise<void> {
		for (const {name, begin} of tasks) {
			if (isStopping) {
				return;
			}
			try {
				await takeSteps(begin(), clock, () => isStopping);
			} catch (error) {
				failed(error, name);
			}
		}
	}

	schedule();
	return {
		reschedule() {
			if (!sweeping) {
				schedule();
			}
		},
		async stop() {
			isStopping = true;
			clearTimeout(timer);
			await sweeping;
		},
	};
}

/** Runs a step of a sweep: a transaction with statements that may take long. */
async function inStep<Result>(
	{writer}: Pick<Store, 'writer'>,
	work: (trx: Knex.Transaction) => Promise<Result>,
): Promise<Result> {
	return await writer.transaction(async trx => {
		await takeTime(trx);
		return await work(trx);
	});
}

type RowTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	readonly rowsPerStep?: number;
};

/** Removes at most `limit` old rows of each kind. Returns how many. */
type Purge = (trx: Knex.Transaction, limit: number) => Promise<readonly number[]>;

/** Creates a task that continues while a step finds its full number of rows. The cutoff is fixed when it begins. */
function rowTask(
	name: string,
	{store, clock, rowsPerStep = 1000}: RowTaskOptions,
	begin: (now: number) => Purge,
): SweepTask {
	return {
		name,
		begin() {
			const purge = begin(clock.now());
			return async () => (await inStep(store, trx => purge(trx, rowsPerStep))).includes(rowsPerStep);
		},
	};
}

/** The audit trail stays longer than messages, because people read it long after those were removed. */
const minAuditDays = 365;

/** Removes old entries of the audit trail. `days` is the retention of messages; 0 means forever. */
export const auditTask = ({days, ...options}: RowTaskOptions & {readonly days: () => number}): SweepTask =>
	rowTask('audit', options, now => {
		const auditDays = days() === 0 ? Number.POSITIVE_INFINITY : Math.max(days(), minAuditDays);
		return async (trx, limit) => [await purgeAudit(trx, now - auditDays * dayMs, limit)];
	});

/** Removes expired Idempotency-Keys. `retention` is their lifetime in milliseconds. */
export const keyTask = ({retention, ...options}: RowTaskOptions & {readonly retention: () => number}): SweepTask =>
	rowTask('idempotency_keys', options, now => {
		const before = storeTime(now - retention());
		return async (trx, limit) => [await purgeIdempotencyKeys(trx, before, limit)];
	});

/** Removes recipients' pauses that have ended. */
export const pauseTask = (options: RowTaskOptions): SweepTask =>
	rowTask('pauses', options, now => async (trx, limit) => [await purgePauses(trx, storeTime(now), limit)]);

/** Removes expired MTA-STS policies, old counts of TLS results, and old reports by others. Half a year shows trends. */
export const tlsTask = (options: RowTaskOptions): SweepTask =>
	rowTask('tls', options, now => async (trx, limit) => [
		await purgePolicies(trx, storeTime(now), limit),
		await purgeTlsDays(trx, dayBefore(now, aggregateDays), limit),
		await purgeAggregates(
			trx,
			{day: dayBefore(now, aggregateDays), unprovenDay: dayBefore(now, unprovenDays)},
			limit,
		),
	]);

/** After this many days, what a provider accepted says nothing about what it accepts now. */
const siteDays = 30;
/** Only today's count has an effect; earlier ones show the history. */
const warmUpDays = 60;

/** Removes providers without recent notes, and old counts of new source addresses. */
export const paceTask = (options: RowTaskOptions): SweepTask =>
	rowTask('pace', options, now => async (trx, limit) => [
		await purgeSites(trx, storeTime(now - siteDays * dayMs), storeTime(now), limit),
		await purgeWarmUp(trx, dayBefore(now, warmUpDays), limit),
	]);

/** How many days mail is stored for review. */
const reviewDays = 30;
/** The same report may arrive by another route within days. After that, its recipient still has it. */
const contentDays = 7;

/** Removes inbound mail that was read: first its content, later the record that it existed. */
export const inboundTask = ({
	caps = retentionCaps,
	rowsPerStep = 200,
	...options
}: RowTaskOptions & {readonly caps?: KeptCaps}): SweepTask =>
	rowTask('inbound', {...options, rowsPerStep}, now => {
		const until = {emptied: storeTime(now - contentDays * dayMs), retained: storeTime(now - reviewDays * dayMs)};
		return async (trx, limit) => [await purgeRead(trx, until, limit), await trimKept(trx, caps, limit)];
	});

/** Removes old mail received by workspaces. `days` is its retention; 0 means forever. */
export const receivedTask = ({days, ...options}: RowTaskOptions & {readonly days: () => number}): SweepTask =>
	rowTask('received', {rowsPerStep: 50, ...options}, now => async (trx, limit) => [
		days() === 0 ? 0 : await purgeReceived(trx, now - days() * dayMs, limit),
	]);

/** Removes sensitive variables of mail that was canceled, dropped or reported instead of ending with an attempt. */
export const sealedTask = (options: RowTaskOptions): SweepTask =>
	rowTask('sealed', options, () => async (trx, limit) => [await purgeSealed(trx, limit)]);

/** Removes figures of hours that no longer count for a reputation, and usage figures of the same age. */
export const reputationTask = (options: RowTaskOptions): SweepTask =>
	rowTask('reputation', options, now => async (trx, limit) => [
		await purgeReputation(trx, firstKeptHour(now), limit),
		await purgeUsageHours(trx, firstKeptHour(now), limit),
	]);

/** Removes used allowances of alerts. Allowances look back at most a day. */
export const allowanceTask = (options: RowTaskOptions): SweepTask =>
	rowTask('alert_allowances', options, now => async (trx, limit) => [
		await purgeAllowances(trx, storeTime(now - dayMs), limit),
	]);

/** Removes expired dashboard sessions and unused links. */
export const userTask = (options: RowTaskOptions): SweepTask =>
	rowTask('users', options, now => async (trx, limit) => {
		await purgeLinks(trx, storeTime(now));
		return [await purgeUserSessions(trx, sessionLimits(now), limit)];
	});

const dayBefore = (now: number, days: number): string => storeTime(now - days * dayMs).slice(0, 10);

/** Returns the space freed by the other tasks to the file system. */
export function fileTask({
	store,
	pagesPerStep = 500,
}: {
	readonly store: Pick<Store, 'writer' | 'wal'>;
	readonly pagesPerStep?: number;
}): SweepTask {
	/** The file shrinks only once SQLite has merged all of its log, which it does not do by itself without mail. */
	let isMerged = true;
	return {
		name: 'file',
		begin: () => async () => {
			const {hasReleased, hasMore} = await inStep(store, trx => giveBackPages(trx, pagesPerStep));
			isMerged &&= !hasReleased;
			if (!isMerged && !hasMore) {
				isMerged = (await store.wal?.checkpoint()) ?? true;
			}
			return hasMore;
		},
	};
}

type MessageTaskOptions = {
	readonly store: Pick<Store, 'writer' | 'reader' | 'dialect'>;
	readonly clock: Pick<Clock, 'now'>;
	/** How many days messages are stored; 0 means forever. */
	readonly days: () => number;
	/** Removes the captured files of recipients. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** Removes the captured files of recipients created in a time range (milliseconds). */
	readonly removeCapturedOf: (from: number, to: number) => Promise<void>;
	readonly messagesPerStep?: number;
};

/** Returns `false` if a table was in use for too long and the work was abandoned. */
async function runUnlessInUse(
	{writer}: Pick<Store, 'writer'>,
	work: (trx: Knex.Transaction) => Promise<void>,
): Promise<boolean> {
	try {
		await writer.transaction(async trx => {
			await limitLockWait(trx);
			await work(trx);
		});
		return true;
	} catch (error) {
		if (isInUse(error)) {
			return false;
		}
		throw error;
	}
}

/** Creates the coming days' partitions. Rows of a day without one go to the default partition, which is slower. */
export function dayTask({store, clock}: Pick<RowTaskOptions, 'store' | 'clock'>): SweepTask {
	return {
		name: 'days',
		begin: () => async () => {
			await runUnlessInUse(store, trx => createDays(trx, clock.now()));
			return false;
		},
	};
}

const rowsPerMessage = 20;

/** Removes messages past their retention. */
export function messageTask({
	store,
	clock,
	days,
	removeCaptured,
	removeCapturedOf,
	messagesPerStep = 50,
}: MessageTaskOptions): SweepTask {
	/** Removes a whole day, or what other tables have of it. Returns `false` if the day is in use. */
	async function removeDay(day: Day): Promise<boolean> {
		if (await inStep(store, trx => purgeRelated(trx, day, messagesPerStep * rowsPerMessage))) {
			return true;
		}
		// Before the commit, as below.
		await removeCapturedOf(day.from, day.to);
		return await runUnlessInUse(store, trx => dropDay(trx, day));
	}

	return {
		name: 'messages',
		begin() {
			const cutoff = days() === 0 ? 0 : clock.now() - days() * dayMs;
			let after = '';
			return async () => {
				const {day, rowsBefore} = await findPast(store.reader, cutoff);
				if (day !== null) {
					// A long reader, such as pg_dump, may be using the day. It is then left for the next sweep, because
					// an attempt makes others that need the table wait.
					return await removeDay(day);
				}
				const before = idFloor('msg', rowsBefore);
				const next = await inStep(store, async trx => {
					await deleteDeliveries(trx, await findWithoutMessage(trx, rowsBefore));
					const removed = await removeMessages(trx, store.dialect, {after, before, limit: messagesPerStep});
					// Before the commit: if this is interrupted, the rows still name the files.
					await removeCaptured(removed.recipientIds);
					return removed.next;
				});
				after = next ?? after;
				return next !== null;
			};
		},
	};
}

/**
 * Removes what workspaces store for less time than the installation: their messages or only the content. `emptied`
 * records the progress in each workspace, so that no content is examined twice.
 */
export function workspaceTask({
	store,
	clock,
	removeCaptured,
	messagesPerStep = 50,
}: Pick<MessageTaskOptions, 'store' | 'clock' | 'removeCaptured' | 'messagesPerStep'>): SweepTask {
	const emptied = new Map<string, string>();

	async function* steps(): AsyncGenerator<void> {
		for (const {id: workspaceId, retention_days, content_days} of await findRetentionOverrides(store.reader)) {
			const batch = (after: string, days: number) => ({
				workspaceId,
				after,
				before: idFloor('msg', clock.now() - days * dayMs),
				limit: messagesPerStep,
			});
			for (let after: string | null = retention_days === null ? null : ''; after !== null; yield) {
				const from: string = after;
				after = await inStep(store, async trx => {
					const removed = await removeMessages(trx, store.dialect, batch(from, retention_days ?? 0));
					await removeCaptured(removed.recipientIds);
					return removed.next;
				});
			}
			let isComplete = true;
			for (let after = content_days === null ? null : (emptied.get(workspaceId) ?? ''); after !== null; yield) {
				const from: string = after;
				const done = await inStep(store, async trx => {
					const step = await emptyMessages(trx, store.dialect, batch(from, content_days ?? 0));
					await removeCaptured(step.recipientIds);
					return step;
				});
				isComplete &&= done.isAll;
				if (isComplete && done.next !== null) {
					emptied.set(workspaceId, done.next);
				}
				after = done.next;
			}
		}
	}

	return {
		name: 'workspaces',
		begin: () => stepsOf(steps()),
	};
}

/** Removes what is left of deleted workspaces. */
export const deletionTask = (options: RemovalOptions): SweepTask => ({
	name: 'deletions',
	begin: () => createRemoval(options),
});

/** A request to erase a person does the work itself for a while, and most are complete by then. */
const requestMs = 10_000;

/** Removes what is left of erased people. */
export function erasureTask({
	reader,
	eraser,
	clock,
}: {
	readonly reader: Knex;
	readonly eraser: Pick<Eraser, 'parts'>;
	readonly clock: Pick<Clock, 'now'>;
}): SweepTask {
	async function* steps(): AsyncGenerator<void> {
		const before = storeTime(clock.now() - requestMs);
		for (let erasure = await findErasureBefore(reader, before); erasure; ) {
			yield* eraser.parts(erasure);
			const next = await findErasureBefore(reader, before);
			// Another node is working on it.
			erasure =
				next?.addressKey === erasure.addressKey && next.workspaceId === erasure.workspaceId ? undefined : next;
		}
	}

	return {name: 'erasures', begin: () => stepsOf(steps())};
}

/** `webhook listen` accepts events at once, unless it was suspended with its machine, which may come back. */
const gracePeriodMs = 3_600_000;

/** Removes endpoints of `webhook listen` that it could not remove itself because it was killed. */
export function listenerTask({store, acting}: {readonly store: Store; readonly acting: Acting}): SweepTask {
	return {
		name: 'webhook_listeners',
		begin() {
			const before = idFloor('whd', acting.clock.now() - gracePeriodMs);
			return async () => {
				for (const {id, workspaceId} of await findAbandoned(store.reader, before)) {
					await store.writer.transaction(async trx => {
						// Another node may have removed it.
						if (await deleteEndpoint(trx, workspaceId, id, storeTime(acting.clock.now()))) {
							await recordAct(trx, acting, {action: 'webhook.removed', workspaceId, target: id});
							await bumpGeneration(trx);
						}
					});
				}
				return false;
			};
		},
	};
}
