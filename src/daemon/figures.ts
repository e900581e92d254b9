import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {InfrastructureAlarm} from '../reputation/alarm.ts';
import {windowStarts} from '../reputation/findings.ts';
import {countDomainStates} from '../store/domains.ts';
import {countUnread} from '../store/inbound-mails.ts';
import {readQueueSize} from '../store/queue/queue-summary.ts';
import {readPaceFigures} from '../store/queue/sites.ts';
import {readStatuses} from '../store/reputation.ts';
import type {Store} from '../store/store.ts';
import {countPending} from '../store/webhook-queue.ts';
import {createMetrics, type Metrics} from './metrics.ts';
import type {Roles} from './roles.ts';

export type FiguresOptions = {
	readonly version: string;
	readonly store: Pick<Store, 'reader' | 'skew'>;
	readonly roles: () => Pick<Roles, 'sites' | 'inboundSessions' | 'mailbox'>;
	readonly submissionSessions: () => number | null;
	/** Watches what providers say of this machine. */
	readonly infrastructure: Pick<InfrastructureAlarm, 'current'>;
	readonly logDropped: () => number;
	readonly freeDisk: () => number | null;
	readonly walBytes: () => number | null;
	readonly clock: Clock;
};

/** The daemon's metrics: what is asked of the store and of the roles at each scrape. */
export function createFigures({
	version,
	store: {reader, skew},
	roles,
	submissionSessions,
	infrastructure,
	logDropped,
	freeDisk,
	walBytes,
	clock,
}: FiguresOptions): Metrics {
	return createMetrics({
		version,
		skew,
		queueSize: () => readQueueSize(reader, storeTime(clock.now())),
		pace: () => readPaceFigures(reader, storeTime(clock.now())),
		sites: () => roles().sites(),
		webhooksPending: () => countPending(reader),
		domainStates: () => countDomainStates(reader),
		unread: () => countUnread(reader),
		inboundSessions: () => roles().inboundSessions(),
		mailbox: () => roles().mailbox(),
		submissionSessions,
		statuses: () => readStatuses(reader, {starts: windowStarts(clock.now())}),
		refusals: infrastructure.current,
		logDropped,
		freeDisk,
		walBytes,
	});
}
