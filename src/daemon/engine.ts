import {Worker} from 'node:worker_threads';
import {createNodeShares} from '../cluster/node-shares.ts';
import {shareStoreOf} from '../cluster/share-store.ts';
import {extraCa} from '../config/ca.ts';
import {type DestinationsSettings, destinationsOf, loadDestinations} from '../config/destinations-file.ts';
import type {Settings} from '../config/settings.ts';
import {capturedFolder} from '../deliver/capture.ts';
import type {Delivery} from '../deliver/delivery.ts';
import {simulatorWaitMs} from '../deliver/simulator.ts';
import {createResolver} from '../dns/resolver.ts';
import type {Clock} from '../kit/clock.ts';
import {createGarbage, threadLimits} from '../kit/memory.ts';
import {storeTime} from '../kit/time.ts';
import {processCpu} from '../kit/work-limit.ts';
import {parseAddress} from '../mail/address.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {NewId} from '../mail/ids.ts';
import type {Attachment} from '../mail/message.ts';
import type {Asked} from '../mail/outcome.ts';
import type {Retry} from '../mail/retry.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {PolicyFailure} from '../mta-sts/mta-sts.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {createRecordWrite} from '../outcome/record.ts';
import type {AttemptSteps} from '../queue/attempt.ts';
import type {QueueObserver} from '../queue/queue-observer.ts';
import {createRenderers, type MakeJob} from '../queue/renderers.ts';
import {createScheduler} from '../queue/scheduler.ts';
import {noOtherNodes} from '../queue/shares.ts';
import {createSmtpWorkers} from '../queue/smtp-workers.ts';
import {confirmationsOf} from '../routing/confirmations.ts';
import {createPolicies} from '../routing/mta-sts.ts';
import {ownAddresses} from '../routing/own-addresses.ts';
import {createRouter} from '../routing/router.ts';
import {releaseUnknownClaims} from '../store/held-claims.ts';
import {listAttachments, sizeAttachments} from '../store/messages.ts';
import {type Claimed, claimAged, createClaimWrite, readAged, readShortestLifetime} from '../store/queue/claims.ts';
import {
	createQueueWaitWrite,
	readDue,
	readResumed,
	readSuspensions,
	readWaitingQueues,
} from '../store/queue/open-recipients.ts';
import {readSites, removeShares, siteWrite} from '../store/queue/sites.ts';
import {readAsked} from '../store/recipients.ts';
import {readTries} from '../store/reputation.ts';
import type {MasterKeys, Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {listVariants} from '../store/templates.ts';
import {createPermits} from '../threads/permits.ts';
import type {RendererData} from '../threads/renderer.ts';
import type {SmtpWorkerData} from '../threads/smtp-worker.ts';
import {readArrivalNotice, watchArrivals} from './arrivals.ts';
import {createSigning, feedbackOf, makeJob, type Signing} from './recipient-mails.ts';

export type EngineOptions = {
	readonly settings: Settings;
	/** Base of the links in mail. */
	readonly publicUrl: string;
	readonly store: Store;
	readonly vault: Vault;
	readonly keys: MasterKeys;
	/** The waits between tries, as the settings are now. */
	readonly retry: () => Retry;
	/** By which refusals are read, as they are now. */
	readonly bounceRules: () => readonly BounceRule[];
	/** This daemon's claims bear this id. */
	readonly boot: string;
	readonly newId: NewId;
	/** Takes events to the webhooks. */
	readonly eventWriter: EventWriter;
	readonly clock: Clock;
	/** `routeNotFound`: not because of the store. */
	readonly observer: Omit<QueueObserver, 'storeFailed'>;
	/** What mail is made of cannot be used until somebody repairs it; the mail waits. */
	readonly onResourceFault: (job: MakeJob, message: string) => void;
	readonly onStoreError: (error: unknown) => void;
	/** A recipient's domain announces an MTA-STS policy that could not be had. */
	readonly onPolicyFailure: (failure: PolicyFailure) => void;
	readonly version: string;
	/** A worker thread ended by itself and was replaced. */
	readonly onCrash: (reason: string) => void;
};

/** One query to one server, milliseconds. */
const dnsTimeoutMs = 5000;
const dnsTries = 2;
/** How long it waits before it asks a failing store again, milliseconds. */
const renewRetryMs = 1000;
/** Other nodes tell of mail that waits: so often it is looked for what nobody told, milliseconds. */
const missedMs = 3000;
const recipientsPerSession = 4;
const unprovenShare = 0.75;
/** Attachments of copies being tried, in memory at once, octets; a mail is a third larger than its attachments. */
const mostAttached = 32 * 1024 * 1024;

/** The delivery engine: the queue with its maker and sender threads, as the settings say. */
export function createEngine(options: EngineOptions) {
	const {settings, store, clock, newId, boot} = options;
	const signing = createSigning(store, options.vault, clock);
	const attached = createPermits(mostAttached);
	const letGo = createGarbage();
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: dnsTries, clock});
	const router = createRouter({
		settings,
		destinations: loadDestinations(settings),
		store,
		vault: options.vault,
		resolver,
		policies: createPolicies({...options, resolver}),
		clock,
	});
	const now = () => storeTime(clock.now());
	const queueWaitWrite = createQueueWaitWrite(boot);

	async function attachmentsOf(recipient: Claimed): Promise<Attachment[]> {
		if (recipient.attachments === 0) {
			return [];
		}
		await attached.take(recipient.id, await sizeAttachments(store.reader, recipient.message_id));
		return await listAttachments(store.reader, recipient.message_id);
	}

	async function askedBefore({id}: Claimed): Promise<Asked[]> {
		try {
			return await readAsked(store.reader, id);
		} catch (error) {
			options.onStoreError(error); // The mail is made: it goes to the hosts in their usual order.
			return [];
		}
	}

	const renderers = startRenderers({...options, signing});
	const smtpWorkers = startSmtpWorkers(options);

	const steps: AttemptSteps = {
		now,
		recorded(recipient) {
			attached.giveBack(recipient.id);
			smtpWorkers.recorded(recipient.id);
		},
		async countDoubtful({id}) {
			try {
				return (await readTries(store.reader, [id])).get(id)?.doubtful ?? 0;
			} catch (error) {
				options.onStoreError(error); // What became of the copy is still to be recorded.
				return 0;
			}
		},
		async make(recipient) {
			const domain = await signing.of(recipient.domain_id ?? '');
			const attachments = await attachmentsOf(recipient);
			const returnPathDomain = domain.returnPathDomain ?? settings.returnPathDomain;
			const made = await renderers.make(
				makeJob(recipient, {attachments, signing: domain.keyIds.join(','), returnPathDomain}),
			);
			letGo(attachments.reduce((sum, {content}) => sum + content.length, 0));
			return made;
		},
		async deliver(recipient, made, route, connections, endsAt) {
			const asked = recipient.attempts === 0 ? {} : {asked: await askedBefore(recipient)};
			return await smtpWorkers.deliver(route.site, connections, {
				recipientId: recipient.id,
				destination: recipient.destination,
				envelope: {from: made.envelopeFrom, to: wireAddress(recipient), smtputf8: made.smtputf8},
				ref: made.ref,
				terms: route.terms,
				data: made.mail,
				attempt: recipient.attempts + 1,
				...asked,
				endsAt,
				simulated: recipient.mode === 'test',
				...confirmationsOf(recipient, options.retry().schedule, clock.now()),
			});
		},
	};

	const isShared = store.dialect.isShared;
	const claiming = {dialect: store.dialect, boot, newId, clock};
	const scheduler = createScheduler({
		writer: store.writer,
		claimWrite: createClaimWrite(claiming),
		claimAged: (ids, lastsMs) => store.writer.transaction(trx => claimAged(trx, claiming, ids, lastsMs)),
		readShortestLifetime: () => readShortestLifetime(store.reader),
		readAged: page => readAged(store.reader, page),
		recordWrite: createRecordWrite(boot, options.eventWriter),
		releaseUnknown: known => store.writer.transaction(trx => releaseUnknownClaims(trx, boot, known(), now())),
		readWaitingQueues: () => readWaitingQueues(store.reader),
		readSuspensions: () => readSuspensions(store.reader),
		readResumed: () => readResumed(store.reader),
		routeOf: router.routeOf,
		steps,
		retry: options.retry,
		attemptDeadlineMs: settings.attemptDeadline,
		maxInFlight: Math.max(64, settings.maxSessions * recipientsPerSession),
		// Some sessions are always left to sites that answer.
		maxUnproven: Math.ceil(settings.maxSessions * unprovenShare),
		fixedWaitOf: recipient => (recipient.destination === simulatorDomain ? simulatorWaitMs : undefined),
		clock,
		random: Math.random,
		isUnavailable: store.dialect.isUnavailable,
		// Once: from then on the queues know better.
		remembered(site) {
			const saved = remembered.get(site);
			remembered.delete(site);
			return saved;
		},
		allow: (site, connections) => smtpWorkers.allow(site.name, connections),
		shares: isShared
			? createNodeShares({
					store: shareStoreOf({
						writer: store.agreeing,
						node: boot,
						countConnections: smtpWorkers.countConnections,
						now,
					}),
					moment: () => ({now: clock.now(), monotonic: clock.monotonic()}),
					longestWait: () => Math.max(...options.retry().schedule.waits),
					onError: options.onStoreError,
				})
			: noOtherNodes,
		noteSites: notes => store.writer.submit(siteWrite, notes),
		noteWaits: note => store.writer.submit(queueWaitWrite, note),
		observer: {
			...options.observer,
			routeNotFound(error, queue) {
				const {isUnavailable, isDamage} = store.dialect;
				if (isUnavailable(error) || isDamage(error)) {
					options.onStoreError(error);
				} else {
					options.observer.routeNotFound(error, queue);
				}
			},
			storeFailed: options.onStoreError,
		},
	});

	let remembered = new Map<string, SavedSite>();
	let arrivals: ReturnType<typeof watchArrivals> | null = null;

	/** Nobody tells of a change twice. */
	async function renewRoutes(): Promise<void> {
		try {
			if (await router.renew()) {
				scheduler.renew();
			}
		} catch (error) {
			options.onStoreError(error);
			setTimeout(renewRoutes, renewRetryMs).unref();
		}
	}

	return {
		scheduler,
		async start(): Promise<void> {
			remembered = await readSites(store.reader);
			await scheduler.start();
			if (isShared) {
				const watched = watchArrivals({
					readDue: () => readDue(store.reader, now()),
					onDue: scheduler.noticed,
					onError: options.onStoreError,
					clock,
					periodMs: missedMs,
				});
				arrivals = watched;
				await store.listen(notice => {
					const queues = readArrivalNotice(notice, boot);
					if (queues === null) {
						watched.look();
					} else {
						scheduler.noticed(queues);
					}
				});
			}
		},
		/** What was changed by others is read again. */
		forget(): void {
			signing.forget();
			void renewRoutes();
		},
		/** The destinations file is read again; answers what is wrong with it, then what was read before still holds. */
		reload({destinationsFile}: Pick<DestinationsSettings, 'destinationsFile'>): readonly string[] {
			const read = destinationsOf({...settings, destinationsFile});
			if (read.ok) {
				router.reload(read.destinations);
				scheduler.renew();
			}
			return read.ok ? [] : read.faults;
		},
		/** Other rules hold by which refusals are read. */
		renewBounceRules(): void {
			smtpWorkers.classifyBy(options.bounceRules());
		},
		/** Ends sessions after the mail they are sending, gives everything else back; resolves when all is stored. */
		async drain(): Promise<void> {
			arrivals?.stop();
			smtpWorkers.drain();
			await scheduler.stop();
		},
		async stop(): Promise<void> {
			await Promise.all([renderers.stop(), smtpWorkers.stop()]);
			if (isShared) {
				// Others may have what it had, for all its connections are closed.
				await store.agreeing.transaction(trx => removeShares(trx, boot)).catch(options.onStoreError);
			}
		},
	};
}

