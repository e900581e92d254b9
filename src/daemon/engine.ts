import {simulatorWaitMs} from '../deliver/local-delivery.ts';
import {storeTime} from '../kit/time.ts';
import type {Retry} from '../mail/retry.ts';
import type {Arrival} from '../mail/route.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {createResolver} from '../net/resolver.ts';
import {createRecordWrite} from '../outcome/record.ts';
import type {JudgedAttempt} from '../outcome/settle.ts';
import {NodeShares, termMs} from '../queue/node-shares.ts';
import {maxWaitOfAll, minLifetimeOf} from '../queue/pace/choose-route.ts';
import type {QueueObserver} from '../queue/queue-claims.ts';
import {openPolicies, Router} from '../queue/router.ts';
import {Scheduler} from '../queue/scheduler.ts';
import {noOtherNodes} from '../queue/site.ts';
import {releaseUnknownClaims} from '../store/held-claims.ts';
import {claimAged, createClaimWrite, readAged, readExpired, readShortestLifetime} from '../store/queue/claims.ts';
import {
	createQueueWaitWrite,
	readDue,
	readResumed,
	readSuspensions,
	readWaitingQueues,
} from '../store/queue/open-recipients.ts';
import {readPauses, readSites, removeShares, renewTerm, siteWrite} from '../store/queue/sites.ts';
import {isErased} from '../store/retention.ts';
import type {Context} from './context.ts';
import {readArrivalNotice, watchArrivals} from './peers.ts';
import {Rendering} from './rendering.ts';
import {SmtpDelivery} from './smtp-delivery.ts';

/** The time limit of one query to one server, in milliseconds. */
const dnsTimeoutMs = 5000;
const dnsTries = 2;
/** How long to wait before reading from a failing store again, in milliseconds. */
const renewRetryMs = 1000;
/** How often the store is searched for mail whose announcement by another node was lost, in milliseconds. */
const arrivalsMs = 3000;
/** The search includes what will be due within this time, so that scheduled mail of other nodes leaves on time. */
const lookaheadMs = 10 * arrivalsMs;
const recipientsPerSession = 4;
const unprovenShare = 0.75;

/** The queue with its renderers and SMTP workers. */
export class Engine {
	readonly scheduler: Scheduler;
	readonly #context: Context;
	readonly #router: Router;
	readonly #rendering: Rendering;
	readonly #delivery: SmtpDelivery;
	/** The state of providers when the daemon last stopped. */
	#savedSites = new Map<string, SavedSite>();
	#arrivals: ReturnType<typeof watchArrivals> | null = null;

	/** `publicUrl` is the base URL of links in messages. */
	constructor(context: Context, publicUrl: string) {
		const {settings, clock} = context;
		const resolver = createResolver({
			servers: settings.dnsServers,
			timeoutMs: dnsTimeoutMs,
			tries: dnsTries,
			clock,
		});
		this.#context = context;
		this.#router = new Router({...context, resolver, policies: openPolicies({...context, resolver})});
		this.#rendering = new Rendering(context, publicUrl);
		this.#delivery = new SmtpDelivery(context, site => this.scheduler.quiet(site));
		this.scheduler = this.#createScheduler();
	}

	async start(): Promise<void> {
		const {store, boot} = this.#context;
		this.#savedSites = await readSites(store.reader);
		await this.#delivery.renewProviders();
		await this.scheduler.start();
		if (store.dialect.isShared) {
			const arrivals = this.#watchArrivals();
			this.#arrivals = arrivals;
			await store.listen(notice => {
				const queues = readArrivalNotice(notice, boot);
				if (queues === null) {
					arrivals.poll();
				} else {
					this.scheduler.noticed(queues);
				}
			});
		}
	}

	/** Prepares for messages that are being written for these queues. Claims submitted from now on may find them. */
	arriving(queues: Iterable<Arrival>): void {
		this.#rendering.prepare();
		this.#delivery.prepare();
		this.scheduler.arriving(queues);
	}

	/** Drops cached data that others may have changed. */
	forget(): void {
		this.#rendering.forget();
		void this.#renewRoutes();
	}

	/** Call this after the destinations file was read again. */
	renewDestinations(): void {
		this.#router.reload();
		this.scheduler.renew();
	}

	/** Call this when the bounce rules have changed. */
	renewBounceRules(): void {
		this.#delivery.renewBounceRules();
	}

	/** Ends sessions after their current message and releases everything else. Resolves when all is stored. */
	async drain(): Promise<void> {
		this.#arrivals?.stop();
		this.#delivery.drain();
		await this.scheduler.stop();
	}

