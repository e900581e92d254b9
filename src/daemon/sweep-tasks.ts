import type {Knex} from 'knex';
import type {Clock} from '../mail/clock.ts';
import {idFloor} from '../mail/ids.ts';
import {keptCaps} from '../mail/report.ts';
import {storeTime} from '../mail/time.ts';
import {firstKeptHour} from '../reputation/findings.ts';
import {purgeAudit} from '../store/audit.ts';
import {giveBackPages, takeTime} from '../store/engine/dialect.ts';
import {purgeIdempotencyKeys} from '../store/idempotency-keys.ts';
import {type KeptCaps, purgeRead, trimKept} from '../store/inbound/kept-mails.ts';
import {purgePolicies, purgeTlsDays} from '../store/mta-sts.ts';
import {purgeSites} from '../store/queue/sites.ts';
import {purgeWarmUp} from '../store/queue/warm-up.ts';
import {purgeReputation} from '../store/reputation.ts';
import {removeMessages} from '../store/retention.ts';
import type {Store} from '../store/store.ts';
import {purgeUsageHours} from '../store/usage.ts';
import {purgeUserSessions} from '../store/user-sessions.ts';
import {purgeLinks} from '../store/users.ts';
import {sessionLimits} from '../users/sessions.ts';
import type {SweepTask} from './sweep.ts';

export type MessageTaskOptions = {
	readonly store: Pick<Store, 'writer' | 'dialect'>;
	readonly clock: Pick<Clock, 'now'>;
	/** How long messages are kept; 0: for ever. */
	readonly days: () => number;
	/** Removes the captured mails of copies. */
	readonly removeCaptured: (copyIds: readonly string[]) => Promise<void>;
	readonly messagesPerStep?: number;
};

const dayMs = 86_400_000;

async function inStep<Result>(
	{writer}: Pick<Store, 'writer'>,
	work: (trx: Knex.Transaction) => Promise<Result>,
): Promise<Result> {
	return await writer.transaction(async trx => {
		await takeTime(trx);
		return await work(trx);
	});
}

/** Messages past their retention. */
export function messageTask({store, clock, days, removeCaptured, messagesPerStep = 50}: MessageTaskOptions): SweepTask {
	return {
		name: 'messages',
		begin() {
			const before = days() === 0 ? '' : idFloor('msg', clock.now() - days() * dayMs);
			let after = '';
			return async () => {
				const next = await inStep(store, async trx => {
					const removed = await removeMessages(trx, store.dialect, {after, before, limit: messagesPerStep});
					// Before the commit: until then the rows lead to the files, if all is interrupted.
					await removeCaptured(removed.copyIds);
					return removed.next;
				});
				after = next ?? after;
				return next !== null;
			};
		},
	};
}

export type AuditTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	/** How long messages are kept; 0: for ever. */
	readonly days: () => number;
	readonly rowsPerStep?: number;
};

/** Who did what is asked long after the messages are gone. */
const leastAuditDays = 365;

/** The audit trail past its retention. */
export function auditTask({store, clock, days, rowsPerStep = 1000}: AuditTaskOptions): SweepTask {
	return {
		name: 'audit',
		begin() {
			const keptDays = days() === 0 ? Number.POSITIVE_INFINITY : Math.max(days(), leastAuditDays);
			const before = clock.now() - keptDays * dayMs;
			return async () => {
				const removed = await inStep(store, trx => purgeAudit(trx, before, rowsPerStep));
				return removed === rowsPerStep;
			};
		},
	};
}

export type KeyTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	/** How long an Idempotency-Key holds, milliseconds. */
	readonly retention: () => number;
	readonly keysPerStep?: number;
};

/** Idempotency-Keys that hold no longer. */
export function keyTask({store, clock, retention, keysPerStep = 1000}: KeyTaskOptions): SweepTask {
	return {
		name: 'idempotency_keys',
		begin() {
			const before = storeTime(clock.now() - retention());
			return async () => {
				const removed = await inStep(store, trx => purgeIdempotencyKeys(trx, before, keysPerStep));
				return removed === keysPerStep;
			};
		},
	};
}

export type TlsTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	readonly rowsPerStep?: number;
};

