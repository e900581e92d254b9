import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import {keptCaps} from '../mail/report.ts';
import {firstKeptHour} from '../reputation/findings.ts';
import {purgeAudit} from '../store/audit.ts';
import {purgePolicies, purgeTlsDays} from '../store/domains.ts';
import {giveBackPages} from '../store/engine/dialect.ts';
import {purgeIdempotencyKeys} from '../store/idempotency-keys.ts';
import {type KeptCaps, purgeRead, trimKept} from '../store/inbound-mails.ts';
import {purgeSites, purgeWarmUp} from '../store/queue/sites.ts';
import {purgeReputation} from '../store/reputation.ts';
import type {Store} from '../store/store.ts';
import {purgeUsageHours} from '../store/usage.ts';
import {purgeLinks, purgeUserSessions} from '../store/users.ts';
import {sessionLimits} from '../users/sessions.ts';
import type {SweepTask} from './sweep.ts';
import {inStep} from './sweep-step.ts';

export type RowTaskOptions = {
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

/** Who did what is asked long after the messages are gone. */
const leastAuditDays = 365;

/** The audit trail past its retention. `days`: how long messages are kept; 0: for ever. */
export const auditTask = ({days, ...options}: RowTaskOptions & {readonly days: () => number}): SweepTask =>
	rowTask('audit', options, now => {
		const keptDays = days() === 0 ? Number.POSITIVE_INFINITY : Math.max(days(), leastAuditDays);
		return async (trx, limit) => [await purgeAudit(trx, now - keptDays * dayMs, limit)];
	});

/** Idempotency-Keys that hold no longer. `retention`: how long they do, milliseconds. */
export const keyTask = ({retention, ...options}: RowTaskOptions & {readonly retention: () => number}): SweepTask =>
	rowTask('idempotency_keys', options, now => {
		const before = storeTime(now - retention());
		return async (trx, limit) => [await purgeIdempotencyKeys(trx, before, limit)];
	});

/** Reports of TLS are made of a day; half a year shows what has changed. */
const tlsDaysKept = 180;

/** MTA-STS policies that hold no longer, and old counts of TLS results. */
export const tlsTask = (options: RowTaskOptions): SweepTask =>
	rowTask('tls', options, now => async (trx, limit) => [
		await purgePolicies(trx, storeTime(now), limit),
		await purgeTlsDays(trx, dayBefore(now, tlsDaysKept), limit),
	]);

/** What a site took so long ago says nothing of what it takes now. */
const sitesKept = 30;
/** Only today's count decides; those before show how it went. */
const warmUpDaysKept = 60;

/** Sites that nothing was noted of for long, and old counts of new sources. */
export const paceTask = (options: RowTaskOptions): SweepTask =>
	rowTask('pace', options, now => async (trx, limit) => [
		await purgeSites(trx, storeTime(now - sitesKept * dayMs), storeTime(now), limit),
		await purgeWarmUp(trx, dayBefore(now, warmUpDaysKept), limit),
	]);

/** How long what is kept for review waits for somebody. */
const keptDays = 30;
/** The same report comes by another way within days, if it does; later its copy knows it still. */
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

/** Figures of hours by which nobody is judged any more, and those of usage as old. */
export const reputationTask = (options: RowTaskOptions): SweepTask =>
	rowTask('reputation', options, now => async (trx, limit) => [
		await purgeReputation(trx, firstKeptHour(now), limit),
		await purgeUsageHours(trx, firstKeptHour(now), limit),
	]);

/** Sessions of the dashboard that have ended, and links that were not used. */
export const userTask = (options: RowTaskOptions): SweepTask =>
	rowTask('users', options, now => async (trx, limit) => {
		await purgeLinks(trx, storeTime(now));
		return [await purgeUserSessions(trx, sessionLimits(now), limit)];
	});

const dayBefore = (now: number, days: number): string => storeTime(now - days * dayMs).slice(0, 10);

/** The room in the file that the others made. */
export function fileTask({
	store,
	pagesPerStep = 500,
}: {
	readonly store: Pick<Store, 'writer' | 'wal'>;
	readonly pagesPerStep?: number;
}): SweepTask {
	/** The file ends where it did until SQLite takes all of its log into it, which a daemon without mail does not do by itself. */
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