	async stop(): Promise<void> {
		const {store, boot, observer} = this.#context;
		await Promise.all([this.#rendering.stop(), this.#delivery.stop()]);
		if (store.dialect.isShared) {
			// All connections of this node are closed, so others may have its share.
			await store.agreeing.transaction(trx => removeShares(trx, boot)).catch(observer.storeFailed);
		}
	}

	#createScheduler(): Scheduler {
		const {settings, store, clock} = this.#context;
		return new Scheduler({
			...queueStore(this.#context),
			rendering: this.#rendering,
			delivery: this.#delivery,
			routeOf: key => this.#router.findRoute(key),
			ownRetryOf: destination => this.#router.findOwnRetry(destination),
			retry: () => currentRetry(this.#context),
			attemptDeadlineMs: settings.attemptDeadline,
			maxInFlight: Math.max(64, settings.maxSessions * recipientsPerSession),
			// Some sessions are always left to providers that respond.
			maxUnproven: Math.ceil(settings.maxSessions * unprovenShare),
			fixedWaitOf: recipient => (recipient.destination === simulatorDomain ? simulatorWaitMs : undefined),
			clock,
			random: Math.random,
			isUnavailable: store.dialect.isUnavailable,
			// Each one is used once: afterwards the queues have newer data.
			remembered: site => {
				const saved = this.#savedSites.get(site);
				this.#savedSites.delete(site);
				return saved;
			},
			allow: (site, connections) => this.#delivery.allow(site.name, connections),
			shares: store.dialect.isShared ? this.#nodeShares() : noOtherNodes,
			observer: queueObserver(this.#context),
		});
	}

	#nodeShares(): NodeShares {
		const {store, boot, clock, observer, destinations, live} = this.#context;
		return new NodeShares({
			node: boot,
			renewTerm: choose => store.agreeing.transaction(trx => renewTerm(trx, boot, termMs, choose)),
			readPauses: () => readPauses(store.reader),
			countConnections: () => this.#delivery.countConnections(),
			moment: () => ({now: clock.now(), monotonic: clock.monotonic()}),
			maxWait: () => maxWaitOfAll(destinations(), live().retrySchedule),
			observer,
		});
	}

	#watchArrivals() {
		const {store, clock, observer} = this.#context;
		return watchArrivals({
			readDue: () => readDue(store.reader, storeTime(clock.now() + lookaheadMs)),
			onDue: queues =>
				this.scheduler.noticed(queues.map(({due, ...queue}) => ({...queue, dueAt: Date.parse(due)}))),
			observer,
			clock,
			periodMs: arrivalsMs,
		});
	}

	/** Changes are announced only once, so a failed renewal is repeated. */
	async #renewRoutes(): Promise<void> {
		try {
			await this.#delivery.renewProviders();
			if (await this.#router.renew()) {
				this.scheduler.renew();
			}
		} catch (error) {
			this.#context.observer.storeFailed(error);
			setTimeout(() => void this.#renewRoutes(), renewRetryMs).unref();
		}
	}
}

function currentRetry({live}: Context): Retry {
	return {schedule: live().retrySchedule, lifetime: live().queueLifetime};
}

/** Returns the functions with which the scheduler reads from the store and writes to it. */
function queueStore(context: Context) {
	const {store, boot, newId, clock, eventWriter} = context;
	const {reader, writer, dialect} = store;
	const claiming = {dialect, boot, newId, clock};
	const queueWaitWrite = createQueueWaitWrite(boot);
	const now = () => storeTime(clock.now());
	return {
		writer,
		claimWrite: createClaimWrite(claiming),
		recordWrite: createRecordWrite(boot, eventWriter),
		claimAged: (ids, lastsMs) => writer.transaction(trx => claimAged(trx, claiming, ids, lastsMs)),
		releaseUnknown: known => writer.transaction(trx => releaseUnknownClaims(trx, boot, known(), now())),
		async readShortestLifetime() {
			const lifetime = (await readShortestLifetime(reader)) ?? currentRetry(context).lifetime;
			return minLifetimeOf(context.destinations(), lifetime);
		},
		readAged: page => readAged(reader, page),
		readExpired: limit => readExpired(reader, now(), limit),
		readWaitingQueues: () => readWaitingQueues(reader),
		readSuspensions: () => readSuspensions(reader),
		readResumed: () => readResumed(reader),
		noteSites: notes => writer.submit(siteWrite, notes),
		noteWaits: note => writer.submit(queueWaitWrite, note),
	} satisfies Partial<ConstructorParameters<typeof Scheduler>[0]>;
}

function queueObserver({observer, store, removeCaptured}: Context): QueueObserver {
	/** A message may be captured while its recipient is being erased. */
	async function removeIfErased({id}: JudgedAttempt['recipient']): Promise<void> {
		if (await isErased(store.reader, id)) {
			await removeCaptured([id]);
		}
	}

	return {
		...observer,
		lost: recipient => void removeIfErased(recipient).catch(observer.storeFailed),
		routeNotFound(error, queue) {
			const {isUnavailable, isDamage} = store.dialect;
			if (isUnavailable(error) || isDamage(error)) {
				observer.storeFailed(error);
			} else {
				observer.routeNotFound(error, queue);
			}
		},
	};
}