export type Engine = ReturnType<typeof createEngine>;

function wireAddress(recipient: Claimed): string {
	const parsed = parseAddress(recipient.address, {utf8Local: true});
	if (!parsed.ok) {
		throw new Error(`${recipient.id}: the stored address ${parsed.fault}`);
	}
	return parsed.address.wire;
}

export type WorkersOptions = {
	readonly settings: Settings;
	readonly clock: Clock;
	/** A worker thread ended by itself and was replaced. */
	readonly onCrash: (reason: string) => void;
};

const makeLimitMs = 2000;

/** The threads that render, compose and sign; what they need of the store they ask for by name. */
export function startRenderers({
	settings,
	clock,
	onCrash,
	onResourceFault,
	publicUrl,
	store,
	keys,
	signing,
}: WorkersOptions & {
	/** What mail is made of cannot be used until somebody repairs it. */
	readonly onResourceFault: (job: MakeJob, message: string) => void;
	/** Base of the links in mail. */
	readonly publicUrl: string;
	readonly store: Pick<Store, 'reader' | 'dialect' | 'clock'>;
	readonly keys: MasterKeys;
	readonly signing: Pick<Signing, 'keys'>;
}) {
	return createRenderers({
		count: settings.renderers,
		limitMs: makeLimitMs,
		clock,
		cpu: processCpu,
		isUnavailable: store.dialect.isUnavailable,
		onResourceFault,
		onCrash,
		spawn: shared =>
			new Worker(new URL('../threads/renderer.js', import.meta.url), {
				workerData: {
					shared,
					time: store.clock.memory,
					keys,
					publicUrl,
					tokenLifetimeMs: settings.tokenLifetime,
					...feedbackOf(settings),
				} satisfies RendererData,
				resourceLimits: threadLimits.renderer,
			}),
		async resource(name) {
			const [kind, key = ''] = name.split(':');
			if (kind === 'dkim') {
				return await signing.keys(key === '' ? [] : key.split(','));
			}
			const variants = await listVariants(store.reader, key);
			return variants.map((variant, position) => ({...variant, id: `${key}/${position}`}));
		},
	});
}

