import {existsSync} from 'node:fs';
import {hostname} from 'node:os';
import process from 'node:process';
import {bounceRulesOf, loadBounceRules} from '../config/bounce-rules.ts';
import {linkBase} from '../config/derive.ts';
import {destinationsOf, loadDestinations} from '../config/destinations-file.ts';
import type {LiveSettings, Settings} from '../config/settings.ts';
import {readBoot, removeDaemonFile, writeBoot, writeDaemonFile} from '../data-folder/daemon-file.ts';
import {freeBytes, isDiskFull} from '../data-folder/data-dir.ts';
import type {Held} from '../data-folder/open.ts';
import {capturedFolder, removeCaptured, removeCapturedOf} from '../deliver/local-delivery.ts';
import {openRecordSources} from '../dns/resolver.ts';
import {sendingNames} from '../domains/domain-records.ts';
import {storeTime} from '../kit/time.ts';
import type {Log} from '../log/log.ts';
import {createIdSource} from '../mail/ids.ts';
import type {Arrival, QueueKey} from '../mail/route.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {InfrastructureAlarm} from '../reputation/alarm.ts';
import {windowStarts} from '../reputation/findings.ts';
import {type Guard, startGuard} from '../reputation/guard.ts';
import {listBlocklistings} from '../store/blocklists.ts';
import {listCertificates} from '../store/certificates.ts';
import {readGeneration} from '../store/changes.ts';
import {countDomainStates} from '../store/domains.ts';
import {readStoreSize} from '../store/engine/dialect.ts';
import {countUnread} from '../store/inbound-mails.ts';
import {readQueueSize} from '../store/queue/queue-summary.ts';
import {readPaceFigures} from '../store/queue/sites.ts';
import {readStatuses} from '../store/reputation.ts';
import {countPending} from '../store/webhook-queue.ts';
import {createAlertWatch} from './alerts.ts';
import {watchBlocklists} from './blocklist-checks.ts';
import {Certificates} from './certificates.ts';
import {actingOf, type Context} from './context.ts';
import {Engine} from './engine.ts';
import {FileGuard} from './file-guard.ts';
import {Http} from './http.ts';
import {Inbound} from './inbound.ts';
import {createIntake, createSubmission} from './intake.ts';
import {watchLiveCopies} from './live-copies.ts';
import {Metrics} from './metrics.ts';
import {createObserver} from './observer.ts';
import {ArrivalNotices, Presence} from './peers.ts';
import {
	createWriting,
	exitDamaged,
	watchForStoreFaults,
	watchFreeSpace,
	watchStoreSize,
	watchWal,
} from './store-faults.ts';
import {dayTask} from './sweep.ts';
import {watchTlsReports} from './tls-reports.ts';
import {DomainChecks, startUpkeep, warnAtStart, warnOfWorkspaces} from './upkeep.ts';
import {createWebhooks, type Webhooks} from './webhook-posting.ts';

type DaemonOptions = {
	readonly settings: Settings;
	readonly version: string;
	/** Returns the version of the installed program; absent for this one. */
	readonly installed?: () => string;
	readonly held: Held;
	readonly log: Log;
	/** Whether MAILCTL_RETURN_PATH_DOMAIN is set. */
	readonly returnPathChosen: boolean;
};

export type Daemon = {
	/** The URL at which HTTP is served, or `null` if this process serves none. */
	readonly http: string | null;
	/** The URL of the operator's pages and metrics, or `null`. */
	readonly admin: string | null;
	/** Where HTTPS is served without a proxy, as `host:port`, or `null`. */
	readonly https: string | null;
	/** Where plain HTTP is redirected, as `host:port`, or `null`. */
	readonly redirect: string | null;
	/** Where the listener for reports is, as `host:port`, or `null`. */
	readonly inbound: string | null;
	/** Where programs submit mail, as `host:port` separated by commas, or `null`. */
	readonly submission: string | null;
	/** The base URL of links in messages. */
	readonly publicUrl: string;
	readonly reload: (settings: LiveSettings) => void;
	/** Reports that the daemon is not ready, so that load balancers avoid it, but continues to work. */
	readonly leave: () => void;
	/** Accepts nothing new, finishes what is under way, releases the rest to the queue and closes everything. */
	readonly stop: () => Promise<void>;
};

/**
 * The composition root: creates every part of the daemon, starts them in order and drains them in reverse. This folder
 * connects the others to settings, sockets, threads and timers, and does the upkeep of the store. It relies on the
 * settings and an open store, and never decides what happens to a message.
 */
