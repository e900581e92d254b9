import type {Knex} from 'knex';
import {type RemovalOptions, removalOf} from '../admin/delete-workspace.ts';
import {removeEndpoint} from '../admin/webhooks.ts';
import type {Clock} from '../kit/clock.ts';
import {stepsOf, takeSteps} from '../kit/steps.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import {idFloor} from '../mail/ids.ts';
import type {Acting} from '../mail/operator.ts';
import {keptCaps} from '../mail/report.ts';
import {aggregateDays, unprovenDays} from '../outcome/aggregates.ts';
import type {Eraser} from '../outcome/erase.ts';
import {firstKeptHour} from '../reputation/findings.ts';
import {purgeAggregates} from '../store/aggregate-reports.ts';
import {purgeAllowances} from '../store/alert-addresses.ts';
import {purgeAudit} from '../store/audit.ts';
import {giveBackPages, isInUse, takeTime} from '../store/engine/dialect.ts';
import {findErasureBefore} from '../store/erasures.ts';
import {purgeIdempotencyKeys} from '../store/idempotency-keys.ts';
import {purgeRead} from '../store/inbound-mails.ts';
import {type KeptCaps, trimKept} from '../store/kept-mails.ts';
import {purgeSealed} from '../store/messages.ts';
import {type Day, dropDay, emptyBeside, findPast, hurry, makeDays} from '../store/postgres/days.ts';
import {purgeSites, purgeWarmUp} from '../store/queue/sites.ts';
import {purgeReceived} from '../store/received.ts';
import {purgeReputation} from '../store/reputation.ts';
import {emptyMessages, removeMessages} from '../store/retention.ts';
import type {Store} from '../store/store.ts';
import {purgePolicies, purgeTlsDays} from '../store/tls.ts';
import {purgePauses} from '../store/topics.ts';
import {purgeUsageHours} from '../store/usage.ts';
import {purgeLinks, purgeUserSessions} from '../store/users.ts';
import {deleteDeliveries, findAbandoned, findAboutNone} from '../store/webhooks.ts';
import {findShortKept} from '../store/workspaces.ts';
import {sessionLimits} from '../users/sessions.ts';

/** Removes what is too old of one kind, bit by bit. */
type SweepTask = {
	readonly name: string;
	/** Begins at the oldest; the step that it answers removes a bit and says whether there may be more. */
	readonly begin: () => () => Promise<boolean>;
};

type SweepOptions = {
	readonly tasks: readonly SweepTask[];
	/** From the end of a sweep to the next, as the settings are now. */
	readonly intervalMs: () => number;
	readonly clock: Pick<Clock, 'monotonic'>;
	/** A task failed; it is tried again at the next sweep. */
	readonly failed: (error: unknown, task: string) => void;
};

type Sweep = {
	/** The interval has changed. */
	readonly reschedule: () => void;
	/** Resolves when nothing is being removed any more. */
	readonly stop: () => Promise<void>;
};

const maxTimerMs = 2 ** 31 - 1;