/** Reports of TLS are made of a day; half a year shows what has changed. */
const tlsDaysKept = 180;

/** MTA-STS policies that hold no longer, and old counts of TLS results. */
export function tlsTask({store, clock, rowsPerStep = 1000}: TlsTaskOptions): SweepTask {
	return {
		name: 'tls',
		begin() {
			const now = clock.now();
			const firstDay = storeTime(now - tlsDaysKept * dayMs).slice(0, 10);
			return async () => {
				const removed = await inStep(store, async trx => [
					await purgePolicies(trx, storeTime(now), rowsPerStep),
					await purgeTlsDays(trx, firstDay, rowsPerStep),
				]);
				return removed.includes(rowsPerStep);
			};
		},
	};
}

export type PaceTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	readonly rowsPerStep?: number;
};

/** What a site took so long ago says nothing of what it takes now. */
const sitesKept = 30;
/** Only today's count decides; those before show how it went. */
const warmUpDaysKept = 60;

/** Sites that nothing was noted of for long, and old counts of new sources. */
export function paceTask({store, clock, rowsPerStep = 1000}: PaceTaskOptions): SweepTask {
	return {
		name: 'pace',
		begin() {
			const now = clock.now();
			const since = storeTime(now - sitesKept * dayMs);
			const firstDay = storeTime(now - warmUpDaysKept * dayMs).slice(0, 10);
			return async () => {
				const removed = await inStep(store, async trx => [
					await purgeSites(trx, since, storeTime(now), rowsPerStep),
					await purgeWarmUp(trx, firstDay, rowsPerStep),
				]);
				return removed.includes(rowsPerStep);
			};
		},
	};
}

export type InboundTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	readonly caps?: KeptCaps;
	readonly mailsPerStep?: number;
};

/** How long what is kept for review waits for somebody. */
const keptDays = 30;
/** The same report comes by another way within days, if it does; later its copy knows it still. */
const emptiedDays = 7;

/** Mails that came in and were read: what is kept of them, and that they were there. */
export function inboundTask({store, clock, caps = keptCaps, mailsPerStep = 200}: InboundTaskOptions): SweepTask {
	return {
		name: 'inbound',
		begin() {
			const now = clock.now();
			const until = {emptied: storeTime(now - emptiedDays * dayMs), kept: storeTime(now - keptDays * dayMs)};
			return async () => {
				const removed = await inStep(store, async trx => [
					await purgeRead(trx, until, mailsPerStep),
					await trimKept(trx, caps, mailsPerStep),
				]);
				return removed.includes(mailsPerStep);
			};
		},
	};
}

export type ReputationTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	readonly rowsPerStep?: number;
};

/** Figures of hours by which nobody is judged any more, and those of usage as old. */
export function reputationTask({store, clock, rowsPerStep = 1000}: ReputationTaskOptions): SweepTask {
	return {
		name: 'reputation',
		begin() {
			const first = firstKeptHour(clock.now());
			return async () => {
				const removed = await inStep(store, async trx => [
					await purgeReputation(trx, first, rowsPerStep),
					await purgeUsageHours(trx, first, rowsPerStep),
				]);
				return removed.includes(rowsPerStep);
			};
		},
	};
}

export type UserTaskOptions = {
	readonly store: Pick<Store, 'writer'>;
	readonly clock: Pick<Clock, 'now'>;
	readonly rowsPerStep?: number;
};

/** Sessions of the dashboard that have ended, and links that were not used. */
export function userTask({store, clock, rowsPerStep = 1000}: UserTaskOptions): SweepTask {
	return {
		name: 'users',
		begin() {
			const now = clock.now();
			return async () => {
				const removed = await inStep(store, async trx => {
					await purgeLinks(trx, storeTime(now));
					return await purgeUserSessions(trx, sessionLimits(now), rowsPerStep);
				});
				return removed === rowsPerStep;
			};
		},
	};
}

/** The room in the file that the others made. */
export function fileTask({
	store,
	pagesPerStep = 500,
}: {
	readonly store: Pick<Store, 'writer'>;
	readonly pagesPerStep?: number;
}): SweepTask {
	return {
		name: 'file',
		begin: () => () => inStep(store, trx => giveBackPages(trx, pagesPerStep)),
	};
}