/** The threads that hold SMTP sessions. */
export function startSmtpWorkers({
	settings,
	clock,
	onCrash,
	store,
	bounceRules,
}: WorkersOptions & {
	readonly store: Pick<Store, 'clock'>;
	/** By which refusals are read, as they are now. */
	readonly bounceRules: () => readonly BounceRule[];
}) {
	return createSmtpWorkers<Delivery>({
		count: settings.senders,
		clock,
		onCrash,
		spawn: () =>
			new Worker(new URL('../threads/smtp-worker.js', import.meta.url), {
				workerData: senderData(settings, bounceRules(), store.clock.memory),
			}),
	});
}

/** What sender threads are started with, as the settings say. `time`: of the daemon's clock. */
export function senderData(
	settings: Settings,
	bounceRules: readonly BounceRule[],
	time: SharedArrayBuffer,
): SmtpWorkerData {
	const ca = extraCa(settings);
	return {
		...(ca === null ? {} : {ca}),
		mode:
			settings.delivery === 'capture'
				? {kind: 'capture', folder: capturedFolder(settings.dataDir)}
				: {kind: 'hosts', port: settings.mxPort},
		hostname: settings.hostname,
		timeouts: settings.smtpTimeouts,
		attemptDeadlineMs: settings.attemptDeadline,
		ipv6: settings.ipv6,
		allowPrivateMx: settings.allowPrivateMx,
		ownAddresses: ownAddresses(settings),
		maxSessions: Math.max(1, Math.floor(settings.maxSessions / settings.senders)),
		dnsServers: settings.dnsServers,
		dane: settings.dane,
		bounceRules,
		time,
	};
}