/** Sweeps at intervals. Several nodes may sweep one store at once. */
export function startSweep({tasks, intervalMs, clock, failed}: SweepOptions): Sweep {
	let stopping = false;
	let timer: NodeJS.Timeout | undefined;
	let sweeping: Promise<void> | null = null;

	function schedule(): void {
		clearTimeout(timer);
		timer = setTimeout(
			() => {
				sweeping = sweep().finally(() => {
					sweeping = null;
					if (!stopping) {
						schedule();
					}
				});
			},
			Math.min(intervalMs(), maxTimerMs),
		);
	}

	async function sweep(): Promise<void> {
		for (const {name, begin} of tasks) {
			if (stopping) {
				return;
			}
			try {
				await takeSteps(begin(), clock, () => stopping);
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
			stopping = true;
			clearTimeout(timer);
			await sweeping;
		},
	};
}

/** A step of a sweep: a transaction with statements that may take long. */
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

/** Removes at most `limit` old rows of each kind, and says how many. */
type Purge = (trx: Knex.Transaction, limit: number) => Promise<readonly number[]>;

/** Goes on while a step finds as many rows of a kind as it may remove. What is old is settled when the task begins. */
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

/** People read the audit trail long after the messages are gone. */
const minAuditDays = 365;

/** The audit trail past its retention. `days`: how long messages are kept; 0: for ever. */
export const auditTask = ({days, ...options}: RowTaskOptions & {readonly days: () => number}): SweepTask =>
	rowTask('audit', options, now => {
		const keptDays = days() === 0 ? Number.POSITIVE_INFINITY : Math.max(days(), minAuditDays);
		return async (trx, limit) => [await purgeAudit(trx, now - keptDays * dayMs, limit)];
	});

/** Idempotency-Keys that hold no longer. `retention`: how long they do, milliseconds. */
export const keyTask = ({retention, ...options}: RowTaskOptions & {readonly retention: () => number}): SweepTask =>
	rowTask('idempotency_keys', options, now => {
		const before = storeTime(now - retention());
		return async (trx, limit) => [await purgeIdempotencyKeys(trx, before, limit)];
	});

/** Pauses that recipients asked for and that have ended. */
export const pauseTask = (options: RowTaskOptions): SweepTask =>
	rowTask('pauses', options, now => async (trx, limit) => [await purgePauses(trx, storeTime(now), limit)]);

/**
 * MTA-STS policies that hold no longer, old counts of TLS results, and what others reported: half a year shows what has
 * changed.
 */
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

/** What a site took long ago says nothing of what it takes now. */
const sitesKept = 30;
/** Only today's count decides; those before show how it went. */
const warmUpDaysKept = 60;

/** Sites that nothing was noted of for long, and old counts of new sources. */
export const paceTask = (options: RowTaskOptions): SweepTask =>
	rowTask('pace', options, now => async (trx, limit) => [
		await purgeSites(trx, storeTime(now - sitesKept * dayMs), storeTime(now), limit),
		await purgeWarmUp(trx, dayBefore(now, warmUpDaysKept), limit),
	]);

/** How long what is kept for review stays. */
const keptDays = 30;
/** The same report comes by another way within days, if it does; later its recipient still has it. */
const emptiedDays = 7;

/** Mails that came in and were read: what is kept of them, and that they were there. */
export const inboundTask = ({
	caps = keptCaps,
	rowsPerStep = 200,
	...options
}: RowTaskOptions & {readonly caps?: KeptCaps}): SweepTask =>
	rowTask('inbound', {...options, rowsPerStep}, now => {
		const until = {emptied: storeTime(now - emptiedDays * dayMs), kept: storeTime(now - keptDays * dayMs)};
		return async (trx, limit) => [await purgeRead(trx, until, limit), await trimKept(trx, caps, limit)];
	});

/** Mail that workspaces received. `days`: how long it is kept; 0: for ever. */
export const receivedTask = ({days, ...options}: RowTaskOptions & {readonly days: () => number}): SweepTask =>
	rowTask('received', {rowsPerStep: 50, ...options}, now => async (trx, limit) => [
		days() === 0 ? 0 : await purgeReceived(trx, now - days() * dayMs, limit),
	]);

/** Sensitive variables of mail that ended by other ways than its last attempt: cancelled, dropped, reported. */
export const sealedTask = (options: RowTaskOptions): SweepTask =>
	rowTask('sealed', options, () => async (trx, limit) => [await purgeSealed(trx, limit)]);

/** Figures of hours that no longer count for a reputation, and those of usage as old. */
export const reputationTask = (options: RowTaskOptions): SweepTask =>
	rowTask('reputation', options, now => async (trx, limit) => [
		await purgeReputation(trx, firstKeptHour(now), limit),
		await purgeUsageHours(trx, firstKeptHour(now), limit),
	]);

/** Uses of the allowances of alerts, which look back a day at most. */
export const allowanceTask = (options: RowTaskOptions): SweepTask =>
	rowTask('alert_allowances', options, now => async (trx, limit) => [
		await purgeAllowances(trx, storeTime(now - dayMs), limit),
	]);

/** Sessions of the dashboard that have ended, and links that were not used. */
export const userTask = (options: RowTaskOptions): SweepTask =>
	rowTask('users', options, now => async (trx, limit) => {
		await purgeLinks(trx, storeTime(now));
		return [await purgeUserSessions(trx, sessionLimits(now), limit)];
	});

const dayBefore = (now: number, days: number): string => storeTime(now - days * dayMs).slice(0, 10);

/** The space in the file that the others freed. */
export function fileTask({
	store,
	pagesPerStep = 500,
}: {
	readonly store: Pick<Store, 'writer' | 'wal'>;
	readonly pagesPerStep?: number;
}): SweepTask {
	/**
	 * The file ends where it did until SQLite takes all of its log into it, which a daemon without mail does not do by
	 * itself.
	 */
	let isCut = true;
	return {
		name: 'file',
		begin: () => async () => {
			const {given, more} = await inStep(store, trx => giveBackPages(trx, pagesPerStep));
			isCut &&= !given;
			if (!isCut && !more) {
				isCut = (await store.wal?.empty()) ?? true;
			}
			return more;
		},
	};
}

type MessageTaskOptions = {
	readonly store: Pick<Store, 'writer' | 'reader' | 'dialect'>;
	readonly clock: Pick<Clock, 'now'>;
	/** How long messages are kept; 0: for ever. */
	readonly days: () => number;
	/** Removes the captured mails of recipients. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	/** Removes the captured mails of the recipients that were made in a range of time, milliseconds. */
	readonly removeCapturedOf: (from: number, to: number) => Promise<void>;
	readonly messagesPerStep?: number;
};

/** False: a table was in use for too long, and the work was given up. */
async function unlessUsed(
	{writer}: Pick<Store, 'writer'>,
	work: (trx: Knex.Transaction) => Promise<void>,
): Promise<boolean> {
	try {
		await writer.transaction(async trx => {
			await hurry(trx);
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

/** The parts of the days to come; the last resort for a day without one is slower, not wrong. */
export function dayTask({
	store,
	clock,
}: {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
}): SweepTask {
	return {
		name: 'days',
		begin: () => async () => {
			await unlessUsed(store, trx => makeDays(trx, clock.now()));
			return false;
		},
	};
}

const rowsPerMessage = 20;

/** Messages past their retention. */
export function messageTask({
	store,
	clock,
	days,
	removeCaptured,
	removeCapturedOf,
	messagesPerStep = 50,
}: MessageTaskOptions): SweepTask {
	/** A whole day, or what other tables have of it; false: others are using it now. */
	async function removeDay(day: Day): Promise<boolean> {
		if (await inStep(store, trx => emptyBeside(trx, day, messagesPerStep * rowsPerMessage))) {
			return true;
		}
		// Before the commit, as below.
		await removeCapturedOf(day.from, day.to);
		return await unlessUsed(store, trx => dropDay(trx, day));
	}

	return {
		name: 'messages',
		begin() {
			const kept = days() === 0 ? 0 : clock.now() - days() * dayMs;
			let after = '';
			return async () => {
				const {day, rowsBefore} = await findPast(store.reader, kept);
				if (day !== null) {
					// A long reader, such as pg_dump, may use it. Others that need the table wait behind an attempt:
					// the next sweep repeats it.
					return await removeDay(day);
				}
				const before = idFloor('msg', rowsBefore);
				const next = await inStep(store, async trx => {
					await deleteDeliveries(trx, await findAboutNone(trx, rowsBefore));
					const removed = await removeMessages(trx, store.dialect, {after, before, limit: messagesPerStep});
					// Before the commit: until then the rows name the files, if all is interrupted.
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
 * What workspaces keep for less long than the installation: their messages, or the content of them. Content that is
 * removed is not looked at again: `emptied` says how far a workspace is.
 */
export function workspaceTask({
	store,
	clock,
	removeCaptured,
	messagesPerStep = 50,
}: Pick<MessageTaskOptions, 'store' | 'clock' | 'removeCaptured' | 'messagesPerStep'>): SweepTask {
	const emptied = new Map<string, string>();

	async function* steps(): AsyncGenerator<void> {
		for (const {id: workspaceId, retention_days: kept, content_days: content} of await findShortKept(
			store.reader,
		)) {
			const part = (after: string, days: number) => ({
				...{workspaceId, after, before: idFloor('msg', clock.now() - days * dayMs), limit: messagesPerStep},
			});
			for (let after: string | null = kept === null ? null : ''; after !== null; yield) {
				const from: string = after;
				after = await inStep(store, async trx => {
					const removed = await removeMessages(trx, store.dialect, part(from, kept ?? 0));
					await removeCaptured(removed.recipientIds);
					return removed.next;
				});
			}
			let isAll = true;
			for (let after = content === null ? null : (emptied.get(workspaceId) ?? ''); after !== null; yield) {
				const from: string = after;
				const done = await inStep(store, async trx => {
					const step = await emptyMessages(trx, store.dialect, part(from, content ?? 0));
					await removeCaptured(step.recipientIds);
					return step;
				});
				isAll &&= done.isAll;
				if (isAll && done.next !== null) {
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

/** Deleted workspaces: what is left of them. */
export const deletionTask = (options: RemovalOptions): SweepTask => ({
	name: 'deletions',
	begin: () => removalOf(options),
});

/** A request that erases a person does it by itself for a while, and most are done by then. */
const requestsHaveMs = 10_000;

/** People who were erased: what is left of them. */
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
		const before = storeTime(clock.now() - requestsHaveMs);
		for (let erasure = await findErasureBefore(reader, before); erasure; ) {
			yield* eraser.parts(erasure);
			const next = await findErasureBefore(reader, before);
			// Another node is at it.
			erasure =
				next?.addressKey === erasure.addressKey && next.workspaceId === erasure.workspaceId ? undefined : next;
		}
	}

	return {name: 'erasures', begin: () => stepsOf(steps())};
}

/** `webhook listen` takes an event as soon as it is there; one that was suspended with its machine may come back. */
const gracePeriodMs = 3_600_000;

/** Endpoints of `webhook listen` that was killed and so could not remove its own. */
export function listenerTask({store, acting}: {readonly store: Store; readonly acting: Acting}): SweepTask {
	return {
		name: 'webhook_listeners',
		begin() {
			const before = idFloor('whd', acting.clock.now() - gracePeriodMs);
			return async () => {
				for (const {id, workspaceId} of await findAbandoned(store.reader, before)) {
					await store.writer.transaction(trx => removeEndpoint(trx, acting, workspaceId, id));
				}
				return false;
			};
		},
	};
}