export async function startDaemon({
	settings,
	version,
	installed = () => version,
	held,
	log,
	returnPathChosen,
}: DaemonOptions): Promise<Daemon> {
	const {secrets: keys, vault, release} = held;
	const {logger} = log;
	const {clock} = held.store;
	const newId = createIdSource(clock);
	const boot = newId('req');
	let current: LiveSettings = settings;
	let rules = loadBounceRules(settings);
	let destinations = loadDestinations(settings);
	let phase: 'starting' | 'running' | 'leaving' | 'draining' = 'starting';
	const live = () => current;
	const now = () => storeTime(clock.now());
	const eventWriter: EventWriter = {
		newId,
		onDue: endpointIds => roles.due(endpointIds),
		onCounted: workspaceIds => roles.counted(workspaceIds),
	};
	const writing = createWriting({settings, live, store: held.store, boot, eventWriter, logger});
	const {writer} = writing;
	const store = {...held.store, writer, ...(held.store.agreeing === held.store.writer && {agreeing: writer})};
	const {reader} = store;
	const storeFaults = watchForStoreFaults(store, logger, () => isDiskFull(settings.dataDir));
	const files = new FileGuard({store: held.store, dataDir: settings.dataDir, keys, logger, exit: exitDamaged});
	function storeFailed(error: unknown): void {
		// A removed file explains what SQLite reports.
		void files.look();
		if (!files.isDisplaced()) {
			storeFaults.failed(error);
		}
	}
	const storeFailing = () => files.isDisplaced() || storeFaults.failing() || roles.storeFailing();
	const captured = capturedFolder(settings.dataDir);
	const space = watchFreeSpace(
		() => freeBytes(settings.dataDir),
		() => live().minFreeDisk,
		logger,
	);
	const wal = store.wal && watchWal({wal: store.wal, logger, storeFailed});
	const sizes = watchStoreSize(() => readStoreSize(reader), clock.now, storeFailed);
	const infrastructure = new InfrastructureAlarm(clock);
	const metrics = new Metrics({
		version,
		skew: store.skew,
		queueSize: () => readQueueSize(reader, now()),
		pace: () => readPaceFigures(reader, now()),
		sites: () => roles.sites(),
		statuses: () => readStatuses(reader, {starts: windowStarts(clock.now())}),
		refusals: () => infrastructure.current(),
		webhooksPending: () => countPending(reader),
		domainStates: () => countDomainStates(reader),
		blocklistings: () => listBlocklistings(reader, clock.now()),
		certificates: () => listCertificates(reader),
		unread: () => countUnread(reader),
		inboundSessions: () => roles.inboundSessions(),
		submissionSessions: () => submission.sessions(),
		mailbox: () => roles.mailbox(),
		logDropped: log.dropped,
		freeDisk: space.free,
		walBytes: () => store.wal?.bytes() ?? null,
	});
	const observer = createObserver({metrics, logger, infrastructure, storeFailed, clock});
	const certificates = new Certificates({settings, store, vault, clock, newId, version, observer});
	const context: Context = {
		...{
			settings,
			live,
			bounceRules: () => rules,
			destinations: () => destinations,
			version,
			store,
			keys,
			vault,
			clock,
			newId,
			boot,
			eventWriter,
		},
		hasSpace: space.enough,
		mayAccept: () => (phase === 'running' || phase === 'leaving') && !storeFailing() && space.enough(),
		forget() {
			intake.forget();
			roles.forget();
			http.forget();
			certificates.forget();
		},
		removeCaptured: recipientIds => removeCaptured(captured, recipientIds),
		observer,
		certificates,
	};

	async function notReady(): Promise<string | null> {
		if (phase !== 'running') {
			return `The daemon is ${phase}.`;
		}
		try {
			await store.ping();
			if (storeFailing()) {
				return 'The store cannot be written.';
			}
			return space.enough() ? null : 'The disk has less free space than MAILCTL_MIN_FREE_DISK.';
		} catch {
			return 'The store does not respond.';
		}
	}

	const roles = createRoles(context);
	const intake = createIntake(context, {
		onWriting: roles.arriving,
		onAccepted(mode, messages, queues) {
			metrics.accepted.inc({mode}, messages);
			roles.accepted(queues);
		},
	});
	const submission = createSubmission(context, intake);
	const http = new Http(context, intake, {
		process: {startedAt: clock.now(), returnPathChosen, storeSizes: sizes.past, sites: roles.sites},
		notReady,
		wakeReading: roles.wakeReading,
	});

	async function end(): Promise<void> {
		await Promise.all([certificates.stop(), http.close(), submission.close(), roles.drain()]);
		await roles.end();
		await wal?.stop();
		await writing.stop();
		storeFaults.stop();
		await files.stop();
		space.stop();
		void sizes.stop();
	}

	async function start() {
		try {
			await space.look();
			// Today's partition must exist before today's first message.
			await dayTask({store, clock}).begin()();
			const since = await readGeneration(reader);
			await certificates.open();
			const {http: base, ...others} = await http.listen();
			const publicUrl = linkBase(settings, base);
			const inbound = await roles.start(publicUrl);
			return {since, http: base, ...others, publicUrl, inbound, submission: await submission.listen()};
		} catch (error) {
			await end();
			throw error;
		}
	}

	const {since, publicUrl, ...at} = await start();
	const upkeep = startUpkeep(context, {
		since,
		changed() {
			context.forget();
			roles.rescan();
			roles.recheckDomains();
		},
		moved: roles.rescan,
		removeCapturedOf: (from, to) => removeCapturedOf(captured, from, to),
	});

	const alerts = createAlertWatch(context, {installed, publicUrl, mailboxUp: () => roles.mailbox()?.up ?? null});

	/** Reads the bounce rules again. If the file is invalid, keeps the previous rules and returns `false`. */
	function renewRules(): boolean {
		const read = bounceRulesOf(current);
		if (read.ok) {
			rules = read.rules;
		} else {
			const text = 'The previous rules remain in use.';
			logger.error({event: 'bounce_rules_refused', problems: read.problems}, text);
		}
		return read.ok;
	}

	/** Reads the destinations file again. If it is invalid, the previous one remains in use. */
	function renewDestinations(): void {
		const read = destinationsOf({...settings, destinationsFile: current.destinationsFile});
		if (read.ok) {
			destinations = read.destinations;
		} else {
			const text = 'The previous destinations remain in use.';
			logger.error({event: 'destinations_refused', problems: read.faults}, text);
		}
	}

	writing.start();
	const copies =
		settings.databaseUrl === null
			? watchLiveCopies({
					settings,
					store,
					clock,
					minFreeDisk: () => live().minFreeDisk,
					hold: writing.hold,
					logger,
				})
			: null;
	certificates.start();
	phase = 'running';
	// Before the line is logged, because its readers look for the file.
	writeDaemonFile(settings.dataDir, {pid: process.pid, ...at, version, roles: settings.roles});
	logger.info({event: 'listening', ...at, version});
	warnAtStart({settings, publicUrl, inContainer: existsSync('/.dockerenv'), logger});
	void warnOfWorkspaces({settings, reader, logger}).catch(storeFailed);
	alerts.start();

	return {
		...at,
		publicUrl,
		reload(next) {
			current = next;
			writing.reload();
			upkeep.reschedule();
			log.setLevel(next.logLevel);
			renewDestinations();
			roles.reload({renewed: renewRules(), certificates: submission.reload});
		},
		leave() {
			phase = 'leaving';
		},
		async stop() {
			phase = 'draining';
			await Promise.all([upkeep.stop(), alerts.stop(), copies?.stop()]);
			await end();
			removeDaemonFile(settings.dataDir, process.pid);
			await release();
		},
	};
}

