import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import type {AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import {noOwnRetry} from '../../src/mail/retry.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import type {QueueObserver} from '../../src/queue/queue-claims.ts';
import {Scheduler} from '../../src/queue/scheduler.ts';
import {noOtherNodes} from '../../src/queue/site.ts';
import {releaseUnknownClaims} from '../../src/store/held-claims.ts';
import {
	type Claimed,
	claimAged,
	createClaimWrite,
	readAged,
	readExpired,
	readShortestLifetime,
} from '../../src/store/queue/claims.ts';
import {
	createQueueWaitWrite,
	readResumed,
	readSuspensions,
	readWaitingQueues,
} from '../../src/store/queue/open-recipients.ts';
import {siteWrite} from '../../src/store/queue/sites.ts';
import {readEarlier} from '../../src/store/reputation.ts';
import type {Store} from '../../src/store/store.ts';
import {eventWriter, newId} from './messages.ts';
import {routeTo} from './routes.ts';

export const now = () => storeTime(Date.now());

/** A try's end with one conversation in which the host spoke. */
export function resultOf(recipient: Claimed, outcome: Outcome): AttemptResult {
	const attempts = [
		{
			at: now(),
			host: 'mx.test',
			ip: '127.0.0.1',
			tls: null,
			phase: 'dot',
			code: 250,
			enhanced: null,
			reply: 'OK',
			ms: 1,
			dialogue: null,
		},
	] as const;
	return {recipientId: recipient.id, outcome, attempts, sentAt: now(), at: now()};
}

function rethrow(error: unknown): never {
	throw error;
}

export type Deliver = ConstructorParameters<typeof Scheduler>[0]['delivery']['deliver'];

/** A scheduler on a real store whose copies are delivered by the given function. */
export function schedulerOf(
	store: Store,
	deliver: Deliver,
	more: Partial<Omit<ConstructorParameters<typeof Scheduler>[0], 'observer'>> & {
		readonly observer?: Partial<QueueObserver>;
	} = {},
): {scheduler: Scheduler; recorded: string[]; boot: string} {
	const boot = newId('req');
	const recorded: string[] = [];
	const queueWaitWrite = createQueueWaitWrite(boot);
	const {clock = systemClock} = more;
	const claiming = {dialect: store.dialect, boot, newId, clock};
	const scheduler = new Scheduler({
		writer: store.writer,
		claimWrite: createClaimWrite(claiming),
		claimAged: (ids, lastsMs) => store.writer.transaction(trx => claimAged(trx, claiming, ids, lastsMs)),
		readShortestLifetime: () => readShortestLifetime(store.reader),
		readAged: page => readAged(store.reader, page),
		readExpired: limit => readExpired(store.reader, now(), limit),
		recordWrite: createRecordWrite(boot, eventWriter),
		releaseUnknown: known => store.writer.transaction(trx => releaseUnknownClaims(trx, boot, known(), now())),
		readWaitingQueues: () => readWaitingQueues(store.reader),
		readSuspensions: () => readSuspensions(store.reader),
		readResumed: () => readResumed(store.reader),
		ownRetryOf: () => noOwnRetry,
		routeOf: async ({destination}) => routeTo(destination),
		remembered: () => undefined,
		noteSites: notes => store.writer.submit(siteWrite, notes),
		noteWaits: note => store.writer.submit(queueWaitWrite, note),
		rendering: {
			render: async () => ({
				ok: true,
				message: {
					mail: new Uint8Array(),
					subject: 'Grüße',
					envelopeFrom: 'b@x.test',
					ref: 'r',
					firstLink: null,
					links: 0,
					smtputf8: false,
				},
			}),
			release: () => undefined,
		},
		delivery: {
			deliver,
			countDoubtful: async ({id}) => (await readEarlier(store.reader, [id])).get(id)?.uncertainAttempts ?? 0,
			recorded: () => undefined,
		},
		retry: () => ({schedule: {waits: [20, 20], repeatLast: false}, lifetime: 3_600_000}),
		attemptDeadlineMs: 60_000,
		maxInFlight: 200,
		maxUnproven: 48,
		fixedWaitOf: () => undefined,
		clock,
		random: Math.random,
		isUnavailable: store.dialect.isUnavailable,
		shares: noOtherNodes,
		...more,
		observer: {
			recorded: ({recipient}) => recorded.push(recipient.address),
			lost: () => undefined,
			faulted: rethrow,
			siteChanged: () => undefined,
			routeNotFound: rethrow,
			storeFailed: rethrow,
			...more.observer,
		},
	});
	return {scheduler, recorded, boot};
}