/** What this process does besides HTTP, by MAILCTL_ROLES: delivers mail, posts webhooks, receives reports. */
function createRoles(context: Context) {
	const {settings, store, clock, boot, observer} = context;
	const {logger, storeFailed} = observer;
	const has = (role: Settings['roles'][number]) => settings.roles.includes(role);
	const isShared = store.dialect.isShared;
	const notices = new ArrivalNotices(store, boot, observer);
	let engine: Engine | null = null;
	let webhooks: Webhooks | null = null;
	let domainChecks: DomainChecks | null = null;
	let blocklistChecks: ReturnType<typeof watchBlocklists> | null = null;
	let tlsReports: ReturnType<typeof watchTlsReports> | null = null;
	let inbound: Inbound | null = null;
	let guard: Guard | null = null;
	const presence = new Presence({
		store,
		node: {id: boot, host: hostname(), pid: process.pid, version: context.version, roles: settings.roles},
		former: readBoot(settings.dataDir),
		onBegin: () => writeBoot(settings.dataDir, boot),
		clock,
		onReleased: rescan,
		observer,
	});

	/** Another process changed what is queued or due. */
	function rescan(): void {
		void engine?.scheduler.rescan();
		void webhooks?.rescan().catch(storeFailed);
	}

	return {
		/** Endpoints have deliveries that are due. */
		due: (endpointIds: readonly string[]): void => webhooks?.due(endpointIds),
		/** Events of a provider arrived. */
		wakeReading: (): void => inbound?.wake(),
		/** The reputation figures of workspaces changed. */
		counted: (workspaceIds: readonly string[]): void => guard?.counted(workspaceIds),

		/** Resolves with the address of the listener for reports, as `host:port`, or `null` without one. */
		async start(publicUrl: string): Promise<string | null> {
			let inboundAddress: string | null = null;
			if (has('deliver') || has('webhook') || isShared) {
				await presence.begin();
			}
			if (has('webhook')) {
				webhooks = createWebhooks(context);
				await webhooks.start();
			}
			if (has('deliver')) {
				engine = new Engine(context, publicUrl);
				await engine.start();
			}
			if (has('inbound')) {
				inbound = new Inbound(context);
				inboundAddress = await inbound.start();
			}
			guard = startReputationGuard(context);
			// If nothing leaves the machine, neither records nor DNS are needed.
			if (has('deliver') && settings.delivery !== 'capture') {
				domainChecks = makeDomainChecks(context);
				domainChecks.start();
				blocklistChecks = watchBlocklists(context);
				void blocklistChecks.look();
				tlsReports = settings.tlsReports ? watchTlsReports(context) : null;
				void tlsReports?.look();
			}
			return inboundAddress;
		},

		/** The writer has mail for these queues. */
		arriving: (queues: Iterable<Arrival>): void => engine?.scheduler.arriving(queues),
		/** Mail of these queues is stored. Other nodes may take what must wait here or is not delivered here. */
		accepted(queues: Iterable<QueueKey>): void {
			if (isShared && presence.hasPeers()) {
				notices.send(
					engine === null ? queues : [...queues].filter(queue => engine?.scheduler.isWaiting(queue)),
				);
			}
		},
		/** Whether an outcome is waiting to be written, or the node's own heartbeat failed. */
		storeFailing: (): boolean => presence.isFailing() || engine?.scheduler.storeFailing === true,
		sites: () => engine?.scheduler.sites() ?? [],
		inboundSessions: () => inbound?.sessions() ?? null,
		mailbox: () => inbound?.mailbox() ?? null,

		/** Drops everything cached from the store. */
		forget(): void {
			engine?.forget();
			webhooks?.forget();
			inbound?.forget();
		},

		rescan,

		recheckDomains: (): void => domainChecks?.rescan(),

		/** Applies changed settings. `renewed`: the bounce rules changed. `certificates` reloads the submission's. */
		reload({renewed, certificates}: {readonly renewed: boolean; readonly certificates: () => void}): void {
			if (renewed) {
				engine?.renewBounceRules();
				inbound?.renewBounceRules();
			}
			for (const readAgain of [() => inbound?.reload(), certificates]) {
				try {
					readAgain();
				} catch (error) {
					logger.error(
						{event: 'certificate_refused', err: error},
						'The previous certificate remains in use.',
					);
				}
			}
			engine?.renewDestinations();
		},

		/** Accepts nothing new and finishes what is under way. */
		async drain(): Promise<void> {
			await Promise.all([blocklistChecks?.stop(), tlsReports?.stop()]);
			await Promise.all([engine?.drain(), webhooks?.drain(), domainChecks?.stop(), inbound?.drain()]);
		},

		/** Call this after `drain`. Releases what is still claimed. */
		async end(): Promise<void> {
			await guard?.stop();
			// Claims that cannot be released now are released at the next start or by another node.
			await presence.end().catch(storeFailed);
			await engine?.stop();
		},
	};
}

/** Watches the reputation of workspaces. Every process does so. */
function startReputationGuard(context: Context): Guard {
	const {store, live, forget, observer} = context;
	return startGuard({
		store,
		limits: () => live().reputation,
		acting: actingOf(context),
		onJudged(judged) {
			// Sends of a paused workspace are rejected at once, not only when the change is noticed.
			if (judged.kind === 'paused') {
				forget();
			}
			observer.judged(judged);
		},
		onError: observer.storeFailed,
	});
}

/** Checks the DNS records of sender domains if mail leaves the machine. */
function makeDomainChecks(context: Context): DomainChecks {
	const {settings, store, clock, observer} = context;
	return new DomainChecks({
		store,
		names: sendingNames(settings),
		openSources: () =>
			openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock}),
		acting: actingOf(context),
		observer,
	});
}
